//! Packets of a message that travel as one, against a hand-driven peer.

mod common;

use common::craft::{Craft, OUR_PSN, Solo, THEIR_PSN, ack, nak, receive_attr, send_attr};
use common::host::{BASE, KEY};
use rc::wire::{Kind, NakCode, Syndrome};
use rc::{Config, DropReason, Operation, Remote, SendRequest, Service, Status, WrId};

/// Of `receive_attr()`.
const MTU: usize = 256;

/// The number `n` behind the first of ours; they wrap.
fn ours(n: u32) -> u32 {
    (OUR_PSN + n) & 0xFF_FFFF
}

/// An endpoint that joins up to this many bytes.
fn solo(config: Config, joined_bytes: u32) -> Solo {
    let mut solo = Solo::with(config, Service::Rc, receive_attr(), send_attr());
    solo.host.joined_bytes = [joined_bytes; 2];
    solo
}

fn post(solo: &mut Solo, id: u64, len: usize) {
    let op = Operation::Write(Remote { va: BASE, rkey: KEY });
    solo.host.post(solo.now, SendRequest::new(WrId(id), op, len as u32), vec![7; len]);
}

/// Returns numbers, joined packets and lengths of everything that is to be sent.
fn sent(solo: &mut Solo) -> Vec<(u32, u8, u32)> {
    let sent = solo.sent();
    sent.iter().map(|it| (it.headers.bth.psn.get(), it.headers.bth.joined, it.len)).collect()
}

/// RC-1.15.
#[test]
fn packets_of_one_message_are_joined_up_to_a_length() {
    let mut solo = solo(Config::hardware(100), 1000);
    post(&mut solo, 1, 5 * MTU + 1);
    post(&mut solo, 2, 1);
    let expected =
        [(ours(0), 2, 3 * MTU as u32), (ours(3), 2, 2 * MTU as u32 + 1), (ours(6), 0, 1)];
    assert_eq!(sent(&mut solo), expected);
    solo.give(&ack(ours(6))).unwrap();
    assert_eq!(solo.host.sends().len(), 2);
}

/// RC-1.15: repetitions are sent alone, and no more is joined than the window admits.
#[test]
fn what_is_repeated_is_not_joined() {
    let mut solo = solo(Config::hardware(4), 10_000);
    post(&mut solo, 1, 6 * MTU);
    assert_eq!(sent(&mut solo), [(ours(0), 3, 4 * MTU as u32)]);
    solo.give(&nak(ours(1), NakCode::Sequence)).unwrap();
    let again = [1, 2, 3, 4].map(|n| (ours(n), 0, MTU as u32));
    assert_eq!(sent(&mut solo), again, "the window has room for one new packet");
    solo.give(&ack(ours(4))).unwrap();
    assert_eq!(sent(&mut solo), [(ours(5), 0, MTU as u32)]);
}

/// RC-1.15: a peer with another packet size is refused, and the reserved bits of a network mean
/// nothing.
#[test]
fn numbers_and_length_must_fit() {
    let whole = 3 * MTU;
    let cases = [(1, whole, true), (1, whole - 1, true), (1, 2 * MTU, false), (0, whole, false)];
    for (joined_bytes, len, is_right) in cases {
        let mut solo = solo(Config::hardware(100), joined_bytes);
        let mut write =
            Craft::new(Kind::WriteOnly, THEIR_PSN).about(0, len as u32).with(len).asks();
        write.headers.bth.joined = 2;
        let expected = if is_right { Ok(()) } else { Err(DropReason::Refused) };
        assert_eq!(solo.give(&write), expected, "{len}");
        assert_eq!(solo.host.memory[..len] == write.payload, is_right);
        let said = if is_right {
            (Syndrome::ACK, THEIR_PSN + 2)
        } else {
            (Syndrome::Nak(NakCode::InvalidRequest), THEIR_PSN)
        };
        assert_eq!(solo.said(), [said]);
    }
}

/// RC-1.15: answers to a READ, too.
#[test]
fn responses_are_joined_where_the_requester_may_take_them() {
    let mut there = solo(Config::hardware(100), 600);
    let read = Craft::new(Kind::ReadRequest, THEIR_PSN).about(0, 4 * MTU as u32 + 9);
    there.give(&read).unwrap();
    let last = (THEIR_PSN + 4, 0, 9);
    let two = 2 * MTU as u32;
    assert_eq!(sent(&mut there), [(THEIR_PSN, 1, two), (THEIR_PSN + 2, 1, two), last]);
    for (joined, is_right) in [(1, true), (2, false)] {
        let mut here = solo(Config::hardware(100), 600);
        let op = Operation::Read(Remote { va: BASE, rkey: KEY });
        let request = SendRequest::new(WrId(1), op, two);
        here.host.post(here.now, request, vec![0; 2 * MTU]);
        assert_eq!(here.sent().len(), 1);
        let mut answer = Craft::new(Kind::ReadResponseOnly, ours(0)).with(2 * MTU);
        answer.headers.bth.joined = joined;
        let result = here.give(&answer);
        assert_eq!(result.is_ok(), is_right, "{result:?}");
        assert_eq!(here.host.buffers[&1] == answer.payload, is_right);
        assert_eq!(here.host.sends()[0].1 == Status::Ok, is_right);
    }
}

/// RC-1.15: the answer to a repeated READ is sent packet by packet.
#[test]
fn a_repeated_response_is_not_joined() {
    let mut there = solo(Config::hardware(100), 600);
    let read = Craft::new(Kind::ReadRequest, THEIR_PSN).about(0, 2 * MTU as u32);
    there.give(&read).unwrap();
    assert_eq!(sent(&mut there), [(THEIR_PSN, 1, 2 * MTU as u32)]);
    // A repeated request counts as handled, but not as new.
    let _ = there.give(&read);
    let alone = [0, 1].map(|n| (THEIR_PSN + n, 0, MTU as u32));
    assert_eq!(sent(&mut there), alone);
}

/// RC-1.15: nothing is joined to the answer of an atomic; a peer that claims so is not believed.
#[test]
fn an_answer_to_an_atomic_stands_alone() {
    let mut here = solo(Config::hardware(100), 600);
    let op = Operation::FetchAdd { remote: Remote { va: BASE, rkey: KEY }, add: 1 };
    here.host.post(here.now, SendRequest::new(WrId(1), op, 8), vec![0; 8]);
    assert_eq!(here.sent().len(), 1);
    let mut answer = Craft::new(Kind::AtomicAcknowledge, ours(0));
    answer.headers.bth.joined = 1;
    assert_eq!(here.give(&answer), Err(DropReason::BadResponse));
    assert_eq!(here.host.sends()[0].1, Status::BadResponse);
}
