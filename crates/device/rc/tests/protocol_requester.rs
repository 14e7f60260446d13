//! The rules of a requester, one by one, against a hand-driven peer.

mod common;

use common::craft::{Craft, OUR_PSN, Solo, ack, nak, receive_attr, rnr, send_attr};
use common::host::{BASE, KEY};
use rc::wire::{Feth, Kind, NakCode, Syndrome};
use rc::{
    Cause, Config, DropReason, Event, Operation, PostError, Remote, SendAttr, SendRequest, Service,
    State, Status, WrId, timeout_ns,
};

const HERE: Remote = Remote { va: BASE, rkey: KEY };
/// Of `send_attr()`.
const TIMEOUT_NS: u64 = 4096 << 14;

/// The number `n` behind the first of ours; they wrap.
fn ours(n: u32) -> u32 {
    (OUR_PSN + n) & 0xFF_FFFF
}

fn post(solo: &mut Solo, id: u64, op: Operation, len: u32) {
    let request = SendRequest::new(WrId(id), op, len);
    solo.host.post(solo.now, request, vec![id as u8; len as usize]);
}

fn post_fenced(solo: &mut Solo, id: u64, op: Operation, len: u32) {
    let request = SendRequest { is_fenced: true, ..SendRequest::new(WrId(id), op, len) };
    solo.host.post(solo.now, request, vec![0; len as usize]);
}

fn with(config: Config, send: SendAttr) -> Solo {
    Solo::with(config, Service::Rc, receive_attr(), send)
}

fn answer(kind: Kind, n: u32) -> Craft {
    Craft::new(kind, ours(n)).says(Syndrome::ACK)
}

/// RC-2.1, RC-3.8: numbers count packets, and the last packet requests an acknowledgement.
#[test]
fn a_message_is_cut_into_full_packets() {
    let mut solo = Solo::new();
    post(&mut solo, 1, Operation::SendImm(7), 600);
    let sent = solo.sent();
    let kinds: Vec<_> = sent.iter().map(|seen| (seen.kind, seen.psn, seen.len)).collect();
    assert_eq!(
        kinds,
        [
            (Kind::SendFirst, ours(0), 256),
            (Kind::SendMiddle, ours(1), 256),
            (Kind::SendLastImm, ours(2), 88)
        ]
    );
    assert_eq!(ours(2), 0, "numbers wrap");
    let asks: Vec<_> = sent.iter().map(|seen| seen.headers.bth.wants_ack).collect();
    assert_eq!(asks, [false, false, true]);
    assert_eq!(sent[2].headers.imm, 7);
}

/// RC-1.2: the memory that each operation names.
#[test]
fn requests_name_memory_where_it_is_needed() {
    let mut solo = Solo::new();
    post(&mut solo, 1, Operation::WriteImm(HERE, 9), 257);
    post(&mut solo, 2, Operation::Flush(HERE, Feth { is_global: true, ..Feth::default() }), 4000);
    post(&mut solo, 3, Operation::AtomicWrite(HERE), 8);
    let sent = solo.sent();
    let kinds: Vec<_> = sent.iter().map(|seen| seen.kind).collect();
    assert_eq!(kinds, [Kind::WriteFirst, Kind::WriteLastImm, Kind::Flush, Kind::AtomicWrite]);
    assert_eq!((sent[0].headers.reth.va, sent[0].headers.reth.dma_len), (BASE, 257));
    assert_eq!((sent[2].headers.reth.dma_len, sent[2].len), (4000, 0));
    assert_eq!((sent[3].headers.reth.dma_len, sent[3].len), (8, 8));
}

/// RC-3.1, RC-3.2: one acknowledgement covers everything before it.
#[test]
fn work_requests_end_in_order() {
    let mut solo = Solo::new();
    (0..3).for_each(|id| post(&mut solo, id, Operation::Send, 300));
    solo.sent();
    solo.give(&ack(ours(2))).unwrap();
    assert_eq!(solo.host.sends(), [(0, Status::Ok)], "the second one is half done");
    solo.give(&ack(ours(5))).unwrap();
    assert_eq!(solo.host.sends(), [(0, Status::Ok), (1, Status::Ok), (2, Status::Ok)]);
    assert_eq!(solo.give(&ack(ours(5))), Err(DropReason::Stale));
}

/// RC-3.9.
#[test]
fn what_was_never_sent_cannot_be_acknowledged() {
    let mut solo = Solo::new();
    assert_eq!(solo.give(&ack(ours(0))), Err(DropReason::Ghost));
    post(&mut solo, 1, Operation::Send, 300);
    assert_eq!(solo.give(&ack(ours(0))), Err(DropReason::Ghost), "posted is not sent");
    solo.sent();
    for ghost in [ack(ours(2)), nak(ours(2), NakCode::RemoteAccess), rnr(ours(2), 1)] {
        assert_eq!(solo.give(&ghost), Err(DropReason::Ghost));
    }
    assert_eq!(solo.give(&answer(Kind::ReadResponseOnly, 2)), Err(DropReason::Ghost));
    assert_eq!(solo.host.sends(), []);
}

/// RC-3.3.
#[test]
fn a_gap_is_repeated_once() {
    let mut solo = Solo::new();
    post(&mut solo, 1, Operation::Send, 1000);
    assert_eq!(solo.sent().len(), 4);
    solo.give(&nak(ours(1), NakCode::Sequence)).unwrap();
    let again =
        [(Kind::SendMiddle, ours(1)), (Kind::SendMiddle, ours(2)), (Kind::SendLast, ours(3))];
    assert_eq!(solo.sent_short(), again);
    solo.give(&nak(ours(1), NakCode::Sequence)).unwrap();
    assert_eq!(solo.sent_short(), [], "a copy of the NAK repeats nothing");
    solo.pass_ns(TIMEOUT_NS);
    assert_eq!(solo.sent_short(), again);
    solo.give(&nak(ours(1), NakCode::Sequence)).unwrap();
    assert_eq!(solo.sent_short(), again[..2], "a timeout makes it listen again");
    solo.give(&ack(ours(3))).unwrap();
    assert_eq!(solo.host.sends(), [(1, Status::Ok)]);
    assert_eq!(solo.host.engine.stats().tx_repeated, 8);
}

/// RC-3.3: a NAK of the next number says that everything has arrived.
#[test]
fn a_nak_of_the_next_number_is_an_acknowledgement() {
    let mut solo = Solo::new();
    post(&mut solo, 1, Operation::Send, 10);
    solo.sent();
    solo.give(&nak(ours(1), NakCode::Sequence)).unwrap();
    assert_eq!(solo.host.sends(), [(1, Status::Ok)]);
    assert_eq!(solo.sent_short(), []);
}

/// RC-3.4.
#[test]
fn what_overtakes_an_answer_shows_its_loss() {
    let mut solo = Solo::new();
    post(&mut solo, 1, Operation::Send, 10);
    post(&mut solo, 2, Operation::Read(HERE), 600);
    post(&mut solo, 3, Operation::Send, 10);
    solo.sent();
    solo.give(&answer(Kind::ReadResponseFirst, 1).with(256)).unwrap();
    assert_eq!(solo.host.sends(), [(1, Status::Ok)], "the answer acknowledges what is before it");
    assert_eq!(solo.give(&ack(ours(4))), Err(DropReason::Missing));
    let again = solo.sent();
    assert_eq!((again[0].kind, again[0].psn), (Kind::ReadRequest, ours(2)));
    let reth = again[0].headers.reth;
    assert_eq!((reth.va, reth.dma_len), (BASE + 256, 344), "only what is missing");
    assert_eq!((again[1].kind, again[1].psn), (Kind::SendOnly, ours(4)));
    assert_eq!(solo.give(&ack(ours(4))), Err(DropReason::Missing));
    assert_eq!(solo.sent_short(), [], "once");
    solo.give(&answer(Kind::ReadResponseFirst, 2).with(256)).unwrap();
    solo.give(&answer(Kind::ReadResponseLast, 3).with(88)).unwrap();
    solo.give(&ack(ours(4))).unwrap();
    assert_eq!(solo.host.sends(), [(1, Status::Ok), (2, Status::Ok), (3, Status::Ok)]);
    assert_eq!(solo.host.buffers[&2][256..258], [0, 1]);
}

/// RC-3.5.
#[test]
fn the_window_grows_with_what_is_acknowledged() {
    let mut solo = Solo::new();
    (0..60).for_each(|id| post(&mut solo, id, Operation::Send, 1));
    assert_eq!(solo.sent().len(), 16);
    solo.give(&ack(ours(3))).unwrap();
    assert_eq!(solo.sent().len(), 8, "four acknowledged, four more");
    solo.give(&ack(ours(23))).unwrap();
    assert_eq!(solo.host.engine.window_packets(), 40);
    solo.give(&nak(ours(24), NakCode::Sequence)).unwrap();
    solo.sent();
    solo.give(&nak(ours(30), NakCode::Sequence)).unwrap();
    assert!(solo.host.engine.window_packets() < 30, "a gap halves it");
}

/// RC-3.5.
#[test]
fn bytes_are_bounded_as_well() {
    let mut solo = with(Config { window_max_bytes: 600, ..Config::strict() }, send_attr());
    post(&mut solo, 1, Operation::Send, 2000);
    assert_eq!(solo.sent().len(), 2);
    solo.pass_ns(TIMEOUT_NS);
    assert_eq!(solo.sent().len(), 2, "what is repeated is in flight once");
    solo.give(&ack(ours(0))).unwrap();
    assert_eq!(solo.sent().len(), 1);
}

/// RC-3.8.
#[test]
fn each_quarter_of_the_window_asks() {
    let mut solo = Solo::new();
    post(&mut solo, 1, Operation::Send, 256 * 40);
    let sent = solo.sent();
    let asking: Vec<_> = (0..sent.len()).filter(|&i| sent[i].headers.bth.wants_ack).collect();
    assert_eq!(asking, [3, 7, 11, 15]);
    let mut solo = with(Config { window_max_bytes: 500, ..Config::strict() }, send_attr());
    post(&mut solo, 1, Operation::Send, 2000);
    assert!(solo.sent()[0].headers.bth.wants_ack, "nothing more fits");
}

/// RC-3.14.
#[test]
fn a_pause_lets_everything_be_acknowledged() {
    let few_asks = Config { ack_every_messages: 100, ..Config::strict() };
    let mut solo = with(few_asks, send_attr());
    (0..3).for_each(|id| post(&mut solo, id, Operation::Send, 8));
    solo.host.engine.pause_requests();
    assert_eq!(solo.sent().len(), 3, "nothing was in flight");
    solo.host.engine.pause_requests();
    (3..6).for_each(|id| post(&mut solo, id, Operation::Send, 8));
    let sent = solo.sent();
    assert_eq!(sent.len(), 1);
    assert!(sent[0].headers.bth.wants_ack);
    solo.give(&ack(ours(2))).unwrap();
    assert_eq!(solo.sent_short(), [], "one is missing");
    solo.give(&ack(ours(3))).unwrap();
    assert_eq!(solo.sent().len(), 2, "it is over");
    solo.host.engine.pause_requests();
    post(&mut solo, 6, Operation::Send, 8);
    assert_eq!(solo.sent().len(), 1);
    solo.give(&nak(ours(5), NakCode::Sequence)).unwrap();
    post(&mut solo, 7, Operation::Send, 8);
    assert_eq!(solo.sent().len(), 3, "what is repeated and what is new");
}

/// RC-3.6.
#[test]
fn a_long_read_is_asked_for_in_pieces() {
    let mut solo = with(Config { read_packets_max: 2, ..Config::strict() }, send_attr());
    post(&mut solo, 1, Operation::Read(HERE), 1200);
    let sent = solo.sent();
    let asked: Vec<_> =
        sent.iter().map(|s| (s.psn, s.headers.reth.va, s.headers.reth.dma_len)).collect();
    assert_eq!(asked, [(ours(0), BASE, 512), (ours(2), BASE + 512, 512)], "max_rd_atomic is 2");
    solo.give(&answer(Kind::ReadResponseFirst, 0).with(256)).unwrap();
    assert_eq!(solo.sent_short(), []);
    solo.give(&answer(Kind::ReadResponseLast, 1).with(256)).unwrap();
    assert_eq!(solo.sent()[0].headers.reth.dma_len, 176);
    solo.give(&answer(Kind::ReadResponseFirst, 2).with(256)).unwrap();
    solo.pass_ns(TIMEOUT_NS);
    let sent = solo.sent();
    let asked: Vec<_> = sent.iter().map(|s| (s.psn, s.headers.reth.dma_len)).collect();
    assert_eq!(asked, [(ours(3), 256), (ours(4), 176)], "the end of what was asked for");
}

/// RC-3.7.
#[test]
fn answers_that_do_not_fit_end_the_connection() {
    let wrong = [
        answer(Kind::ReadResponseOnly, 0).with(256),
        answer(Kind::ReadResponseFirst, 0).with(252),
        answer(Kind::ReadResponseLast, 0).with(88),
        answer(Kind::ReadResponseFirst, 0).with(256).says(Syndrome::Nak(NakCode::RemoteAccess)),
        answer(Kind::AtomicAcknowledge, 0),
    ];
    for wrong in wrong {
        let mut solo = Solo::new();
        post(&mut solo, 1, Operation::Read(HERE), 600);
        solo.sent();
        assert_eq!(solo.give(&wrong), Err(DropReason::BadResponse));
        assert_eq!(solo.host.sends(), [(1, Status::BadResponse)], "{wrong:?}");
    }
    let mut solo = Solo::new();
    post(&mut solo, 1, Operation::Send, 8);
    solo.sent();
    let unasked = solo.give(&answer(Kind::ReadResponseOnly, 0).with(8));
    assert_eq!(unasked, Err(DropReason::BadResponse));
}

/// RC-3.1: atomics return the previous value, FLUSH and ATOMIC WRITE nothing.
#[test]
fn answers_without_bytes_end_their_work_requests() {
    let mut solo = Solo::new();
    post(&mut solo, 1, Operation::FetchAdd { remote: HERE, add: 3 }, 8);
    post(&mut solo, 2, Operation::Flush(HERE, Feth::default()), 100);
    post(&mut solo, 3, Operation::AtomicWrite(HERE), 8);
    post(&mut solo, 4, Operation::Read(HERE), 0);
    assert_eq!(solo.sent().len(), 2, "two may be unanswered");
    let mut original = answer(Kind::AtomicAcknowledge, 0);
    original.headers.original = 0x0102;
    solo.give(&original).unwrap();
    assert_eq!(solo.host.buffers[&1], [2, 1, 0, 0, 0, 0, 0, 0]);
    solo.give(&answer(Kind::ReadResponseOnly, 1)).unwrap();
    solo.sent();
    solo.give(&answer(Kind::ReadResponseOnly, 2)).unwrap();
    solo.give(&answer(Kind::ReadResponseOnly, 3)).unwrap();
    assert_eq!(solo.host.sends().iter().filter(|done| done.1 == Status::Ok).count(), 4);
}

/// RC-3.10.
#[test]
fn a_fenced_request_waits_for_answers() {
    let mut solo = Solo::new();
    post(&mut solo, 1, Operation::Read(HERE), 300);
    post_fenced(&mut solo, 2, Operation::Write(HERE), 10);
    post(&mut solo, 3, Operation::Send, 10);
    assert_eq!(solo.sent_short(), [(Kind::ReadRequest, ours(0))], "nothing overtakes");
    solo.give(&answer(Kind::ReadResponseFirst, 0).with(256)).unwrap();
    assert_eq!(solo.sent_short(), []);
    solo.give(&answer(Kind::ReadResponseLast, 1).with(44)).unwrap();
    assert_eq!(solo.sent_short(), [(Kind::WriteOnly, ours(2)), (Kind::SendOnly, ours(3))]);
}

/// RC-3.10: requests that were posted while READs were allowed are not left behind.
#[test]
fn queued_reads_leave_though_no_more_are_allowed() {
    let mut solo = Solo::new();
    solo.host.engine.drain(solo.now);
    (1..=2).for_each(|id| post(&mut solo, id, Operation::Read(HERE), 8));
    assert_eq!(solo.sent_short(), []);
    solo.host.engine.set_send_attr(SendAttr { max_rd_atomic: 0, ..send_attr() });
    solo.host.engine.resume(solo.now);
    for n in 0..2 {
        assert_eq!(solo.sent_short(), [(Kind::ReadRequest, ours(n))], "one by one");
        solo.give(&answer(Kind::ReadResponseOnly, n).with(8)).unwrap();
    }
    assert_eq!(solo.host.sends(), [(1, Status::Ok), (2, Status::Ok)]);
    let more = SendRequest::new(WrId(3), Operation::Read(HERE), 8);
    assert_eq!(solo.host.engine.post(solo.now, more), Err(PostError::Operation));
}

/// RC-3.11, RC-5.5.
#[test]
fn a_refusal_ends_its_work_request_and_flushes_the_rest() {
    for (code, status) in [
        (NakCode::InvalidRequest, Status::RemoteInvalidRequest),
        (NakCode::RemoteAccess, Status::RemoteAccess),
        (NakCode::RemoteOperation, Status::RemoteOperation),
    ] {
        let mut solo = Solo::new();
        (0..3).for_each(|id| post(&mut solo, id, Operation::Write(HERE), 10));
        solo.host.post_receive(70, 10);
        solo.sent();
        solo.give(&nak(ours(1), code)).unwrap();
        post(&mut solo, 3, Operation::Send, 10);
        assert_eq!(solo.sent_short(), [], "a failed queue pair is silent");
        let flushed = [(2, Status::Flushed), (3, Status::Flushed)];
        assert_eq!(solo.host.sends()[..2], [(0, Status::Ok), (1, status)]);
        assert_eq!(solo.host.sends()[2..], flushed);
        assert_eq!(solo.host.receives_done(), [(70, Status::Flushed)]);
        let failed = Event::Failed { cause: Cause::Request(status), receive: None };
        assert!(solo.host.events.contains(&failed));
        assert_eq!(solo.host.events.iter().filter(|e| **e == Event::LastReceive).count(), 1);
        assert_eq!(solo.give(&ack(ours(2))), Err(DropReason::State));
    }
}

/// RC-3.11: a work request without memory ends after earlier ones.
#[test]
fn a_local_fault_waits_for_its_turn() {
    let mut solo = Solo::new();
    (0..3).for_each(|id| post(&mut solo, id, Operation::Send, 300));
    solo.host.broken.insert(1, Status::LocalProtection);
    let sent: Vec<_> = solo.sent().iter().map(|s| (s.psn, s.headers.bth.wants_ack)).collect();
    let (first, last) = ((ours(0), false), ours(1));
    assert_eq!(sent, [first, (last, false), first, (last, true)], "it asks, and nothing behind it");
    assert_eq!(solo.host.sends(), []);
    solo.give(&ack(ours(1))).unwrap();
    let ended = [(0, Status::Ok), (1, Status::LocalProtection), (2, Status::Flushed)];
    assert_eq!(solo.host.sends(), ended);
}

/// RC-3.11: without a timeout, and whatever kind of work request follows.
#[test]
fn what_is_before_a_local_fault_asks_and_nothing_behind_it_begins() {
    let patience = SendAttr { timeout: 0, retry_cnt: 0, ..send_attr() };
    for (behind, len) in [(Operation::Send, 8), (Operation::Local, 0)] {
        let mut solo = with(Config::strict(), patience);
        (1..=2).for_each(|id| post(&mut solo, id, Operation::Send, 8));
        post(&mut solo, 3, behind, len);
        post(&mut solo, 4, Operation::Local, 0);
        solo.host.broken.insert(2, Status::LocalProtection);
        let sent: Vec<_> = solo.sent().iter().map(|s| (s.psn, s.headers.bth.wants_ack)).collect();
        assert_eq!(sent, [(ours(0), false), (ours(0), true)]);
        assert!(!solo.host.events.iter().any(|event| matches!(event, Event::Execute { .. })));
        assert!(!solo.host.engine.has_backlog());
        solo.give(&ack(ours(0))).unwrap();
        let ended = [(1, Status::Ok), (2, Status::LocalProtection)];
        assert_eq!(solo.host.sends()[..2], ended);
        assert_eq!(solo.host.sends()[2..], [(3, Status::Flushed), (4, Status::Flushed)]);
        assert!(!solo.host.events.iter().any(|event| matches!(event, Event::Execute { .. })));
    }
}

/// RC-3.11: the host is not asked to invalidate a key for a work request that is flushed.
#[test]
fn what_the_host_was_told_to_do_behind_a_local_fault_is_not_done() {
    for before in [0, 1] {
        let mut solo = Solo::new();
        (0..=before).for_each(|id| post(&mut solo, id, Operation::Send, 8));
        post(&mut solo, 8, Operation::Local, 0);
        let mut header = [0; rc::HEADER_MAX];
        while solo.host.engine.poll_transmit(solo.now, &mut header).is_some() {}
        solo.host.engine.withdraw(solo.now, WrId(before), Status::LocalProtection);
        solo.host.poll_events();
        let is_told = |event: &Event| matches!(event, Event::Execute { .. });
        assert!(!solo.host.events.iter().any(is_told), "{before} before it");
        if before == 1 {
            assert_eq!(solo.sent_short(), [(Kind::SendOnly, ours(0))]);
            solo.give(&ack(ours(0))).unwrap();
        }
        assert!(!solo.host.events.iter().any(is_told), "{before} before it");
        assert_eq!(solo.host.sends().last(), Some(&(8, Status::Flushed)));
    }
}

/// RC-3.11: refusals of, and answers to, later packets that had left already are ignored.
#[test]
fn no_answer_to_what_is_behind_a_local_fault_takes_its_place() {
    let impatient = SendAttr { retry_cnt: 0, rnr_retry: 0, ..send_attr() };
    let answers = [
        nak(ours(1), NakCode::Sequence),
        nak(ours(2), NakCode::Sequence),
        nak(ours(2), NakCode::RemoteAccess),
        rnr(ours(1), 1),
        rnr(ours(2), 1),
        answer(Kind::ReadResponseOnly, 2).with(8),
    ];
    for answer in answers {
        let mut solo = with(Config::strict(), impatient);
        (1..=2).for_each(|id| post(&mut solo, id, Operation::Send, 8));
        post(&mut solo, 3, Operation::Read(HERE), 8);
        assert_eq!(solo.sent().len(), 3);
        solo.host.engine.withdraw(solo.now, WrId(2), Status::LocalProtection);
        assert_eq!(solo.sent_short(), [(Kind::SendOnly, ours(0))]);
        solo.give(&answer).unwrap();
        let ended = [(1, Status::Ok), (2, Status::LocalProtection), (3, Status::Flushed)];
        assert_eq!(solo.host.sends(), ended, "{answer:?}");
    }
}

/// RC-3.11.
#[test]
fn an_answer_that_cannot_be_stored_fails_its_work_request() {
    let mut solo = Solo::new();
    post(&mut solo, 1, Operation::Read(HERE), 20);
    solo.host.broken.insert(1, Status::LocalProtection);
    solo.sent();
    solo.give(&answer(Kind::ReadResponseOnly, 0).with(20)).unwrap();
    assert_eq!(solo.host.sends(), [(1, Status::LocalProtection)]);
    assert_eq!(solo.host.engine.state(), State::Error);
}

/// RC-3.13.
#[test]
fn what_the_host_does_itself_has_its_turn() {
    let mut solo = Solo::new();
    post(&mut solo, 1, Operation::Read(HERE), 8);
    post(&mut solo, 2, Operation::Local, 0);
    post(&mut solo, 3, Operation::Send, 4);
    post_fenced(&mut solo, 4, Operation::Local, 0);
    post(&mut solo, 5, Operation::Send, 4);
    let executes = |solo: &mut Solo| {
        let events = core::mem::take(&mut solo.host.events);
        events.into_iter().filter(|event| matches!(event, Event::Execute { .. })).collect()
    };
    let turn_of = |id| vec![Event::Execute { id: WrId(id) }];
    assert_eq!(solo.sent_short(), [(Kind::ReadRequest, ours(0))]);
    assert_eq!(executes(&mut solo), turn_of(2));
    assert!(!solo.host.engine.has_backlog());
    solo.host.engine.executed(solo.now, WrId(2), Status::Ok);
    assert!(solo.host.engine.has_backlog());
    assert_eq!(solo.sent_short(), [(Kind::SendOnly, ours(1))]);
    assert_eq!((executes(&mut solo), solo.host.sends()), (vec![], vec![]), "fenced, and in order");
    solo.give(&answer(Kind::ReadResponseOnly, 0).with(8)).unwrap();
    assert_eq!(solo.host.sends(), [(1, Status::Ok), (2, Status::Ok)]);
    solo.pass_ns(TIMEOUT_NS);
    assert_eq!(solo.sent_short(), [(Kind::SendOnly, ours(1))]);
    assert_eq!(executes(&mut solo), turn_of(4));
    solo.pass_ns(TIMEOUT_NS);
    assert_eq!(solo.sent_short(), [(Kind::SendOnly, ours(1))], "going back does not do it again");
    solo.host.engine.executed(solo.now, WrId(4), Status::Bind);
    assert_eq!(solo.sent_short(), []);
    solo.give(&ack(ours(1))).unwrap();
    let ended = [(3, Status::Ok), (4, Status::Bind), (5, Status::Flushed)];
    assert_eq!(solo.host.sends()[2..], ended);
    assert_eq!(executes(&mut solo), vec![]);
}

/// RC-3.12.
#[test]
fn a_draining_queue_pair_finishes_what_was_begun() {
    let mut solo = Solo::new();
    (0..3).for_each(|id| post(&mut solo, id, Operation::Send, 256 * 12));
    assert_eq!(solo.sent().len(), 16, "one and a third");
    solo.host.engine.drain(solo.now);
    solo.give(&ack(ours(15))).unwrap();
    assert_eq!(solo.sent().len(), 8, "the second one is finished, the third not begun");
    assert!(!solo.host.events.contains(&Event::Drained));
    solo.give(&ack(ours(23))).unwrap();
    assert!(solo.host.events.contains(&Event::Drained));
    assert_eq!(solo.sent_short(), []);
    solo.host.engine.resume(solo.now);
    assert_eq!(solo.sent().len(), 12);
}

/// RC-4.1, RC-4.2: one more try than requested, then status 12.
#[test]
fn silence_exhausts_the_retries() {
    for retry_cnt in [0, 3, 7] {
        let mut solo = with(Config::strict(), SendAttr { retry_cnt, ..send_attr() });
        (0..3).for_each(|id| post(&mut solo, id, Operation::Send, 10));
        for _ in 0..=retry_cnt {
            assert!(!solo.sent().is_empty());
            assert_eq!(solo.host.sends(), []);
            assert_eq!(solo.host.engine.poll_timeout(), Some(solo.now.plus_ns(TIMEOUT_NS)));
            solo.pass_ns(TIMEOUT_NS - 1);
            assert_eq!(solo.sent_short(), [], "not before its time");
            solo.pass_ns(1);
        }
        let ended = [(0, Status::RetryExceeded), (1, Status::Flushed), (2, Status::Flushed)];
        assert_eq!(solo.host.sends(), ended);
    }
}

/// RC-4.2: progress resets the count.
#[test]
fn progress_forgives() {
    let mut solo = Solo::new();
    (0..10).for_each(|id| post(&mut solo, id, Operation::Send, 10));
    for n in 0..10 {
        for _ in 0..3 {
            solo.sent();
            solo.pass_ns(TIMEOUT_NS);
        }
        solo.sent();
        solo.give(&ack(ours(n))).unwrap();
    }
    assert_eq!(solo.host.sends().len(), 10);
    assert!(solo.host.sends().iter().all(|done| done.1 == Status::Ok));
}

/// RC-4.2: gaps count like timeouts.
#[test]
fn a_gap_counts_as_a_failure() {
    let mut solo = with(Config::strict(), SendAttr { retry_cnt: 0, ..send_attr() });
    post(&mut solo, 1, Operation::Send, 10);
    solo.sent();
    solo.give(&nak(ours(0), NakCode::Sequence)).unwrap();
    assert_eq!(solo.host.sends(), [(1, Status::RetryExceeded)]);
}

/// RC-4.1, RC-4.3.
#[test]
fn a_host_may_be_more_patient() {
    let mut solo = with(Config::socket(), SendAttr { timeout: 1, retry_cnt: 0, ..send_attr() });
    post(&mut solo, 1, Operation::Send, 10);
    solo.sent();
    assert_eq!(solo.host.engine.poll_timeout(), Some(solo.now.plus_ns(5_000_000)));
    for _ in 0..1599 {
        solo.pass_ns(5_000_000);
        assert_eq!(solo.sent().len(), 1, "it goes on repeating");
    }
    assert_eq!(solo.host.sends(), []);
    solo.pass_ns(5_000_000);
    assert_eq!(solo.host.sends(), [(1, Status::RetryExceeded)], "after 8 s");
}

/// RC-4.1: code 0 means never.
#[test]
fn without_a_timeout_nobody_gives_up() {
    assert_eq!(timeout_ns(0), None);
    let mut solo = with(Config::strict(), SendAttr { timeout: 0, ..send_attr() });
    post(&mut solo, 1, Operation::Send, 10);
    solo.sent();
    assert_eq!(solo.host.engine.poll_timeout(), None);
    solo.pass_ns(1 << 50);
    assert_eq!(solo.sent_short(), []);
}

/// RC-4.4.
#[test]
fn a_responder_that_is_not_ready_is_waited_for() {
    let mut solo = Solo::new();
    post(&mut solo, 1, Operation::Send, 10);
    post(&mut solo, 2, Operation::Send, 10);
    for _ in 0..2 {
        assert_eq!(solo.sent().len(), 2);
        solo.give(&rnr(ours(0), 12)).unwrap();
        assert_eq!(solo.give(&rnr(ours(0), 12)), Err(DropReason::Stale), "a copy counts once");
        solo.give(&nak(ours(0), NakCode::Sequence)).unwrap();
        assert_eq!(solo.sent_short(), [], "it waits");
        assert_eq!(solo.host.engine.poll_timeout(), Some(solo.now.plus_ns(640_000)));
        solo.pass_ns(639_999);
        assert_eq!(solo.sent_short(), []);
        solo.pass_ns(1);
        assert_eq!(solo.give(&rnr(ours(0), 12)), Err(DropReason::Stale), "not sent again yet");
    }
    solo.sent();
    solo.give(&rnr(ours(0), 12)).unwrap();
    assert_eq!(solo.host.sends(), [(1, Status::RnrRetryExceeded), (2, Status::Flushed)]);
}

/// RC-4.4, RC-4.5: each early repetition is refused separately, and only the answer to what was
/// sent since the pause counts.
#[test]
fn copies_of_a_packet_use_up_one_rnr_retry() {
    const TRIP_NS: u64 = 2_000_000;
    let send = SendAttr { rnr_retry: 1, ..send_attr() };
    for config in [Config::socket(), Config::strict()] {
        let is_early = config.rto_floor_ns > 0;
        let mut solo = with(config, send);
        for n in 0..20 {
            post(&mut solo, u64::from(n), Operation::Send, 10);
            solo.sent();
            solo.pass_ns(TRIP_NS);
            solo.give(&ack(ours(n))).unwrap();
        }
        solo.host.done.clear();
        post(&mut solo, 20, Operation::Send, 10);
        assert_eq!(solo.sent().len(), 1);
        solo.pass_ns(2 * TRIP_NS);
        assert_eq!(solo.sent().len(), usize::from(is_early), "it is overdue");
        solo.give(&rnr(ours(20), 1)).unwrap();
        solo.pass_ns(10_000);
        assert_eq!(solo.sent().len(), 1);
        solo.pass_ns(TRIP_NS / 3);
        if is_early {
            assert_eq!(solo.give(&rnr(ours(20), 1)), Err(DropReason::Stale), "of the first copy");
        }
        // An answer this early means a shorter path: there was only one copy.
        solo.give(&rnr(ours(20), 1)).unwrap();
        assert_eq!(solo.host.sends(), [(20, Status::RnrRetryExceeded)]);
    }
}

/// RC-4.4: seven means for ever, and an RNR NAK counts as progress.
#[test]
fn seven_rnr_retries_are_endless() {
    let mut solo = with(Config::strict(), SendAttr { rnr_retry: 7, retry_cnt: 0, ..send_attr() });
    post(&mut solo, 1, Operation::Send, 10);
    for _ in 0..1000 {
        assert_eq!(solo.sent().len(), 1);
        solo.give(&rnr(ours(0), 0)).unwrap();
        solo.give(&nak(ours(0), NakCode::Sequence)).unwrap();
        solo.pass_ns(655_360_000);
    }
    solo.sent();
    solo.give(&ack(ours(0))).unwrap();
    assert_eq!(solo.host.sends(), [(1, Status::Ok)]);
}

/// RC-4.4, RC-4.2: a peer that is not ready is alive.
#[test]
fn not_ready_is_no_silence() {
    let send = SendAttr { rnr_retry: 7, retry_cnt: 1, ..send_attr() };
    let mut solo = with(Config::strict(), send);
    post(&mut solo, 1, Operation::Send, 10);
    for _ in 0..5 {
        solo.sent();
        solo.pass_ns(TIMEOUT_NS);
        solo.sent();
        solo.give(&rnr(ours(0), 12)).unwrap();
        solo.pass_ns(640_000);
    }
    assert_eq!(solo.host.sends(), []);
    for _ in 0..2 {
        solo.sent();
        solo.pass_ns(TIMEOUT_NS);
    }
    assert_eq!(solo.host.sends(), [(1, Status::RetryExceeded)]);
}

/// RC-3.11: a host that knows more need not wait.
#[test]
fn a_peer_that_is_gone_ends_everything() {
    let mut solo = Solo::new();
    (0..2).for_each(|id| post(&mut solo, id, Operation::Send, 10));
    solo.sent();
    solo.host.engine.peer_unreachable(solo.now);
    solo.host.poll_events();
    assert_eq!(solo.host.sends(), [(0, Status::RetryExceeded), (1, Status::Flushed)]);
}

#[test]
fn what_cannot_be_is_not_posted() {
    let mut solo = with(Config::strict(), SendAttr { max_rd_atomic: 0, ..send_attr() });
    let mut post = |op, len| solo.host.engine.post(solo.now, SendRequest::new(WrId(1), op, len));
    assert_eq!(post(Operation::Read(HERE), 8), Err(PostError::Operation));
    assert_eq!(post(Operation::Send, (1 << 31) + 1), Err(PostError::Length));
    assert_eq!(post(Operation::Send, 1 << 31), Ok(()));
    let mut solo = Solo::new();
    let wrong = SendRequest::new(WrId(1), Operation::FetchAdd { remote: HERE, add: 1 }, 4);
    assert_eq!(solo.host.engine.post(solo.now, wrong), Err(PostError::Length));
    solo.host.engine.reset();
    let early = SendRequest::new(WrId(1), Operation::Send, 4);
    assert_eq!(solo.host.engine.post(solo.now, early), Err(PostError::State));
    assert_eq!(solo.host.engine.poll_event(), None);
}

/// RC-2.2: 2 GiB at the smallest MTU are 2^23 numbers, and nothing may join them.
#[test]
fn the_longest_message_fits_the_numbers() {
    let config = Config {
        window_max_packets: u32::MAX,
        window_initial_packets: u32::MAX,
        window_max_bytes: u64::MAX,
        read_packets_max: u32::MAX,
        ..Config::strict()
    };
    let mut solo = with(config, SendAttr { max_rd_atomic: 16, ..send_attr() });
    let long = SendRequest::new(WrId(1), Operation::Read(HERE), 1 << 31);
    solo.host.engine.post(solo.now, long).unwrap();
    let after = SendRequest::new(WrId(2), Operation::Flush(HERE, Feth::default()), 4);
    solo.host.engine.post(solo.now, after).unwrap();
    let sent = solo.sent();
    let asked: Vec<_> = sent.iter().map(|seen| (seen.kind, seen.headers.reth.dma_len)).collect();
    assert_eq!(asked[0], (Kind::ReadRequest, 1 << 30), "half of the numbers at a time");
    assert_eq!(asked.len(), 1);
}

/// RC-3.11: a work request that was given up ends as such, even if it was executed.
#[test]
fn a_late_acknowledgement_does_not_hand_a_failure_to_another() {
    for acknowledged in [1, 2] {
        let mut solo = Solo::new();
        (1..=3).for_each(|id| post(&mut solo, id, Operation::Send, 8));
        assert_eq!(solo.sent().len(), 3);
        solo.host.engine.withdraw(solo.now, WrId(2), Status::LocalProtection);
        solo.give(&ack(ours(acknowledged))).unwrap();
        let ended = [(1, Status::Ok), (2, Status::LocalProtection), (3, Status::Flushed)];
        assert_eq!(solo.host.sends(), ended, "up to {acknowledged}");
    }
}
