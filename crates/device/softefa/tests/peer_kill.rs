//! A process that is killed by its own fault.

use std::net::UdpSocket;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::common::sealing::key;
use crate::common::{Side, only, settled_by, side_of};
use softefa::counters::Counter;
use softefa::{Config, QpKind, SendOp, Status};

/// The variable that makes this process the one to be killed, with its fate.
const DOOMED: &str = "SOFTEFA_TEST_DOOMED";

/// The process is killed by its own fault, so its status is signal 9.
#[test]
fn a_process_ends_at_its_time() {
    await_the_end_of_a_process("a_process_ends_at_its_time", side_of);
}

/// The kernel quotes an envelope in this case (SRD-11.8).
#[test]
fn a_sealed_process_ends_at_its_time() {
    let sealed =
        |kind, config: &Config| side_of(kind, &Config { key: Some(key(1)), ..config.clone() });
    await_the_end_of_a_process("a_sealed_process_ends_at_its_time", sealed);
}

fn await_the_end_of_a_process(name: &str, side: impl Fn(QpKind, &Config) -> Side) {
    if let Ok(fate) = std::env::var(DOOMED) {
        return be_doomed(&fate, side);
    }
    // On a busy machine the process may not live long enough to print its number.
    let started = [1, 3, 9].into_iter().find_map(|life_s| start_doomed(name, life_s));
    let (mut child, number) = started.expect("it says its number within 9 s");
    let a = side(QpKind::Srd, &Config::default());
    let ah = a.ah(&a);
    let sge = [a.sge(0, 8)];
    // The process never posts a receive, so that the sends wait for its end.
    for wr_id in 0..8 {
        a.post(wr_id, &ah, number, SendOp::Send, &sge);
    }
    let mut ended = 0;
    while ended < 8 {
        let done = settled_by(Duration::from_secs(30), || a.cq.poll_one());
        assert_eq!(done.status, Status::RemoteBadDestQpn, "{done:?}");
        ended += 1;
    }
    let status = child.wait().expect("its end");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{status}");
    assert!(a.device.counters().get(Counter::TxPkts) > 0);
}

/// Starts a process that will be killed, and returns it with the number of its queue pair; `None`
/// if it ended before it printed the number.
fn start_doomed(test: &str, life_s: u32) -> Option<(Child, u16)> {
    let hears = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    hears.set_read_timeout(Some(Duration::from_millis(50))).expect("a time-out");
    let port = hears.local_addr().expect("an address").port();
    let mut child = only(module_path!(), test)
        .env(DOOMED, format!("{port} {life_s}"))
        .spawn()
        .expect("a second process");
    let mut raw = [0; 2];
    loop {
        // The order matters: the last output is there when the process has ended.
        let has_ended = child.try_wait().expect("a child").is_some();
        if hears.recv(&mut raw).is_ok() {
            return Some((child, u16::from_be_bytes(raw)));
        }
        if has_ended {
            return None;
        }
    }
}

/// Runs the process that is killed. `fate` is the port that its number is sent to, and its life in
/// seconds.
fn be_doomed(fate: &str, side: impl Fn(QpKind, &Config) -> Side) {
    let (port, life_s) = fate.split_once(' ').expect("two numbers");
    let faults = format!("peer-kill@{life_s}s").parse().expect("a fault");
    let b = side(QpKind::Srd, &Config { faults, ..Config::default() });
    let tells = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let port: u16 = port.parse().expect("a port");
    tells.send_to(&b.qp.port().to_be_bytes(), ("127.0.0.1", port)).expect("told");
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        assert!(b.cq.poll_one().is_none());
        std::thread::yield_now();
    }
}
