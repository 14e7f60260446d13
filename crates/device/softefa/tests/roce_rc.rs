//! Reliable connections of RoCE devices: every operation, at all lengths around the boundaries of
//! packets.
#![allow(clippy::unwrap_used, reason = "what cannot be set up has failed")]

use crate::common::Side;
use crate::common::remote;
use crate::common::roce::{
    Link, WIRES, add, assert_quiet, config, connect_qps, ends, gather, op_of, pair_of, pattern,
    post, side, swap, wide, wr,
};
use softefa::counters::Counter;
use softefa::{
    Completion, CompletionOp, FlushExtent, Qp, QpKind, Remote, SendData, SendOp, SendWr, Sge,
    Status, WireChoice,
};

const RC: QpKind = QpKind::Rc;
const MIB: usize = 1 << 20;
/// The number of bytes around written bytes that must not change.
const GUARD: usize = 64;
const GUARD_BYTE: u8 = 0xa5;

/// Returns lengths around every boundary of packets, and of the requests into which a READ is split
/// (16 packets).
fn lengths(mtu: usize) -> Vec<usize> {
    let mut lengths: Vec<usize> = (1..=9).collect();
    for packets in [1, 2, 3, 15, 16, 17, 33] {
        let at = packets * mtu;
        lengths.extend(at - 2..=at + 2);
    }
    lengths.extend([100 * mtu + 1, 8 * MIB]);
    lengths
}

fn one(a: &Side, b: &Side, op: SendOp, sges: &[Sge]) -> Completion {
    post(a, 5, op, sges);
    let found = gather(&[a, b], 1);
    let done = found[0][0];
    assert_eq!(
        (done.wr_id, done.status, done.op, done.qpn),
        (5, Status::Ok, op_of(op), a.qp.qpn())
    );
    done
}

/// Checks that `bytes` are at `at` of `side`, and that no byte beside them has changed.
fn assert_there(side: &Side, at: usize, bytes: &[u8], what: &str) {
    let len = bytes.len();
    assert!(side.bytes(at, len) == bytes, "{what} of {len} bytes");
    let (before, behind) = (side.bytes(at - GUARD, GUARD), side.bytes(at + len, GUARD));
    assert!(before.iter().chain(behind).all(|byte| *byte == GUARD_BYTE), "{what} of {len} bytes");
}

/// Does a SEND, a WRITE and a READ of `len` bytes, with immediate data where that is possible.
fn all_ways(a: &mut Side, b: &mut Side, len: usize, seed: usize) {
    let bytes = pattern(seed, len);
    let guard = vec![GUARD_BYTE; len + 2 * GUARD];
    let (at, to) = (seed % 4, GUARD + seed % 3);
    a.fill(at, &bytes);
    let source = a.sge(at, len as u32);
    for imm in [None, Some(seed as u32)] {
        b.fill(to - GUARD, &guard);
        b.post_recv(9, to, len as u32);
        post(a, 5, imm.map_or(SendOp::Send, SendOp::SendImm), &[source]);
        let found = gather(&[a, b], 2);
        assert_eq!(found[0][0].op, CompletionOp::Send);
        let got = found[1][0];
        let said = (got.wr_id, got.status, got.op, got.byte_len, got.imm, got.src_qpn);
        let op = CompletionOp::Recv;
        assert_eq!(said, (9, Status::Ok, op, len as u32, imm, a.qp.qpn()));
        assert_there(b, to, &bytes, "a SEND");
    }
    b.fill(to - GUARD, &guard);
    one(a, b, SendOp::Write(remote(b, to)), &[source]);
    assert_there(b, to, &bytes, "a WRITE");
    b.fill(to - GUARD, &guard);
    b.post_recv(3, 0, 0);
    post(a, 5, SendOp::WriteImm(remote(b, to), 77), &[source]);
    let found = gather(&[a, b], 2);
    let (sent, got) = (found[0][0], found[1][0]);
    assert_eq!((sent.op, sent.status), (CompletionOp::Write, Status::Ok));
    assert_eq!((got.op, got.wr_id, got.byte_len), (CompletionOp::RecvWrite, 3, len as u32));
    assert_eq!(got.imm, Some(77));
    assert_there(b, to, &bytes, "a WRITE with immediate data");
    a.fill(to - GUARD, &guard);
    let done = one(a, b, SendOp::Read(remote(b, to)), &[a.sge(to, len as u32)]);
    assert_eq!(done.byte_len, len as u32);
    assert_there(a, to, &bytes, "a READ");
}

fn every_length(mtu: u32) {
    for wire in WIRES {
        let link = Link { mtu, ..Link::default() };
        let (mut a, mut b) = pair_of(&config(wire, ""), RC, 8 * MIB + 4 * GUARD, &link);
        for (seed, len) in lengths(mtu as usize).into_iter().enumerate() {
            all_ways(&mut a, &mut b, len, seed);
        }
        assert_quiet(&[&a, &b]);
    }
}

#[test]
fn every_length_arrives_in_packets_of_256_bytes() {
    every_length(256);
}

#[test]
fn every_length_arrives_in_packets_of_1024_bytes() {
    every_length(1024);
}

#[test]
fn every_length_arrives_in_packets_of_4096_bytes() {
    every_length(4096);
}

/// A key that does not exist is not an error, because there is nothing to look up.
#[test]
fn empty_messages_need_no_key() {
    for wire in WIRES {
        let (a, b) = pair_of(&config(wire, ""), RC, 4096, &Link::default());
        let nowhere = Remote { addr: 1, rkey: 1 };
        let empty = Sge { addr: 0, len: 0, lkey: 9 };
        for sges in [&[][..], &[empty], &[empty, empty]] {
            one(&a, &b, SendOp::Write(nowhere), sges);
            assert_eq!(one(&a, &b, SendOp::Read(nowhere), sges).byte_len, 0);
            b.qp.post_recv(1, &[]).unwrap();
            b.qp.post_recv(2, sges).unwrap();
            post(&a, 7, SendOp::SendImm(4), sges);
            post(&a, 8, SendOp::WriteImm(nowhere, 6), sges);
            let found = gather(&[&a, &b], 4);
            let said: Vec<_> =
                found[1].iter().map(|got| (got.wr_id, got.byte_len, got.imm)).collect();
            assert_eq!(said, [(1, 0, Some(4)), (2, 0, Some(6))]);
        }
    }
}

#[test]
fn inline_bytes_are_taken_at_once() {
    for wire in WIRES {
        let (a, mut b) =
            pair_of(&config(wire, ""), RC, 8192, &Link { mtu: 256, ..Link::default() });
        let all = pattern(3, 512);
        for len in [0, 1, 31, 32, 33, 255, 256, 257, 511, 512] {
            b.fill(0, &[0; 2048]);
            let mut bytes = all[..len].to_vec();
            let (first, rest) = bytes.split_at(len / 3);
            let parts = [first, rest];
            b.post_recv(1, 0, 512);
            let data = SendData::Inline(&parts);
            a.qp.post_send(&SendWr { data, ..wr(1, SendOp::SendImm(2), &[]) }).unwrap();
            let write = SendOp::Write(remote(&b, 1024));
            a.qp.post_send(&SendWr { data, ..wr(2, write, &[]) }).unwrap();
            bytes.fill(0xee);
            let found = gather(&[&a, &b], 3);
            assert_eq!(ends(&found[0], true), [(1, Status::Ok), (2, Status::Ok)]);
            assert_eq!(found[1][0].byte_len, len as u32);
            assert!(b.bytes(0, len) == &all[..len] && b.bytes(1024, len) == &all[..len], "{len}");
            assert!(b.bytes(len, 512)[..512 - len].iter().all(|byte| *byte == 0), "{len}");
        }
    }
}

/// Returns `count` entries of different lengths, some of them empty, spread over memory from `at`
/// on.
fn scattered(side: &Side, at: usize, count: usize) -> (Vec<Sge>, usize) {
    let (mut sges, mut place, mut total) = (Vec::new(), at, 0);
    for index in 0..count {
        let len = [0, 1, 7, 300, 1024, 13][index % 6] + index;
        sges.push(side.sge(place, len as u32));
        place += len + 3;
        total += len;
    }
    (sges, total)
}

fn gathered(side: &Side, sges: &[Sge]) -> Vec<u8> {
    let at = |sge: &Sge| (sge.addr - side.mr.addr()) as usize;
    sges.iter().flat_map(|sge| side.bytes(at(sge), sge.len as usize).to_vec()).collect()
}

#[test]
fn thirty_two_entries_are_gathered_and_scattered() {
    for wire in WIRES {
        for mtu in [256, 4096] {
            let link = Link { mtu, ..Link::default() };
            let (mut a, b) = pair_of(&config(wire, ""), RC, 1 << 17, &link);
            a.fill(0, &pattern(1, 1 << 16));
            let (from, total) = scattered(&a, 0, 32);
            // The other side is split differently.
            let (mut into, _) = scattered(&b, 11, 31);
            into.push(b.sge(60_000, total as u32));
            b.qp.post_recv(1, &into).unwrap();
            post(&a, 2, SendOp::Send, &from);
            let found = gather(&[&a, &b], 2);
            assert_eq!(found[1][0].byte_len, total as u32);
            assert!(gathered(&b, &into)[..total] == gathered(&a, &from));
            post(&a, 3, SendOp::Write(remote(&b, 70_000)), &from);
            let (back, _) = scattered(&a, 1 << 16, 32);
            let read = SendOp::Read(remote(&b, 70_000));
            a.qp.post_send(&SendWr { fenced: true, ..wr(4, read, &back) }).unwrap();
            assert_eq!(ends(&gather(&[&a], 2)[0], true), [(3, Status::Ok), (4, Status::Ok)]);
            assert!(gathered(&a, &back) == gathered(&a, &from));
            let too_many = vec![a.sge(0, 1); 33];
            assert!(a.qp.post_send(&wr(5, SendOp::Send, &too_many)).is_err());
            assert!(b.qp.post_recv(5, &too_many).is_err());
        }
    }
}

#[test]
fn atomics_return_what_was_there() {
    for wire in WIRES {
        let (a, mut b) = pair_of(&config(wire, ""), RC, 4096, &Link::default());
        b.fill(8, &100u64.to_ne_bytes());
        let word = remote(&b, 8);
        let steps = [
            (add(word, 5), 100, 105),
            (add(word, u64::MAX), 105, 104),
            (swap(word, 1, 2), 104, 104),
            (swap(word, 104, u64::MAX - 1), 104, u64::MAX - 1),
            (add(word, 7), u64::MAX - 1, 5),
        ];
        for (op, found, left) in steps {
            // The result may lie anywhere, in several entries.
            let done = one(&a, &b, op, &[a.sge(513, 3), a.sge(601, 5)]);
            assert_eq!(done.byte_len, 8);
            let result = [a.bytes(513, 3), a.bytes(601, 5)].concat();
            assert_eq!(u64::from_ne_bytes(result.try_into().unwrap()), found, "{op:?}");
            assert_eq!(u64::from_ne_bytes(b.bytes(8, 8).try_into().unwrap()), left, "{op:?}");
        }
        assert!(b.bytes(0, 8).iter().chain(b.bytes(16, 100)).all(|byte| *byte == 0));
    }
}

#[test]
fn a_word_is_written_in_one_step() {
    for wire in WIRES {
        let (mut a, b) = pair_of(&config(wire, ""), RC, 4096, &Link::default());
        let word = remote(&b, 8);
        a.fill(513, &7u64.to_ne_bytes());
        one(&a, &b, SendOp::AtomicWrite(word), &[a.sge(513, 3), a.sge(516, 5)]);
        assert_eq!(b.bytes(8, 8), 7u64.to_ne_bytes());
        assert!(b.bytes(0, 8).iter().chain(b.bytes(16, 100)).all(|byte| *byte == 0));
    }
}

/// Returns a request that all of `remote`, or of its region, become visible.
fn flush(remote: Remote, len: u32, is_whole_region: bool) -> SendOp {
    let extent = FlushExtent { len, is_global: true, is_persistent: false, is_whole_region };
    SendOp::Flush(remote, extent)
}

#[test]
fn what_was_written_is_visible_behind_a_flush() {
    for wire in WIRES {
        for faults in ["", "loss=20%,seed=3"] {
            let (mut a, b) = pair_of(&config(wire, faults), RC, 8192, &Link::default());
            a.fill(0, &[7; 4096]);
            for round in 0..20 {
                let (at, id) = (remote(&b, 4096), 2 * round);
                post(&a, id, SendOp::Write(at), &[a.sge(0, 4096)]);
                post(&a, id + 1, flush(at, 4096, round % 2 == 0), &[]);
                let found = gather(&[&a], 2).remove(0);
                assert_eq!(ends(&found, true), [(id, Status::Ok), (id + 1, Status::Ok)]);
                assert_eq!((found[1].op, found[1].byte_len), (CompletionOp::Flush, 0));
                assert!(b.bytes(4096, 4096).iter().all(|byte| *byte == 7));
            }
        }
    }
}

/// One range is a byte too long for the region; one is empty; one is the region, wherever the
/// address is.
#[test]
fn a_flush_is_of_a_range_or_of_the_region() {
    let outcome = |at: u64, len: u32, is_whole: bool| {
        let (a, b) = pair_of(&config(WireChoice::Udp, ""), RC, 4096, &Link::default());
        let at = Remote { addr: b.mr.addr() + at, rkey: b.mr.rkey() };
        post(&a, 1, flush(at, len, is_whole), &[]);
        gather(&[&a], 1)[0][0].status
    };
    assert_eq!([outcome(0, 4096, false), outcome(4096, 0, false)], [Status::Ok; 2]);
    assert_eq!(outcome(1 << 40, 1 << 20, true), Status::Ok);
    let bad = Status::RemoteBadAddress;
    assert_eq!([outcome(1, 4096, false), outcome(0, 4097, false)], [bad, bad]);
}

#[test]
fn no_memory_survives_a_loss_of_power() {
    let (a, b) = pair_of(&config(WireChoice::Udp, ""), RC, 4096, &Link::default());
    let (is_global, is_whole_region) = (true, false);
    let extent = FlushExtent { len: 8, is_global, is_persistent: true, is_whole_region };
    post(&a, 1, SendOp::Flush(remote(&b, 0), extent), &[]);
    assert_eq!(gather(&[&a], 1)[0][0].status, Status::RemoteBadAddress);
}

/// There are more atomics than may be unanswered, from two requesters on one word.
#[test]
fn atomics_of_two_requesters_add_up() {
    for wire in WIRES {
        let config = config(wire, "");
        let link = Link { rd_atomic: 2, ..Link::default() };
        let (a, b, target) =
            (side(&config, RC, 4096), side(&config, RC, 4096), side(&config, RC, 4096));
        let second = Qp::create(&target.pd, wide(RC, &target.cq)).unwrap();
        connect_qps(&a.qp, &target.qp, &link);
        connect_qps(&b.qp, &second, &link);
        for id in 0..200 {
            for side in [&a, &b] {
                post(side, id, add(remote(&target, 0), 1), &[side.sge(8 * id as usize, 8)]);
            }
        }
        let found = gather(&[&a, &b, &target], 400);
        assert!(found.iter().flatten().all(|done| done.status == Status::Ok));
        let word = |side: &Side, at| u64::from_ne_bytes(side.bytes(at, 8).try_into().unwrap());
        assert_eq!(word(&target, 0), 400);
        let mut seen: Vec<u64> =
            (0..200).flat_map(|id| [word(&a, 8 * id), word(&b, 8 * id)]).collect();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..400), "each sees another number");
        second.destroy();
    }
}

/// Completions come in the order of posting; a work request that asks for none gets none.
#[test]
fn completions_keep_the_order_of_posting() {
    for wire in WIRES {
        let (a, b) = pair_of(&config(wire, ""), RC, 1 << 17, &Link::default());
        (0..100).for_each(|id| b.post_recv(id, 1 << 16, 3000));
        let mut asked = Vec::new();
        for id in 0..300u64 {
            let len = (id * 37 % 3000) as u32;
            let (op, len) = match id % 6 {
                0 | 3 => (SendOp::Send, len),
                1 => (SendOp::Write(remote(&b, 0)), len),
                2 => (SendOp::Read(remote(&b, 0)), 3 * len),
                4 => (add(remote(&b, 8), 1), 8),
                _ => (SendOp::Read(remote(&b, 0)), 0),
            };
            let signaled = id % 7 != 3;
            if signaled {
                asked.push((id, Status::Ok));
            }
            let sges = [a.sge(0, len)];
            a.qp.post_send(&SendWr { signaled, ..wr(id, op, &sges) }).unwrap();
        }
        let found = gather(&[&a, &b], asked.len() + 100);
        assert_eq!(ends(&found[0], true), asked);
        assert!(ends(&found[1], false).iter().map(|end| end.0).eq(0..100));
        assert_quiet(&[&a, &b]);
        assert_eq!(a.qp.send_room(), 1024, "who was not asked for makes room, too");
    }
}

/// A SEND may leave before the READ in front of it is answered, but a fenced one may not.
#[test]
fn a_fenced_send_carries_what_was_read() {
    for wire in WIRES {
        let (mut a, mut b) = pair_of(&config(wire, ""), RC, 1 << 20, &Link::default());
        let len = 100_000;
        for round in 1..20u8 {
            b.fill(0, &vec![round; len]);
            a.fill(0, &vec![0; len]);
            b.post_recv(1, 500_000, len as u32);
            // The message consists of the bytes that the READ brings.
            let sges = [a.sge(0, len as u32)];
            let read = wr(1, SendOp::Read(remote(&b, 0)), &sges);
            a.qp.post_send(&SendWr { more: true, ..read }).unwrap();
            a.qp.post_send(&SendWr { fenced: true, ..wr(2, SendOp::Send, &sges) }).unwrap();
            let found = gather(&[&a, &b], 3);
            assert_eq!(ends(&found[0], true), [(1, Status::Ok), (2, Status::Ok)]);
            assert!(b.bytes(500_000, len).iter().all(|byte| *byte == round), "round {round}");
        }
    }
}

/// Between programs of one machine packets go through memory, unless the option forbids it. The
/// test does not run beside tests with so many connections that there is no memory left.
#[test]
fn the_wire_is_the_one_that_was_chosen() {
    for wire in WIRES {
        let (a, b) = pair_of(&config(wire, ""), RC, 1 << 16, &Link::default());
        let through_memory = || a.device.counters().get(Counter::TxMemoryPkts) > 0;
        // A ring is opened when the peer has time to accept it.
        let rounds = if wire == WireChoice::Auto { 100_000 } else { 100 };
        for _ in 0..rounds {
            post(&a, 1, SendOp::Write(remote(&b, 0)), &[a.sge(0, 5000)]);
            assert_eq!(ends(&gather(&[&a, &b], 1)[0], true), [(1, Status::Ok)]);
            if through_memory() {
                break;
            }
        }
        assert_eq!(through_memory(), wire == WireChoice::Auto);
    }
}

/// Acknowledgements of a stream go through memory again, even if they follow each other within 200
/// us.
#[test]
fn acknowledgements_of_a_stream_take_memory() {
    let link = Link::default();
    let (a, b) = pair_of(&config(WireChoice::Auto, ""), QpKind::Rc, 1 << 12, &link);
    let counts = || {
        let counters = b.device.counters();
        [Counter::TxPkts, Counter::TxMemoryPkts].map(|counter| counters.get(counter))
    };
    let burst = || {
        for id in 0..32 {
            b.post_recv(id, 0, 8);
            post(&a, id, SendOp::Send, &[a.sge(0, 8)]);
        }
        gather(&[&a, &b], 64);
    };
    while a.device.counters().get(Counter::TxMemoryPkts) == 0 {
        burst();
    }
    let before = counts();
    (0..2000).for_each(|_| burst());
    let [sent, through] = counts();
    let (sent, through) = (sent - before[0], through - before[1]);
    assert!(through * 2 > sent, "{through} of {sent} acknowledgements went through memory");
}

/// A program that asks for few completions waits for those, so what leads to one leaves with it.
#[test]
fn a_completion_behind_many_messages_without_waits_for_no_poll() {
    let held: u32 = (0..20).map(|_| held_rounds()).sum();
    assert!(held > 0, "no post waited for others");
}

/// Sends rounds of messages of which the last one alone has a completion, until something is
/// repeated. Returns in how many rounds posts waited before the last one, which lets none wait.
fn held_rounds() -> u32 {
    let (a, b) = pair_of(&config(WireChoice::Udp, ""), QpKind::Rc, 1 << 12, &Link::default());
    let count = |counter| a.device.counters().get(counter);
    let mut held = 0;
    for round in 0..100 {
        (0..100).for_each(|id| b.post_recv(id, 0, 8));
        let before = count(Counter::TxPkts);
        let bytes = [a.sge(0, 8)];
        for id in 0..99 {
            let quiet = SendWr { signaled: false, ..wr(id, SendOp::Send, &bytes) };
            a.qp.post_send(&quiet).unwrap();
        }
        let is_held = count(Counter::TxPkts) < before + 99;
        post(&a, 99, SendOp::Send, &bytes);
        if count(Counter::RetransPkts) > 0 {
            // The window may be too small for a round now.
            break;
        }
        // The first rounds open the window, and are those of a program that nobody knows yet.
        if round >= 20 && is_held {
            held += 1;
            let sent = count(Counter::TxPkts) - before;
            assert!(sent >= 100, "round {round}: {sent} of 100");
        }
        let (mut received, mut ended) = (0, 0);
        while received < 100 || ended == 0 {
            ended += a.cq.poll(16, |_| {});
            received += b.cq.poll(16, |_| {});
        }
    }
    held
}

/// Requests of a stream go through memory again while earlier ones are still in the kernel, even if
/// the stream never pauses.
#[test]
fn requests_of_a_stream_that_is_never_empty_take_memory() {
    let link = Link::default();
    let (a, b) = pair_of(&config(WireChoice::Auto, ""), RC, 1 << 12, &link);
    let (mut under_way, begin) = (0, std::time::Instant::now());
    while begin.elapsed() < std::time::Duration::from_secs(30) {
        while under_way < 64 {
            post(&a, 1, SendOp::Write(remote(&b, 0)), &[a.sge(0, 8)]);
            under_way += 1;
        }
        b.cq.poll_one();
        while let Some(done) = a.cq.poll_one().filter(|_| under_way > 1) {
            assert_eq!(done.status, Status::Ok);
            under_way -= 1;
            if under_way == 32 {
                break;
            }
        }
        if a.device.counters().get(Counter::TxMemoryPkts) > 10_000 {
            return;
        }
    }
    panic!("{} packets through memory", a.device.counters().get(Counter::TxMemoryPkts));
}
