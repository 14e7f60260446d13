//! Receivers that are not ready (SRD-6.1, SRD-6.2).

use crate::basics::expect_all;
use crate::common::{Answer, Faults, Pair};
use srd::{Message, MsgId, Reject, Status};

const SECOND_NS: u64 = 1_000_000_000;

/// SRD-6.2.
#[test]
fn receiver_not_ready_is_tried_again() {
    let mut pair = Pair::socket(6);
    pair.nodes[1].answer = Answer::Refuse(Reject::Rnr);
    (0..50).for_each(|id| pair.send(0, id, 64));
    pair.run_ns(SECOND_NS / 10);
    assert!(pair.nodes[0].completed.is_empty());
    pair.nodes[1].answer = Answer::Accept;
    assert!(pair.run_until_done(SECOND_NS));
    expect_all(&pair, 50);
}

/// SRD-6.1, SRD-6.3.
#[test]
fn the_last_permitted_try_is_final() {
    for retries in [0, 1, 3] {
        let mut pair = Pair::socket(7);
        pair.nodes[1].answer = Answer::Refuse(Reject::Rnr);
        pair.faults.loss = 200;
        for id in 0..200 {
            let msg = Message { id: MsgId(id), len: 64, rnr_retry: retries, ..Message::default() };
            pair.send_with(0, msg);
        }
        assert!(pair.run_until_done(60 * SECOND_NS));
        pair.nodes[1].answer = Answer::Accept;
        pair.run_ns(SECOND_NS);
        assert!(pair.nodes[1].delivered.is_empty());
        assert!(pair.nodes[0].completed.values().all(|&status| status == Status::Rnr));
    }
}

fn one_sided(id: u64) -> Message {
    Message { id: MsgId(id), len: 8928, op: 1, is_one_sided: true, ..Message::default() }
}

/// SRD-6.2: one-sided messages do not take the window and the pause from others.
#[test]
fn one_sided_messages_pass_those_that_wait_for_a_receive() {
    let mut pair = Pair::socket(30);
    pair.nodes[1].answer = Answer::NoReceive;
    (0..2000).for_each(|id| pair.send(0, id, 8928));
    pair.run_ns(SECOND_NS / 10);
    for id in 2000..4000 {
        pair.send_with(0, one_sided(id));
        pair.send(0, id + 2000, 64);
    }
    pair.run_ns(SECOND_NS);
    let ended: Vec<u64> = pair.nodes[0].completed.keys().copied().collect();
    assert_eq!(ended, Vec::from_iter(2000..4000));
    pair.nodes[1].answer = Answer::Accept;
    assert!(pair.run_until_done(SECOND_NS));
    expect_all(&pair, 6000);
}

/// SRD-6.2: messages that need no receive do not tell whether one is posted.
#[test]
fn pauses_stay_long_while_one_sided_messages_pass() {
    let mut pair = Pair::socket(31);
    pair.nodes[1].answer = Answer::NoReceive;
    (0..50).for_each(|id| pair.send(0, id, 64));
    for id in 50..1050 {
        pair.send_with(0, one_sided(id));
        pair.run_ns(SECOND_NS / 1000);
    }
    assert_eq!(pair.nodes[0].completed.len(), 1000);
    let refusals = pair.nodes[0].engine.stats().rnr_received;
    assert!(refusals < 50 * 120, "{refusals} refusals in a second of pauses of 10 ms");
}

/// Two refusals of copies of the same message start only one pause.
#[test]
fn what_waits_already_is_not_counted_again() {
    let mut pair = Pair::socket(33);
    pair.nodes[1].answer = Answer::NoReceive;
    pair.faults = Faults { duplicate: 1000, reorder: 500, ..Faults::default() };
    (0..50).for_each(|id| pair.send(0, id, 64));
    pair.run_ns(SECOND_NS / 10);
    pair.nodes[1].answer = Answer::Accept;
    assert!(pair.run_until_done(SECOND_NS));
    expect_all(&pair, 50);
    let stats = pair.nodes[0].engine.stats();
    // Each pause ends with a repetition, except where a late copy is accepted.
    assert!(stats.rnr_received <= stats.retrans_pkts + 50, "{stats:?}");
}

/// Every waiting message ends once, whether it was transmitted, queued or set aside.
#[test]
fn what_waits_for_a_receive_can_be_cancelled() {
    let mut pair = Pair::socket(32);
    pair.nodes[1].answer = Answer::NoReceive;
    (0..500).for_each(|id| pair.send(0, id, 8928));
    pair.send_with(0, one_sided(500));
    pair.run_ns(SECOND_NS / 10);
    let peer = pair.peer_of(0);
    pair.nodes[0].engine.cancel_peer(pair.now, peer);
    assert!(pair.run_until_done(SECOND_NS));
    let statuses = pair.nodes[0].statuses();
    assert_eq!(statuses.len(), 501);
    assert_eq!(statuses.iter().filter(|&&status| status == Status::Flushed).count(), 500);
    pair.nodes[1].answer = Answer::Accept;
    pair.send(0, 501, 64);
    assert!(pair.run_until_done(SECOND_NS));
}
