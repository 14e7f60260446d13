//! The settings of a requester's window and of its acknowledgements, against a peer played by hand.

mod common;

use common::craft::{OUR_PSN, Solo, ack, nak, receive_attr, send_attr};
use common::host::{BASE, KEY};
use rc::wire::NakCode;
use rc::{Config, Event, Operation, Remote, SendAttr, SendRequest, Service, Status, WrId};

/// Of `send_attr()`.
const TIMEOUT_NS: u64 = 4096 << 14;

/// The number `n` behind the first of ours; they wrap.
fn ours(n: u32) -> u32 {
    (OUR_PSN + n) & 0xFF_FFFF
}

fn solo(config: Config) -> Solo {
    Solo::with(config, Service::Rc, receive_attr(), send_attr())
}

fn post(solo: &mut Solo, id: u64, op: Operation, len: u32) {
    let request = SendRequest::new(WrId(id), op, len);
    solo.host.post(solo.now, request, vec![0; len as usize]);
}

/// Places of the packets that ask, among all there are to send.
fn asking(solo: &mut Solo) -> Vec<usize> {
    let sent = solo.sent();
    (0..sent.len()).filter(|&i| sent[i].headers.bth.wants_ack).collect()
}

/// RC-3.5.
#[test]
fn a_fixed_window_is_full_at_once_and_survives_gaps_and_silence() {
    let mut solo = solo(Config::hardware(40));
    (0..100).for_each(|id| post(&mut solo, id, Operation::Send, 256));
    assert_eq!(solo.sent().len(), 40);
    solo.give(&nak(ours(10), NakCode::Sequence)).unwrap();
    assert_eq!(solo.sent().len(), 40, "30 again and 10 for those that arrived");
    solo.pass_ns(TIMEOUT_NS);
    assert_eq!((solo.sent().len(), solo.host.engine.window_packets()), (40, 40));
    solo.give(&ack(ours(49))).unwrap();
    assert_eq!(solo.sent().len(), 40);
}

/// RC-3.8.
#[test]
fn each_so_many_messages_ask_and_so_does_the_last() {
    let config = Config { ack_every_messages: 4, ..Config::hardware(100) };
    let mut few = solo(config.clone());
    (0..10).for_each(|id| post(&mut few, id, Operation::Send, 300));
    assert_eq!(asking(&mut few), [7, 15, 19], "two packets each; nothing follows the last one");
    few.give(&ack(ours(19))).unwrap();
    assert_eq!(few.host.sends().len(), 10);
    // A quarter of the window asks whatever a host lets.
    let mut long = solo(Config { ack_every_messages: 1000, ..config });
    (0..60).for_each(|id| post(&mut long, id, Operation::Send, 1));
    assert_eq!(asking(&mut long), [24, 49, 59]);
}

/// RC-3.8: what is repeated is counted anew.
#[test]
fn messages_are_counted_from_the_first_that_is_repeated() {
    let mut solo = solo(Config { ack_every_messages: 4, ..Config::hardware(100) });
    (0..6).for_each(|id| post(&mut solo, id, Operation::Send, 1));
    (0..2).for_each(|_| assert!(solo.host.next_packet(solo.now).is_some()));
    solo.give(&nak(ours(0), NakCode::Sequence)).unwrap();
    assert_eq!(asking(&mut solo), [3, 5]);
}

/// RC-3.8: what may have to wait is nothing that a message can rely on.
#[test]
fn a_message_asks_when_what_follows_may_have_to_wait() {
    let here = Remote { va: BASE, rkey: KEY };
    let fenced = SendRequest { is_fenced: true, ..SendRequest::new(WrId(1), Operation::Send, 0) };
    let behind = [
        SendRequest::new(WrId(1), Operation::Read(here), 0),
        SendRequest::new(WrId(1), Operation::Local, 0),
        fenced,
    ];
    for behind in behind {
        let mut solo = solo(Config { ack_every_messages: 9, ..Config::hardware(100) });
        post(&mut solo, 0, Operation::Send, 1);
        solo.host.post(solo.now, behind, Vec::new());
        assert_eq!(asking(&mut solo).first(), Some(&0), "{behind:?}");
    }
    // A draining queue pair begins nothing more, so what it repeats is the end.
    let mut solo = solo(Config { ack_every_messages: 9, ..Config::hardware(100) });
    post(&mut solo, 0, Operation::Send, 1);
    solo.sent();
    post(&mut solo, 1, Operation::Send, 1);
    solo.host.engine.drain(solo.now);
    solo.pass_ns(TIMEOUT_NS);
    assert_eq!(asking(&mut solo), [0]);
    solo.give(&ack(ours(0))).unwrap();
    assert_eq!(solo.host.sends(), [(0, Status::Ok)]);
}

/// RC-3.12: what left in front of a message that was to ask for both ends all the same, without a
/// timeout.
#[test]
fn a_draining_queue_asks_for_what_has_left() {
    let config = Config { ack_every_messages: 16, ..Config::hardware(20) };
    let send = SendAttr { timeout: 0, ..send_attr() };
    let mut solo = Solo::with(config, Service::Rc, receive_attr(), send);
    (0..30).for_each(|id| post(&mut solo, id, Operation::Send, 1));
    assert_eq!(asking(&mut solo).last(), Some(&19));
    solo.give(&ack(ours(1))).unwrap();
    assert_eq!(asking(&mut solo), [], "two more, in front of others");
    solo.host.engine.drain(solo.now);
    solo.give(&ack(ours(19))).unwrap();
    let sent = solo.sent();
    let asks: Vec<_> = sent.iter().map(|seen| (seen.psn, seen.headers.bth.wants_ack)).collect();
    assert_eq!(asks, [(ours(20), false), (ours(21), true)]);
    solo.give(&ack(ours(21))).unwrap();
    assert_eq!(solo.host.sends().len(), 22);
    assert!(solo.host.events.contains(&Event::Drained));
}
