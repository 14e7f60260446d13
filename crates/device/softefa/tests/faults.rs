//! Each fault on purpose through the real adapter: its effect, and its counter.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{
    self, QKEY, Side, pair, poll_until, remote, settled_by, side, side_of, up, wait_for,
};
use softefa::counters::Counter;
use softefa::{
    Ah, CompletionOp, Config, Integrity, ModifyQp, Qp, QpKind, QpState, SendOp, SendWr, Status,
    Target,
};

/// Length of a message in [`exchange`].
const LEN: usize = 256;

fn count(side: &Side, counter: Counter) -> u64 {
    side.device.counters().get(counter)
}

/// Returns the bytes of message `number`.
fn body(number: u64) -> Vec<u8> {
    let mut bytes = vec![number as u8; LEN];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Sends `total` numbered messages from `a` to `b`, one slot each, and returns the number of those
/// that arrived altered. Each must arrive once.
fn exchange(a: &mut Side, b: &Side, total: u64) -> usize {
    let ah = a.ah(b);
    for number in 0..total {
        let at = number as usize * LEN;
        b.post_recv(number, at, LEN as u32);
        a.fill(at, &body(number));
    }
    let (mut posted, mut sent, mut received) = (0, 0, 0);
    let a = &*a;
    while sent < total || received < total {
        // Few messages are under way at a time, so that no socket's buffer overflows.
        while posted < total && posted - sent < 64 {
            a.send(posted, b, &ah, posted as usize * LEN, LEN as u32);
            posted += 1;
        }
        poll_until(&[a, b], |index, done| {
            assert_eq!(done.status, Status::Ok, "{done:?}");
            sent += u64::from(index == 0);
            received += u64::from(index == 1);
            true
        });
    }
    let mut missing: HashSet<Vec<u8>> = (0..total).map(body).collect();
    (0..total).filter(|slot| !missing.remove(b.bytes(*slot as usize * LEN, LEN))).count()
}

/// Waits until everything that was sent has been counted.
fn settled(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn mangled_headers_are_dropped_and_sent_again() {
    let (mut a, b) = pair("mangle=10%,seed=1");
    assert_eq!(exchange(&mut a, &b, 2_000), 0);
    let both = |counter| count(&a, counter) + count(&b, counter);
    assert!(count(&a, Counter::FaultMangled) > 20 && count(&a, Counter::RetransPkts) > 20);
    // A datagram that claims a shorter length is cut, and counts for each piece. One that claims a
    // longer length takes the next of its train with it, which may be mangled, too, and on a busy
    // machine trains are long. The bytes above have shown that none was taken for an intact one.
    settled("fewer were dropped than mangled", || {
        both(Counter::RxCrcErrors) >= both(Counter::FaultMangled) * 9 / 10
    });
    assert_eq!(both(Counter::RxDrops), both(Counter::RxCrcErrors));
}

#[test]
fn mangled_rdma_changes_no_other_byte() {
    let (mut a, b) = pair("mangle=10%,seed=2");
    let ah = a.ah(&b);
    let bytes: Vec<u8> = (0..400_000u32).map(|i| (i / 7) as u8).collect();
    a.fill(0, &bytes);
    // The hits depend on this program's command line, and fifty datagrams are too few for each
    // fault to hit one.
    for wr_id in 0..8 {
        let write = SendOp::Write(remote(&b, 1_000));
        a.post(wr_id, &ah, b.qp.qpn(), write, &[a.sge(0, bytes.len() as u32)]);
        assert_eq!(wait_for(&[&a, &b], 0, CompletionOp::Write).status, Status::Ok);
        assert_eq!(b.bytes(1_000, bytes.len()), bytes);
    }
    assert!(b.bytes(0, 1_000).iter().chain(b.bytes(401_000, 600_000)).all(|byte| *byte == 0));
    assert!(count(&a, Counter::FaultMangled) > 0 && count(&b, Counter::RxCrcErrors) > 0);
}

#[test]
fn corrupt_payload_is_delivered() {
    let (mut a, b) = pair("corrupt=5%,seed=1");
    let wrong = exchange(&mut a, &b, 2_000);
    let corrupted = count(&a, Counter::FaultCorrupted);
    assert!(wrong > 20, "{wrong} arrived altered");
    assert!(corrupted >= wrong as u64, "{wrong} of {corrupted}");
    assert_eq!(count(&b, Counter::RxCrcErrors), 0);
}

#[test]
fn integrity_turns_corruption_into_loss() {
    let faults = "corrupt=5%,seed=1".parse().expect("a fault");
    let sealing = Config { faults, integrity: Integrity::Crc32c, ..Config::default() };
    // The receiver is not told of it.
    let (mut a, b) = (side_of(QpKind::Srd, &sealing), side(QpKind::Srd, ""));
    assert_eq!(exchange(&mut a, &b, 2_000), 0);
    assert!(count(&a, Counter::FaultCorrupted) > 20);
    settled("a corrupted datagram was taken for a good one", || {
        count(&a, Counter::FaultCorrupted) == count(&b, Counter::RxCrcErrors)
    });
}

#[test]
fn integrity_covers_long_messages_and_rdma() {
    let faults = "corrupt=20%,seed=3".parse().expect("a fault");
    let config = Config { faults, integrity: Integrity::Crc32c, ..Config::default() };
    let (mut a, b) = (side_of(QpKind::Srd, &config), side_of(QpKind::Srd, &config));
    let ah = a.ah(&b);
    let bytes: Vec<u8> = (0..300_000u32).map(|i| (i / 3) as u8).collect();
    a.fill(0, &bytes);
    let sges = [a.sge(0, bytes.len() as u32)];
    for wr_id in 10..14 {
        a.post(wr_id, &ah, b.qp.qpn(), SendOp::Write(remote(&b, 0)), &sges);
        assert_eq!(wait_for(&[&a, &b], 0, CompletionOp::Write).status, Status::Ok);
        assert_eq!(b.bytes(0, bytes.len()), bytes);
    }
    b.post_recv(2, 400_000, 8928);
    a.send(3, &b, &ah, 1_000, 8928);
    wait_for(&[&a, &b], 1, CompletionOp::Recv);
    assert_eq!(b.bytes(400_000, 8928), &bytes[1_000..][..8928]);
    assert!(count(&b, Counter::RxCrcErrors) > 0);
}

#[test]
fn receivers_are_not_ready_for_a_share() {
    let (mut a, b) = (side(QpKind::Srd, ""), side(QpKind::Srd, "rnr=5%,seed=1"));
    assert_eq!(exchange(&mut a, &b, 500), 0);
    let refused = count(&b, Counter::FaultRnr);
    assert!(refused > 5, "{refused}");
    assert_eq!(count(&b, Counter::RxRnr), refused, "receives were posted");
}

/// The send ends with status 10.
#[test]
fn a_receiver_that_is_never_ready_uses_up_the_retries() {
    let (a, b) = (side(QpKind::Srd, ""), side(QpKind::Srd, "rnr=100%"));
    let ah = a.ah(&b);
    for retries in [0, 2] {
        a.qp.modify(&ModifyQp { state: Some(QpState::Reset), ..ModifyQp::default() })
            .expect("reset");
        up(&a.qp, retries);
        let counts = || [count(&b, Counter::FaultRnr), count(&a, Counter::RetransTimeoutEvents)];
        let before = counts();
        b.post_recv(7, 0, 8);
        a.send(1, &b, &ah, 0, 8);
        assert_eq!(wait_for(&[&a, &b], 0, CompletionOp::Send).status, Status::RemoteRnr);
        let [refused, repeated] = [0, 1].map(|index| counts()[index] - before[index]);
        // A try whose answer is late, as on a busy machine, is repeated.
        let tries = u64::from(retries) + 1;
        assert!((tries..=tries + repeated).contains(&refused), "{refused} for {tries} tries");
    }
    let imm = SendOp::WriteImm(remote(&b, 0), 5);
    a.post(2, &ah, b.qp.qpn(), imm, &[a.sge(0, 8)]);
    assert_eq!(wait_for(&[&a, &b], 0, CompletionOp::Write).status, Status::RemoteRnr);
    assert!(b.cq.pop().is_none(), "no receive was used");
}

/// The sends end with status 2.
#[test]
fn sends_end_with_an_internal_error_for_a_share() {
    let (a, b) = (side(QpKind::Srd, "internal=20%,seed=1"), side(QpKind::Srd, ""));
    let ah = a.ah(&b);
    (0..100).for_each(|id| b.post_recv(id, 0, 8));
    let mut failed = 0;
    for id in 0..100 {
        a.send(id, &b, &ah, 0, 8);
        poll_until(&[&a, &b], |index, done| {
            failed += u64::from(done.status == Status::LocalQpInternalError);
            index == 0
        });
    }
    assert!((5..40).contains(&failed), "{failed} of 100");
    assert_eq!(count(&a, Counter::FaultInternal), failed);
}

#[test]
fn a_path_that_swallows_is_evacuated() {
    // A queue pair begins on a path that it draws, and stays there as long as no packet is lost.
    for _ in 0..100 {
        let (mut a, b) = (side(QpKind::Srd, "blackhole=path:3"), side(QpKind::Srd, ""));
        assert_eq!(exchange(&mut a, &b, 2_000), 0);
        let swallowed = count(&a, Counter::FaultBlackholed);
        if swallowed > 0 {
            // All packets would be lost if the path stayed in use.
            let sent = count(&a, Counter::TxPkts);
            assert!(swallowed * 8 < sent, "{swallowed} swallowed, {sent} arrived");
            return;
        }
    }
    panic!("none of 100 queue pairs used path 3");
}

#[test]
fn a_blackhole_ends() {
    // The time begins with the device: on a busy machine the first messages may come after its end.
    for millis in [300, 1_200, 4_800] {
        let fault = format!("blackhole=all@0s+{millis}ms");
        let (mut a, b) = (side(QpKind::Srd, &fault), side(QpKind::Srd, ""));
        assert_eq!(exchange(&mut a, &b, 10), 0, "they wait for its end");
        if count(&a, Counter::FaultBlackholed) > 0 {
            assert!(count(&a, Counter::RetransPkts) > 0);
            return;
        }
    }
    panic!("nothing was sent within 4.8 s after the device was opened");
}

/// Makes a side that `peer` has answered, and that no peer answers from now on. The silence begins
/// a while after the device was opened, on a busy machine perhaps before the answer: then a later
/// one is tried.
fn silenced(peer: &Side) -> (Side, Arc<Ah>) {
    for millis in [500, 2_000, 6_000] {
        let side = side(QpKind::Srd, &format!("blackhole=all@{millis}ms"));
        let silent_from = Instant::now() + Duration::from_millis(millis);
        let ah = side.ah(peer);
        peer.post_recv(0, 0, 8);
        side.send(1, peer, &ah, 0, 8);
        let answer = settled_by(Duration::from_secs(30), || {
            let _ = peer.cq.poll_one();
            side.cq.poll_one()
        });
        if answer.status == Status::Ok {
            settled("its time passes", || Instant::now() >= silent_from);
            return (side, ah);
        }
    }
    panic!("nothing was answered within 6 s after the device was opened");
}

/// Statuses 13 and 15 are in one test, because each takes the device's patience of eight seconds.
#[test]
fn who_cannot_be_reached_is_given_up() {
    let (never, peer) = (side(QpKind::Srd, "blackhole=all"), side(QpKind::Srd, ""));
    let (lately, known) = silenced(&peer);
    peer.post_recv(1, 0, 8);
    let unknown = never.ah(&peer);
    never.send(15, &peer, &unknown, 0, 8);
    lately.send(13, &peer, &known, 0, 8);
    for side in [&never, &lately] {
        let done = settled_by(Duration::from_secs(30), || side.cq.poll_one());
        assert_eq!(u64::from(done.status.code()), done.wr_id, "{done:?}");
        assert!(count(side, Counter::FaultBlackholed) > 0);
        assert_eq!(count(side, Counter::UnresponsiveRemoteEvents), 1);
    }
}

#[test]
fn a_narrow_link_shortens_messages() {
    let (mut a, b) = pair("mtu=1400");
    let longest = a.device.attr().max_msg_bytes;
    assert!((1_000..1_372).contains(&longest), "{longest}");
    let ah = a.ah(&b);
    b.post_recv(1, 0, 2_000);
    a.send(1, &b, &ah, 0, longest + 1);
    assert_eq!(wait_for(&[&a, &b], 0, CompletionOp::Send).status, Status::LocalBadLength);
    a.send(2, &b, &ah, 0, longest);
    assert_eq!(wait_for(&[&a, &b], 1, CompletionOp::Recv).byte_len, longest);
    // RDMA is split into messages that fit.
    let bytes: Vec<u8> = (0..100_000u32).map(|i| (i / 5) as u8).collect();
    a.fill(0, &bytes);
    let sges = [a.sge(0, bytes.len() as u32)];
    a.post(3, &ah, b.qp.qpn(), SendOp::Write(remote(&b, 500_000)), &sges);
    assert_eq!(wait_for(&[&a, &b], 0, CompletionOp::Write).status, Status::Ok);
    assert_eq!(b.bytes(500_000, bytes.len()), bytes);
    let datagrams = count(&a, Counter::TxPkts);
    assert!(datagrams * 1_372 >= count(&a, Counter::TxBytes) && datagrams > 100_000 / 1_372);
}

/// Makes a queue pair of `side`, up, with queue key `qkey`.
fn queue_pair(side: &Side, qkey: u32) -> Arc<Qp> {
    let qp = Qp::create(&side.pd, common::init(QpKind::Srd, &side.cq)).expect("a queue pair");
    up(&qp, 7);
    qp.modify(&ModifyQp { qkey: Some(qkey), ..ModifyQp::default() }).expect("a queue key");
    qp
}

/// A peer that remembers the number of a queue pair that is gone gets statuses 9 and 8.
#[test]
fn a_successor_gets_no_message_of_its_predecessor() {
    let (a, b) = (side(QpKind::Srd, ""), side(QpKind::Srd, "qpn-reuse"));
    let ah = a.ah(&b);
    let known = queue_pair(&b, QKEY);
    let number = known.qpn();
    let sge = [a.sge(0, 8)];
    let send = |wr_id| a.post(wr_id, &ah, number, SendOp::Send, &sge);
    known.post_recv(1, &[b.sge(0, 8)]).expect("a receive");
    send(1);
    assert_eq!(wait_for(&[&a, &b], 0, CompletionOp::Send).status, Status::Ok);
    assert_eq!(wait_for(&[&a, &b], 1, CompletionOp::Recv).wr_id, 1);
    for generation in 0..3 {
        // The predecessor is one that the peer knew, or one that it did not know; all have the
        // number.
        let qp = if generation == 0 { known.clone() } else { queue_pair(&b, QKEY + generation) };
        assert_eq!(qp.qpn(), number, "generation {generation}");
        qp.destroy();
    }
    let heir = queue_pair(&b, QKEY + 9);
    assert_eq!(heir.qpn(), number);
    heir.post_recv(2, &[b.sge(0, 8)]).expect("a receive");
    // A message on a connection that the peer still has is answered by a RESET, an opening by a
    // refusal.
    let mut ends = Vec::new();
    for wr_id in 2..4 {
        send(wr_id);
        ends.push(wait_for(&[&a, &b], 0, CompletionOp::Send).status);
    }
    assert_eq!(ends, [Status::RemoteAbort, Status::RemoteBadDestQpn]);
    assert!(b.cq.pop().is_none(), "the successor got a message");
    // A sender with the right key reaches it.
    let target = Some(Target { ah: &ah, qpn: number, qkey: QKEY + 9 });
    let wr = SendWr { target, ..common::wr(4, &ah, number, SendOp::Send, &sge) };
    a.qp.post_send(&wr).expect("posted");
    assert_eq!(wait_for(&[&a, &b], 1, CompletionOp::Recv).wr_id, 2);
}

#[test]
fn delays_are_added_to_each_datagram() {
    for (fault, least_us) in
        [("delay=5ms", 5_000), ("delay=5ms+-1ms", 4_000), ("delay=4ms..6ms", 4_000)]
    {
        let (a, b) = (side(QpKind::Srd, fault), side(QpKind::Srd, ""));
        let ah = a.ah(&b);
        b.post_recv(1, 0, 8);
        let start = Instant::now();
        a.send(1, &b, &ah, 0, 8);
        assert_eq!(wait_for(&[&a, &b], 1, CompletionOp::Recv).wr_id, 1);
        assert!(start.elapsed() >= Duration::from_micros(least_us), "{fault}: too early");
        assert_eq!(count(&b, Counter::RecvWrs), 1);
    }
}

#[test]
fn the_degree_of_disorder_is_counted() {
    let (mut a, b) = (side(QpKind::Srd, "reorder=20%,seed=1"), side(QpKind::Srd, ""));
    assert_eq!(exchange(&mut a, &b, 2_000), 0);
    let behind: u64 = Counter::OUT_OF_SEQUENCE.iter().map(|class| count(&b, *class)).sum();
    assert!(behind > 100 && behind == count(&b, Counter::OutOfSequence), "{behind}");
    let most = count(&b, Counter::OutOfSequenceMax);
    let highest = Counter::OUT_OF_SEQUENCE.iter().rposition(|class| count(&b, *class) > 0);
    assert_eq!(Some(most.ilog2() as usize), highest);
}

/// Returns the payload of a hundred unreliable datagrams as far as they arrive, in order, because
/// lost ones are not sent again.
fn survivors(spec: &str) -> Vec<Vec<u8>> {
    const GRH: usize = softefa::UD_GRH_BYTES;
    let (mut a, b) = (side(QpKind::Ud, spec), side(QpKind::Ud, ""));
    let ah = a.ah(&b);
    (0..200).for_each(|id| b.post_recv(id, id as usize * 512, 512));
    let mut arrived = 0;
    for number in 0..100 {
        a.fill(0, &body(number));
        a.send(number, &b, &ah, 0, LEN as u32);
        wait_for(&[&a], 0, CompletionOp::Send);
        let expected = number + 1 + count(&a, Counter::FaultDuplicated)
            - count(&a, Counter::FaultLost)
            - count(&a, Counter::FaultMangled);
        settled("a datagram is missing", || {
            arrived += u64::from(b.cq.poll_one().is_some());
            arrived == expected
        });
    }
    (0..arrived as usize).map(|id| b.bytes(id * 512 + GRH, LEN).to_vec()).collect()
}

#[test]
fn the_same_seed_hits_the_same_datagrams() {
    let spec = "loss=10%,corrupt=10%,mangle=10%,seed=4";
    let once = survivors(spec);
    assert_eq!(once, survivors(spec));
    assert_ne!(once, survivors(&spec.replace("seed=4", "seed=5")));
    assert!((60..98).contains(&once.len()), "{} arrived", once.len());
    let doubled = survivors("dup=10%,seed=4");
    assert!(doubled.len() > 100 && doubled == survivors("dup=10%,seed=4"));
}

#[test]
fn faults_can_be_combined() {
    let all = "loss=2%,dup=2%,reorder=10%,delay=10us..50us,mangle=2%,rnr=2%,qpn-reuse,\
        mtu=3000,blackhole=path:1@0s+50ms,seed=5";
    let (mut a, b) = pair(all);
    assert_eq!(exchange(&mut a, &b, 1_000), 0);
    for counter in [
        Counter::FaultLost,
        Counter::FaultDuplicated,
        Counter::FaultReordered,
        Counter::FaultMangled,
    ] {
        assert!(count(&a, counter) > 0, "{counter:?}");
    }
    assert!(count(&b, Counter::FaultRnr) > 0);
}
