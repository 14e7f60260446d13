//! Unreliable connections of RoCE devices (RC-7): messages that arrive are intact, and others are
//! lost.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use crate::common::roce::{
    EVERYTHING, Link, WIRES, assert_quiet, config, connect, ends, gather, pair_of, pattern, post,
    side, side_with, to, to_init, to_receive, to_send, wr,
};
use crate::common::{self, Side, poll_until_counted, remote};
use softefa::counters::Counter;
use softefa::{
    Access, Completion, CompletionOp, QpKind, QpState, Remote, SendData, SendOp, SendWr, Sge,
    Status,
};

use Status::{Flushed, LocalBadLength, LocalInvalidLkey, LocalQpInternalError, Ok};

const UC: QpKind = QpKind::Uc;

fn pairs(link: &Link) -> impl Iterator<Item = (Side, Side)> {
    let link = *link;
    WIRES.into_iter().map(move |wire| pair_of(&config(wire, ""), UC, 1 << 20, &link))
}

#[test]
fn every_length_arrives() {
    for mtu in [256, 1024, 4096] {
        for (mut a, b) in pairs(&Link { mtu, ..Link::default() }) {
            let boundaries = (1..10).flat_map(|packets| {
                let at = packets * mtu as usize;
                at - 2..=at + 2
            });
            for (seed, len) in (0..10).chain(boundaries).chain([60_001]).enumerate() {
                let bytes = pattern(seed, len);
                a.fill(seed % 4, &bytes);
                let sges = [a.sge(seed % 4, len as u32)];
                b.post_recv(1, 3, len as u32);
                b.post_recv(2, 0, 0);
                post(&a, 3, SendOp::SendImm(9), &sges);
                post(&a, 4, SendOp::Write(remote(&b, 100_001)), &sges);
                post(&a, 5, SendOp::WriteImm(remote(&b, 200_002), 8), &sges);
                let found = gather(&[&a, &b], 5);
                assert_eq!(ends(&found[0], true), [3, 4, 5].map(|id| (id, Ok)));
                let said = |got: &Completion| (got.wr_id, got.op, got.byte_len, got.imm);
                let len32 = len as u32;
                let expected = [
                    (1, CompletionOp::Recv, len32, Some(9)),
                    (2, CompletionOp::RecvWrite, len32, Some(8)),
                ];
                assert_eq!(found[1].iter().map(said).collect::<Vec<_>>(), expected);
                for at in [3, 100_001, 200_002] {
                    assert!(b.bytes(at, len) == bytes, "{len} bytes at {at}");
                }
            }
            assert_quiet(&[&a, &b]);
        }
    }
}

#[test]
fn inline_bytes_and_many_entries_are_sent() {
    for (mut a, b) in pairs(&Link { mtu: 256, ..Link::default() }) {
        let bytes = pattern(2, 512);
        let parts = [&bytes[..100], &bytes[100..]];
        b.post_recv(1, 0, 512);
        let data = SendData::Inline(&parts);
        a.qp.post_send(&SendWr { data, ..wr(1, SendOp::Send, &[]) }).unwrap();
        gather(&[&a, &b], 2);
        assert!(b.bytes(0, 512) == bytes);
        a.fill(0, &bytes);
        let sges: Vec<Sge> = (0..32).map(|index| a.sge(16 * index, 16)).collect();
        let into: Vec<Sge> = (0..32).map(|index| b.sge(1000 + 17 * index, 16)).collect();
        b.qp.post_recv(1, &into).unwrap();
        post(&a, 1, SendOp::Send, &sges);
        gather(&[&a, &b], 2);
        assert!((0..32).all(|index| b.bytes(1000 + 17 * index, 16) == &bytes[16 * index..][..16]));
    }
}

/// READs and atomics are not operations of UC: they end in their turn, and stop the send queue.
#[test]
fn what_needs_an_answer_is_not_possible() {
    for index in 0..3 {
        for (a, b) in pairs(&Link::default()) {
            let at = remote(&b, 0);
            let ops = [SendOp::Read(at), common::roce::add(at, 1), SendOp::SendInvalidate(7)];
            a.post_recv(9, 0, 8);
            b.post_recv(1, 0, 8);
            post(&a, 1, SendOp::Send, &[a.sge(0, 8)]);
            post(&a, 2, ops[index], &[a.sge(0, 8)]);
            post(&a, 3, SendOp::Send, &[a.sge(0, 8)]);
            let found = gather(&[&a, &b], 4);
            let expected = [(1, Ok), (2, LocalQpInternalError), (3, Flushed)];
            assert_eq!(ends(&found[0], true), expected);
            assert_eq!(a.qp.query().state, QpState::SendQueueError);
            assert_quiet(&[&a, &b]);
        }
    }
}

/// The same holds if the last packet is the only one, whose departure is all that a success means.
#[test]
fn a_wrong_local_key_is_a_protection_error() {
    for (len, at) in [(1, 0), (1024, 0), (1025, 0), (3000, 0), (3000, 1 << 20)] {
        for (a, b) in pairs(&Link::default()) {
            let good = [a.sge(0, len)];
            let key = if at == 0 { a.mr.lkey() ^ 1 } else { a.mr.lkey() };
            let wrong = [Sge { lkey: key, ..a.sge(at, len) }];
            (0..4).for_each(|id| b.post_recv(id, 0, len));
            for (id, sges) in [(1, &good), (2, &wrong), (3, &good)] {
                let more = id < 3;
                a.qp.post_send(&SendWr { more, ..wr(id, SendOp::Send, sges) }).unwrap();
            }
            let found = gather(&[&a, &b], 4);
            let expected = [(1, Ok), (2, LocalInvalidLkey), (3, Flushed)];
            assert_eq!(ends(&found[0], true), expected, "{len} bytes at {at}");
            assert_eq!(a.qp.query().state, QpState::SendQueueError);
            assert_eq!(b.qp.query().state, QpState::ReadyToSend);
            assert_quiet(&[&a, &b]);
        }
    }
}

/// RC-7.3: no work request behind a failed one is sent, but messages are still received, until the
/// program resumes the queue pair. Then messages arrive as before, without the numbers of those
/// that were not sent.
#[test]
fn a_send_that_cannot_be_done_stops_the_send_queue() {
    for len in [8, 1024, 3000] {
        for (a, b) in pairs(&Link::default()) {
            let good = [a.sge(0, len)];
            let wrong = [Sge { lkey: a.mr.lkey() ^ 1, ..a.sge(0, len) }];
            (0..4).for_each(|id| b.post_recv(id, 0, len));
            a.post_recv(5, 0, len);
            for (id, sges) in [(1, &good), (2, &wrong), (3, &good)] {
                let more = id < 3;
                a.qp.post_send(&SendWr { more, ..wr(id, SendOp::Send, sges) }).unwrap();
            }
            let found = gather(&[&a, &b], 4);
            assert_eq!(ends(&found[0], true), [(1, Ok), (2, LocalInvalidLkey), (3, Flushed)]);
            assert_eq!(ends(&found[1], false), [(0, Ok)]);
            assert_eq!(a.qp.query().state, QpState::SendQueueError);
            post(&a, 4, SendOp::Send, &good);
            assert_eq!(ends(&gather(&[&a, &b], 1)[0], true), [(4, Flushed)], "posts are flushed");
            post(&b, 6, SendOp::Send, &[b.sge(0, len)]);
            let found = gather(&[&a, &b], 2);
            assert_eq!(ends(&found[0], false), [(5, Ok)], "it still receives");
            assert_eq!(ends(&found[1], true), [(6, Ok)]);
            a.qp.modify(&to(QpState::ReadyToSend)).unwrap();
            for id in [7, 8] {
                post(&a, id, SendOp::Send, &good);
                let found = gather(&[&a, &b], 2);
                assert_eq!(ends(&found[0], true), [(id, Ok)]);
                assert_eq!(ends(&found[1], false), [(id - 6, Ok)]);
            }
            a.qp.modify(&to(QpState::Error)).unwrap();
            assert_quiet(&[&a, &b]);
        }
    }
}

#[test]
fn a_length_that_cannot_be_is_a_length_error() {
    for (a, b) in pairs(&Link::default()) {
        post(&a, 1, SendOp::Send, &[a.sge(0, u32::MAX)]);
        assert_eq!(ends(&gather(&[&a, &b], 1)[0], true), [(1, LocalBadLength)]);
    }
}

/// Sends `wrong`, for which the peer has posted `receive`, between good messages. It alone is lost,
/// without an error, and its receive takes the next message.
fn is_lost(receive: impl Fn(&Side) -> Option<Sge>, wrong: impl Fn(&Side, &Side) -> (SendOp, Sge)) {
    for (a, b) in pairs(&Link::default()) {
        b.post_recv(1, 0, 8);
        let posted = receive(&b).inspect(|sge| b.qp.post_recv(2, &[*sge]).unwrap());
        post(&a, 1, SendOp::Send, &[a.sge(0, 8)]);
        let (op, sge) = wrong(&a, &b);
        post(&a, 2, op, &[sge]);
        let found = gather(&[&a, &b], 3);
        assert_eq!(ends(&found[0], true), [(1, Ok), (2, Ok)], "{op:?}");
        assert_quiet(&[&a, &b]);
        let next = posted.map_or(3, |_| 2);
        b.post_recv(3, 0, 8);
        let sent = Remote { addr: 7, rkey: 7 };
        post(&a, 3, SendOp::WriteImm(sent, 4), &[]);
        let found = gather(&[&a, &b], 2);
        assert_eq!((found[1][0].wr_id, found[1][0].imm), (next, Some(4)), "{op:?}");
        for side in [&a, &b] {
            assert_eq!(side.qp.query().state, QpState::ReadyToSend, "{op:?}");
        }
        assert!(b.bytes(100, 5000).iter().all(|byte| *byte == 0), "{op:?}");
    }
}

#[test]
fn a_message_without_a_receive_is_lost() {
    is_lost(|_| None, |a, _| (SendOp::Send, a.sge(0, 3000)));
    is_lost(|_| None, |a, b| (SendOp::WriteImm(remote(b, 100_000), 6), a.sge(0, 3000)));
}

#[test]
fn a_message_that_is_too_long_is_lost() {
    for len in [9, 1024, 3000] {
        is_lost(|b| Some(b.sge(0, 8)), |a, _| (SendOp::Send, a.sge(0, len)));
    }
}

#[test]
fn a_write_without_the_right_is_lost() {
    let key = |flip: u32, at: usize| {
        move |a: &Side, b: &Side| {
            let to = Remote { rkey: b.mr.rkey() ^ flip, ..remote(b, at) };
            (SendOp::Write(to), a.sge(0, 3000))
        }
    };
    is_lost(|b| Some(b.sge(0, 8)), key(1, 100));
    is_lost(|b| Some(b.sge(0, 8)), key(0, (1 << 20) - 2999));
}

#[test]
fn a_queue_pair_may_forbid_writing() {
    let link = Link { access: Access { remote_write: false, ..EVERYTHING }, ..Link::default() };
    for (a, b) in pairs(&link) {
        b.post_recv(1, 0, 8);
        post(&a, 1, SendOp::Write(remote(&b, 0)), &[a.sge(0, 3000)]);
        post(&a, 2, SendOp::Send, &[a.sge(0, 8)]);
        let found = gather(&[&a, &b], 3);
        assert_eq!(ends(&found[1], false), [(1, Ok)]);
        assert!(b.bytes(8, 5000).iter().all(|byte| *byte == 0));
    }
}

/// A receive whose own memory cannot be written ends, so that those behind it can be used.
#[test]
fn a_receive_that_cannot_be_written_does_not_stay_for_ever() {
    for (a, b) in pairs(&Link::default()) {
        let wrong = Sge { lkey: b.mr.lkey() ^ 1, ..b.sge(0, 3000) };
        b.qp.post_recv(1, &[wrong]).unwrap();
        b.post_recv(2, 0, 3000);
        post(&a, 1, SendOp::Send, &[a.sge(0, 3000)]);
        post(&a, 2, SendOp::Send, &[a.sge(0, 3000)]);
        let found = gather(&[&a, &b], 4);
        assert_eq!(ends(&found[1], false), [(1, LocalInvalidLkey), (2, Ok)]);
    }
}

/// Whatever the network does, each message that completes is intact, in order, and completes once.
#[test]
fn what_arrives_through_faults_is_whole() {
    for wire in WIRES {
        let config = config(wire, "loss=5%,reorder=10%,dup=5%,seed=3");
        let (mut a, b) = pair_of(&config, UC, 1 << 20, &Link { mtu: 256, ..Link::default() });
        let (total, len) = (500u64, 1000usize);
        let (mut arrived, mut next) = (0, 0);
        (0..total).for_each(|id| b.post_recv(id, (id as usize % 64) * len, len as u32));
        for sent in 0..total {
            let at = 500_000 + (sent as usize % 16) * len;
            a.fill(at, &pattern(sent as usize, len));
            post(&a, sent, SendOp::SendImm(sent as u32), &[a.sge(at, len as u32)]);
            assert_eq!(ends(&gather(&[&a], 1)[0], true), [(sent, Ok)]);
            for _ in 0..10 {
                let Some(done) = b.cq.poll_one() else { continue };
                let number = u64::from(done.imm.unwrap());
                assert!(number >= next && done.byte_len == len as u32);
                assert_eq!((done.wr_id, done.status), (arrived, Ok), "receives are used in order");
                let at = (done.wr_id as usize % 64) * len;
                assert!(b.bytes(at, len) == pattern(number as usize, len), "{number}");
                (arrived, next) = (arrived + 1, number + 1);
            }
        }
        assert!(arrived > total / 10, "{arrived} arrived");
        assert!(arrived < total, "nothing was lost");
        assert!(a.device.counters().get(Counter::RetransPkts) == 0);
    }
}

/// A sender that is faster than its peer waits for it, as behind a link with flow control: nothing
/// is lost on the way through memory, even while the ring is being opened. The peer's program never
/// polls meanwhile.
#[test]
fn a_fast_sender_loses_nothing_through_memory() {
    const TOTAL: u64 = 4000;
    for len in [64, 3000, 20_000] {
        let config = config(WIRES[0], "");
        let a = side(&config, UC, 1 << 20);
        let b = side_with(&config, UC, 1 << 20, |init| init.rq_depth = TOTAL as u32);
        connect(&a, &b, &Link { mtu: 4096, ..Link::default() });
        (0..TOTAL).for_each(|id| b.post_recv(id, 0, len));
        let (mut posted, mut done) = (0, 0);
        let begin = std::time::Instant::now();
        while done < TOTAL {
            if posted < TOTAL && posted - done < 64 {
                post(&a, posted, SendOp::SendImm(posted as u32), &[a.sge(0, len)]);
                posted += 1;
            }
            done += u64::from(a.cq.poll_one().is_some());
            assert!(begin.elapsed().as_secs() < 60, "{done} of {TOTAL} have left");
        }
        let found = gather(&[&b], TOTAL as usize);
        assert!(found[0].iter().map(|got| got.imm).eq((0..TOTAL as u32).map(Some)), "{len} bytes");
        let count = |counter| b.device.counters().get(counter);
        assert_eq!((count(Counter::RxDrops), count(Counter::RxNoReceive)), (0, 0));
        assert!(count(Counter::RxMemoryPkts) > TOTAL / 2, "{len} bytes");
    }
}

/// RC-7.2: without a receive the message is lost and counted, and the next one is accepted.
#[test]
fn messages_without_a_receive_are_counted() {
    for (a, b) in pairs(&Link::default()) {
        for (id, len) in [(1, 8), (2, 3000)] {
            post(&a, id, SendOp::Send, &[a.sge(0, len)]);
            gather(&[&a], 1);
            poll_until_counted(&[&b], &b, Counter::RxNoReceive, id);
        }
        b.post_recv(7, 0, 8);
        post(&a, 3, SendOp::Send, &[a.sge(0, 8)]);
        let found = gather(&[&a, &b], 2);
        assert_eq!(ends(&found[1], false), [(7, Ok)]);
        let count = |counter| b.device.counters().get(counter);
        assert_eq!(count(Counter::RxNoReceive), 2);
        assert!(count(Counter::RxDrops) >= 2);
    }
}

#[test]
fn a_queue_pair_can_be_reset_and_used_again() {
    for (a, b) in pairs(&Link::default()) {
        post(&a, 1, SendOp::Send, &[a.sge(0, 60_000)]);
        poll_until_counted(&[&b], &a, Counter::TxPkts, 1);
        [&a, &b].iter().for_each(|side| side.qp.modify(&to(QpState::Reset)).unwrap());
        connect(&a, &b, &Link { psn: [3, 4], ..Link::default() });
        b.post_recv(1, 0, 8);
        post(&a, 2, SendOp::Send, &[a.sge(0, 8)]);
        let found = gather(&[&a, &b], 2);
        assert_eq!(ends(&found[0], true), [(2, Ok)]);
        assert_eq!(ends(&found[1], false), [(1, Ok)]);
    }
}

/// The first packet may have any number, and the states need only attributes that concern UC.
#[test]
fn it_comes_up_without_what_only_reliable_ones_need() {
    let config = config(WIRES[1], "");
    let (a, b) = (side(&config, UC, 4096), side(&config, UC, 4096));
    let link = Link::default();
    for (one, other) in [(&a, &b), (&b, &a)] {
        one.qp.modify(&to_init(&link)).unwrap();
        let (gid, qpn) = (other.device.gid(), other.qp.qpn());
        let way = to_receive(UC, &link, gid, qpn, 5);
        let more = softefa::ModifyQp { min_rnr_timer: Some(1), ..way };
        assert!(one.qp.modify(&more).is_err());
        one.qp.modify(&way).unwrap();
        let way = to_send(UC, &link, 900);
        assert!(one.qp.modify(&softefa::ModifyQp { timeout: Some(1), ..way }).is_err());
        one.qp.modify(&way).unwrap();
    }
    b.post_recv(1, 0, 8);
    post(&a, 1, SendOp::Send, &[a.sge(0, 8)]);
    assert_eq!(ends(&gather(&[&a, &b], 2)[1], false), [(1, Ok)]);
}
