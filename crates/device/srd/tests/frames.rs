//! Several messages in one datagram (SRD-14).

use crate::basics::expect_all;
use crate::common::{Answer, Faults, Pair};
use srd::wire::{Datagram, Flags, Header, Kind};
use srd::{Config, HEADER_MAX, Message, MsgId, PathId, Reject, Status};

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
fn nothing_shares_once_a_frame_was_too_long() {
    let mut pair = acquainted(49);
    (1..=20).for_each(|id| pair.send_with(0, short(id, 64)));
    assert_eq!(pair.tap(0).len(), 1);
    let peer = pair.peer_of(0);
    pair.nodes[0].engine.refuse_frames(peer);
    (21..=40).for_each(|id| pair.send_with(0, short(id, 64)));
    assert_eq!(pair.tap(0).len(), 20);
    assert!(pair.run_until_done(60 * SECOND_NS));
    expect_all(&pair, 41);
}

/// SRD-14.3.
#[test]
fn no_frame_is_longer_than_the_longest_message() {
    let config = Config { max_message_bytes: 300, ..Config::socket() };
    let mut pair = Pair::new(config, 50);
    pair.send_with(0, short(0, 64));
    assert!(pair.run_until_done(SECOND_NS));
    (1..=8).for_each(|id| pair.send_with(0, short(id, 64)));
    assert_eq!(pair.tap(0).len(), 2, "four in each");
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
    let changes: [fn(&mut Message); 5] = [
        |msg| msg.may_share = false,
        |msg| msg.qkey = 1,
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
        assert_eq!(pair.nodes[0].completed.len(), 10);
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
        assert!(with(Status::BadLength) > 10 && pair.frames > 3);
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
    assert!(pair.frames > 3);
}

/// SRD-14.2.
#[test]
fn a_frame_is_read_message_by_message() {
    let mut pair = acquainted(47);
    for id in 1..=3 {
        let message = Message { op: id as u8, imm: 7 * id as u32, ..short(id, id as u32) };
        pair.send_with(0, message);
    }
    let bytes = pair.tap(0).remove(0);
    let datagram = Datagram::parse(Header::parse(&bytes).unwrap(), &bytes, bytes.len()).unwrap();
    let first = datagram.data.unwrap();
    let found: Vec<_> = datagram.messages(&bytes).collect();
    let at = datagram.header_len;
    for (i, (data, start)) in (0..).zip(&found) {
        assert_eq!((data.psn, data.oldest), (first.psn.plus(i), i as u16));
        assert_eq!((data.op, data.len, data.imm), (i as u8 + 1, i as u16 + 1, 7 * (i + 1)));
        assert_eq!(*start, at + [8, 17, 27][i as usize]);
    }
    assert_eq!(found.len(), 3);
    let mut pair = acquainted(48);
    pair.send(0, 1, 9);
    let bytes = pair.tap(0).remove(0);
    let datagram = Datagram::parse(Header::parse(&bytes).unwrap(), &bytes, bytes.len()).unwrap();
    let alone: Vec<_> = datagram.messages(&bytes).collect();
    assert_eq!(alone, [(datagram.data.unwrap(), datagram.header_len)]);
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
        assert!(pair.nodes[1].engine.stats().rx_duplicates > 0 && pair.frames > 10);
    }
}

/// SRD-8.5: a lost frame counts as one loss.
#[test]
fn a_lost_frame_costs_what_a_lost_datagram_does() {
    let lose_one = |may_share| {
        let mut pair = acquainted(51);
        let before = pair.nodes[0].engine.stats().retrans_pkts;
        for id in 1..=20 {
            pair.send_with(0, Message { may_share, ..short(id, 64) });
        }
        let taken = pair.tap(0).len();
        for id in 21..=60 {
            pair.send_with(0, Message { may_share, ..short(id, 64) });
            pair.run_ns(1_000_000);
        }
        assert!(pair.run_until_done(10 * SECOND_NS));
        expect_all(&pair, 61);
        assert!(pair.nodes[0].engine.stats().retrans_pkts >= before + 20);
        let peer = pair.peer_of(0);
        let lost = |path| {
            pair.nodes[0].engine.path_stats(peer, PathId(path)).map_or(0, |path| path.lost_packets)
        };
        (taken, (0..16).map(lost).sum::<u64>())
    };
    assert_eq!(lose_one(true), (1, 1));
    assert_eq!(lose_one(false), (20, 20));
}

/// SRD-14.3: no ICMP error arrives, but no frame does, either.
#[test]
fn a_path_that_swallows_frames_gets_no_more() {
    let mut pair = acquainted(52);
    for id in 1..=400 {
        pair.send_with(0, short(id, 64));
        if id % 20 == 0 {
            pair.swallows_frames = true;
            pair.run_ns(20_000_000);
        }
    }
    assert!(pair.run_until_done(10 * SECOND_NS));
    expect_all(&pair, 401);
    assert!((1..=4).contains(&pair.frames), "{} frames", pair.frames);
}

/// SRD-14.3: a message that the host gives up says nothing about the network.
#[test]
fn a_withdrawn_message_was_not_carried() {
    let mut pair = acquainted(54);
    (1..=20).for_each(|id| pair.send_with(0, short(id, 64)));
    assert_eq!(pair.tap(0).len(), 1, "one frame, which gets lost");
    let peer = pair.peer_of(0);
    pair.nodes[0].engine.withdraw(pair.now, peer, MsgId(20));
    pair.run_ns(SECOND_NS);
    assert_eq!(pair.nodes[0].completed.len(), 21);
    (21..=40).for_each(|id| pair.send_with(0, short(id, 64)));
    assert!(pair.run_until_done(SECOND_NS));
    assert_eq!(pair.frames, 0, "maybe the path is too short for them");
}

/// The acknowledgement of the first messages leaves while the host takes the others.
#[test]
fn a_host_may_send_in_the_middle_of_a_frame() {
    let mut pair = acquainted(53);
    (1..=10).for_each(|id| pair.send_with(0, short(id, 64)));
    let frame = pair.tap(0).remove(0);
    let (now, host) = (pair.now, pair.nodes[0].addr.host);
    pair.nodes[1].engine.handle_datagram(now, host, &frame, frame.len()).unwrap();
    for id in 1..=10 {
        let framed = pair.nodes[1].engine.next_framed(now, &frame).unwrap();
        pair.nodes[1].engine.accept(now, framed.arrival.peer, framed.arrival.psn);
        pair.check.delivered(1, id);
        pair.nodes[1].delivered.push(id);
        if id == 3 {
            pair.nodes[1].engine.flush_acks(now);
            pair.drain(1);
        }
    }
    assert!(pair.nodes[1].engine.next_framed(now, &frame).is_none());
    assert!(pair.run_until_done(1_000_000), "the rest is acknowledged before a time-out");
    expect_all(&pair, 11);
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
            // A message that it does not answer counts as never received.
            assert!(engine.next_framed(now, &frame).is_some());
        }
    }
    assert!(pair.run_until_done(10 * SECOND_NS));
    expect_all(&pair, 11);
}

/// SRD-14.4: an attacker who knows the token of a connection is believed, but nothing panics.
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
