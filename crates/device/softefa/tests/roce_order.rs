//! The order of completions between two programs that answer each other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::Side;
use crate::common::roce::{Link, WIRES, config, pair_of, post};
use softefa::{Completion, QpKind, SendOp, Status};

/// The most SENDs of either side that are under way, which is the number of its receives.
const WINDOW: u64 = 8;
const EXCHANGES: u64 = 20_000;
/// The time for which a machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the next completion; `None` if the other side has given up.
fn next(of: &Side, has_failed: &AtomicBool) -> Option<Completion> {
    let begun = Instant::now();
    while !has_failed.load(Ordering::Relaxed) {
        if let Some(done) = of.cq.poll_one() {
            assert_eq!(done.status, Status::Ok);
            return Some(done);
        }
        assert!(begun.elapsed() < PATIENCE, "nothing ends any more");
        std::thread::yield_now();
    }
    None
}

/// Sends a message of one of `lengths` lengths.
fn send(from: &Side, id: u64, lengths: u64) {
    post(from, id, SendOp::Send, &[from.sge(0, 16 + 16 * (id % lengths) as u32)]);
}

/// Answers each message, and counts its own SENDs that have not ended. Returns true if there were
/// never more than the window.
fn answer(side: &Side, lengths: u64, has_failed: &AtomicBool) -> bool {
    let (mut answered, mut under_way) = (0, 0);
    while answered < EXCHANGES {
        let Some(done) = next(side, has_failed) else { return true };
        if done.op.is_send_queue() {
            under_way -= 1;
            continue;
        }
        if under_way == WINDOW {
            has_failed.store(true, Ordering::Relaxed);
            return false;
        }
        side.post_recv(0, 64, 64);
        send(side, answered, lengths);
        (answered, under_way) = (answered + 1, under_way + 1);
    }
    true
}

/// Keeps a window of messages under way, one for each answer.
fn ask(side: &Side, lengths: u64, has_failed: &AtomicBool) {
    (0..WINDOW).for_each(|id| send(side, id, lengths));
    let (mut asked, mut heard) = (WINDOW, 0);
    while heard < EXCHANGES {
        let Some(done) = next(side, has_failed) else { return };
        if done.op.is_send_queue() {
            continue;
        }
        heard += 1;
        side.post_recv(0, 64, 64);
        if asked < EXCHANGES {
            send(side, asked, lengths);
            asked += 1;
        }
    }
}

/// A send ends before the answer to it arrives (RC-6.5), so a program with as many send slots as
/// messages in flight always has a slot for its answer. DiSNI's `SendRecvServer` relies on it.
#[test]
fn a_send_has_ended_before_its_answer_is_there() {
    // Datagrams of different lengths do not travel as one, and none do under faults.
    let each = |wire| [(wire, "", 1), (wire, "", 4), (wire, "dup=1%", 1)];
    for (wire, faults, lengths) in WIRES.into_iter().flat_map(each) {
        let (a, b) = pair_of(&config(wire, faults), QpKind::Rc, 4096, &Link::default());
        for side in [&a, &b] {
            (0..WINDOW).for_each(|_| side.post_recv(0, 64, 64));
        }
        let has_failed = AtomicBool::new(false);
        let is_in_order = std::thread::scope(|scope| {
            let answering = scope.spawn(|| answer(&b, lengths, &has_failed));
            ask(&a, lengths, &has_failed);
            answering.join().expect("the answering thread ends")
        });
        assert!(
            is_in_order,
            "{wire:?}, {lengths}, '{faults}': {WINDOW} answers have not ended, and one more is \
             asked for"
        );
    }
}
