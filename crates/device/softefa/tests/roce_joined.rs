//! Long messages between RoCE devices of one machine, whose packets travel through shared memory as
//! one (RC-1.15).

use crate::common::roce::{Link, config, connect, ends, gather, pair_of, pattern, post, side, wr};
use crate::common::{self, Side, remote};
use softefa::counters::Counter;
use softefa::{QpKind, QpState, SendOp, Status, WireChoice};

const LEN: usize = 512 << 10;
/// The path MTU of the default path.
const MTU: usize = 1024;

fn sent(side: &Side) -> u64 {
    side.device.counters().get(Counter::TxPkts)
}

/// Exchanges short messages until they go through memory, both ways.
fn warm_up((a, b): &(Side, Side)) {
    let is_open = |side: &Side| side.device.counters().get(Counter::TxMemoryPkts) > 0;
    let mut rounds = 0;
    while !(is_open(a) && is_open(b)) {
        rounds += 1;
        assert!(rounds < 100_000, "no ring was opened");
        for (from, to) in [(a, b), (b, a)] {
            post(from, 1, SendOp::Write(remote(to, 0)), &[from.sge(0, 8)]);
            assert_eq!(gather(&[a, b], 1).concat()[0].status, Status::Ok);
        }
    }
}

/// Returns the number of packets that either side sends for one message of each kind, whose bytes
/// must arrive.
fn packets_of_long_messages(pair: &mut (Side, Side)) -> u64 {
    warm_up(pair);
    let (a, b) = pair;
    let before = sent(a) + sent(b);
    for seed in 0..3 {
        let (there, back) = (pattern(seed, LEN), pattern(seed + 9, LEN));
        a.fill(0, &there);
        b.fill(LEN, &back);
        b.post_recv(7, 2 * LEN, LEN as u32);
        post(a, 1, SendOp::Write(remote(b, 0)), &[a.sge(0, LEN as u32)]);
        post(a, 2, SendOp::Send, &[a.sge(0, 9), a.sge(9, (LEN - 9) as u32)]);
        let read = SendOp::Read(remote(b, LEN));
        post(a, 3, read, &[a.sge(LEN, LEN as u32)]);
        let found = gather(&[a, b], 4);
        assert_eq!(ends(&found[0], true), [1, 2, 3].map(|id| (id, Status::Ok)));
        assert_eq!(ends(&found[1], false), [(7, Status::Ok)]);
        assert!(
            b.bytes(0, LEN) == there && b.bytes(2 * LEN, LEN) == there && a.bytes(LEN, LEN) == back
        );
    }
    sent(a) + sent(b) - before
}

#[test]
fn long_messages_take_few_packets_through_memory() {
    let config = config(WireChoice::Auto, "");
    let mut pair = pair_of(&config, QpKind::Rc, 3 * LEN, &Link::default());
    let packets = packets_of_long_messages(&mut pair);
    let on_a_network = (9 * LEN / MTU) as u64;
    assert!(packets < on_a_network / 4, "{packets} instead of {on_a_network}");
}

/// A fault applies to each packet.
#[test]
fn what_may_meet_a_fault_keeps_its_packets() {
    let config = config(WireChoice::Auto, "loss=0.1%,seed=1");
    let mut pair = pair_of(&config, QpKind::Rc, 3 * LEN, &Link::default());
    assert!(packets_of_long_messages(&mut pair) >= (9 * LEN / MTU) as u64);
}

/// An adapter would notice it, too, whatever way the packets take.
#[test]
fn ends_whose_mtu_differs_notice_it_through_memory() {
    for mtu in [[4096, 1024], [1024, 4096], [256, 512]] {
        let config = config(WireChoice::Auto, "");
        let pair = (side(&config, QpKind::Rc, LEN), side(&config, QpKind::Rc, LEN));
        let [ours, theirs] = mtu.map(|mtu| Link { mtu, ..Link::default() });
        let (a, b) = &pair;
        connect(a, b, &ours);
        // The other end is told of another path MTU.
        b.qp.modify(&common::roce::to(QpState::Reset)).expect("to reset");
        let (first, second) = (theirs.psn[0], theirs.psn[1]);
        common::roce::up(&b.qp, &theirs, (a.device.gid(), a.qp.qpn()), [second, first]);
        warm_up(&pair);
        post(a, 1, SendOp::Write(remote(b, 0)), &[a.sge(0, 64 << 10)]);
        a.qp.post_send(&wr(2, SendOp::Send, &[])).expect("a work request is taken");
        let found = gather(&[a], 2);
        let expected = [(1, Status::RemoteInvalidRequest), (2, Status::Flushed)];
        assert_eq!(ends(&found[0], true), expected, "{mtu:?}");
        assert_eq!(b.qp.query().state, QpState::Error);
    }
}
