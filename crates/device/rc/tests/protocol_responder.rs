//! The rules of a responder, one by one, against a hand-driven peer.

mod common;

use common::craft::{Craft, Solo, THEIR_PSN, receive_attr, send_attr};
use common::host::{BASE, Done, READ_KEY};
use rc::wire::{Kind, NakCode, Syndrome};
use rc::{Access, Cause, Config, DropReason, Event, ReceiveAttr, Service, State, Status};

const INVALID: Syndrome = Syndrome::Nak(NakCode::InvalidRequest);
const ACCESS: Syndrome = Syndrome::Nak(NakCode::RemoteAccess);
const SEQUENCE: Syndrome = Syndrome::Nak(NakCode::Sequence);
/// Of `receive_attr()`.
const RNR: Syndrome = Syndrome::RnrNak(12);

/// A request with the number `n` behind the peer's first.
fn request(kind: Kind, n: u32) -> Craft {
    Craft::new(kind, theirs(n))
}

fn theirs(n: u32) -> u32 {
    THEIR_PSN + n
}

fn with(receive: ReceiveAttr) -> Solo {
    Solo::with(Config::strict(), Service::Rc, receive, send_attr())
}

/// Delivers a packet that must end the connection, and returns the peer's answer.
fn refused(solo: &mut Solo, packet: &Craft) -> Syndrome {
    let _ = solo.give(packet);
    assert_eq!(solo.host.engine.state(), State::Error, "{packet:?}");
    let said = solo.said();
    assert_eq!(said.len(), 1);
    assert_eq!(said[0].1, packet.headers.bth.psn.get());
    said[0].0
}

/// RC-5.4: only packets that request it are acknowledged, by the newest for all.
#[test]
fn packets_that_ask_are_acknowledged() {
    let mut solo = Solo::new();
    (0..3).for_each(|id| solo.host.post_receive(id, 600));
    solo.give(&request(Kind::SendFirst, 0).with(256)).unwrap();
    assert_eq!(solo.said(), []);
    solo.give(&request(Kind::SendLastImm, 1).with(5).imm(77).asks()).unwrap();
    solo.give(&request(Kind::SendOnly, 2).asks()).unwrap();
    let sent = solo.sent();
    assert_eq!((sent.len(), sent[0].psn, sent[0].headers.aeth.msn), (1, theirs(2), 2));
    let Done::Receive { bytes, imm, .. } = &solo.host.done[0] else { panic!("a receive") };
    assert_eq!((bytes.len(), bytes[255], bytes[260], *imm), (261, 255, 4, Some(77)));
}

/// RC-5.2.
#[test]
fn a_gap_is_told_once() {
    let mut solo = Solo::new();
    (0..3).for_each(|id| solo.host.post_receive(id, 10));
    for n in [1, 2, 1] {
        assert_eq!(solo.give(&request(Kind::SendOnly, n)), Err(DropReason::Gap));
    }
    assert_eq!(solo.said(), [(SEQUENCE, theirs(0))]);
    solo.give(&request(Kind::SendOnly, 0)).unwrap();
    assert_eq!(solo.give(&request(Kind::SendOnly, 2)), Err(DropReason::Gap));
    assert_eq!(solo.said(), [(SEQUENCE, theirs(1))], "a new gap is told");
    assert_eq!(solo.give(&request(Kind::SendOnly, 1 << 22)), Err(DropReason::Gap));
    assert_eq!(solo.said(), []);
}

/// RC-5.2: packets that have arrived since are not requested again.
#[test]
fn a_nak_names_what_is_expected_when_it_leaves() {
    let mut solo = Solo::new();
    (0..3).for_each(|id| solo.host.post_receive(id, 10));
    let _ = solo.give(&request(Kind::SendOnly, 1));
    solo.give(&request(Kind::SendOnly, 0)).unwrap();
    assert_eq!(solo.said(), [(SEQUENCE, theirs(1))]);
    let _ = solo.give(&request(Kind::SendOnly, 2));
    assert_eq!(solo.said(), [], "the peer knows already");
}

/// RC-5.5, RC-5.2: an RNR NAK, then silence until the packet arrives again.
#[test]
fn without_a_receive_the_peer_waits() {
    let mut solo = Solo::new();
    solo.give(&request(Kind::SendOnly, 0).asks()).unwrap();
    assert_eq!(solo.give(&request(Kind::SendOnly, 1)), Err(DropReason::Gap));
    assert_eq!(solo.said(), [(RNR, theirs(0))]);
    solo.host.engine.set_min_rnr_timer(5);
    solo.give(&request(Kind::SendOnly, 0)).unwrap();
    assert_eq!(solo.said(), [(Syndrome::RnrNak(5), theirs(0))]);
    solo.host.post_receive(1, 10);
    solo.give(&request(Kind::SendOnly, 0).asks()).unwrap();
    assert_eq!(solo.said(), [(Syndrome::ACK, theirs(0))]);
    assert_eq!(solo.host.receives_done(), [(1, Status::Ok)]);
}

/// RC-5.3, RC-5.5: a WRITE with immediate data needs its receive at the last packet, before its key
/// is checked.
#[test]
fn a_write_with_immediate_needs_a_receive_at_its_end() {
    let mut solo = Solo::new();
    solo.give(&request(Kind::WriteFirst, 0).with(256).about(8, 300)).unwrap();
    solo.give(&request(Kind::WriteLastImm, 1).with(44).imm(6)).unwrap();
    assert_eq!(solo.said(), [(RNR, theirs(1))]);
    assert_eq!(solo.host.memory[8..10], [0, 1], "what came first is placed");
    assert_eq!(solo.host.memory[8 + 257], 0);
    solo.host.post_receive(1, 0);
    solo.give(&request(Kind::WriteLastImm, 1).with(44).imm(6)).unwrap();
    let done = Done::WriteImm { id: 1, status: Status::Ok, len: 300, imm: 6 };
    assert_eq!(solo.host.done, [done]);
    assert_eq!(solo.host.memory[8 + 257], 1);
    let wrong = request(Kind::WriteOnlyImm, 2).with(4).about(0, 4).keyed(1);
    solo.give(&wrong).unwrap();
    assert_eq!(solo.said(), [(RNR, theirs(2))]);
}

/// RC-5.5.
#[test]
fn a_message_longer_than_its_receive_ends_both_ends() {
    let mut solo = Solo::new();
    solo.host.post_receive(1, 300);
    solo.host.post_receive(2, 300);
    solo.give(&request(Kind::SendFirst, 0).with(256)).unwrap();
    assert_eq!(refused(&mut solo, &request(Kind::SendLast, 1).with(45)), INVALID);
    let ended = [(1, Status::LocalLength), (2, Status::Flushed)];
    assert_eq!(solo.host.receives_done(), ended);
    assert_eq!(solo.give(&request(Kind::SendOnly, 1)), Err(DropReason::State));
    assert_eq!(solo.said(), [], "a failed queue pair is silent");
}

/// RC-5.5.
#[test]
fn a_receive_with_wrong_memory_ends_both_ends() {
    let mut solo = Solo::new();
    solo.host.post_broken_receive(1, 300, Status::LocalProtection);
    let said = refused(&mut solo, &request(Kind::SendOnly, 0).with(4));
    assert_eq!(said, Syndrome::Nak(NakCode::RemoteOperation));
    assert_eq!(solo.host.receives_done(), [(1, Status::LocalProtection)]);
}

/// RC-5.5: the message counts, its receive does not.
#[test]
fn a_key_that_cannot_be_invalidated_fails_here_only() {
    for asks in [true, false] {
        let mut solo = Solo::new();
        solo.host.post_receive(1, 300);
        solo.host.post_receive(2, 300);
        solo.host.keys.push(5);
        let mut send = request(Kind::SendOnlyInvalidate, 0).with(4);
        send.headers.invalidate = 5;
        solo.give(&send).unwrap();
        assert_eq!(solo.host.keys, []);
        let mut send = request(Kind::SendOnlyInvalidate, 1).with(4);
        send.headers.bth.wants_ack = asks;
        send.headers.invalidate = 5;
        solo.give(&send).unwrap();
        assert_eq!(solo.said(), [(Syndrome::ACK, theirs(1))], "asks: {asks}");
        let done = [(1, Status::Ok), (2, Status::RemoteInvalidRequest)];
        assert_eq!(solo.host.receives_done(), done);
        let failed =
            Event::Failed { cause: Cause::Peer(None), receive: Some(Status::RemoteInvalidRequest) };
        assert!(solo.host.events.contains(&failed));
    }
}

/// RC-5.3, RC-5.5: each malformed request ends with "invalid request".
#[test]
fn what_has_the_wrong_form_is_invalid() {
    let first = |kind: Kind| match kind {
        Kind::SendFirst => vec![request(Kind::SendFirst, 0).with(256)],
        Kind::WriteFirst => vec![request(Kind::WriteFirst, 0).with(256).about(0, 600)],
        _ => vec![],
    };
    let cases = [
        (Kind::SendOnly, request(Kind::SendMiddle, 0).with(256)),
        (Kind::SendOnly, request(Kind::WriteLast, 0).with(25)),
        (Kind::SendFirst, request(Kind::SendOnly, 1)),
        (Kind::SendFirst, request(Kind::WriteMiddle, 1).with(256)),
        (Kind::SendFirst, request(Kind::ReadRequest, 1).about(0, 8)),
        (Kind::SendFirst, request(Kind::SendMiddle, 1).with(255)),
        (Kind::SendFirst, request(Kind::SendLast, 1)),
        (Kind::SendFirst, request(Kind::SendLast, 1).with(257)),
        (Kind::WriteFirst, request(Kind::SendLast, 1).with(10)),
        (Kind::WriteFirst, request(Kind::WriteLast, 1).with(256)),
        (Kind::WriteFirst, request(Kind::WriteMiddle, 1).with(200)),
        (Kind::WriteOnly, request(Kind::WriteOnly, 0).with(8).about(0, 9)),
        (Kind::WriteOnly, request(Kind::WriteFirst, 0).with(256).about(0, 256)),
        (Kind::WriteOnly, request(Kind::WriteOnly, 0).with(8).about(0, 0)),
        (Kind::WriteOnly, request(Kind::WriteFirst, 0).with(256).about(0, (1 << 31) + 1)),
        (Kind::ReadRequest, request(Kind::ReadRequest, 0).about(0, (1 << 31) + 1)),
        (Kind::FetchAdd, request(Kind::FetchAdd, 0).atomic(4, 1, 0)),
        (Kind::AtomicWrite, request(Kind::AtomicWrite, 0).with(8).about(4, 8)),
        (Kind::AtomicWrite, request(Kind::AtomicWrite, 0).with(4).about(8, 4)),
    ];
    for (kind, wrong) in cases {
        let mut solo = Solo::new();
        solo.host.post_receive(1, 3000);
        first(kind).iter().for_each(|packet| solo.give(packet).unwrap());
        assert_eq!(refused(&mut solo, &wrong), INVALID, "{wrong:?}");
        let in_use = kind == Kind::SendFirst;
        let status = if in_use { Status::RemoteInvalidRequest } else { Status::Flushed };
        assert_eq!(solo.host.receives_done(), [(1, status)], "{wrong:?}");
    }
}

/// RC-5.3: two ends with different path MTUs.
#[test]
fn another_path_mtu_is_invalid() {
    let mut solo = Solo::new();
    solo.host.post_receive(1, 3000);
    assert_eq!(refused(&mut solo, &request(Kind::SendFirst, 0).with(1024)), INVALID);
    assert_eq!(solo.host.receives_done(), [(1, Status::RemoteInvalidRequest)]);
}

/// RC-5.3: a missing receive is reported before a wrong length, memory before alignment.
#[test]
fn what_fails_first_is_what_the_peer_is_told() {
    let mut solo = Solo::new();
    solo.give(&request(Kind::SendFirst, 0).with(100)).unwrap();
    assert_eq!(solo.said(), [(RNR, theirs(0))]);
    solo.give(&request(Kind::WriteOnlyImm, 0).with(100).about(0, 90)).unwrap();
    assert_eq!(solo.said(), [(RNR, theirs(0))]);
    let cases = [
        request(Kind::FetchAdd, 0).atomic(4, 1, 0).keyed(3),
        request(Kind::WriteOnly, 0).with(8).about(0, 9).keyed(3),
        request(Kind::WriteFirst, 0).with(256).about(4000, 300),
    ];
    for wrong in cases {
        let mut solo = Solo::new();
        assert_eq!(refused(&mut solo, &wrong), ACCESS, "{wrong:?}");
    }
    let receive = ReceiveAttr { access: Access::default(), ..receive_attr() };
    let mut solo = with(receive);
    let both = request(Kind::WriteOnly, 0).with(8).about(0, 8).keyed(3);
    assert_eq!(refused(&mut solo, &both), INVALID);
}

/// RC-5.3, RC-5.5.
#[test]
fn the_queue_pair_says_what_its_peer_may_do() {
    let cases = [
        (Access { write: false, ..Access::ALL }, request(Kind::WriteOnly, 0).with(4).about(0, 4)),
        (Access { write: false, ..Access::ALL }, request(Kind::AtomicWrite, 0).with(8).about(0, 8)),
        (Access { read: false, ..Access::ALL }, request(Kind::ReadRequest, 0).about(0, 4)),
        (Access { atomic: false, ..Access::ALL }, request(Kind::CompareSwap, 0).atomic(0, 1, 1)),
        (Access { flush: false, ..Access::ALL }, request(Kind::Flush, 0).about(0, 4)),
    ];
    for (access, packet) in cases {
        let mut solo = with(ReceiveAttr { access, ..receive_attr() });
        assert_eq!(refused(&mut solo, &packet), INVALID);
        let mut solo = with(ReceiveAttr { access, ..receive_attr() });
        solo.host.engine.set_access(Access::ALL);
        solo.give(&packet).unwrap();
    }
}

/// RC-5.5, RC-5.3.
#[test]
fn memory_that_may_not_be_touched_is_not_touched() {
    let cases = [
        request(Kind::WriteOnly, 0).with(4).about(0, 4).keyed(3),
        request(Kind::WriteOnly, 0).with(4).about(0, 4).keyed(READ_KEY),
        request(Kind::WriteOnly, 0).with(4).about(4093, 4),
        request(Kind::WriteFirst, 0).with(256).about(3900, 300),
        request(Kind::ReadRequest, 0).about(4096, 1),
        request(Kind::ReadRequest, 0).about(u64::MAX - BASE, 4),
        request(Kind::FetchAdd, 0).atomic(0, 1, 0).keyed(READ_KEY),
        request(Kind::Flush, 0).about(4000, 400),
    ];
    for wrong in cases {
        let mut solo = Solo::new();
        assert_eq!(refused(&mut solo, &wrong), ACCESS, "{wrong:?}");
        assert!(solo.host.memory.iter().all(|&byte| byte == 0));
        let failed =
            Event::Failed { cause: Cause::Peer(Some(NakCode::RemoteAccess)), receive: None };
        assert!(solo.host.events.contains(&failed));
    }
}

/// RC-5.3.
#[test]
fn no_bytes_need_no_key() {
    let mut solo = Solo::new();
    solo.give(&request(Kind::WriteOnly, 0).about(1 << 40, 0).keyed(3).asks()).unwrap();
    solo.give(&request(Kind::ReadRequest, 1).about(1 << 40, 0).keyed(3)).unwrap();
    assert_eq!(solo.sent_short(), [(Kind::ReadResponseOnly, theirs(1))]);
}

/// RC-2.1, RC-6.2.
#[test]
fn a_read_is_answered_with_as_many_numbers() {
    let mut solo = Solo::new();
    solo.host.memory[9..11].copy_from_slice(&[1, 2]);
    solo.give(&request(Kind::ReadRequest, 0).about(9, 600)).unwrap();
    solo.give(&request(Kind::WriteOnly, 3).about(0, 0).asks()).unwrap();
    let sent = solo.sent();
    let kinds: Vec<_> = sent.iter().map(|seen| (seen.kind, seen.psn, seen.len)).collect();
    let expected = [
        (Kind::ReadResponseFirst, theirs(0), 256),
        (Kind::ReadResponseMiddle, theirs(1), 256),
        (Kind::ReadResponseLast, theirs(2), 88),
        (Kind::Acknowledge, theirs(3), 0),
    ];
    assert_eq!(kinds, expected);
    let msns: Vec<_> = sent.iter().map(|seen| seen.headers.aeth.msn).collect();
    assert_eq!((msns[0], msns[2], msns[3]), (1, 1, 2), "C9-148");
}

/// RC-5.3, RC-5.5.
#[test]
fn more_reads_than_agreed_are_invalid() {
    let mut solo = Solo::new();
    (0..2).for_each(|n| solo.give(&request(Kind::ReadRequest, n).about(0, 8)).unwrap());
    let _ = solo.give(&request(Kind::ReadRequest, 2).about(0, 8));
    assert_eq!(solo.host.engine.state(), State::Error);
    let sent = solo.sent_short();
    assert_eq!(
        sent[..2],
        [(Kind::ReadResponseOnly, theirs(0)), (Kind::ReadResponseOnly, theirs(1))]
    );
    assert_eq!(sent[2], (Kind::Acknowledge, theirs(2)), "RC-6.3: the refusal is the last");
    let mut solo = with(ReceiveAttr { max_dest_rd_atomic: 0, ..receive_attr() });
    assert_eq!(refused(&mut solo, &request(Kind::FetchAdd, 0).atomic(0, 1, 0)), INVALID);
}

/// RC-5.3: a late copy of an answered READ does not count as outstanding.
#[test]
fn a_late_copy_of_a_read_does_not_crowd_out_the_next() {
    let mut solo = with(ReceiveAttr { max_dest_rd_atomic: 1, ..receive_attr() });
    let first = request(Kind::ReadRequest, 0).about(0, 8);
    solo.give(&first).unwrap();
    assert_eq!(solo.sent().len(), 1);
    assert_eq!(solo.give(&first), Err(DropReason::Stale));
    solo.give(&request(Kind::ReadRequest, 1).about(0, 8)).unwrap();
    assert_eq!(solo.sent().last().map(|seen| seen.psn), Some(theirs(1)));
    assert_eq!(solo.host.engine.state(), State::Sending);
}

/// RC-5.6 (C9-105).
#[test]
fn repeated_messages_are_acknowledged_and_not_executed() {
    let mut solo = Solo::new();
    (0..3).for_each(|id| solo.host.post_receive(id, 10));
    let packets =
        [request(Kind::SendOnly, 0).with(4), request(Kind::WriteOnly, 1).with(4).about(0, 4)];
    packets.iter().for_each(|packet| solo.give(packet).unwrap());
    solo.host.memory[0] = 99;
    for packet in &packets {
        assert_eq!(solo.give(packet), Err(DropReason::Stale));
        assert_eq!(solo.said(), [(Syndrome::ACK, theirs(1))]);
    }
    assert_eq!((solo.host.memory[0], solo.host.receives_done().len()), (99, 1));
}

/// RC-5.6.
#[test]
fn a_repeated_read_reads_again() {
    let mut solo = Solo::new();
    solo.give(&request(Kind::ReadRequest, 0).about(0, 600)).unwrap();
    assert_eq!(solo.sent().len(), 3);
    let again = request(Kind::ReadRequest, 1).about(256, 344);
    assert_eq!(solo.give(&again), Err(DropReason::Stale));
    let sent = solo.sent_short();
    assert_eq!(sent, [(Kind::ReadResponseFirst, theirs(1)), (Kind::ReadResponseLast, theirs(2))]);
    let others = [
        request(Kind::ReadRequest, 1).about(256, 300),
        request(Kind::ReadRequest, 1).about(250, 344),
        request(Kind::ReadRequest, 1).about(256, 344).keyed(READ_KEY),
        request(Kind::FetchAdd, 1).atomic(0, 1, 0),
        request(Kind::ReadRequest, 0xFF_FFFF).about(0, 8),
    ];
    for other in others {
        assert_eq!(solo.give(&other), Err(DropReason::Duplicate), "{other:?}");
    }
    assert_eq!(solo.sent_short(), []);
}

/// RC-5.6: the stored result is returned, without another execution.
#[test]
fn a_repeated_atomic_is_executed_once() {
    let mut solo = Solo::new();
    let add = |n| request(Kind::FetchAdd, n).atomic(8, 5, 0);
    (0..2).for_each(|n| solo.give(&add(n)).unwrap());
    let originals = |solo: &mut Solo| -> Vec<u64> {
        solo.sent().iter().map(|seen| seen.headers.original).collect()
    };
    assert_eq!(originals(&mut solo), [0, 5]);
    assert_eq!(solo.give(&add(1)), Err(DropReason::Stale));
    assert_eq!(originals(&mut solo), [5]);
    solo.give(&add(2)).unwrap();
    assert_eq!(originals(&mut solo), [10]);
    assert_eq!(solo.give(&add(0)), Err(DropReason::Duplicate), "no longer stored");
    assert_eq!((solo.host.atomics, solo.host.memory[8]), (3, 15));
    let mut swap = request(Kind::CompareSwap, 3).atomic(8, 7, 15);
    solo.give(&swap).unwrap();
    swap.headers.bth.psn = rc::Psn::new(theirs(4));
    solo.give(&swap).unwrap();
    assert_eq!(originals(&mut solo), [15, 7]);
}

/// RC-6.1.
#[test]
fn acknowledgements_do_not_overtake_answers() {
    let mut solo = Solo::new();
    solo.give(&request(Kind::WriteOnly, 0).about(0, 0).asks()).unwrap();
    solo.give(&request(Kind::ReadRequest, 1).about(0, 600)).unwrap();
    let _ = solo.give(&request(Kind::WriteOnly, 9).about(0, 0));
    let kinds: Vec<_> = solo.sent().iter().map(|seen| (seen.kind, seen.psn)).collect();
    assert_eq!(kinds.len(), 4, "the answer acknowledges the WRITE");
    assert_eq!(kinds[3], (Kind::Acknowledge, theirs(4)));
}

/// RC-6.5: also by messages that request nothing, and by no others.
#[test]
fn who_requests_has_acknowledged_the_messages_it_has() {
    let mut solo = Solo::new();
    (0..3).for_each(|id| solo.host.post_receive(id, 600));
    let post = |solo: &mut Solo, id| {
        let send = rc::SendRequest::new(rc::WrId(id), rc::Operation::Send, 4);
        solo.host.post(solo.now, send, vec![0; 4]);
        solo.sent().iter().map(|seen| (seen.kind, seen.headers.aeth.msn)).collect::<Vec<_>>()
    };
    let (acknowledged, sent) = ((Kind::Acknowledge, 1), (Kind::SendOnly, 0));
    solo.give(&request(Kind::SendOnly, 0)).unwrap();
    assert_eq!(solo.said(), [], "nothing is requested, and it did not ask");
    assert_eq!(post(&mut solo, 1), [acknowledged, sent]);
    assert_eq!(post(&mut solo, 2), [sent], "the peer knows");
    solo.give(&request(Kind::SendFirst, 1).with(256)).unwrap();
    assert_eq!(post(&mut solo, 3), [sent], "of half a message nobody knows");
}

/// RC-6.3: a requester whose refusal was lost gets the same reason again.
#[test]
fn a_refusal_that_was_lost_is_sent_again() {
    let mut solo = Solo::with(Config::socket(), Service::Rc, receive_attr(), send_attr());
    let wrong = request(Kind::WriteOnly, 0).with(4).about(0, 4).keyed(1).asks();
    assert_eq!(refused(&mut solo, &wrong), ACCESS);
    for _ in 0..3 {
        assert_eq!(solo.give(&wrong), Err(DropReason::State));
        assert_eq!(solo.said(), [(ACCESS, theirs(0))]);
    }
    assert_eq!(solo.give(&request(Kind::SendOnly, 1).asks()), Err(DropReason::State));
    assert_eq!(solo.said(), [], "what came behind it was not refused");
    solo.host.engine.fail(solo.now);
    assert_eq!(solo.give(&wrong), Err(DropReason::State));
    assert_eq!(solo.said(), [], "the program has ended the connection");
}

/// RC-6.3, RC-4.5: a requester without any answer repeats only its oldest packet, which may have
/// been executed.
#[test]
fn what_came_before_a_refusal_is_answered_with_it() {
    for config in [Config::socket(), Config::strict()] {
        let is_strict = config == Config::strict();
        let mut solo = Solo::with(config, Service::Rc, receive_attr(), send_attr());
        solo.host.post_receive(1, 300);
        let first = request(Kind::SendFirst, 0).with(256);
        solo.give(&first).unwrap();
        assert_eq!(refused(&mut solo, &request(Kind::SendMiddle, 1).with(256)), INVALID);
        let again = if is_strict { vec![] } else { vec![(INVALID, theirs(1))] };
        for _ in 0..3 {
            assert_eq!(solo.give(&first), Err(DropReason::State));
            assert_eq!(solo.said(), again);
        }
        assert_eq!(solo.give(&request(Kind::SendLast, 2).with(8)), Err(DropReason::State));
        assert_eq!(solo.said(), [], "what came behind it was not refused");
    }
}

/// RC-6.3, RC-5.5: the message whose key cannot be invalidated was accepted, and its requester must
/// learn that.
#[test]
fn an_acknowledgement_that_was_the_last_word_is_sent_again() {
    for config in [Config::socket(), Config::strict()] {
        let is_strict = config == Config::strict();
        let mut solo = Solo::with(config, Service::Rc, receive_attr(), send_attr());
        (0..2).for_each(|id| solo.host.post_receive(id, 300));
        let before = request(Kind::SendOnly, 0).with(4);
        solo.give(&before).unwrap();
        let send = request(Kind::SendOnlyInvalidate, 1).with(4).asks();
        solo.give(&send).unwrap();
        assert_eq!(solo.host.engine.state(), State::Error, "there is no such key");
        let told = (Syndrome::ACK, theirs(1));
        assert_eq!(solo.said(), [told]);
        let again = if is_strict { vec![] } else { vec![told] };
        for packet in [&before, &send, &send] {
            assert_eq!(solo.give(packet), Err(DropReason::State));
            assert_eq!(solo.said(), again);
        }
        assert_eq!(solo.give(&request(Kind::SendOnly, 2).asks()), Err(DropReason::State));
        assert_eq!(solo.said(), [], "what came behind it was not taken");
        solo.host.engine.fail(solo.now);
        assert_eq!(solo.give(&send), Err(DropReason::State));
        assert_eq!(solo.said(), [], "the program has ended the connection");
    }
}

/// RC-5.1: when a work request of this side fails, nothing more is sent to the peer.
#[test]
fn a_queue_pair_that_fails_itself_is_silent() {
    let mut solo = Solo::new();
    let send = rc::SendRequest::new(rc::WrId(1), rc::Operation::Send, 4);
    solo.host.post(solo.now, send, vec![0; 4]);
    solo.sent();
    solo.give(&request(Kind::WriteOnly, 0).about(0, 0).asks()).unwrap();
    solo.give(&request(Kind::ReadRequest, 1).about(0, 600)).unwrap();
    solo.give(&common::craft::nak(common::craft::OUR_PSN, NakCode::RemoteOperation)).unwrap();
    assert_eq!(solo.host.sends(), [(1, Status::RemoteOperation)]);
    assert_eq!(solo.sent_short(), []);
    assert_eq!(solo.give(&request(Kind::WriteOnly, 4)), Err(DropReason::State));
}

/// RC-5.4, RC-6.3: a queue pair that fails by itself acknowledges the messages that its program has
/// got, so that its peer does not take it for dead.
#[test]
fn a_queue_pair_that_fails_itself_acknowledges_what_it_has_executed() {
    for config in [Config::socket(), Config::strict()] {
        let is_repeated = config.rto_floor_ns > 0;
        let mut solo = Solo::with(config, Service::Rc, receive_attr(), send_attr());
        let send = rc::SendRequest::new(rc::WrId(1), rc::Operation::Send, 4);
        solo.host.post(solo.now, send, vec![0; 4]);
        solo.sent();
        let write = request(Kind::WriteOnly, 0).about(0, 0).asks();
        solo.give(&write).unwrap();
        solo.give(&common::craft::nak(common::craft::OUR_PSN, NakCode::RemoteOperation)).unwrap();
        assert_eq!(solo.host.engine.state(), State::Error);
        assert_eq!(solo.said(), [(Syndrome::ACK, theirs(0))]);
        assert_eq!(solo.said(), []);
        // That one is lost.
        assert_eq!(solo.give(&write), Err(DropReason::State));
        let again = [(Syndrome::ACK, theirs(0))];
        assert_eq!(solo.said(), if is_repeated { &again[..] } else { &[] });
        assert_eq!(solo.give(&request(Kind::WriteOnly, 1)), Err(DropReason::State));
        assert_eq!(solo.said(), [], "nothing new is executed");
    }
}

/// RC-6.6: a peer that always reads must not keep this side from sending and repeating its own
/// requests.
#[test]
fn requests_have_their_turn_between_answers() {
    let mut solo = Solo::new();
    solo.give(&request(Kind::ReadRequest, 0).about(0, 4096)).unwrap();
    solo.give(&request(Kind::ReadRequest, 16).about(0, 4096)).unwrap();
    for id in 1..=2 {
        let send = rc::SendRequest::new(rc::WrId(id), rc::Operation::Send, 4);
        solo.host.post(solo.now, send, vec![0; 4]);
    }
    let kinds: Vec<bool> = solo.sent().iter().map(|seen| seen.kind == Kind::SendOnly).collect();
    assert_eq!(kinds.len(), 34);
    let places: Vec<usize> = (0..34).filter(|at| kinds[*at]).collect();
    assert_eq!(places, [16, 33]);
}

/// RC-6.4.
#[test]
fn memory_that_goes_away_ends_its_answer() {
    let mut solo = Solo::new();
    solo.give(&request(Kind::ReadRequest, 0).about(0, 600)).unwrap();
    let first = solo.host.next_packet(solo.now);
    assert!(first.is_some());
    solo.host.has_lost_memory = true;
    assert_eq!(solo.said(), [(ACCESS, theirs(1))]);
    assert_eq!(solo.host.engine.state(), State::Error);
}

/// RC-6.4, RC-6.3: a requester that has lost an earlier packet of that answer gets the same
/// refusal.
#[test]
fn an_answer_whose_memory_is_gone_is_refused_from_wherever_it_is_asked_for() {
    let mut solo = Solo::with(Config::socket(), Service::Rc, receive_attr(), send_attr());
    let before = request(Kind::WriteOnly, 0).about(0, 0);
    solo.give(&before).unwrap();
    solo.give(&request(Kind::ReadRequest, 1).about(0, 1000)).unwrap();
    assert!(solo.host.next_packet(solo.now).is_some() && solo.host.next_packet(solo.now).is_some());
    solo.host.has_lost_memory = true;
    assert_eq!(solo.said(), [(ACCESS, theirs(3))]);
    for skipped in 0..3 {
        let read = request(Kind::ReadRequest, 1 + skipped);
        let read = read.about(256 * u64::from(skipped), 1000 - 256 * skipped);
        assert_eq!(solo.give(&read), Err(DropReason::State));
        assert_eq!(solo.said(), [(ACCESS, theirs(1 + skipped))]);
    }
    assert_eq!(solo.give(&before), Err(DropReason::State));
    assert_eq!(solo.said(), [(ACCESS, theirs(1))], "it was executed");
}

/// RC-6.4, RC-5.5: the refusal of a late READ does not replace the last acknowledgement.
#[test]
fn a_message_behind_a_refused_copy_is_acknowledged() {
    let mut solo = Solo::new();
    let read = request(Kind::ReadRequest, 0).about(0, 8);
    solo.give(&read).unwrap();
    assert_eq!(solo.sent_short(), [(Kind::ReadResponseOnly, theirs(0))]);
    assert_eq!(solo.give(&read), Err(DropReason::Stale));
    solo.host.post_receive(1, 300);
    solo.give(&request(Kind::SendOnlyInvalidate, 1).with(4)).unwrap();
    assert_eq!(solo.host.engine.state(), State::Error, "there is no such key");
    solo.host.has_lost_memory = true;
    assert_eq!(solo.said().last(), Some(&(Syndrome::ACK, theirs(1))));
}

/// RC-6.4: the refusal of a late READ does not replace that of a new READ.
#[test]
fn a_read_behind_a_refused_copy_is_refused_itself() {
    let mut solo = Solo::new();
    let first = request(Kind::ReadRequest, 0).about(0, 8);
    solo.give(&first).unwrap();
    assert_eq!(solo.sent_short(), [(Kind::ReadResponseOnly, theirs(0))]);
    assert_eq!(solo.give(&first), Err(DropReason::Stale));
    solo.give(&request(Kind::ReadRequest, 1).about(0, 8)).unwrap();
    solo.host.has_lost_memory = true;
    assert_eq!(solo.said().last(), Some(&(ACCESS, theirs(1))));
    assert_eq!(solo.host.engine.state(), State::Error);
}

/// RC-5.6: FLUSH and ATOMIC WRITE are answered without bytes.
#[test]
fn flush_and_atomic_write_are_answered_again() {
    let mut solo = Solo::new();
    let packets =
        [request(Kind::AtomicWrite, 0).with(8).about(16, 8), request(Kind::Flush, 1).about(0, 100)];
    packets.iter().for_each(|packet| solo.give(packet).unwrap());
    let answers = [(Kind::ReadResponseOnly, theirs(0)), (Kind::ReadResponseOnly, theirs(1))];
    assert_eq!(solo.sent_short(), answers);
    assert_eq!(solo.host.memory[16..24], [0, 1, 2, 3, 4, 5, 6, 7]);
    solo.host.memory[16] = 99;
    assert!(packets.iter().all(|packet| solo.give(packet) == Err(DropReason::Stale)));
    assert_eq!(solo.sent_short(), answers);
    assert_eq!(solo.host.memory[16], 99, "not written again");
}

/// RC-5.1.
#[test]
fn a_connected_queue_pair_receives_before_it_sends() {
    let mut engine = rc::Endpoint::new(Config::strict(), Service::Rc, common::craft::HERE);
    let packet = request(Kind::WriteOnly, 0).about(0, 0).asks().bytes();
    let now = rc::Instant::ZERO;
    assert_eq!(engine.handle_packet(now, &packet, packet.len()), Err(DropReason::State));
    engine.ready_to_receive(receive_attr());
    assert!(engine.handle_packet(now, &packet, packet.len()).is_ok());
    engine.accept(now);
    assert!(engine.poll_transmit(now, &mut [0; rc::HEADER_MAX]).is_some());
    assert_eq!(engine.poll_event(), Some(Event::Established));
    engine.ready_to_send(send_attr());
    assert_eq!((engine.state(), engine.poll_event()), (State::Sending, None));
    engine.fail(now);
    assert_eq!(engine.handle_packet(now, &packet, packet.len()), Err(DropReason::State));
}

/// RC-1.1.
#[test]
fn what_is_not_for_here_is_dropped() {
    let mut solo = Solo::new();
    let mut packet = request(Kind::WriteOnly, 0).about(0, 0);
    packet.headers.bth.dest_qpn += 1;
    assert_eq!(solo.give(&packet), Err(DropReason::WrongQpn));
    packet.headers.bth.dest_qpn -= 1;
    packet.headers.bth.pkey = 0x8001;
    assert_eq!(solo.give(&packet), Err(DropReason::WrongPkey));
    packet.headers.bth.pkey = 0x7FFF;
    assert_eq!(solo.give(&packet), Ok(()), "a limited member of the same partition");
    packet.headers.bth.opcode.transport = rc::wire::Transport::Uc;
    assert_eq!(solo.give(&packet), Err(DropReason::Service));
}

/// A packet that the host does not answer counts as not received.
#[test]
fn what_is_not_answered_comes_again() {
    let mut solo = Solo::new();
    let packet = request(Kind::FetchAdd, 0).atomic(0, 1, 0);
    let bytes = packet.bytes();
    let received = solo.host.engine.handle_packet(solo.now, &bytes, bytes.len()).unwrap();
    assert!(received.arrival.is_some());
    solo.host.engine.accept(solo.now);
    assert_eq!(solo.sent_short(), [], "an atomic is answered by what it found");
    solo.give(&packet).unwrap();
    assert_eq!(solo.sent_short(), [(Kind::AtomicAcknowledge, theirs(0))]);
}

/// RC-5.8.
#[test]
fn the_newest_acknowledgement_is_repeated_at_the_end() {
    let end = |solo: &mut Solo| {
        solo.host.engine.final_ack(solo.now);
        solo.said()
    };
    let lenient = || Solo::with(Config::socket(), Service::Rc, receive_attr(), send_attr());
    let mut solo = lenient();
    assert_eq!(end(&mut solo), [], "nothing was ever acknowledged");
    (0..2).for_each(|id| solo.host.post_receive(id, 10));
    solo.give(&request(Kind::SendOnly, 0).asks()).unwrap();
    assert_eq!(solo.said(), [(Syndrome::ACK, theirs(0))]);
    for _ in 0..3 {
        assert_eq!(end(&mut solo), [(Syndrome::ACK, theirs(0))]);
    }
    solo.give(&request(Kind::ReadRequest, 1).about(0, 10)).unwrap();
    solo.said();
    assert_eq!(solo.host.engine.state(), State::Sending, "it was answered");
    assert_eq!(end(&mut solo), [], "an acknowledgement would say that its answer was lost");
    let mut strict = Solo::new();
    strict.host.post_receive(1, 10);
    strict.give(&request(Kind::SendOnly, 0).asks()).unwrap();
    assert_eq!(strict.said(), [(Syndrome::ACK, theirs(0))]);
    assert_eq!(end(&mut strict), [], "adapters say it once");
    let mut failed = lenient();
    failed.host.post_receive(1, 10);
    failed.give(&request(Kind::SendOnly, 0).asks()).unwrap();
    failed.said();
    failed.host.engine.fail(failed.now);
    assert_eq!(end(&mut failed), [], "a failed queue pair is silent");
}
