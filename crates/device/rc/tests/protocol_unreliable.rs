//! The rules of unreliable connections, one by one, against a hand-driven peer.

mod common;

use common::craft::{Craft, OUR_PSN, Solo, THEIR_PSN, receive_attr, send_attr};
use common::host::{BASE, Done, KEY};
use common::pair::{Faults, Pair, Setup};
use common::{Rng, explore};
use rc::wire::{Cnp, Kind, Transport};
use rc::{
    Access, Config, DropReason, Event, Operation, PostError, Remote, SendRequest, Service, State,
    Status, WrId,
};

const HERE: Remote = Remote { va: BASE, rkey: KEY };

fn uc() -> Solo {
    Solo::with(Config::strict(), Service::Uc, receive_attr(), send_attr())
}

fn part(kind: Kind, n: u32) -> Craft {
    Craft::of(Transport::Uc, kind, THEIR_PSN + n)
}

fn received(solo: &Solo) -> Vec<(u64, usize)> {
    let done = solo.host.done.iter().filter_map(|done| match done {
        Done::Receive { id, bytes, .. } => Some((*id, bytes.len())),
        Done::WriteImm { id, len, .. } => Some((*id, *len as usize)),
        Done::Send { .. } => None,
    });
    done.collect()
}

/// RC-7.1.
#[test]
fn a_work_request_ends_when_it_has_left() {
    let mut solo = uc();
    for (id, op, len) in [(1, Operation::Send, 600), (2, Operation::WriteImm(HERE, 4), 8)] {
        solo.host.post(solo.now, SendRequest::new(WrId(id), op, len), vec![0; len as usize]);
    }
    assert_eq!(solo.host.sends(), []);
    let kinds: Vec<_> = solo.sent_short();
    let expected = [Kind::SendFirst, Kind::SendMiddle, Kind::SendLast, Kind::WriteOnlyImm];
    assert_eq!(kinds.iter().map(|seen| seen.0).collect::<Vec<_>>(), expected);
    assert_eq!(kinds[3].1, (OUR_PSN + 3) & 0xFF_FFFF);
    assert_eq!(solo.host.sends(), [(1, Status::Ok), (2, Status::Ok)]);
    assert_eq!(solo.host.engine.poll_timeout(), None);
    let read = SendRequest::new(WrId(3), Operation::Read(HERE), 8);
    assert_eq!(solo.host.engine.post(solo.now, read), Err(PostError::Operation));
    assert_eq!(
        solo.give(&Craft::of(Transport::Rc, Kind::Acknowledge, OUR_PSN)),
        Err(DropReason::Service)
    );
}

fn post(solo: &mut Solo, id: u64, len: u32) {
    let request = SendRequest::new(WrId(id), Operation::Send, len);
    solo.host.post(solo.now, request, vec![0; len as usize]);
}

/// RC-7.3: before and after its last packet was returned.
#[test]
fn a_failed_work_request_stops_the_send_queue_alone() {
    for has_left in [false, true] {
        let mut solo = uc();
        (1..=3).for_each(|id| post(&mut solo, id, 600));
        // The second one cannot be read from its second, or its last, packet on.
        let packets = if has_left { 6 } else { 5 };
        let mut header = [0; rc::HEADER_MAX];
        for _ in 0..packets {
            solo.host.engine.poll_transmit(solo.now, &mut header).unwrap();
        }
        solo.host.engine.withdraw(solo.now, WrId(2), Status::LocalProtection);
        solo.host.poll_events();
        let ended = [(1, Status::Ok), (2, Status::LocalProtection), (3, Status::Flushed)];
        assert_eq!(solo.host.sends(), ended);
        assert_eq!(solo.host.engine.state(), State::SendError);
        post(&mut solo, 4, 10);
        assert_eq!(solo.sent_short(), []);
        assert_eq!(solo.host.sends()[3], (4, Status::Flushed));
        solo.host.post_receive(9, 10);
        solo.give(&part(Kind::SendOnly, 0).with(4)).unwrap();
        assert_eq!(received(&solo), [(9, 4)], "it still receives");
        solo.host.engine.resume(solo.now);
        post(&mut solo, 5, 10);
        assert_eq!(solo.sent_short(), [(Kind::SendOnly, (OUR_PSN + 9) & 0xFF_FFFF)]);
        assert_eq!(solo.host.sends()[4], (5, Status::Ok));
    }
}

/// RC-7.3: an unreachable peer has no effect.
#[test]
fn an_unreliable_connection_does_not_need_its_peer() {
    let mut solo = uc();
    post(&mut solo, 1, 10);
    solo.host.engine.peer_unreachable(solo.now);
    assert_eq!(solo.sent_short().len(), 1);
    assert_eq!(
        (solo.host.sends(), solo.host.engine.state()),
        (vec![(1, Status::Ok)], State::Sending)
    );
}

/// RC-7.2.
#[test]
fn behind_a_gap_all_is_lost_up_to_the_next_message() {
    let mut solo = uc();
    (0..4).for_each(|id| solo.host.post_receive(id, 1000));
    solo.give(&part(Kind::SendFirst, 0).with(256)).unwrap();
    assert_eq!(solo.give(&part(Kind::SendMiddle, 2).with(256)), Err(DropReason::Lost));
    assert_eq!(solo.give(&part(Kind::SendLast, 3).with(9)), Err(DropReason::Lost));
    solo.give(&part(Kind::SendFirst, 4).with(256)).unwrap();
    solo.give(&part(Kind::SendLast, 5).with(4).asks()).unwrap();
    solo.give(&part(Kind::SendOnly, 9).with(7)).unwrap();
    assert_eq!(
        received(&solo),
        [(0, 260), (1, 7)],
        "the receive of the lost message is used again"
    );
    assert_eq!(solo.sent_short(), [], "nothing is ever answered");
}

/// RC-7.2: a message that begins before the last one has ended.
#[test]
fn a_message_without_its_end_is_lost() {
    let mut solo = uc();
    (0..4).for_each(|id| solo.host.post_receive(id, 1000));
    solo.give(&part(Kind::SendFirst, 0).with(256)).unwrap();
    solo.give(&part(Kind::SendOnly, 1).with(3)).unwrap();
    assert_eq!(solo.give(&part(Kind::SendLast, 2).with(3)), Err(DropReason::Lost));
    assert_eq!(solo.give(&part(Kind::WriteLast, 3).with(3)), Err(DropReason::Lost));
    solo.give(&part(Kind::SendFirst, 4).with(256)).unwrap();
    assert_eq!(solo.give(&part(Kind::WriteLast, 5).with(3)), Err(DropReason::Lost));
    assert_eq!(received(&solo), [(0, 3)]);
}

/// RC-7.2: an error that would end a reliable connection loses one message.
#[test]
fn what_is_not_possible_loses_one_message() {
    let mut solo = uc();
    solo.give(&part(Kind::SendOnly, 0).with(3)).unwrap();
    solo.host.post_receive(0, 100);
    let wrong = [
        part(Kind::SendFirst, 1).with(200),
        part(Kind::SendOnly, 2).with(257),
        part(Kind::WriteOnly, 3).with(8).about(0, 9),
    ];
    for wrong in wrong {
        assert_eq!(solo.give(&wrong), Err(DropReason::Lost), "{wrong:?}");
    }
    solo.give(&part(Kind::SendOnly, 4).with(101)).unwrap();
    solo.give(&part(Kind::WriteOnly, 5).with(8).about(0, 8).keyed(3)).unwrap();
    assert_eq!(solo.host.memory[1], 0);
    solo.host.engine.set_access(Access::default());
    assert_eq!(solo.give(&part(Kind::WriteOnly, 6).with(8).about(0, 8)), Err(DropReason::Lost));
    solo.host.engine.set_access(Access::ALL);
    solo.give(&part(Kind::WriteFirst, 7).with(256).about(0, 264)).unwrap();
    solo.give(&part(Kind::WriteLast, 8).with(8)).unwrap();
    solo.give(&part(Kind::SendOnly, 9).with(100)).unwrap();
    assert_eq!(received(&solo), [(0, 100)]);
    assert_eq!((solo.host.memory[1], solo.host.memory[257]), (1, 1));
    assert_eq!(solo.host.engine.state(), State::Sending);
}

/// RC-7.2: a peer that repeatedly restarts with a number that is half of all behind.
#[test]
fn numbers_may_jump_back_and_back() {
    let mut solo = uc();
    for psn in [100, 101 + (1 << 23), 102, 0xFF_FFFF, 0] {
        let packet = Craft::of(Transport::Uc, Kind::WriteOnly, psn).with(4).about(0, 4);
        assert_eq!(solo.give(&packet), Ok(()), "{psn}");
    }
}

/// RC-7.2, RC-7.4: over a lossy network messages arrive whole, in order and once, or not at all.
#[test]
fn messages_arrive_whole_or_not_at_all() {
    explore("protocol_unreliable", "messages_arrive", 200, |seed| {
        let mut rng = Rng(seed);
        let setup = Setup { services: [Service::Uc; 2], ..Setup::default() };
        let mut pair = Pair::new(&setup, rng.next());
        let loss = rng.pick(&[0, 50, 300]);
        pair.faults = Faults { loss, lazy: 200, ..Faults::default() };
        let messages: Vec<_> = (0..50).map(|_| rng.below(1000) as usize).collect();
        for (id, &len) in messages.iter().enumerate() {
            pair.hosts[1].post_receive(id as u64, 1000);
            let bytes = vec![id as u8; len];
            let op = Operation::SendImm(id as u32);
            let request = SendRequest::new(WrId(id as u64), op, len as u32);
            pair.hosts[0].post(pair.now, request, bytes);
            pair.run_ns(rng.below(20_000));
        }
        pair.run_ns(1_000_000_000);
        assert_eq!(pair.hosts[0].sends().len(), 50);
        let mut last = None;
        for done in &pair.hosts[1].done {
            let Done::Receive { bytes, imm: Some(imm), .. } = done else { panic!("{done:?}") };
            assert!(last < Some(*imm), "in order, and once");
            assert_eq!(*bytes, vec![*imm as u8; messages[*imm as usize]]);
            last = Some(*imm);
        }
        let arrived = pair.hosts[1].done.len();
        assert!(arrived == 50 || loss > 0, "{arrived} of 50 arrived without a loss");
    });
}

/// RC-1.7.
#[test]
fn a_congestion_notification_is_told() {
    let mut solo = Solo::new();
    let mut bytes = [0; Cnp::LEN + 4];
    Cnp { pkey: 0xFFFF, dest_qpn: common::craft::HERE }.emit(&mut bytes);
    assert!(solo.host.engine.handle_packet(solo.now, &bytes, bytes.len()).is_ok());
    assert_eq!(solo.host.engine.poll_event(), Some(Event::Congestion));
    let longer = solo.host.engine.handle_packet(solo.now, &bytes, bytes.len() + 4);
    assert_eq!(longer, Err(DropReason::Malformed));
}
