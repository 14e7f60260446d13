//! What the adapter executes for a message, both ends together: counted from outside by `cargo xtask
//! device-cost`, which runs this under callgrind and looks at [`ping`] and [`stream`] only.
//!
//! ```text
//! cargo run --release -p softefa --example message_cost -- ping-64 1000
//! cargo run --release -p softefa --example message_cost -- stream-8192 1000
//! ```
//! Over UDP; with `-memory` behind the name through shared memory.
#![expect(clippy::unwrap_used, reason = "a measurement that cannot be set up has failed")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::sync::atomic::{AtomicI64, Ordering};

use common::{Side, side_of, wr};
use softefa::{Ah, CompletionOp, Config, QpKind, SendOp, WireChoice};

/// Messages of a stream between two looks at the receiver.
const BURST: u64 = 16;

/// What the clock of this program shows, in nanoseconds.
static NOW_NS: AtomicI64 = AtomicI64::new(1_000_000_000);

/// In the place of the C library's: under callgrind a message takes as long as a thousand do outside, and
/// timers of the adapter would run out in each. This clock goes on by 50 ns whenever somebody looks.
#[unsafe(no_mangle)]
extern "C" fn clock_gettime(_clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    let now_ns = NOW_NS.fetch_add(50, Ordering::Relaxed);
    // SAFETY: the caller passes a place for the time.
    unsafe {
        (*time).tv_sec = now_ns / 1_000_000_000;
        (*time).tv_nsec = now_ns % 1_000_000_000;
    }
    0
}

fn main() {
    let mut args = std::env::args().skip(1);
    let (name, count) = (args.next(), args.next().and_then(|count| count.parse().ok()));
    let name = name.unwrap_or_default();
    let through_memory = name.strip_suffix("-memory");
    let wire = if through_memory.is_some() { WireChoice::Auto } else { WireChoice::Udp };
    let config = Config { wire, ..Config::default() };
    let (a, b) = (side_of(QpKind::Srd, &config), side_of(QpKind::Srd, &config));
    let (there, back) = (a.ah(&b), b.ah(&a));
    match (through_memory.unwrap_or(&name), count) {
        ("ping-64", Some(count)) => ping(&a, &b, [&there, &back], count),
        ("stream-64", Some(count)) => stream(&a, &b, &there, 64, count),
        ("stream-8192", Some(count)) => stream(&a, &b, &there, 8192, count),
        _ => {
            println!("usage: message_cost (ping-64|stream-64|stream-8192)[-memory] MESSAGES");
            return;
        }
    }
    println!("handled {}", count.unwrap());
}

/// Messages of 64 bytes back and forth; `count` is that of both directions.
#[inline(never)]
fn ping(a: &Side, b: &Side, ahs: [&Ah; 2], count: u64) {
    for round in 0..count {
        let (from, to) = if round % 2 == 0 { (a, b) } else { (b, a) };
        to.post_recv(1, 0, 64);
        let sge = [from.sge(64, 64)];
        from.qp
            .post_send(&wr(1, ahs[round as usize % 2], to.qp.qpn(), SendOp::Send, &sge))
            .unwrap();
        await_messages(to, 1);
    }
}

/// Messages of `len` bytes in bursts one way.
#[inline(never)]
fn stream(a: &Side, b: &Side, there: &Ah, len: u32, count: u64) {
    for _ in 0..count.div_ceil(BURST) {
        for _ in 0..BURST {
            b.post_recv(1, 0, len);
            let sge = [a.sge(0, len)];
            a.qp.post_send(&wr(1, there, b.qp.qpn(), SendOp::Send, &sge)).unwrap();
        }
        while a.qp.send_room() < a.qp.init().sq_depth {
            a.cq.poll_one();
            b.cq.poll_one();
        }
    }
}

fn await_messages(side: &Side, count: u64) {
    let mut seen = 0;
    while seen < count {
        let done = side.cq.poll_one();
        seen += u64::from(done.is_some_and(|done| done.op == CompletionOp::Recv));
    }
}
