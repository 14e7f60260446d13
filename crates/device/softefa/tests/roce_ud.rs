//! Unreliable datagrams of RoCE devices (RC-8).
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::sync::Arc;

use crate::common::roce::{
    WIRES, assert_quiet, config, ends, gather, pattern, side, side_with, to,
};
use crate::common::{self, QKEY, Side, poll_until_counted};
use softefa::counters::Counter;
use softefa::{
    Ah, AsyncEventKind, AsyncEvents, EventSource, Gid, ModifyQp, PostError, Qp, QpInit, QpKind,
    QpState, SendData, SendOp, SendWr, Sge, Srq, SrqAttr, Status, Target, WireChoice,
};

use Status::{LocalBadLength, LocalInvalidLkey, Ok};

/// Length of the GRH area in front of a received payload.
const GRH: usize = 40;

fn up(side: &Side, qkey: u32) {
    let (port, pkey_index, qkey) = (Some(1), Some(0), Some(qkey));
    side.qp.modify(&ModifyQp { port, pkey_index, qkey, ..to(QpState::Init) }).unwrap();
    side.qp.modify(&to(QpState::ReadyToReceive)).unwrap();
    let sq_psn = Some(0xff_fffe);
    side.qp.modify(&ModifyQp { sq_psn, ..to(QpState::ReadyToSend) }).unwrap();
}

fn pair_on(wire: WireChoice) -> (Side, Side, Arc<Ah>) {
    let config = config(wire, "");
    let (a, b) = (side(&config, QpKind::Ud, 1 << 16), side(&config, QpKind::Ud, 1 << 16));
    [&a, &b].iter().for_each(|side| up(side, QKEY));
    let ah = a.ah(&b);
    (a, b, ah)
}

fn wr<'a>(wr_id: u64, ah: &'a Ah, to: &Side, op: SendOp, sges: &'a [Sge]) -> SendWr<'a> {
    common::wr(wr_id, ah, to.qp.qpn(), op, sges)
}

/// Returns the sum of the 16-bit words of an IPv4 header, which is all ones if its checksum is
/// right.
fn sum(header: &[u8]) -> u32 {
    let words = header.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
    let sum: u32 = words.sum();
    (sum & 0xffff) + (sum >> 16)
}

#[test]
fn a_datagram_stands_behind_a_valid_ipv4_header() {
    for wire in WIRES {
        let (mut a, mut b, ah) = pair_on(wire);
        let source = a.device.gid();
        for len in [0usize, 1, 2, 3, 4, 5, 1000, 1023, 1024, 4093, 4094, 4095, 4096] {
            let bytes = pattern(len, len);
            a.fill(1, &bytes);
            b.fill(0, &[0xcc; 5000]);
            b.post_recv(4, 0, 5000);
            let imm = (len % 2 == 0).then_some(len as u32);
            let op = imm.map_or(SendOp::Send, SendOp::SendImm);
            a.qp.post_send(&wr(3, &ah, &b, op, &[a.sge(1, len as u32)])).unwrap();
            let found = gather(&[&a, &b], 2);
            let got = found[1][0];
            assert_eq!((got.wr_id, got.status, got.imm, got.has_grh), (4, Ok, imm, true));
            assert_eq!((got.byte_len as usize, got.src_qpn), (GRH + len, a.qp.qpn()));
            assert_eq!((got.sgid(), Gid::of_roce(got.src_addr)), (source, source));
            assert!(b.bytes(GRH, len) == bytes, "{len} bytes");
            assert!(b.bytes(GRH + len, 100).iter().all(|byte| *byte == 0xcc), "{len} bytes");
            let header = b.bytes(20, 20);
            assert_eq!(header[0], 0x45, "version 4, five words");
            assert_eq!(sum(header), 0xffff, "{header:?}");
            // The length covers IP, UDP, base and datagram headers, immediate data, pad and ICRC.
            let total =
                20 + 8 + 12 + 8 + 4 * usize::from(imm.is_some()) + len.next_multiple_of(4) + 4;
            assert_eq!(usize::from(u16::from_be_bytes([header[2], header[3]])), total);
            assert_eq!((header[9], &header[12..]), (17, &[127, 0, 0, 1, 127, 0, 0, 1][..]));
        }
        assert_quiet(&[&a, &b]);
    }
}

#[test]
fn entries_are_gathered_and_scattered() {
    let (mut a, b, ah) = pair_on(WireChoice::Udp);
    a.fill(0, &pattern(1, 512));
    let from: Vec<Sge> = (0..32).map(|index| a.sge(16 * index, 16)).collect();
    let into: Vec<Sge> = (0..32).map(|index| b.sge(20 * index, 18)).collect();
    b.qp.post_recv(1, &into).unwrap();
    a.qp.post_send(&wr(1, &ah, &b, SendOp::Send, &from)).unwrap();
    assert_eq!(gather(&[&a, &b], 2)[1][0].byte_len, 552);
    let got: Vec<u8> = (0..32).flat_map(|index| b.bytes(20 * index, 18).to_vec()).collect();
    assert!(got[GRH..552] == pattern(1, 512));
    let bytes = pattern(6, 512);
    let (parts, sges) = ([&bytes[..1], &bytes[1..]], [b.sge(0, 600)]);
    b.qp.post_recv(1, &sges).unwrap();
    let data = SendData::Inline(&parts);
    a.qp.post_send(&SendWr { data, ..wr(1, &ah, &b, SendOp::Send, &[]) }).unwrap();
    gather(&[&a, &b], 2);
    assert!(b.bytes(GRH, 512) == bytes);
}

/// Checks that a datagram is lost without an error, and counted.
fn is_dropped(b: &Side, a: &Side, send: impl Fn(u64)) {
    let drops = b.device.counters().get(Counter::RxDrops);
    send(1);
    assert_eq!(ends(&gather(&[a], 1)[0], true), [(1, Ok)]);
    poll_until_counted(&[a, b], b, Counter::RxDrops, drops + 1);
    assert_quiet(&[a, b]);
}

#[test]
fn another_queue_key_is_dropped() {
    for wire in WIRES {
        let (a, b, ah) = pair_on(wire);
        b.post_recv(5, 0, 100);
        let send = |qkey: u32, id: u64| {
            let target = Some(Target { ah: &ah, qpn: b.qp.qpn(), qkey });
            let sges = [a.sge(0, 8)];
            a.qp.post_send(&SendWr { target, ..wr(id, &ah, &b, SendOp::Send, &sges) }).unwrap();
        };
        is_dropped(&b, &a, |id| send(QKEY + 1, id));
        send(QKEY, 2);
        assert_eq!(gather(&[&a, &b], 2)[1][0].wr_id, 5);
        // With the highest bit, the queue pair's own queue key is used, whatever the other bits
        // are.
        b.post_recv(6, 0, 100);
        send(0x8000_0000 | 0x77, 3);
        assert_eq!(gather(&[&a, &b], 2)[1][0].wr_id, 6);
        a.qp.modify(&ModifyQp { qkey: Some(9), ..ModifyQp::default() }).unwrap();
        b.post_recv(7, 0, 100);
        is_dropped(&b, &a, |id| send(0x8000_0000, id));
        b.qp.modify(&ModifyQp { qkey: Some(9), ..ModifyQp::default() }).unwrap();
        send(0x8000_0000, 4);
        assert_eq!(gather(&[&a, &b], 2)[1][0].wr_id, 7);
    }
}

#[test]
fn without_a_receive_or_with_a_short_one_it_is_dropped() {
    for wire in WIRES {
        let (a, b, ah) = pair_on(wire);
        let send = |id: u64, len: u32| {
            a.qp.post_send(&wr(id, &ah, &b, SendOp::Send, &[a.sge(0, len)])).unwrap();
        };
        is_dropped(&b, &a, |id| send(id, 8));
        b.post_recv(5, 0, GRH as u32 + 7);
        is_dropped(&b, &a, |id| send(id, 8));
        assert!(b.bytes(0, 100).iter().all(|byte| *byte == 0));
        send(2, 7);
        let found = gather(&[&a, &b], 2);
        assert_eq!((found[1][0].wr_id, found[1][0].byte_len), (5, GRH as u32 + 7));
    }
}

/// RC-8.2.
#[test]
fn what_is_longer_than_a_packet_completes_and_is_not_sent() {
    for wire in WIRES {
        for (mtu, setting) in [(4096, ""), (512, ",mtu=512")] {
            let device = format!("roce0=127.0.0.1,profile=roce{setting}").parse().unwrap();
            let config = softefa::Config { devices: vec![device], ..config(wire, "") };
            let (a, b) = (side(&config, QpKind::Ud, 1 << 16), side(&config, QpKind::Ud, 1 << 16));
            [&a, &b].iter().for_each(|side| up(side, QKEY));
            let ah = a.ah(&b);
            b.post_recv(1, 0, 60_000);
            for len in [mtu + 1, 2 * mtu, 60_000] {
                a.qp.post_send(&wr(1, &ah, &b, SendOp::Send, &[a.sge(0, len)])).unwrap();
                assert_eq!(ends(&gather(&[&a], 1)[0], true), [(1, Ok)]);
            }
            assert_eq!(a.device.counters().get(Counter::TxPkts), 0);
            a.qp.post_send(&wr(2, &ah, &b, SendOp::Send, &[a.sge(0, mtu)])).unwrap();
            assert_eq!(gather(&[&a, &b], 2)[1][0].byte_len, GRH as u32 + mtu);
        }
    }
}

#[test]
fn a_send_that_cannot_be_done_says_so() {
    let (a, b, ah) = pair_on(WireChoice::Udp);
    b.post_recv(1, 0, 1000);
    let wrong = [Sge { lkey: a.mr.lkey() ^ 1, ..a.sge(0, 8) }];
    a.qp.post_send(&wr(1, &ah, &b, SendOp::Send, &wrong)).unwrap();
    assert_eq!(ends(&gather(&[&a, &b], 1)[0], true), [(1, LocalInvalidLkey)]);
    let (a, b, ah) = pair_on(WireChoice::Udp);
    let long = [a.sge(0, u32::MAX), a.sge(0, 1)];
    a.qp.post_send(&wr(1, &ah, &b, SendOp::Send, &long)).unwrap();
    assert_eq!(ends(&gather(&[&a, &b], 1)[0], true), [(1, LocalBadLength)]);
}

/// A work request that cannot be done ends in its turn. No work request behind it is sent, but
/// datagrams are still received, until the program resumes the queue pair.
#[test]
fn a_send_that_cannot_be_done_stops_the_send_queue() {
    for wire in WIRES {
        let (a, b, ah) = pair_on(wire);
        let (good, wrong) = ([a.sge(0, 8)], [Sge { lkey: a.mr.lkey() ^ 1, ..a.sge(0, 8) }]);
        (0..9).for_each(|id| b.post_recv(id, 0, 100));
        for (id, sges, signaled) in [(1, &good, true), (2, &wrong, false), (3, &good, false)] {
            let request = wr(id, &ah, &b, SendOp::Send, sges);
            a.qp.post_send(&SendWr { signaled, more: id < 3, ..request }).unwrap();
        }
        let found = gather(&[&a, &b], 4);
        let expected = [(1, Ok), (2, LocalInvalidLkey), (3, Status::Flushed)];
        assert_eq!(ends(&found[0], true), expected);
        assert_eq!(ends(&found[1], false), [(0, Ok)]);
        assert_eq!(a.qp.query().state, QpState::SendQueueError);
        a.qp.post_send(&wr(4, &ah, &b, SendOp::Send, &good)).unwrap();
        assert_eq!(ends(&gather(&[&a, &b], 1)[0], true), [(4, Status::Flushed)]);
        a.post_recv(5, 0, 100);
        let back = b.ah(&a);
        b.qp.post_send(&wr(6, &back, &a, SendOp::Send, &[b.sge(0, 8)])).unwrap();
        let found = gather(&[&a, &b], 2);
        assert_eq!(ends(&found[0], false), [(5, Ok)], "it still receives");
        a.qp.modify(&to(QpState::ReadyToSend)).unwrap();
        a.qp.post_send(&wr(7, &ah, &b, SendOp::Send, &good)).unwrap();
        let found = gather(&[&a, &b], 2);
        assert_eq!(ends(&found[0], true), [(7, Ok)]);
        assert_eq!(ends(&found[1], false), [(1, Ok)]);
    }
}

#[test]
fn a_drained_send_queue_waits_for_its_return() {
    for wire in WIRES {
        let (a, b, ah) = pair_on(wire);
        (0..3).for_each(|id| b.post_recv(id, 0, 100));
        a.qp.modify(&to(QpState::SendQueueDrained)).unwrap();
        (0..3).for_each(|id| {
            a.qp.post_send(&wr(id, &ah, &b, SendOp::Send, &[a.sge(0, 8)])).unwrap();
        });
        assert_quiet(&[&a, &b]);
        a.qp.modify(&to(QpState::ReadyToSend)).unwrap();
        assert_eq!(ends(&gather(&[&b], 3)[0], false), [0, 1, 2].map(|id| (id, Ok)));
        assert_eq!(ends(&gather(&[&a], 3)[0], true), [0, 1, 2].map(|id| (id, Ok)));
    }
}

/// RC-8.4: the same holds if slots of the queue are used in another order.
#[test]
fn flushed_datagrams_end_in_the_order_in_which_they_were_posted() {
    let events = AsyncEvents::create().unwrap();
    let source = EventSource::new(&events);
    let config = config(WireChoice::Udp, "");
    let told = |init: &mut QpInit| init.events = Some(source);
    let a = side_with(&config, QpKind::Ud, 4096, told);
    let b = side(&config, QpKind::Ud, 4096);
    [&a, &b].iter().for_each(|side| up(side, QKEY));
    let ah = a.ah(&b);
    let post = |ids: std::ops::Range<u64>| {
        ids.for_each(|id| {
            a.qp.post_send(&wr(id, &ah, &b, SendOp::Send, &[a.sge(0, 8)])).unwrap();
        });
    };
    // There are three at a time, so that their slots are used again in the opposite order.
    a.qp.modify(&to(QpState::SendQueueDrained)).unwrap();
    post(0..3);
    a.qp.modify(&to(QpState::ReadyToSend)).unwrap();
    assert_eq!(ends(&gather(&[&a], 3)[0], true), [0, 1, 2].map(|id| (id, Ok)));
    let notify = ModifyQp { sqd_notify: Some(true), ..to(QpState::SendQueueDrained) };
    a.qp.modify(&notify).unwrap();
    let event = events.take().unwrap().expect("an event at once");
    assert_eq!(event.kind, AsyncEventKind::SqDrained);
    event.source.acknowledge();
    post(3..6);
    a.qp.modify(&to(QpState::Error)).unwrap();
    assert_eq!(ends(&gather(&[&a], 3)[0], true), [3, 4, 5].map(|id| (id, Status::Flushed)));
}

#[test]
fn nothing_is_sent_in_the_error_state() {
    let (a, b, ah) = pair_on(WireChoice::Udp);
    b.post_recv(1, 0, 100);
    a.qp.modify(&to(QpState::Error)).unwrap();
    a.post_recv(2, 0, 100);
    a.qp.post_send(&wr(3, &ah, &b, SendOp::Send, &[a.sge(0, 8)])).unwrap();
    let found = gather(&[&a, &b], 2);
    assert_eq!(ends(&found[0], true), [(3, Status::Flushed)]);
    assert_eq!(ends(&found[0], false), [(2, Status::Flushed)]);
    assert_quiet(&[&a, &b]);
}

#[test]
fn a_datagram_needs_somewhere_to_go() {
    let (a, b, ah) = pair_on(WireChoice::Udp);
    let sges = [a.sge(0, 8)];
    let without = SendWr { target: None, ..wr(1, &ah, &b, SendOp::Send, &sges) };
    assert_eq!(a.qp.post_send(&without), Err(PostError::NoTarget));
    let beyond = Some(Target { ah: &ah, qpn: 1 << 24, qkey: QKEY });
    let beyond = SendWr { target: beyond, ..without };
    assert_eq!(a.qp.post_send(&beyond), Err(PostError::NoTarget));
    // Datagrams to numbers that no queue pair has are lost, like all without a receiver.
    for qpn in [0, 1, 255, 0xff_ffff] {
        let nobody = Some(Target { ah: &ah, qpn, qkey: QKEY });
        a.qp.post_send(&SendWr { target: nobody, ..without }).unwrap();
        assert_eq!(ends(&gather(&[&a, &b], 1)[0], true), [(1, Ok)], "{qpn:#x}");
    }
    let elsewhere = a.pd.create_ah(Gid::of_roce([127, 0, 0, 9].into())).unwrap();
    a.qp.post_send(&wr(2, &elsewhere, &b, SendOp::Send, &sges)).unwrap();
    assert_eq!(ends(&gather(&[&a, &b], 1)[0], true), [(2, Ok)]);
}

/// A receive whose own memory cannot be written ends, and the datagram goes to the next one.
#[test]
fn a_receive_that_cannot_be_written_is_passed_over() {
    let (a, b, ah) = pair_on(WireChoice::Udp);
    let wrong = Sge { lkey: b.mr.lkey() ^ 1, ..b.sge(0, 100) };
    b.qp.post_recv(1, &[wrong]).unwrap();
    b.post_recv(2, 0, 100);
    a.qp.post_send(&wr(1, &ah, &b, SendOp::Send, &[a.sge(0, 8)])).unwrap();
    let found = gather(&[&a, &b], 3);
    assert_eq!(ends(&found[1], false), [(1, LocalInvalidLkey), (2, Ok)]);
}

/// Many senders send to one receiver, which is one of them.
#[test]
fn one_receiver_has_many_senders() {
    for wire in WIRES {
        let config = config(wire, "");
        let sides: Vec<Side> = (0..8).map(|_| side(&config, QpKind::Ud, 1 << 16)).collect();
        sides.iter().for_each(|side| up(side, QKEY));
        let target = &sides[0];
        for round in 0..20 {
            (0..8).for_each(|id| target.post_recv(id, 100 * id as usize, 100));
            for from in &sides {
                let (ah, sges) = (from.ah(target), [from.sge(0, 60)]);
                from.qp.post_send(&wr(9, &ah, target, SendOp::SendImm(round), &sges)).unwrap();
            }
            let all: Vec<&Side> = sides.iter().collect();
            let found = gather(&all, 16);
            let mut senders: Vec<u32> =
                found[0].iter().filter(|done| done.has_grh).map(|done| done.src_qpn).collect();
            let mut expected: Vec<u32> = sides.iter().map(|side| side.qp.qpn()).collect();
            senders.sort_unstable();
            expected.sort_unstable();
            assert_eq!(senders, expected);
        }
    }
}

/// A receive that is too short for one queue pair stays in the shared queue for others.
#[test]
fn a_shared_receive_that_is_too_short_serves_another_queue_pair() {
    for wire in WIRES {
        let (a, b, ah) = pair_on(wire);
        let attr = SrqAttr { max_wr: 16, max_sge: 1, limit: 0 };
        let srq = Srq::create(&b.pd, &attr, None).unwrap();
        let events = AsyncEvents::create().unwrap();
        let source = EventSource::new(&events);
        let [first, second] = [Some(Arc::clone(&source)), None].map(|events| {
            let init = QpInit { srq: Some(Arc::clone(&srq)), events, ..b.qp.init().clone() };
            let qp = Qp::create(&b.pd, init).unwrap();
            let (port, pkey_index, qkey) = (Some(1), Some(0), Some(QKEY));
            qp.modify(&ModifyQp { port, pkey_index, qkey, ..to(QpState::Init) }).unwrap();
            qp.modify(&to(QpState::ReadyToReceive)).unwrap();
            qp
        });
        srq.post_recv(5, &[b.sge(0, GRH as u32 + 7)]).unwrap();
        let drops = b.device.counters().get(Counter::RxDrops);
        let send = |qp: &Qp, len: u32| {
            a.qp.post_send(&common::wr(1, &ah, qp.qpn(), SendOp::Send, &[a.sge(0, len)])).unwrap();
            assert_eq!(ends(&gather(&[&a], 1)[0], true), [(1, Ok)]);
        };
        send(&first, 8);
        poll_until_counted(&[&a, &b], &b, Counter::RxDrops, drops + 1);
        first.modify(&to(QpState::Error)).unwrap();
        let event = events.take().unwrap().expect("the queue pair takes no more");
        assert_eq!(event.kind, AsyncEventKind::QpLastWqeReached);
        event.source.acknowledge();
        assert!(events.take().is_err(), "once");
        send(&second, 7);
        assert_eq!(ends(&gather(&[&b], 1)[0], false), [(5, Ok)]);
    }
}

/// A datagram that uses no receive neither reports nor disarms the limit.
#[test]
fn a_receive_that_is_too_short_does_not_count_for_the_limit() {
    for wire in WIRES {
        let (a, b, ah) = pair_on(wire);
        let events = AsyncEvents::create().unwrap();
        let attr = SrqAttr { max_wr: 16, max_sge: 1, limit: 0 };
        let srq = Srq::create(&b.pd, &attr, Some(EventSource::new(&events))).unwrap();
        let init = QpInit { srq: Some(Arc::clone(&srq)), ..b.qp.init().clone() };
        let qp = Qp::create(&b.pd, init).unwrap();
        let (port, pkey_index, qkey) = (Some(1), Some(0), Some(QKEY));
        qp.modify(&ModifyQp { port, pkey_index, qkey, ..to(QpState::Init) }).unwrap();
        qp.modify(&to(QpState::ReadyToReceive)).unwrap();
        (0..3).for_each(|id| srq.post_recv(id, &[b.sge(0, GRH as u32 + 8)]).unwrap());
        srq.modify(&softefa::ModifySrq { limit: Some(3), ..softefa::ModifySrq::default() })
            .unwrap();
        let send = |len: u32| {
            a.qp.post_send(&common::wr(1, &ah, qp.qpn(), SendOp::Send, &[a.sge(0, len)])).unwrap();
            assert_eq!(ends(&gather(&[&a], 1)[0], true), [(1, Ok)]);
        };
        let drops = b.device.counters().get(Counter::RxDrops);
        send(9);
        poll_until_counted(&[&a, &b], &b, Counter::RxDrops, drops + 1);
        assert!(events.take().is_err(), "all three are there");
        send(8);
        assert_eq!(ends(&gather(&[&b], 1)[0], false), [(0, Ok)]);
        let event = events.take().unwrap().expect("two are left");
        assert_eq!(event.kind, AsyncEventKind::SrqLimitReached);
        event.source.acknowledge();
    }
}

/// Entries that a datagram does not reach are not checked.
#[test]
fn a_bad_entry_behind_the_datagram_does_not_matter() {
    let (a, b, ah) = pair_on(WireChoice::Udp);
    let wrong = Sge { lkey: b.mr.lkey() ^ 1, ..b.sge(0, 100) };
    for (wr_id, len, expected) in [(1, 60, Ok), (2, 61, LocalInvalidLkey)] {
        b.qp.post_recv(wr_id, &[b.sge(200, 100), wrong]).unwrap();
        a.qp.post_send(&wr(9, &ah, &b, SendOp::Send, &[a.sge(0, len)])).unwrap();
        let found = gather(&[&a, &b], 2);
        assert_eq!(ends(&found[1], false), [(wr_id, expected)]);
    }
}
