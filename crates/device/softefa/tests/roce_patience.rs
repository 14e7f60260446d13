//! Reliable connections whose peer is not ready, gone or silent (RC-4), and queue pairs that end or
//! are used again.
#![allow(clippy::unwrap_used, reason = "what cannot be set up has failed")]

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::common::roce::{
    Link, WIRES, assert_quiet, config, connect, ends, gather, pair, pair_of, pattern, post, side,
    side_with, strict, to, up, wide, wr,
};
use crate::common::{self, Side, poll_until, poll_until_counted, remote};
use softefa::counters::Counter;
use softefa::{
    AsyncEventKind, AsyncEvents, EventSource, ModifyQp, Qp, QpInit, QpKind, QpState, SendOp,
    SendWr, Status, WireChoice,
};

use Status::{Flushed, Ok, RemoteBadStatus, RemoteInvalidRequest, RemoteRnr, RetryExceeded};

const RC: QpKind = QpKind::Rc;

fn count(side: &Side, counter: Counter) -> u64 {
    side.device.counters().get(counter)
}

fn state(side: &Side) -> QpState {
    side.qp.query().state
}

/// Adapters complete a send only if that is requested, and accept a receive without entries, which
/// a WRITE with immediate uses up.
#[test]
fn a_strict_device_takes_what_adapters_take() {
    let (a, b) = pair_of(&strict(), RC, 4096, &Link::default());
    b.qp.post_recv(20, &[]).unwrap();
    let sges = [a.sge(0, 100)];
    let unsignaled = SendWr { signaled: false, ..wr(1, SendOp::Write(remote(&b, 0)), &sges) };
    a.qp.post_send(&unsignaled).unwrap();
    post(&a, 2, SendOp::WriteImm(remote(&b, 0), 7), &sges);
    let found = gather(&[&a, &b], 2);
    assert_eq!(ends(&found[0], true), [(2, Ok)]);
    assert_eq!(ends(&found[1], false), [(20, Ok)]);
}

/// A refusal for an earlier connection, whose peer had the same number, does not end this one.
#[test]
fn what_an_earlier_connection_was_refused_does_not_end_this_one() {
    let (a, gone) = (side(&config(WireChoice::Udp, ""), RC, 4096), UdpSocket::bind("127.0.0.1:0"));
    let at = gone.unwrap().local_addr().unwrap();
    let peer = (a.device.gid(), u32::from(at.port()) << 8 | 5);
    let earlier = Qp::create(&a.pd, wide(RC, &a.cq)).unwrap();
    up(&earlier, &Link::default(), peer, [1, 1]);
    earlier.post_send(&wr(1, SendOp::Send, &[a.sge(0, 8)])).unwrap();
    poll_until_counted(&[&a], &a, Counter::TxPkts, 1);
    // The reset comes before it reads the refusal.
    earlier.modify(&to(QpState::Reset)).unwrap();
    // The socket does not answer, but exists.
    let _silent = UdpSocket::bind(at).unwrap();
    up(&a.qp, &Link::default(), peer, [1, 1]);
    post(&a, 2, SendOp::Send, &[a.sge(0, 8)]);
    poll_until_counted(&[&a], &a, Counter::RetransTimeoutEvents, 3);
}

/// RC-4.4: there are as many tries as the connection permits, plus one.
#[test]
fn a_receiver_that_is_not_ready_uses_up_the_retries() {
    for wire in WIRES {
        for rnr_retry in [0, 1, 6] {
            let link = Link { rnr_retry, ..Link::default() };
            let (a, b) = pair_of(&config(wire, ""), RC, 4096, &link);
            a.post_recv(9, 0, 8);
            post(&a, 1, SendOp::Write(remote(&b, 0)), &[a.sge(0, 2000)]);
            post(&a, 2, SendOp::Send, &[a.sge(0, 2000)]);
            post(&a, 3, SendOp::Write(remote(&b, 0)), &[a.sge(0, 8)]);
            let found = gather(&[&a, &b], 4);
            let expected = [(1, Ok), (2, RemoteRnr), (3, Flushed)];
            assert_eq!(ends(&found[0], true), expected, "rnr_retry {rnr_retry}");
            assert_eq!(ends(&found[0], false), [(9, Flushed)]);
            assert_eq!((state(&a), state(&b)), (QpState::Error, QpState::ReadyToSend));
            // A packet that is repeated in vain for another reason is turned away once more.
            let tries = u64::from(rnr_retry) + 1;
            let repeated = count(&a, Counter::RetransTimeoutEvents);
            let refused = count(&b, Counter::RxRnr);
            assert!((tries..=tries + repeated).contains(&refused), "{refused} for {tries} tries");
            assert_eq!(count(&a, Counter::RxRnrNaks), tries);
        }
    }
}

/// A WRITE with immediate data needs a receive with its last packet only.
#[test]
fn seven_retries_are_for_ever() {
    for wire in WIRES {
        for op in [0, 1] {
            let (mut a, b) = pair_of(&config(wire, ""), RC, 1 << 16, &Link::default());
            let bytes = pattern(op, 9000);
            a.fill(0, &bytes);
            let ops = [SendOp::SendImm(3), SendOp::WriteImm(remote(&b, 0), 3)];
            post(&a, 1, ops[op], &[a.sge(0, 9000)]);
            post(&a, 2, SendOp::Read(remote(&b, 0)), &[a.sge(20_000, 9000)]);
            poll_until_counted(&[&a, &b], &a, Counter::RxRnrNaks, 40);
            b.post_recv(7, 0, 9000);
            let found = gather(&[&a, &b], 3);
            assert_eq!(ends(&found[0], true), [(1, Ok), (2, Ok)]);
            assert_eq!((found[1][0].imm, found[1][0].byte_len), (Some(3), 9000));
            assert!(b.bytes(0, 9000) == bytes && a.bytes(20_000, 9000) == bytes);
        }
    }
}

/// The kernel reports that the peer is gone long before the timer would end the retries.
#[test]
fn a_peer_that_is_destroyed_ends_the_retries() {
    for wire in WIRES {
        let (a, b) = pair_of(&config(wire, ""), RC, 4096, &Link::default());
        a.post_recv(9, 0, 8);
        b.qp.destroy();
        let begin = count(&a, Counter::RetransTimeoutEvents);
        for id in 1..4 {
            let signaled = id != 2;
            a.qp.post_send(&SendWr { signaled, ..wr(id, SendOp::Send, &[a.sge(0, 8)]) }).unwrap();
        }
        let found = gather(&[&a], 4);
        assert_eq!(ends(&found[0], true), [(1, RetryExceeded), (2, Flushed), (3, Flushed)]);
        assert_eq!(ends(&found[0], false), [(9, Flushed)]);
        assert_eq!(state(&a), QpState::Error);
        // The patience alone would take eight seconds, and more than a hundred timeouts.
        let timeouts = count(&a, Counter::RetransTimeoutEvents) - begin;
        assert!(timeouts < 20, "{timeouts} timeouts");
    }
}

/// RC-4.2, for expected answers of all kinds.
#[test]
fn a_silent_peer_ends_the_retries_as_the_timeout_says() {
    for retry_cnt in [0, 1, 7] {
        for op in 0..3 {
            let config = strict();
            let (a, b) = (side(&config, RC, 4096), side(&config, RC, 4096));
            let link = Link { timeout: 8, retry_cnt, ..Link::default() };
            up(&a.qp, &link, (b.device.gid(), b.qp.qpn()), [1, 1]);
            b.qp.modify(&common::roce::to_init(&link)).unwrap();
            let at = remote(&b, 0);
            let ops = [SendOp::Send, SendOp::Read(at), common::roce::add(at, 1)];
            post(&a, 1, ops[op], &[a.sge(0, 8)]);
            post(&a, 2, SendOp::Send, &[a.sge(0, 8)]);
            let found = gather(&[&a], 2);
            assert_eq!(ends(&found[0], true), [(1, RetryExceeded), (2, Flushed)]);
            let timeouts = count(&a, Counter::RetransTimeoutEvents);
            assert_eq!(timeouts, u64::from(retry_cnt) + 1);
        }
    }
}

/// RC-4.3: a program in a debugger, or without a processor, is not dead.
#[test]
fn silence_is_borne_where_peers_are_processes() {
    let config = config(WireChoice::Udp, "");
    let (a, b) = (side(&config, RC, 4096), side(&config, RC, 4096));
    let link = Link { timeout: 1, retry_cnt: 0, ..Link::default() };
    up(&a.qp, &link, (b.device.gid(), b.qp.qpn()), [1, 1]);
    b.qp.modify(&common::roce::to_init(&link)).unwrap();
    b.post_recv(5, 0, 8);
    post(&a, 1, SendOp::Send, &[a.sge(0, 8)]);
    poll_until_counted(&[&a, &b], &a, Counter::RetransTimeoutEvents, 20);
    let (gid, qpn) = (a.device.gid(), a.qp.qpn());
    b.qp.modify(&common::roce::to_receive(RC, &link, gid, qpn, 1)).unwrap();
    let found = gather(&[&a, &b], 2);
    assert_eq!(ends(&found[0], true), [(1, Ok)]);
    assert_eq!(ends(&found[1], false), [(5, Ok)]);
}

/// A queue pair number that cannot exist has no receiver, and does no harm.
#[test]
fn a_peer_that_cannot_be_ends_the_retries() {
    for qpn in [0, 1, 5, 255, 256, 0x1_0000, 0xff_ffff] {
        let a = side(&strict(), RC, 4096);
        let link = Link { timeout: 4, retry_cnt: 1, ..Link::default() };
        up(&a.qp, &link, (a.device.gid(), qpn), [1, 1]);
        post(&a, 1, SendOp::Send, &[a.sge(0, 3000)]);
        assert_eq!(ends(&gather(&[&a], 1)[0], true), [(1, RetryExceeded)], "{qpn:#x}");
    }
}

/// RC-5.3: the end with the shorter path MTU breaks off the other's messages, and the answers to
/// its READs.
#[test]
fn different_path_mtus_end_as_invalid_requests() {
    let ends_of = |mtus: [u32; 2], op: fn(&Side) -> SendOp, len: u32| {
        let config = config(WireChoice::Udp, "");
        let (a, b) = (side(&config, RC, 1 << 16), side(&config, RC, 1 << 16));
        let links = mtus.map(|mtu| Link { mtu, ..Link::default() });
        up(&a.qp, &links[0], (b.device.gid(), b.qp.qpn()), [1, 2]);
        up(&b.qp, &links[1], (a.device.gid(), a.qp.qpn()), [2, 1]);
        b.post_recv(1, 0, 60_000);
        post(&a, 1, op(&b), &[a.sge(0, len)]);
        let status = gather(&[&a, &b], 1)[0].first().map(|done| done.status);
        status.unwrap_or_else(|| gather(&[&a, &b], 1)[0][0].status)
    };
    let send: fn(&Side) -> SendOp = |_| SendOp::Send;
    let write: fn(&Side) -> SendOp = |b| SendOp::Write(remote(b, 0));
    let read: fn(&Side) -> SendOp = |b| SendOp::Read(remote(b, 0));
    for mtus in [[4096, 1024], [1024, 4096], [256, 512]] {
        let short = *mtus.iter().min().unwrap();
        assert_eq!(ends_of(mtus, send, 5000), RemoteInvalidRequest, "{mtus:?}");
        assert_eq!(ends_of(mtus, write, 5000), RemoteInvalidRequest, "{mtus:?}");
        assert_eq!(ends_of(mtus, read, 5000), RemoteBadStatus, "{mtus:?}");
        for op in [send, write, read] {
            assert_eq!(ends_of(mtus, op, short), Ok, "one packet is one packet: {mtus:?}");
        }
    }
}

/// All packets under way are forgotten without an error, and the connection begins anew.
#[test]
fn a_queue_pair_can_be_reset_and_used_again() {
    for wire in WIRES {
        let link = Link { timeout: 8, ..Link::default() };
        let (a, b) = pair_of(&config(wire, ""), RC, 1 << 20, &link);
        for round in 0..20u32 {
            // These messages have no receiver.
            post(&a, 1, SendOp::Send, &[a.sge(0, 100_000)]);
            post(&a, 2, SendOp::Read(remote(&b, 0)), &[a.sge(0, 100_000)]);
            post(&b, 3, SendOp::Read(remote(&a, 0)), &[b.sge(0, 500_000)]);
            a.post_recv(4, 0, 8);
            if round % 2 == 0 {
                poll_until_counted_any(&[&a, &b], &a, Counter::TxPkts, 1);
            }
            for side in [&a, &b] {
                side.qp.modify(&to(QpState::Reset)).unwrap();
            }
            assert_quiet(&[&a, &b]);
            let link = Link { psn: [round << 18, 0xff_ffff], ..link };
            connect(&a, &b, &link);
            b.post_recv(5, 600_000, 9);
            post(&a, 6, SendOp::SendImm(round), &[a.sge(0, 9)]);
            post(&a, 7, SendOp::Read(remote(&b, 600_000)), &[a.sge(0, 9000)]);
            let found = gather(&[&a, &b], 3);
            assert_eq!(ends(&found[0], true), [(6, Ok), (7, Ok)], "round {round}");
            assert_eq!(found[1][0].imm, Some(round));
            assert_eq!(a.qp.send_room(), 1024);
        }
    }
}

/// Polls as `poll_until_counted` does, whatever completes meanwhile.
fn poll_until_counted_any(sides: &[&Side], of: &Side, counter: Counter, at_least: u64) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while count(of, counter) < at_least {
        for side in sides {
            let _ = side.cq.poll_one();
        }
        assert!(Instant::now() < deadline, "{counter:?} stays below {at_least}");
    }
}

/// A device acknowledges an accepted message at once, whatever the queue pair does afterwards. A
/// program learns of the message by polling, and its next call may take the queue pair down.
#[test]
fn what_was_received_is_acknowledged_by_a_queue_pair_that_goes_down() {
    for state in [QpState::Error, QpState::Reset] {
        for wire in WIRES {
            let (a, b) = pair_of(&config(wire, ""), RC, 4096, &Link::default());
            b.post_recv(1, 0, 8);
            post(&a, 1, SendOp::Send, &[a.sge(0, 8)]);
            poll_until(&[&b], |_, done| done.status == Ok);
            b.qp.modify(&to(state)).unwrap();
            let found = gather(&[&a], 1);
            assert_eq!(ends(&found[0], true), [(1, Ok)], "{state:?}");
        }
    }
}

/// A refusal after an accepted message is sent even if the program resets the queue pair when its
/// receive completes.
#[test]
fn what_was_refused_is_told_by_a_queue_pair_that_is_reset() {
    for wire in WIRES {
        let (a, b) = pair_of(&config(wire, ""), RC, 4096, &Link::default());
        b.post_recv(1, 0, 8);
        b.post_recv(2, 0, 7);
        let sges = [a.sge(0, 8)];
        a.qp.post_send(&SendWr { more: true, ..wr(1, SendOp::Send, &sges) }).unwrap();
        post(&a, 2, SendOp::Send, &sges);
        poll_until(&[&b], |_, done| done.status == Status::LocalBadLength);
        b.qp.modify(&to(QpState::Reset)).unwrap();
        let found = gather(&[&a], 2);
        assert_eq!(ends(&found[0], true), [(1, Ok), (2, RemoteInvalidRequest)]);
    }
}

#[test]
fn an_error_on_purpose_flushes_everything() {
    for wire in WIRES {
        let (a, b) = pair_of(&config(wire, ""), RC, 4096, &Link::default());
        (1..4).for_each(|id| a.post_recv(id, 0, 8));
        for id in 4..8 {
            let signaled = id % 2 == 0;
            a.qp.post_send(&SendWr { signaled, ..wr(id, SendOp::Send, &[a.sge(0, 8)]) }).unwrap();
        }
        poll_until_counted(&[&a, &b], &a, Counter::RxRnrNaks, 1);
        a.qp.modify(&to(QpState::Error)).unwrap();
        let found = gather(&[&a], 7);
        assert_eq!(ends(&found[0], true), [4, 5, 6, 7].map(|id| (id, Flushed)));
        assert_eq!(ends(&found[0], false), [1, 2, 3].map(|id| (id, Flushed)));
        assert_quiet(&[&a, &b]);
        assert_eq!(state(&b), QpState::ReadyToSend);
        // The other end gets no answers, though the port is there.
        b.qp.modify(&to(QpState::Error)).unwrap();
    }
}

/// In the error state everything is flushed, whatever the previous state was.
#[test]
fn posts_are_flushed_in_the_error_state_whatever_was_before() {
    for kind in [QpKind::Rc, QpKind::Uc] {
        for steps in 1..4 {
            let a = side(&config(WireChoice::Udp, ""), kind, 4096);
            let (link, peer) = (Link::default(), (a.device.gid(), a.qp.qpn()));
            let ways = [
                common::roce::to_init(&link),
                common::roce::to_receive(kind, &link, peer.0, peer.1, 1),
                common::roce::to_send(kind, &link, 1),
            ];
            ways[..steps].iter().for_each(|way| a.qp.modify(way).unwrap());
            a.post_recv(1, 0, 8);
            a.qp.modify(&to(QpState::Error)).unwrap();
            a.post_recv(2, 0, 8);
            post(&a, 3, SendOp::Send, &[a.sge(0, 8)]);
            let unsignaled = wr(4, SendOp::Read(remote(&a, 0)), &[]);
            a.qp.post_send(&SendWr { signaled: false, ..unsignaled }).unwrap();
            let found = gather(&[&a], 4);
            assert_eq!(ends(&found[0], true), [(3, Flushed), (4, Flushed)], "{kind:?} {steps}");
            assert_eq!(ends(&found[0], false), [(1, Flushed), (2, Flushed)]);
        }
    }
}

/// In SQD, work requests in progress end, no others are started, and all of them continue
/// afterwards.
#[test]
fn a_drained_send_queue_waits_for_its_return() {
    for wire in WIRES {
        let (a, b) = pair_of(&config(wire, ""), RC, 1 << 16, &Link::default());
        (0..10).for_each(|id| b.post_recv(id, 0, 9000));
        (0..5).for_each(|id| post(&a, id, SendOp::Send, &[a.sge(0, 9000)]));
        a.qp.modify(&to(QpState::SendQueueDrained)).unwrap();
        (5..10).for_each(|id| post(&a, id, SendOp::Send, &[a.sge(0, 9000)]));
        let mut begun = 0;
        let quiet = Instant::now();
        while quiet.elapsed() < Duration::from_millis(50) {
            while let Some(done) = a.cq.poll_one() {
                assert_eq!((done.wr_id, done.status), (begun, Ok));
                begun += 1;
            }
            let _ = b.cq.poll_one();
        }
        assert!((1..=5).contains(&begun), "{begun} were begun before");
        a.qp.modify(&to(QpState::ReadyToSend)).unwrap();
        let rest = (begun..10).map(|id| (id, Ok)).collect::<Vec<_>>();
        let mut later = Vec::new();
        poll_until(&[&a, &b], |index, done| {
            if index == 0 {
                later.push((done.wr_id, done.status));
            }
            later.len() == rest.len()
        });
        assert_eq!(later, rest);
    }
}

/// SQD: a queue without work is drained at once, and its program need do nothing to learn of it.
#[test]
fn a_queue_without_work_tells_at_once_that_it_is_drained() {
    let notify = ModifyQp { sqd_notify: Some(true), ..to(QpState::SendQueueDrained) };
    for wire in WIRES {
        for kind in [RC, QpKind::Uc] {
            let events = AsyncEvents::create().unwrap();
            let source = EventSource::new(&events);
            let told = |init: &mut QpInit| init.events = Some(source);
            let a = side_with(&config(wire, ""), kind, 4096, told);
            let b = side(&config(wire, ""), kind, 4096);
            connect(&a, &b, &Link::default());
            a.qp.modify(&notify).unwrap();
            let event = events.take().unwrap().expect("an event at once");
            assert_eq!(event.kind, AsyncEventKind::SqDrained, "{kind:?}");
            assert!(!a.qp.query().sq_draining, "{kind:?}");
            event.source.acknowledge();
            a.qp.modify(&to(QpState::ReadyToSend)).unwrap();
            a.qp.modify(&to(QpState::SendQueueDrained)).unwrap();
            assert!(events.take().is_err(), "it is asked for each time");
        }
    }
}

/// Programs query the state until the queue is drained, and then use their buffers again.
#[test]
fn a_queue_is_draining_until_what_it_began_has_ended() {
    let (a, silent) =
        (side(&config(WireChoice::Udp, ""), RC, 4096), UdpSocket::bind("127.0.0.1:0"));
    let port = silent.as_ref().unwrap().local_addr().unwrap().port();
    up(&a.qp, &Link::default(), (a.device.gid(), u32::from(port) << 8), [1, 1]);
    post(&a, 1, SendOp::Send, &[a.sge(0, 8)]);
    poll_until_counted(&[&a], &a, Counter::TxPkts, 1);
    assert!(!a.qp.query().sq_draining);
    a.qp.modify(&to(QpState::SendQueueDrained)).unwrap();
    assert!(a.qp.query().sq_draining, "the SEND has no answer");
    a.qp.modify(&to(QpState::Error)).unwrap();
    assert!(!a.qp.query().sq_draining);
}

/// A program that resumes its send queue need not poll for the work requests to be sent.
#[test]
fn what_was_held_leaves_when_the_send_queue_returns() {
    for wire in WIRES {
        let (a, b) = pair_of(&config(wire, ""), RC, 4096, &Link::default());
        a.qp.modify(&to(QpState::SendQueueDrained)).unwrap();
        b.post_recv(1, 0, 8);
        post(&a, 1, SendOp::Send, &[a.sge(0, 8)]);
        // The service thread has found nothing to do.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(20) {
            assert!(b.cq.poll_one().is_none());
        }
        a.qp.modify(&to(QpState::ReadyToSend)).unwrap();
        assert_eq!(ends(&gather(&[&b], 1)[0], false), [(1, Ok)]);
    }
}

/// Both ends of a connection are destroyed at once, with messages under way.
#[test]
fn both_ends_may_be_destroyed_at_once() {
    for _ in 0..20 {
        let (a, b) = pair();
        for id in 0..50 {
            b.post_recv(id, 0, 9000);
            post(&a, id, SendOp::Send, &[a.sge(0, 9000)]);
            post(&b, id, SendOp::Read(remote(&a, 0)), &[b.sge(0, 9000)]);
        }
        a.qp.destroy();
        b.qp.destroy();
        assert_quiet(&[&a, &b]);
        assert!(a.qp.modify(&ModifyQp::default()).is_err());
    }
}
