//! Ends that die: killed at a random moment under traffic in both directions.
//!
//! Both ends send; the survivor's operations must end within 10 s with 9, 13 or 15, and nothing of
//! the dead may be left: no descriptor in the survivor, no shared memory, no abstract socket, no
//! file.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;

use super::Context;
use super::traffic::damage;
use crate::args::Op;
use crate::interrupt;
use crate::machine;
use crate::network::Network;
use crate::process::{Location, Peer, Role};
use crate::record::Record;
use crate::rng::Rng;

/// The statuses that a survivor's operations may end with.
const ALLOWED: [&str; 3] = ["9", "13", "15"];
const LIMIT: Duration = Duration::from_secs(10);

/// The placement of both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Placement {
    /// One machine, one user: the default wire, and memory copied where that is faster.
    Loopback,
    /// One machine over UDP alone.
    Udp,
    /// Each under a `softefa run` of its own.
    Run,
    /// Two network namespaces.
    Namespaces,
}

impl Placement {
    fn name(self) -> &'static str {
        match self {
            Self::Loopback => "one machine, default",
            Self::Udp => "one machine, UDP",
            Self::Run => "under softefa run",
            Self::Namespaces => "two network namespaces",
        }
    }

    fn env(self, dir: &std::path::Path) -> Vec<(String, String)> {
        // Any key will do: both ends have the same.
        let key = ("SOFTEFA_LOCAL_KEY".to_owned(), "00112233445566778899aabbccddeeff".to_owned());
        let wire = ("SOFTEFA_WIRE".to_owned(), "udp".to_owned());
        let of_run = ("XDG_RUNTIME_DIR".to_owned(), dir.display().to_string());
        let dir = ("TMPDIR".to_owned(), dir.display().to_string());
        match self {
            Self::Run => vec![of_run, dir],
            Self::Loopback => vec![key, dir],
            Self::Udp => vec![wire, dir],
            Self::Namespaces => vec![dir],
        }
    }
}

/// Shared memory and sockets that exist on a machine.
struct Leftovers {
    shared: Vec<String>,
    sockets: Vec<String>,
}

impl Leftovers {
    fn scan(network: Option<&Network>) -> Result<Self> {
        let sockets = match network {
            None => std::fs::read_to_string("/proc/net/unix")?,
            Some(network) => {
                let read = |member| -> Result<String> {
                    let output = network.command(member, "cat").arg("/proc/net/unix").output()?;
                    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
                };
                read("inside")? + &read("outside")?
            }
        };
        Ok(Self {
            shared: machine::names_in("/dev/shm"),
            sockets: machine::abstract_sockets(&sockets),
        })
    }

    /// Describes what this adapter left behind between this look and `now`.
    fn added_until(&self, now: &Self, files: Vec<String>) -> Option<String> {
        let ours = |name: &String| name.to_lowercase().contains("efa");
        let shared = machine::added(&self.shared, &now.shared).into_iter().filter(ours);
        let sockets = machine::added(&self.sockets, &now.sockets).into_iter().filter(ours);
        let left: Vec<String> = shared.chain(sockets).chain(files).collect();
        (!left.is_empty()).then(|| format!("left behind: {}", left.join(", ")))
    }
}

/// The results of all kills in a case.
#[derive(Default)]
struct KillTotals {
    statuses: BTreeMap<String, u64>,
    slowest_ms: u64,
    /// Kills at which the survivor had nothing under way that could have ended.
    idle: u64,
}

pub(super) fn run(context: &Context) -> Result<Vec<Record>> {
    let mut rng = Rng::new(context.seed, "deaths");
    let mut records = Vec::new();
    let network = Network::line()?;
    for placement in [Placement::Loopback, Placement::Udp, Placement::Run, Placement::Namespaces] {
        for op in Op::ALL {
            let times = context.pick(2, 84);
            context.log_case(&case_name(placement, op));
            records.push(case(context, placement, op, times, &network, &mut rng)?);
        }
    }
    Ok(records)
}

fn case_name(placement: Placement, op: Op) -> String {
    format!("killed under {}, {}", op.name().to_uppercase(), placement.name())
}

fn case(
    context: &Context,
    placement: Placement,
    op: Op,
    times: u32,
    network: &Network,
    rng: &mut Rng,
) -> Result<Record> {
    let mut record = Record::new(case_name(placement, op), "kills");
    let mut totals = KillTotals::default();
    for _ in 0..times {
        interrupt::check()?;
        let failure = kill_one(context, placement, op, network, rng, &mut totals)?;
        record.count_trial(failure);
    }
    let statuses: Vec<String> =
        totals.statuses.iter().map(|(code, count)| format!("{count} with {code}")).collect();
    record.set_figure("slowest_end_ms", totals.slowest_ms as f64);
    record.result = format!(
        "operations of survivors: {}; the last of a survivor ended {} ms after the kill at the latest; nothing left behind",
        if statuses.is_empty() { "none under way".to_owned() } else { statuses.join(", ") },
        totals.slowest_ms
    );
    if record.failed > 0 {
        record.result =
            format!("{}; NOT ALL RIGHT", record.result.replace("; nothing left behind", ""));
    }
    if totals.idle > 0 {
        record.result += &format!("; {} survivors had nothing under way", totals.idle);
    }
    Ok(record)
}

fn kill_one(
    context: &Context,
    placement: Placement,
    op: Op,
    network: &Network,
    rng: &mut Rng,
    totals: &mut KillTotals,
) -> Result<Option<String>> {
    let dir = tempfile::tempdir()?;
    let namespaces = (placement == Placement::Namespaces).then_some(network);
    let before = Leftovers::scan(namespaces)?;
    let bytes = match op {
        Op::Send => 0,
        // Sizes below and above the one from which memory is copied instead of sent.
        _ => [4096, 65536, 262_144][rng.below(3) as usize],
    };
    let role = |source| Role {
        op,
        bytes,
        source,
        depth: 1 + pick_depth(bytes),
        env: placement.env(dir.path()),
        ..Role::default()
    };
    let locations = match placement {
        Placement::Loopback | Placement::Udp => [Location::Loopback, Location::Loopback],
        Placement::Run => [Location::Run(&context.softefa), Location::Run(&context.softefa)],
        Placement::Namespaces => [
            Location::Host(network, "inside", "10.50.0.2"),
            Location::Host(network, "outside", "10.60.0.2"),
        ],
    };
    let mut ends = [Peer::start(locations[0], &role(1))?, Peer::start(locations[1], &role(2))?];
    let [a, b] = &mut ends;
    a.connect_to(b)?;
    b.connect_to(a)?;
    // Some peers die before they have sent anything, most in the middle.
    let after = Duration::from_micros(rng.below(150_000));
    a.send_command("go")?;
    b.send_command("go")?;
    interrupt::sleep(after)?;
    let killed = rng.below(2) as usize;
    ends[killed].kill()?;
    let at = Instant::now();
    let survivor = &mut ends[1 - killed];
    let ended = survivor.wait_for("ended", LIMIT + Duration::from_secs(5));
    let took = at.elapsed();
    let Ok(ended) = ended else {
        return Ok(Some(format!(
            "{} of {bytes} bytes, killed after {} us: the survivor does not end: {:#}",
            op.name(),
            after.as_micros(),
            ended.err().map(|error| error.to_string()).unwrap_or_default()
        )));
    };
    count_kill(&ended, took, totals);
    let mut failures = judge(&ended, took);
    failures.extend(damage(&survivor.quit()?));
    ends[killed].wait_for_exit()?;
    let files = files_of(dir.path());
    failures.extend(before.added_until(&Leftovers::scan(namespaces)?, files));
    Ok((!failures.is_empty()).then(|| {
        format!(
            "{} of {bytes} bytes, killed after {} us: {}",
            op.name(),
            after.as_micros(),
            failures.join("; ")
        )
    }))
}

/// Returns the files left in the private directory of both ends; files that all runs of a user
/// share may stay.
fn files_of(dir: &std::path::Path) -> Vec<String> {
    let shared = dir.join("softefa");
    let all =
        machine::names_in(&dir.to_string_lossy()).into_iter().filter(|name| name != "softefa");
    let of_runs = machine::names_in(&shared.to_string_lossy());
    all.chain(of_runs.into_iter().filter(|name| name.starts_with("run-"))).collect()
}

/// Few long operations, many short ones.
fn pick_depth(bytes: u32) -> u32 {
    if bytes > 65536 { 7 } else { 31 }
}

fn count_kill(ended: &Value, took: Duration, totals: &mut KillTotals) {
    totals.slowest_ms = totals.slowest_ms.max(took.as_millis() as u64);
    let statuses = ended["statuses"].as_object().into_iter().flatten();
    let mut any = false;
    for (code, count) in statuses {
        *totals.statuses.entry(code.clone()).or_default() += count.as_u64().unwrap_or_default();
        any = true;
    }
    totals.idle += u64::from(!any);
}

fn judge(ended: &Value, took: Duration) -> Vec<String> {
    let mut failures = Vec::new();
    let statuses = ended["statuses"].as_object().into_iter().flatten();
    for (code, count) in statuses.filter(|(code, _)| !ALLOWED.contains(&code.as_str())) {
        failures.push(format!("{count} operations ended with status {code}"));
    }
    if took > LIMIT {
        failures.push(format!("the survivor ended {} ms after the kill", took.as_millis()));
    }
    failures
}
