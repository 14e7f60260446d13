//! Several messages in one datagram (SRD-14).

use crate::basics::expect_all;
use crate::common::{Answer, Faults, Pair};
use srd::wire::{Flags, Header, Kind};
use srd::{HEADER_MAX, Message, MsgId, Reject, Status};

const SECOND_NS: u64 = 1_000_000_000;

fn short(id: u64, len: u32) -> Message {
    Message { id: MsgId(id), len, rnr_retry: 7, may_share: true, ..Message::default() }
}

/// A pair whose first message, number 0, has been answered.
fn acquainted(seed: u64) -> Pair {
    let mut pair = Pair::socket(seed);
    pair.send_with(0, short(0, 64));
    assert!(pair.run_until_done(SECOND_NS));
    pair
}

fn sent(pair: &Pair) -> u64 {
    let stats = pair.nodes[0].engine.stats();
    stats.tx_datagrams - stats.tx_pure_acks
}

/// SRD-14.1, SRD-14.2.
#[test]
fn short_messages_share_datagrams() {
    let mut pair = acquainted(40);
    (1..=64).for_each(|id| pair.send_with(0, short(id, 64)));
    assert!(pair.run_until_done(SECOND_NS));
    expect_all(&pair, 65);
    // 23 entries of 72 bytes fit into 1,700.
    assert_eq!(sent(&pair), 1 + 3);
    (65..=164).for_each(|id| pair.send_with(0, short(id, 0)));
    assert!(pair.run_until_done(SECOND_NS));
    expect_all(&pair, 165);
    assert_eq!(sent(&pair), 4 + 4, "at most 32 in each");
}

/// SRD-14.3.
#[test]
fn only_who_takes_frames_gets_them() {
    for who in 0..2 {
        let mut pair = Pair::socket(41);
        pair.nodes[who].engine.set_frames(false);
        (0..=64).for_each(|id| pair.send_with(0, short(id, 64)));
        assert!(pair.run_until_done(SECOND_NS));
        (65..=128).for_each(|id| pair.send_with(0, short(id, 64)));
        assert!(pair.run_until_done(SECOND_NS));
        expect_all(&pair, 129);
        assert_eq!(sent(&pair), 129);
    }
}

/// SRD-14.2.
#[test]
fn what_may_not_share_leaves_alone() {
    let changes: [fn(&mut Message); 4] = [
        |msg| msg.may_share = false,
        |msg| msg.rnr_retry = 0,
        |msg| msg.len = 1700 - 8,
        |msg| msg.len = 8928,
    ];
    for change in changes {
        let mut pair = acquainted(42);
        for id in 1..=9 {
            let mut message = short(id, 64);
            if id % 3 == 0 {
                change(&mut message);
            }
            pair.send_with(0, message);
        }
        assert!(pair.run_until_done(SECOND_NS));
        expect_all(&pair, 10);
        assert_eq!(sent(&pair), 1 + 6, "1 2, 3, 4 5, 6, 7 8, 9");
    }
}

/// SRD-14.4.
#[test]
fn each_message_of_a_frame_is_answered_by_itself() {
    for seed in 0..50 {
        let mut pair = acquainted(100 + seed);
        pair.nodes[1].answer = Answer::Mixed;
        (1..=200).for_each(|id| pair.send_with(0, short(id, 16)));
        assert!(pair.run_until_done(SECOND_NS));
        let completed = &pair.nodes[0].completed;
        let with = |status| completed.values().filter(|&&found| found == status).count();
        assert_eq!(with(Status::Ok), pair.nodes[1].delivered.len());
        assert_eq!(with(Status::Ok) + with(Status::BadLength), 201);
        assert!(with(Status::BadLength) > 10);
    }
}

/// SRD-14.4.
#[test]
fn what_is_refused_for_want_of_a_receive_comes_again() {
    let mut pair = acquainted(43);
    pair.nodes[1].answer = Answer::Refuse(Reject::Rnr);
    (1..=100).for_each(|id| pair.send_with(0, short(id, 64)));
    pair.run_ns(SECOND_NS / 100);
    pair.nodes[1].answer = Answer::Accept;
    assert!(pair.run_until_done(SECOND_NS));
    expect_all(&pair, 101);
}

/// SRD-14.5.
#[test]
fn a_lost_frame_is_repeated_message_by_message() {
    let mut pair = acquainted(44);
    (1..=20).for_each(|id| pair.send_with(0, short(id, 64)));
    let lost = pair.tap(0);
    assert_eq!((lost.len(), Header::parse(&lost[0]).unwrap().kind), (1, Kind::Frame));
    pair.now = pair.now.plus_ns(SECOND_NS);
    pair.nodes[0].engine.handle_timeout(pair.now);
    let again = pair.tap(0);
    assert!(!again.is_empty());
    for bytes in again {
        let header = Header::parse(&bytes).unwrap();
        assert_eq!(header.kind, Kind::Srd);
        assert!(header.flags.has(Flags::RTX));
    }
    assert!(pair.run_until_done(10 * SECOND_NS));
    expect_all(&pair, 21);
    assert!(pair.nodes[0].engine.stats().retrans_pkts >= 20);
}

#[test]
fn frames_survive_a_bad_network() {
    for seed in 0..20 {
        let mut pair = acquainted(200 + seed);
        pair.faults = Faults { loss: 100, duplicate: 300, reorder: 300, dead_paths: 0 };
        for id in 1..=2000 {
            pair.send_with(0, short(id, id as u32 % 300));
            if id % 100 == 0 {
                pair.run_ns(50_000);
            }
        }
        assert!(pair.run_until_done(60 * SECOND_NS), "seed {seed}");
        expect_all(&pair, 2001);
        assert!(pair.nodes[1].engine.stats().rx_duplicates > 0);
    }
}

/// SRD-14.4.
#[test]
fn a_host_may_stop_in_the_middle_of_a_frame() {
    let mut pair = acquainted(45);
    (1..=10).for_each(|id| pair.send_with(0, short(id, 64)));
    let frame = pair.tap(0).remove(0);
    let (now, host) = (pair.now, pair.nodes[0].addr.host);
    let engine = &mut pair.nodes[1].engine;
    let received = engine.handle_datagram(now, host, &frame, frame.len()).unwrap();
    assert!(received.is_frame && received.data.is_none());
    for id in 1..=3 {
        let framed = engine.next_framed(now, &frame).unwrap();
        assert_eq!(framed.payload.len(), 64);
        engine.accept(now, framed.arrival.peer, framed.arrival.psn);
        pair.check.delivered(1, id);
        pair.nodes[1].delivered.push(id);
        if id == 3 {
            // One that it does not answer counts as never received.
            assert!(engine.next_framed(now, &frame).is_some());
        }
    }
    assert!(pair.run_until_done(10 * SECOND_NS));
    expect_all(&pair, 11);
}

/// SRD-14.4: whoever knows the token of a connection is believed, but nothing panics.
#[test]
fn another_datagram_in_the_place_of_the_frame_is_harmless() {
    let mut pair = acquainted(46);
    (1..=10).for_each(|id| pair.send_with(0, short(id, 64)));
    let frame = pair.tap(0).remove(0);
    let (now, host) = (pair.now, pair.nodes[0].addr.host);
    let engine = &mut pair.nodes[1].engine;
    for cut in [0, 3, 60, 130, frame.len() - 1] {
        engine.handle_datagram(now, host, &frame, frame.len()).unwrap();
        while engine.next_framed(now, &frame[..cut]).is_some() {}
        assert!(engine.next_framed(now, &frame).is_none(), "it is over");
    }
    let mut header = [0; HEADER_MAX];
    while engine.poll_transmit(now, &mut header).is_some() {}
    assert!(pair.run_until_done(10 * SECOND_NS));
    expect_all(&pair, 11);
}
