//! All operations of a program between two devices that seal their datagrams.

use std::time::{Duration, Instant};

use crate::common::scripted::Scripted;
use crate::common::sealing::{count, sealed_pair, sealed_side};
use crate::common::{Side, poll_until, remote, side, wait_for};
use softefa::counters::Counter;
use softefa::{CompletionOp, QpKind, SendOp, Status, UD_GRH_BYTES};

/// The counters that must stay 0 between two ends that share a key, on a network without faults.
const TROUBLE: [Counter; 5] = [
    Counter::RxSealErrors,
    Counter::RxSealReplays,
    Counter::RxSealLate,
    Counter::RxSealStrangers,
    Counter::RxNotices,
];

fn assert_no_trouble(of: &Side) {
    for counter in TROUBLE {
        assert_eq!(count(of, counter), 0, "{counter:?}");
    }
}

#[test]
fn messages_arrive_with_their_immediate() {
    let (mut a, b) = sealed_pair("");
    let ah = a.ah(&b);
    for len in [0, 1, 512, 513, 8928] {
        let bytes: Vec<u8> = (0..len).map(|at| (at / 3) as u8).collect();
        a.fill(0, &bytes);
        b.post_recv(7, 10_000, 8928);
        a.post(1, &ah, b.qp.qpn(), SendOp::SendImm(42), &[a.sge(0, len)]);
        let received = wait_for(&[&a, &b], 1, CompletionOp::Recv);
        assert_eq!((received.byte_len, received.imm), (len, Some(42)));
        assert_eq!(received.src_qpn, a.qp.qpn());
        assert_eq!(b.bytes(10_000, len as usize), bytes);
        assert_eq!(wait_for(&[&a, &b], 0, CompletionOp::Send).status, Status::Ok);
    }
    for side in [&a, &b] {
        assert_no_trouble(side);
        // The first datagram was not asked for a proof either.
        assert_eq!(count(side, Counter::RxDrops), 0);
    }
}

/// Does WRITE, WRITE with immediate and READ of all lengths, and compares every byte.
fn move_memory(a: &mut Side, b: &Side) {
    let ah = a.ah(b);
    for len in [1, 600, 8928, 300_000u32] {
        let bytes: Vec<u8> = (0..len).map(|at| (at / 7 + len) as u8).collect();
        a.fill(0, &bytes);
        a.post(1, &ah, b.qp.qpn(), SendOp::Write(remote(b, 1_000)), &[a.sge(0, len)]);
        assert_eq!(wait_for(&[&*a, b], 0, CompletionOp::Write).status, Status::Ok);
        assert_eq!(b.bytes(1_000, len as usize), bytes);
        b.post_recv(2, 900_000, 0);
        let with_imm = SendOp::WriteImm(remote(b, 400_000), 9);
        a.post(3, &ah, b.qp.qpn(), with_imm, &[a.sge(0, len)]);
        let received = wait_for(&[&*a, b], 1, CompletionOp::RecvWrite);
        assert_eq!((received.imm, received.byte_len), (Some(9), len));
        assert_eq!(b.bytes(400_000, len as usize), bytes);
        assert_eq!(wait_for(&[&*a, b], 0, CompletionOp::Write).status, Status::Ok);
        let read = SendOp::Read(remote(b, 1_000));
        a.post(4, &ah, b.qp.qpn(), read, &[a.sge(500_000, len)]);
        assert_eq!(wait_for(&[&*a, b], 0, CompletionOp::Send).status, Status::Ok);
        assert_eq!(a.bytes(500_000, len as usize), bytes);
    }
}

#[test]
fn rdma_moves_memory() {
    let (mut a, b) = sealed_pair("");
    move_memory(&mut a, &b);
    for side in [&a, &b] {
        assert_no_trouble(side);
        // The first datagram was not asked for a proof either.
        assert_eq!(count(side, Counter::RxDrops), 0);
    }
}

#[test]
fn unreliable_datagrams_arrive() {
    let (mut a, b) = (sealed_side(QpKind::Ud, ""), sealed_side(QpKind::Ud, ""));
    let ah = a.ah(&b);
    for len in [0, 8, 8928] {
        let bytes: Vec<u8> = (0..len).map(|at| (at / 5) as u8).collect();
        a.fill(0, &bytes);
        b.post_recv(3, 0, 10_000);
        a.post(1, &ah, b.qp.qpn(), SendOp::SendImm(9), &[a.sge(0, len)]);
        assert_eq!(wait_for(&[&a, &b], 0, CompletionOp::Send).status, Status::Ok);
        let received = wait_for(&[&a, &b], 1, CompletionOp::Recv);
        assert_eq!((received.imm, received.byte_len), (Some(9), UD_GRH_BYTES as u32 + len));
        assert_eq!(b.bytes(UD_GRH_BYTES, len as usize), bytes);
    }
    assert_no_trouble(&b);
}

/// Sends `total` messages of `len` bytes, each of which must arrive once and intact.
fn stream(a: &mut Side, b: &Side, total: u64, len: u32) {
    let ah = a.ah(b);
    let room = len as usize;
    for slot in 0..64 {
        b.post_recv(slot, slot as usize * room, len);
    }
    let (mut sent, mut ended, mut seen) = (0, 0, vec![false; total as usize]);
    while ended < total || seen.contains(&false) {
        // The memory of a send may be written again when all sends before it have ended.
        if sent == ended {
            for slot in 0..32.min(total - sent) {
                let at = slot as usize * room;
                a.fill(at, &vec![sent as u8; room]);
                a.fill(at, &sent.to_le_bytes());
                a.send(slot, b, &ah, at, len);
                sent += 1;
            }
        }
        poll_until(&[&*a, b], |index, done| {
            assert_eq!(done.status, Status::Ok, "{done:?}");
            if index == 0 {
                ended += 1;
                return true;
            }
            let at = done.wr_id as usize * room;
            let bytes = b.bytes(at, room);
            let number = u64::from_le_bytes(*bytes.first_chunk().expect("8 bytes"));
            assert!(bytes[8..].iter().all(|byte| *byte == number as u8), "{number} is torn");
            let was_seen = std::mem::replace(&mut seen[number as usize], true);
            assert!(!was_seen, "message {number} arrived twice");
            b.post_recv(done.wr_id, at, len);
            true
        });
    }
}

#[test]
fn streams_arrive_once_each() {
    for len in [64, 8928] {
        let (mut a, b) = sealed_pair("");
        stream(&mut a, &b, 3_000, len);
        for side in [&a, &b] {
            assert_no_trouble(side);
        }
    }
}

/// Faults of the network cost time and nothing else, because altered datagrams cannot be opened.
#[test]
fn faults_become_losses() {
    let faults = "loss=2%,reorder=5%,dup=3%,corrupt=3%,mangle=3%";
    for seed in 1..=8 {
        let (mut a, b) = sealed_pair(&format!("{faults},seed={seed}"));
        stream(&mut a, &b, 400, 2_000);
        move_memory(&mut a, &b);
        for fault in [Counter::FaultCorrupted, Counter::FaultMangled, Counter::FaultDuplicated] {
            assert!(count(&a, fault) > 0, "{fault:?}");
        }
        assert!(count(&b, Counter::RxSealErrors) > 0 && count(&b, Counter::RxSealReplays) > 0);
        assert_eq!(count(&a, Counter::RxCrcErrors) + count(&b, Counter::RxCrcErrors), 0);
    }
}

/// SRD-11.1: sealing adds 40 bytes to each datagram.
#[test]
fn sealing_adds_forty_bytes() {
    let len_of = |a: Side, len| {
        let peer = Scripted::new();
        let ah = a.ah(&a);
        a.post(1, &ah, peer.qpn(), SendOp::Send, &[a.sge(0, len)]);
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(datagram) = peer.take_raw() {
                return datagram.len();
            }
            assert!(a.cq.poll_one().is_none() && Instant::now() < deadline, "it sends nothing");
        }
    };
    for len in [0, 8, 600, 8928] {
        let [plain, sealed] = [side(QpKind::Srd, ""), sealed_side(QpKind::Srd, "")];
        assert_eq!(len_of(sealed, len), len_of(plain, len) + 40, "{len}");
    }
}
