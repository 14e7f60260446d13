//! Devices that are opened and used in a child, so that whatever happens there can be reported.

use std::env;
use std::error::Error;
use std::io::{self, Write, stdout};
use std::net::Ipv4Addr;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use softefa::counters::Counter;
use softefa::{
    Access, Adapter, Config, Cq, Device, DeviceSpec, ModifyQp, Mr, Qp, QpInit, QpKind, QpState,
    SendData, SendOp, SendWr, Sge, Status, Target, WireChoice,
};

use super::Finding;
use crate::failure::Failure;
use crate::run_dir;

/// The number of messages of the stream between two devices.
const MESSAGES: u64 = 2_000;
/// The bytes of each message.
const LEN: u32 = 1_024;
/// Receives that are posted before the receiver is polled.
const BURST: u64 = 32;
const QKEY: u32 = 0x0000_d0c7;
/// A stream that takes longer counts as hung.
const LIMIT: Duration = Duration::from_secs(10);
/// The time limit until some messages go through memory.
const PATIENCE: Duration = Duration::from_secs(2);

/// The trials that children run, and their descriptions.
const TRIES: [(&str, &str); 3] =
    [("udp", "efa over udp"), ("memory", "efa over memory"), ("roce", "roce")];

pub(super) fn findings() -> Vec<Finding> {
    let mut all: Vec<Finding> = TRIES.iter().map(|(part, name)| finding(part, name)).collect();
    all.push(directory());
    all
}

/// Runs this program as a child that tries `part`.
fn finding(part: &str, name: &'static str) -> Finding {
    let output = match start_attempt(part) {
        Ok(output) => output,
        Err(error) => {
            return Finding::broken(
                name,
                format!("no child starts: {error}"),
                "ulimit -u unlimited",
            );
        }
    };
    match serde_json::from_slice::<Value>(&output.stdout) {
        Ok(seen) if output.status.success() => judge(part, name, &seen),
        _ => {
            let why = why(&output);
            let help = help(&why);
            Finding::broken(name, why, help)
        }
    }
}

/// Lets a child run the trial `part`, and returns how it ended.
///
/// # Errors
/// The child does not start.
pub(super) fn start_attempt(part: &str) -> io::Result<Output> {
    Command::new(env::current_exe()?).args(["doctor", "--attempt", part]).output()
}

/// Returns advice for the error that a child reported.
fn help(why: &str) -> &'static str {
    if why.contains("open files") {
        return "ulimit -n 1024";
    }
    if why.contains("not permitted") || why.contains("ermission denied") {
        return "softefa run -- true (outside of the sandbox that forbids sockets)";
    }
    if why.contains("address") {
        return "sudo ip link set lo up";
    }
    "softefa info"
}

/// Returns the last line of a child's output, or how it ended.
pub(super) fn why(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    let line = line.map(|line| line.trim_start_matches("softefa: ").to_owned());
    line.unwrap_or_else(|| format!("the child that tried it ended with {}", output.status))
}

fn judge(part: &str, name: &'static str, seen: &Value) -> Finding {
    let count = |key: &str| seen[key].as_u64().unwrap_or_default();
    let (pkts, calls) = (count("tx_pkts"), count("tx_syscalls"));
    match part {
        "memory" if count("tx_memory_pkts") == 0 => Finding::limited(
            name,
            "memory is not shared with other programs; everything takes UDP",
            "run both programs as one user in one network namespace, and see /proc/sys/fs/file-max",
        ),
        "memory" => Finding::good(name, format!("{MESSAGES} messages went through shared memory")),
        "udp" if calls * 2 > pkts => Finding::limited(
            name,
            format!(
                "works, without UDP segmentation (GSO): {calls} system calls for {pkts} packets"
            ),
            "uname -r (it needs Linux 4.18), or leave sandboxes such as gVisor",
        ),
        "udp" if count("rx_syscalls") * 2 > count("rx_pkts") => Finding::limited(
            name,
            format!(
                "works, without UDP receive offload (GRO): a system call for each of {pkts} packets"
            ),
            "uname -r (it needs Linux 5.0), or leave sandboxes such as gVisor",
        ),
        _ => {
            Finding::good(name, format!("opened, and {MESSAGES} messages arrived ({pkts} packets)"))
        }
    }
}

/// Checks the directory that runs need.
fn directory() -> Finding {
    match run_dir::RunDir::create(false) {
        Ok(run) => Finding::good(
            "run directory",
            run.path().parent().map_or_else(String::new, |base| base.display().to_string()),
        ),
        Err(failure) => Finding::broken(
            "run directory",
            failure.to_string().split("; softefa doctor").next().unwrap_or_default(),
            "export XDG_RUNTIME_DIR=$(mktemp -d)",
        ),
    }
}

/// The child: opens two devices, sends a stream from one to the other, and prints what they
/// counted.
///
/// # Errors
/// The step that does not work.
pub(super) fn attempt(part: &str) -> Result<u8, Failure> {
    let (profile, wire) = match part {
        "udp" => ("efa2", WireChoice::Udp),
        "memory" => ("efa2", WireChoice::Auto),
        "roce" => ("roce", WireChoice::Auto),
        _ => return Err(Failure::new(format!("there is nothing '{part}' to try"))),
    };
    let mut spec = DeviceSpec::new("doctor0", Ipv4Addr::LOCALHOST.into());
    spec.profile = Some(profile.parse()?);
    let config = Config { devices: vec![spec], wire, ..Config::default() };
    let [from, to] = [End::open(&config)?, End::open(&config)?];
    stream(&from, &to)?;
    // A ring is opened after some datagrams, and only while its reader has a processor.
    let patience_until = Instant::now() + PATIENCE;
    let has_none = || from.device.counters().get(Counter::TxMemoryPkts) == 0;
    while part == "memory" && has_none() && Instant::now() < patience_until {
        stream(&from, &to)?;
    }
    let names = [Counter::TxPkts, Counter::TxMemoryPkts, Counter::TxSyscalls];
    let mut seen = json!({});
    for counter in names {
        seen[counter.name()] = json!(from.device.counters().get(counter));
    }
    for counter in [Counter::RxPkts, Counter::RxSyscalls] {
        seen[counter.name()] = json!(to.device.counters().get(counter));
    }
    writeln!(stdout(), "{seen}").map_err(|error| Failure::new(error.to_string()))?;
    Ok(0)
}

/// One end of the stream.
struct End {
    device: Arc<Device>,
    cq: Arc<Cq>,
    qp: Arc<Qp>,
    mr: Arc<Mr>,
    /// The buffer, which is not accessed through this name while it is registered.
    _memory: Box<[u8]>,
}

impl End {
    fn open(config: &Config) -> Result<Self, Failure> {
        let device = Device::open(&config.devices[0], config)
            .map_err(|error| Failure::new(chain(&error)))?;
        let pd = device.alloc_pd().map_err(refused("a protection domain"))?;
        let cq = Cq::create(&device, 1024).map_err(refused("a completion queue"))?;
        let kind = if device.adapter() == Adapter::Efa { QpKind::Srd } else { QpKind::Ud };
        let qp = Qp::create(&pd, init(kind, &cq)).map_err(refused("a queue pair"))?;
        bring_up(&qp)?;
        let memory = vec![0u8; 1 << 16].into_boxed_slice();
        let access = Access { local_write: true, ..Access::default() };
        let mr = pd.reg_mr(memory.as_ptr() as u64, memory.len() as u64, access);
        let mr = mr.map_err(refused("a memory region"))?;
        Ok(Self { device, cq, qp, mr, _memory: memory })
    }

    fn sge(&self, len: u32) -> Sge {
        Sge { addr: self.mr.addr(), len, lkey: self.mr.lkey() }
    }
}

fn refused<E: Error>(what: &'static str) -> impl Fn(E) -> Failure {
    move |error| Failure::new(format!("{what} was refused: {}", chain(&error)))
}

/// An error with its causes.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

fn init(kind: QpKind, cq: &Arc<Cq>) -> QpInit {
    QpInit {
        kind,
        send_cq: Arc::clone(cq),
        recv_cq: Arc::clone(cq),
        sq_depth: 256,
        rq_depth: 256,
        sq_sge: 1,
        rq_sge: 1,
        inline_bytes: 0,
        sq_sig_all: true,
        unsolicited_write_recv: false,
        srq: None,
        events: None,
    }
}

fn bring_up(qp: &Qp) -> Result<(), Failure> {
    let to = |state| ModifyQp { state: Some(state), ..ModifyQp::default() };
    let (port, pkey_index, qkey) = (Some(1), Some(0), Some(QKEY));
    let steps = [
        ModifyQp { port, pkey_index, qkey, ..to(QpState::Init) },
        to(QpState::ReadyToReceive),
        ModifyQp { sq_psn: Some(0), ..to(QpState::ReadyToSend) },
    ];
    steps.iter().try_for_each(|step| qp.modify(step)).map_err(refused("a state of a queue pair"))
}

/// Sends [`MESSAGES`] from one end to the other, a burst at a time.
fn stream(from: &End, to: &End) -> Result<(), Failure> {
    let ah = from.qp.pd().create_ah(to.device.gid()).map_err(refused("an address handle"))?;
    let begin = Instant::now();
    let mut posted = 0;
    while posted < MESSAGES {
        let burst = BURST.min(MESSAGES - posted);
        for _ in 0..burst {
            let posted = to.qp.post_recv(0, &[to.sge(LEN + 64)]);
            posted.map_err(refused("a receive"))?;
        }
        for index in 1..=burst {
            let target = Some(Target { ah: &ah, qpn: to.qp.qpn(), qkey: QKEY });
            let sges = [from.sge(LEN)];
            let wr = SendWr {
                wr_id: 0,
                op: SendOp::Send,
                data: SendData::Sges(&sges),
                signaled: true,
                fenced: false,
                solicited: false,
                target,
                remote_srq: 0,
                more: index < burst,
            };
            from.qp.post_send(&wr).map_err(refused("a send"))?;
        }
        posted += burst;
        wait(from, to, burst, begin)?;
    }
    Ok(())
}

/// Waits until a burst has been sent and received.
fn wait(from: &End, to: &End, burst: u64, begin: Instant) -> Result<(), Failure> {
    let (mut sent, mut received, mut bad) = (0, 0, None);
    while sent < burst || received < burst {
        from.cq.poll(64, |done| {
            sent += 1;
            if done.status != Status::Ok {
                bad = Some(done.status);
            }
        });
        to.cq.poll(64, |done| {
            received += 1;
            if done.status != Status::Ok {
                bad = Some(done.status);
            }
        });
        if let Some(status) = bad {
            return Err(Failure::new(format!("a message ended with {status:?}")));
        }
        if begin.elapsed() > LIMIT {
            return Err(Failure::new(format!(
                "messages do not arrive: {received} of {burst} in {} s; does a firewall drop UDP on lo?",
                LIMIT.as_secs()
            )));
        }
    }
    Ok(())
}
