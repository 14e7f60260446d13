//! Extended reliable connections: every operation, queues that peers name, and shared domains and
//! targets.
#![allow(clippy::unwrap_used, reason = "what cannot be set up has failed")]

use std::time::{Duration, Instant};

use crate::common::roce::{
    EVERYTHING, Link, WIRES, add, assert_quiet, config, connect_qps, ends, gather, op_of, pattern,
    side, strict, swap, wr,
};
use crate::common::traffic::{self, Dice};
use crate::common::xrc::{SRQ, Target, found, pair_of, post, post_to, srq_in};
use crate::common::{self, Side, remote};
use softefa::counters::Counter;
use softefa::{
    AsyncEventKind, AsyncEvents, Channel, CompletionOp, Cq, EventSource, QpKind, QpState, Remote,
    SendOp, SendWr, Sge, SrqError, Status, WireChoice,
};

const INITIATOR: QpKind = QpKind::XrcInitiator;

fn pair() -> (Side, Target) {
    pair_of(&config(WireChoice::Udp, ""), 1 << 20, &Link::default())
}

#[test]
fn messages_of_all_lengths_arrive_in_the_queue_that_was_named() {
    for wire in WIRES {
        let (mut a, b) = pair_of(&config(wire, ""), 1 << 20, &Link::default());
        for (id, len) in [0u32, 1, 1023, 1024, 1025, 5000, 300_000].into_iter().enumerate() {
            let id = id as u64;
            a.fill(0, &pattern(id as usize, len as usize));
            for imm in [None, Some(7 + len)] {
                b.post_recv(id, 500_000, len);
                post(&a, &b, id, imm.map_or(SendOp::Send, SendOp::SendImm), &[a.sge(0, len)]);
                let [sent, got] = found(&a, &b, 2);
                assert_eq!((sent[0].status, sent[0].op), (Status::Ok, CompletionOp::Send));
                let (got, op) = (got[0], CompletionOp::Recv);
                let said = (got.wr_id, got.status, got.op, got.byte_len, got.imm);
                assert_eq!(said, (id, Status::Ok, op, len, imm));
                assert_eq!((got.qpn, got.src_qpn), (b.side.qp.qpn(), a.qp.qpn()));
                assert!(b.side.bytes(500_000, len as usize) == pattern(id as usize, len as usize));
            }
        }
        assert_quiet(&[&a, &b.side]);
    }
}

#[test]
fn memory_is_written_read_and_changed() {
    for wire in WIRES {
        let (mut a, b) = pair_of(&config(wire, ""), 1 << 20, &Link::default());
        let (to, len) = (remote(&b.side, 4096), 70_001);
        a.fill(0, &pattern(3, len));
        let local = [a.sge(0, len as u32)];
        post(&a, &b, 1, SendOp::Write(to), &local);
        b.post_recv(9, 0, 0);
        post(&a, &b, 2, SendOp::WriteImm(to, 5), &local);
        post(&a, &b, 3, SendOp::Read(to), &[a.sge(200_000, len as u32)]);
        let [sent, got] = found(&a, &b, 4);
        assert_eq!(ends(&sent, true), [1, 2, 3].map(|id| (id, Status::Ok)));
        let got = got[0];
        let said = (got.wr_id, got.op, got.byte_len, got.imm);
        assert_eq!(said, (9, CompletionOp::RecvWrite, len as u32, Some(5)));
        assert!(b.side.bytes(4096, len) == pattern(3, len));
        assert!(a.bytes(200_000, len) == pattern(3, len));
        let word = remote(&b.side, 0);
        for (id, op) in [add(word, 5), swap(word, 5, 9), add(word, 1)].into_iter().enumerate() {
            post(&a, &b, id as u64, op, &[a.sge(8 * id, 8)]);
            let [sent, _] = found(&a, &b, 1);
            assert_eq!((sent[0].status, sent[0].op), (Status::Ok, op_of(op)));
        }
        let words = [(&a, 0, 0u64), (&a, 8, 5), (&a, 16, 9), (&b.side, 0, 10)];
        for (side, at, expected) in words {
            assert_eq!(side.bytes(at, 8), expected.to_ne_bytes());
        }
    }
}

/// Two queues of one domain, each with memory and completions of its own.
#[test]
fn each_queue_has_its_own_completions_and_memory() {
    let (mut a, b) = pair();
    let pd = b.side.device.alloc_pd().unwrap();
    let cq = Cq::create(&b.side.device, 16).unwrap();
    let second = srq_in(&b.xrcd, &pd, &cq);
    let there = pd.reg_mr(b.side.mr.addr(), 1 << 20, EVERYTHING).unwrap();
    let entry = |at: u64| Sge { addr: there.addr() + at, len: 64, lkey: there.lkey() };
    let at = |at: u64| Remote { addr: there.addr() + at, rkey: there.rkey() };
    second.post_recv(77, &[entry(100)]).unwrap();
    b.post_recv(88, 200, 64);
    a.fill(0, &pattern(1, 64));
    let local = [a.sge(0, 64)];
    post_to(&a.qp, second.number(), 1, SendOp::Send, &local);
    post(&a, &b, 2, SendOp::Send, &local);
    post_to(&a.qp, second.number(), 3, SendOp::Write(at(300)), &local);
    post(&a, &b, 4, SendOp::Write(remote(&b.side, 400)), &local);
    post_to(&a.qp, second.number(), 5, SendOp::Read(at(300)), &[a.sge(64, 64)]);
    let [sent, got] = found(&a, &b, 6);
    assert_eq!(ends(&sent, true), [1, 2, 3, 4, 5].map(|id| (id, Status::Ok)));
    assert_eq!(ends(&got, false), [(88, Status::Ok)]);
    let other = cq.poll_one().unwrap();
    assert_eq!((other.wr_id, other.status, other.byte_len), (77, Status::Ok, 64));
    for place in [100, 200, 300, 400] {
        assert!(b.side.bytes(place, 64) == pattern(1, 64), "{place}");
    }
    // Requests of one length come in one train, before the first is answered; its memory is still
    // that of the queue it named.
    let into = [a.sge(128, 64)];
    let read = SendOp::Read(at(300));
    let more = SendWr { remote_srq: second.number(), more: true, ..wr(7, read, &into) };
    a.qp.post_send(&more).unwrap();
    post(&a, &b, 8, SendOp::Read(remote(&b.side, 400)), &[a.sge(192, 64)]);
    let [sent, _] = found(&a, &b, 2);
    assert_eq!(ends(&sent, true), [7, 8].map(|id| (id, Status::Ok)));
    // A key is valid only with a queue of its own domain.
    post(&a, &b, 6, SendOp::Write(at(500)), &local);
    let [sent, _] = found(&a, &b, 1);
    assert_eq!(ends(&sent, true), [(6, Status::RemoteBadAddress)]);
    assert!(b.side.bytes(500, 64).iter().all(|byte| *byte == 0));
}

#[derive(Clone, Copy, Debug)]
enum Wrong {
    NoNumber,
    OtherDomain,
    Basic,
    Destroyed,
}

/// RC-9.2: this connection ends, and no other.
#[test]
fn a_queue_that_is_not_in_the_domain_ends_the_connection_with_status_15() {
    for wrong in [Wrong::NoNumber, Wrong::OtherDomain, Wrong::Basic, Wrong::Destroyed] {
        for (is_write, wire) in [(false, WIRES[0]), (true, WIRES[1])] {
            let events = AsyncEvents::create().unwrap();
            let a = side(&config(wire, ""), INITIATOR, 4096);
            let b = Target::new(&config(wire, ""), 4096, Some(EventSource::new(&events)));
            connect_qps(&a.qp, &b.side.qp, &Link::default());
            let (neighbour, sibling) = (side(&config(wire, ""), INITIATOR, 4096), b.sibling());
            connect_qps(&neighbour.qp, &sibling, &Link::default());
            b.post_recv(1, 0, 64);
            let other = Target::new(&config(wire, ""), 64, None);
            let basic = softefa::Srq::create(&b.side.pd, &SRQ, None).unwrap();
            let gone = srq_in(&b.xrcd, &b.side.pd, &b.side.cq);
            gone.destroy();
            let number = match wrong {
                Wrong::NoNumber => 0xff_ffff,
                Wrong::OtherDomain => other.srq.number(),
                Wrong::Basic => basic.number(),
                Wrong::Destroyed => gone.number(),
            };
            let write = SendOp::Write(remote(&b.side, 0));
            let op = if is_write { write } else { SendOp::Send };
            post_to(&a.qp, number, 5, op, &[a.sge(0, 8)]);
            post(&a, &b, 6, SendOp::Send, &[a.sge(0, 8)]);
            let [sent, _] = found(&a, &b, 2);
            let expected = [(5, Status::RemoteInvalidQueue), (6, Status::Flushed)];
            assert_eq!(ends(&sent, true), expected, "{wrong:?}");
            let states = [&a.qp, &b.side.qp, &sibling].map(|qp| qp.query().state);
            assert_eq!(states, [QpState::Error, QpState::Error, QpState::ReadyToSend]);
            let told = events.take().unwrap().unwrap();
            assert_eq!(told.kind, AsyncEventKind::QpRequestError);
            told.source.acknowledge();
            post_to(&neighbour.qp, b.srq.number(), 7, SendOp::Send, &[neighbour.sge(0, 8)]);
            let found = gather(&[&neighbour, &b.side], 2);
            assert_eq!(ends(&found[1], false), [(1, Status::Ok)], "it took no receive");
        }
    }
}

/// The receive ends in the completion queue of its queue, and the queue continues with others.
#[test]
fn a_receive_that_is_too_short_ends_its_connection_only() {
    let (a, b) = pair();
    let (c, sibling) = (side(&config(WireChoice::Udp, ""), INITIATOR, 4096), b.sibling());
    connect_qps(&c.qp, &sibling, &Link::default());
    b.post_recv(1, 0, 63);
    b.post_recv(2, 0, 64);
    post(&a, &b, 5, SendOp::Send, &[a.sge(0, 64)]);
    let [sent, got] = found(&a, &b, 2);
    assert_eq!(ends(&sent, true), [(5, Status::RemoteInvalidRequest)]);
    assert_eq!(ends(&got, false), [(1, Status::LocalBadLength)]);
    post_to(&c.qp, b.srq.number(), 6, SendOp::Send, &[c.sge(0, 64)]);
    let found = gather(&[&c, &b.side], 2);
    assert_eq!(ends(&found[1], false), [(2, Status::Ok)]);
    assert_eq!(found[1][0].qpn, sibling.qpn());
}

#[test]
fn an_empty_queue_makes_its_peers_wait() {
    let (a, b) = pair();
    post(&a, &b, 1, SendOp::Send, &[a.sge(0, 3000)]);
    common::poll_until_counted(&[&a, &b.side], &b.side, Counter::RxRnr, 2);
    b.post_recv(1, 0, 3000);
    let [sent, got] = found(&a, &b, 2);
    assert_eq!(
        (ends(&sent, true), ends(&got, false)),
        (vec![(1, Status::Ok)], vec![(1, Status::Ok)])
    );
}

/// Eight initiators send to one queue, and each message takes the next receive, whoever sent it.
#[test]
fn many_targets_share_a_queue() {
    let b = Target::new(&config(WireChoice::Auto, ""), 1 << 16, None);
    let initiators: Vec<Side> =
        (0..8).map(|_| side(&config(WireChoice::Auto, ""), INITIATOR, 4096)).collect();
    let targets: Vec<_> = initiators.iter().map(|_| b.sibling()).collect();
    for (initiator, target) in initiators.iter().zip(&targets) {
        connect_qps(&initiator.qp, target, &Link::default());
    }
    (0..800).for_each(|id| b.post_recv(id, 0, 2000));
    for id in 0..100 {
        for initiator in &initiators {
            let local = [initiator.sge(0, 2000)];
            post_to(&initiator.qp, b.srq.number(), id, SendOp::SendImm(id as u32), &local);
        }
    }
    let mut sides: Vec<&Side> = initiators.iter().collect();
    sides.push(&b.side);
    let found = gather(&sides, 1600);
    for (sent, target) in found.iter().zip(&targets) {
        assert_eq!(ends(sent, true), (0..100).map(|id| (id, Status::Ok)).collect::<Vec<_>>());
        let imms = found[8].iter().filter(|done| done.qpn == target.qpn()).map(|done| done.imm);
        assert!(imms.eq((0..100).map(Some)), "in the order of sending");
    }
    let taken: std::collections::BTreeSet<u64> = found[8].iter().map(|done| done.wr_id).collect();
    assert_eq!(taken.len(), 800);
}

/// Completions are forgotten, the completion queue is free, and nothing arrives there any more.
#[test]
fn a_destroyed_queue_leaves_nothing_behind() {
    let (a, b) = pair();
    let cq = Cq::create(&b.side.device, 16).unwrap();
    let second = srq_in(&b.xrcd, &b.side.pd, &cq);
    assert!(cq.is_in_use());
    second.post_recv(1, &[b.side.sge(0, 8)]).unwrap();
    post_to(&a.qp, second.number(), 1, SendOp::Send, &[a.sge(0, 8)]);
    let [sent, _] = found(&a, &b, 1);
    assert_eq!(ends(&sent, true), [(1, Status::Ok)]);
    second.destroy();
    assert!(cq.poll_one().is_none() && !cq.is_in_use());
    assert!(b.side.cq.is_in_use());
    assert_eq!(second.post_recv(2, &[]), Err(softefa::PostSrqError::Destroyed));
    b.side.qp.destroy();
    assert!(!b.side.cq.is_in_use());
}

/// The program sleeps on the completion queue of a shared queue, and does not poll.
#[test]
fn a_sleeping_program_is_woken_by_its_queue() {
    let (a, b) = pair();
    let channel = Channel::create().unwrap();
    let cq = Cq::create_on(&b.side.device, 16, Some(&channel)).unwrap();
    let second = srq_in(&b.xrcd, &b.side.pd, &cq);
    for id in 0..20 {
        second.post_recv(id, &[b.side.sge(0, 8)]).unwrap();
        cq.arm().unwrap();
        assert!(cq.poll_one().is_none());
        post_to(&a.qp, second.number(), id, SendOp::Send, &[a.sge(0, 8)]);
        let deadline = Instant::now() + Duration::from_secs(10);
        while channel.take_event().unwrap().is_none() {
            assert!(Instant::now() < deadline, "nobody was woken");
            std::thread::yield_now();
        }
        cq.acknowledge_events(1);
        assert_eq!(cq.poll_one().map(|done| (done.wr_id, done.status)), Some((id, Status::Ok)));
        assert_eq!(ends(&gather(&[&a], 1)[0], true), [(id, Status::Ok)]);
    }
    cq.retire_events();
}

#[test]
fn queues_of_another_device_are_refused() {
    let (b, other) = (
        Target::new(&config(WireChoice::Udp, ""), 64, None),
        Target::new(&config(WireChoice::Udp, ""), 64, None),
    );
    for (pd, cq) in [(&other.side.pd, &b.side.cq), (&b.side.pd, &other.side.cq)] {
        let refused = b.xrcd.create_srq(pd, cq, &SRQ, None).unwrap_err();
        assert_eq!(refused, SrqError::OtherDevice);
    }
    let too_long = softefa::SrqAttr { max_wr: u32::MAX, ..SRQ };
    let cq = Cq::create(&b.side.device, 1).unwrap();
    let refused = b.xrcd.create_srq(&b.side.pd, &cq, &too_long, None);
    assert!(matches!(refused, Err(SrqError::BadDepth { .. })));
    assert!(!cq.is_in_use(), "nothing is left of a queue that could not be made");
}

/// A strict device has the same statuses and the same end.
#[test]
fn a_silent_target_is_given_up() {
    let (a, b) = pair_of(&strict(), 4096, &Link { timeout: 1, retry_cnt: 1, ..Link::default() });
    b.side.qp.destroy();
    post(&a, &b, 1, SendOp::Send, &[a.sge(0, 8)]);
    let found = gather(&[&a], 1);
    assert_eq!(ends(&found[0], true), [(1, Status::RetryExceeded)]);
}

/// Messages, WRITEs and READs for two queues go through a network that loses, duplicates and
/// reorders packets and reports missing receives.
#[test]
fn faults_do_not_show() {
    for (name, faults) in [("loss", "loss=1%"), ("all", "loss=3%,reorder=10%,dup=5%,rnr=10%")] {
        traffic::explore("roce_xrc", &format!("faults_do_not_show {name}"), 3, |seed| {
            mix(&format!("{faults},seed={seed}"), WIRES[seed as usize % 2], Dice(seed));
        });
    }
}

const LEN: usize = 9000;

fn mix(faults: &str, wire: WireChoice, mut dice: Dice) {
    let link = Link { mtu: dice.pick(&[256, 1024, 4096]), timeout: 10, ..Link::default() };
    let (mut a, mut b) = pair_of(&config(wire, faults), 1 << 20, &link);
    let second = srq_in(&b.xrcd, &b.side.pd, &b.side.cq);
    a.fill(0, &pattern(1, LEN));
    b.side.fill(LEN, &pattern(2, LEN));
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for id in 0..300 {
        let queue = if dice.below(2) == 0 { &b.srq } else { &second };
        let len = dice.below(LEN as u64) as u32;
        let local = [a.sge(0, len)];
        match dice.below(3) {
            0 => {
                queue.post_recv(id, &[b.side.sge(2 * LEN, LEN as u32)]).unwrap();
                post_to(&a.qp, queue.number(), id, SendOp::SendImm(len), &local);
                received.push((id, len));
            }
            1 => post_to(&a.qp, queue.number(), id, SendOp::Write(remote(&b.side, 0)), &local),
            _ => {
                let into = [a.sge(LEN, len)];
                post_to(&a.qp, queue.number(), id, SendOp::Read(remote(&b.side, LEN)), &into);
            }
        }
        sent.push((id, Status::Ok));
    }
    let [done, got] = found(&a, &b, sent.len() + received.len());
    assert_eq!(ends(&done, true), sent);
    let got: Vec<_> = got.iter().map(|it| (it.wr_id, it.imm.unwrap(), it.byte_len)).collect();
    let expected: Vec<_> = received.iter().map(|&(id, len)| (id, len, len)).collect();
    assert_eq!(got, expected, "in order, and once");
}
