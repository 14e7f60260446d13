//! The sends of a queue pair whose program destroys it.

use std::sync::Arc;

use crate::common::{Side, is_alone, pair, poll_until, side_of};
use softefa::counters::Counter;
use softefa::{Ah, CompletionOp, Config, QpKind, Status};

const MESSAGES: u64 = 20;

/// Posts messages that a receiver waits for. Without the address handle they would be flushed.
#[must_use]
fn post_all(a: &Side, b: &Side) -> Arc<Ah> {
    for number in 0..MESSAGES {
        b.post_recv(number, number as usize * 64, 64);
    }
    let ah = a.ah(b);
    for number in 0..MESSAGES {
        a.send(number, b, &ah, 0, 64);
    }
    ah
}

/// The last message arrives although packets are lost and the sender is destroyed at once, as MPICH
/// 5 over libfabric 2.5 does.
#[test]
fn what_was_sent_last_arrives_though_packets_are_lost() {
    if !is_alone(module_path!(), "what_was_sent_last_arrives_though_packets_are_lost") {
        return;
    }
    let mut repeated = 0;
    for seed in 1..=10 {
        // There are few messages, because the time is for four tries on a busy machine, and each
        // message needs its acknowledgement, too.
        let (a, b) = pair(&format!("loss=3%,seed={seed}"));
        let _ah = post_all(&a, &b);
        // The program cannot have been told yet that they arrived.
        a.qp.destroy();
        let mut arrived = 0;
        poll_until(&[&b], |_, done| {
            assert_eq!((done.op, done.status), (CompletionOp::Recv, Status::Ok));
            arrived += 1;
            arrived == MESSAGES
        });
        repeated += a.device.counters().get(Counter::RetransPkts);
    }
    assert!(repeated > 0, "nothing was lost");
}

#[test]
fn on_a_strict_device_nobody_repeats_what_was_lost() {
    let faults = "loss=100%,seed=1".parse().expect("a fault");
    let a = side_of(QpKind::Srd, &Config { faults, strict: true, ..Config::default() });
    let (_, b) = pair("");
    let _ah = post_all(&a, &b);
    let counters = a.device.counters();
    // Queue pairs that wait repeat three times and more; the service thread may repeat once on its
    // own.
    let before = counters.get(Counter::RetransTimeoutEvents);
    a.qp.destroy();
    assert_eq!(counters.get(Counter::SendWrs), MESSAGES);
    assert!(counters.get(Counter::RetransTimeoutEvents) <= before + 1);
}
