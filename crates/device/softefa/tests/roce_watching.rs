//! A program that polls for a moment and then only watches its memory, beside a service thread that
//! has no processor meanwhile. The test holds that thread in a call that it makes, to imitate a
//! busy machine.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::Side;
use crate::common::roce::{
    EVERYTHING, Link, config, gather, pair_of, post, side, to_init, to_receive, up, wr,
};
use softefa::counters::Counter;
use softefa::{QpKind, Remote, SendData, SendOp, SendWr, WireChoice, on_first_data};

/// The time after which no change is expected any more.
const PATIENCE: Duration = Duration::from_secs(10);

static IS_HELD: AtomicBool = AtomicBool::new(false);
static IS_RELEASED: AtomicBool = AtomicBool::new(false);

/// Holds the thread that reports first data.
fn hold(_device: IpAddr, _qpn: u32) {
    IS_HELD.store(true, Ordering::SeqCst);
    wait_until("somebody lets the service thread go", || IS_RELEASED.load(Ordering::SeqCst));
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::yield_now();
    }
}

/// Writes `value` over an unreliable connection, which is not repeated; returns true if it went
/// through memory.
fn write(a: &Side, to: Remote, value: u64) -> bool {
    let in_memory = || a.device.counters().get(Counter::TxMemoryPkts);
    let (before, bytes) = (in_memory(), value.to_ne_bytes());
    let pieces: [&[u8]; 1] = [&bytes];
    let request = SendWr { data: SendData::Inline(&pieces), ..wr(1, SendOp::Write(to), &[]) };
    a.qp.post_send(&request).expect("a work request is taken");
    gather(&[a], 1);
    in_memory() > before
}

/// SRD-12.5: the program's polls take the datagram that called the service thread out of the
/// socket, so that its peer must call again.
#[test]
fn who_polls_and_then_watches_is_told_of_the_next_write() {
    let word = AtomicU64::new(0);
    let (a, b) = pair_of(&config(WireChoice::Auto, ""), QpKind::Uc, 64, &Link::default());
    let addr = std::ptr::from_ref(&word).expose_provenance() as u64;
    let region = b.pd.reg_mr(addr, 8, EVERYTHING).expect("a region");
    let to = Remote { addr, rkey: region.rkey() };
    let wait_for = |value| {
        wait_until(&format!("write {value}"), || word.load(Ordering::Acquire) == value);
    };
    // `b` is not polled: the service thread receives all of it, and sleeps in between.
    let mut value = 0;
    let mut in_a_row = 0;
    while in_a_row < 10 {
        value += 1;
        in_a_row = if write(&a, to, value) { in_a_row + 1 } else { 0 };
        wait_for(value);
        assert!(value < 100_000, "no ring was opened");
    }

    on_first_data(hold);
    let plain = config(WireChoice::Udp, "");
    let [near, far] = [0, 1].map(|_| side(&plain, QpKind::Rc, 64));
    let (link, gid) = (Link::default(), near.device.gid());
    near.qp.modify(&to_init(&link)).expect("to INIT");
    let expects = to_receive(QpKind::Rc, &link, gid, far.qp.qpn(), link.psn[0]);
    near.qp.modify(&expects).expect("to RTR");
    up(&far.qp, &link, (gid, near.qp.qpn()), link.psn);
    post(&far, 1, SendOp::Send, &[]);
    wait_until("the service thread is held", || IS_HELD.load(Ordering::SeqCst));

    assert!(write(&a, to, value + 1), "it goes through memory, and calls who sleeps");
    // The second poll reads the socket.
    (0..4).for_each(|_| assert!(b.cq.poll_one().is_none()));
    assert_eq!(word.load(Ordering::Acquire), value + 1);
    IS_RELEASED.store(true, Ordering::SeqCst);
    // From now on the program watches its memory.
    assert!(write(&a, to, value + 2), "it goes through memory");
    wait_for(value + 2);
}
