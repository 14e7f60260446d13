//! Which packets count as lost, silent or repeated needlessly, and the effect on the window (SRD-7,
//! SRD-8.5).

use crate::basics::expect_all;
use crate::common::{Faults, Pair};
use srd::{PathId, Status};

const SECOND_NS: u64 = 1_000_000_000;
const BURST: u64 = 20;

/// Loses one message of a burst that left in one turn. Returns the window before and after, and how
/// often the timer found silence.
fn lose_one_of_a_burst(lost: u64) -> (u64, u64, u64) {
    let mut pair = Pair::socket(60);
    for burst in 0..8 {
        (0..BURST).for_each(|i| pair.send(0, burst * BURST + i, 8000));
        assert!(pair.run_until_done(SECOND_NS));
        pair.run_ns(1_000_000);
    }
    let peer = pair.peer_of(0);
    let before = pair.nodes[0].engine.window_bytes(peer).expect("a peer");
    (0..BURST).for_each(|i| pair.send(0, 8 * BURST + i, 8000));
    pair.lose_id = Some(8 * BURST + lost);
    pair.turn();
    pair.lose_id = None;
    assert!(pair.run_until_done(SECOND_NS));
    expect_all(&pair, 9 * BURST);
    let engine = &pair.nodes[0].engine;
    let after = engine.window_bytes(peer).expect("a peer");
    (before, after, engine.stats().retrans_timeout_events)
}

/// SRD-7.2: a packet of the same turn with a higher number that was answered counts as later,
/// although both left at the same time.
#[test]
fn a_loss_in_a_burst_is_no_silence() {
    for lost in [0, 5, BURST - 2] {
        let (before, after, silences) = lose_one_of_a_burst(lost);
        assert_eq!((after, silences), (before, 0), "message {lost}");
    }
}

/// SRD-8.5: no later packet reveals the loss of the last one, but its burst was answered.
#[test]
fn the_last_of_a_burst_costs_no_window() {
    let (before, after, silences) = lose_one_of_a_burst(BURST - 1);
    assert_eq!((after, silences), (before, 1));
}

/// SRD-7.1, SRD-7.3: after one late answer the timeout is half a second, and sixteen quick ones
/// shorten it again, even while something is in flight.
#[test]
fn a_timer_follows_a_shorter_time_out() {
    let mut pair = Pair::socket(61);
    pair.send(0, 0, 64);
    assert!(pair.run_until_done(SECOND_NS));
    pair.asleep[1] = true;
    pair.send(0, 1, 64);
    pair.run_ns(SECOND_NS);
    pair.asleep[1] = false;
    assert!(pair.run_until_done(SECOND_NS));
    pair.run_ns(SECOND_NS / 10);
    let sent_at = pair.now;
    // Each arrives and is answered alone; only the last one is lost.
    pair.faults = Faults { reorder: 1000, ..Faults::default() };
    (2..=40).for_each(|id| pair.send(0, id, 64));
    pair.lose_id = Some(40);
    pair.turn();
    pair.lose_id = None;
    assert!(pair.run_until_done(SECOND_NS));
    expect_all(&pair, 41);
    let took_ns = pair.now.ns_since(sent_at);
    assert!(took_ns < 20_000_000, "{} us", took_ns / 1000);
}

/// SRD-7.4: the answer to the first transmission comes before, or after, what had counted as lost
/// was repeated.
#[test]
fn only_repetitions_are_needless_repetitions() {
    for is_repeated in [false, true] {
        let mut pair = Pair::socket(62);
        pair.send(0, 0, 64);
        assert!(pair.run_until_done(SECOND_NS));
        pair.send(0, 1, 64);
        let hosts = pair.nodes.each_ref().map(|node| node.addr.host);
        let sent = pair.tap(0).remove(0);
        let (now, engine) = (pair.now, &mut pair.nodes[1].engine);
        let got = engine.handle_datagram(now, hosts[0], &sent, sent.len()).expect("good");
        let new = got.data.expect("a new message");
        engine.accept(now, new.peer, new.psn);
        let answer = pair.tap(1).remove(0);
        pair.now = pair.now.plus_ns(6_000_000);
        pair.nodes[0].engine.handle_timeout(pair.now);
        if is_repeated {
            assert_eq!(pair.tap(0).len(), 1);
        }
        let engine = &mut pair.nodes[0].engine;
        engine.handle_datagram(pair.now, hosts[1], &answer, answer.len()).expect("good");
        assert_eq!(engine.in_flight(), 0);
        let expected = u64::from(is_repeated);
        let stats = engine.stats();
        assert_eq!((stats.retrans_pkts, stats.spurious_retrans), (expected, expected));
    }
}

/// SRD-7.5: the host was stopped between the time-out and the repetition.
#[test]
fn a_host_that_slept_before_it_asked_again_asks() {
    let mut pair = Pair::socket(63);
    pair.send(0, 0, 64);
    assert!(pair.run_until_done(SECOND_NS));
    pair.faults.loss = 1000;
    pair.send(0, 1, 64);
    pair.turn();
    pair.faults.loss = 0;
    pair.now = pair.now.plus_ns(6_000_000);
    pair.nodes[0].engine.handle_timeout(pair.now);
    pair.now = pair.now.plus_ns(20 * SECOND_NS);
    assert!(pair.run_until_done(SECOND_NS));
    expect_all(&pair, 2);
}

/// SRD-3.5, SRD-7.5: the next endpoint at the address starts as unknown as any other.
#[test]
fn a_dead_peer_leaves_no_bad_name() {
    let mut pair = Pair::socket(64);
    (0..100).for_each(|id| pair.send(0, id, 8000));
    assert!(pair.run_until_done(SECOND_NS));
    let peer = pair.peer_of(0);
    let is_avoided = |pair: &Pair, path| {
        pair.nodes[0].engine.path_stats(peer, PathId(path)).is_some_and(|path| path.quarantined)
    };
    pair.faults.loss = 1000;
    (100..200).for_each(|id| pair.send(0, id, 8000));
    pair.run_ns(7 * SECOND_NS);
    assert!(pair.nodes[0].engine.window_bytes(peer).expect("a peer") <= 64 << 10);
    assert!((0..4).any(|path| is_avoided(&pair, path)));
    assert!(pair.run_until_done(2 * SECOND_NS));
    assert_eq!(pair.nodes[0].completed[&199], Status::UnrespRemote);
    assert!(!(0..4).any(|path| is_avoided(&pair, path)));
    assert_eq!(pair.nodes[0].engine.window_bytes(peer), Some(512 << 10));
    pair.faults.loss = 0;
    pair.restart(1, 65);
    pair.send(0, 200, 64);
    assert!(pair.run_until_done(SECOND_NS));
    assert_eq!(pair.nodes[1].delivered, [200]);
}
