//! Loss recovery before the acknowledgement timeout (RC-4.5 to RC-4.7), in virtual time.

mod common;

use common::craft::{Craft, OUR_PSN, Solo, THEIR_PSN, ack, nak, receive_attr, send_attr};
use common::host::{BASE, Done, KEY};
use common::pair::{Faults, Pair, Setup};
use common::{Rng, explore};
use rc::wire::{Kind, NakCode, Syndrome};
use rc::{Config, DropReason, Operation, Remote, SendAttr, SendRequest, Service, Status, WrId};

const HERE: Remote = Remote { va: BASE, rkey: KEY };
/// Of `send_attr()`: 67 ms.
const TIMEOUT_NS: u64 = 4096 << 14;
const FLOOR_NS: u64 = 100_000;
const TRIP_NS: u64 = 20_000;

/// As strict as can be, but for early repetitions.
fn early() -> Config {
    Config { rto_floor_ns: FLOOR_NS, ..Config::strict() }
}

fn ours(n: u32) -> u32 {
    (OUR_PSN + n) & 0xFF_FFFF
}

fn post(solo: &mut Solo, id: u64, op: Operation, len: u32) {
    let request = SendRequest::new(WrId(id), op, len);
    solo.host.post(solo.now, request, vec![id as u8; len as usize]);
}

/// A connection on which round trips of `TRIP_NS` were measured; 20 numbers are taken.
fn measured_with(config: Config, send: SendAttr) -> Solo {
    let mut solo = Solo::with(config, Service::Rc, receive_attr(), send);
    for n in 0..20 {
        post(&mut solo, u64::from(n), Operation::Send, 10);
        assert_eq!(solo.sent().len(), 1);
        solo.pass_ns(TRIP_NS);
        solo.give(&ack(ours(n))).expect("it was sent");
    }
    solo.host.done.clear();
    solo
}

fn measured() -> Solo {
    measured_with(early(), send_attr())
}

/// Numbers of what there is to send.
fn numbers(solo: &mut Solo) -> Vec<u32> {
    solo.sent().iter().map(|seen| seen.psn).collect()
}

fn sends(of: std::ops::RangeInclusive<u32>) -> Vec<u32> {
    of.map(ours).collect()
}

/// RC-4.5: 8 floors before anything is measured, then as measured, twice as long each time.
#[test]
fn what_is_overdue_is_repeated_long_before_the_timeout() {
    let mut solo = Solo::with(early(), Service::Rc, receive_attr(), send_attr());
    post(&mut solo, 1, Operation::Send, 10);
    assert_eq!(numbers(&mut solo), sends(0..=0));
    assert_eq!(solo.host.engine.poll_timeout(), Some(solo.now.plus_ns(8 * FLOOR_NS)));
    let mut solo = measured();
    (20..26).for_each(|id| post(&mut solo, id, Operation::Send, 10));
    assert_eq!(numbers(&mut solo), sends(20..=25));
    for shift in 0..4 {
        solo.pass_ns((FLOOR_NS << shift) - 1);
        assert_eq!(numbers(&mut solo), [], "not before its time");
        solo.pass_ns(1);
        assert_eq!(numbers(&mut solo), sends(20..=20), "the oldest one asks for the others");
    }
    assert_eq!(solo.host.engine.stats().timeouts, 0);
    solo.give(&ack(ours(20))).unwrap();
    assert_eq!(numbers(&mut solo), sends(21..=22), "all the others are missing");
    solo.give(&ack(ours(25))).unwrap();
    assert_eq!(solo.host.sends().len(), 6);
}

/// RC-4.5: adapters wait for the timeout of the connection, and so does a strict device.
#[test]
fn without_a_floor_nothing_is_early() {
    for config in [Config::strict(), Config::hardware(64)] {
        let mut solo = measured_with(config, send_attr());
        post(&mut solo, 20, Operation::Send, 10);
        solo.sent();
        assert_eq!(solo.host.engine.poll_timeout(), Some(solo.now.plus_ns(TIMEOUT_NS)));
        solo.pass_ns(TIMEOUT_NS - 1);
        assert_eq!(numbers(&mut solo), []);
    }
}

/// RC-4.5, RC-4.1: a connection that never times out repeats nothing by itself.
#[test]
fn without_a_timeout_nothing_is_early() {
    let mut solo = measured_with(early(), SendAttr { timeout: 0, ..send_attr() });
    post(&mut solo, 20, Operation::Send, 10);
    solo.sent();
    assert_eq!(solo.host.engine.poll_timeout(), None);
}

/// When a requester gives up that hears nothing any more, and how many packets it has sent by then.
fn given_up(config: Config, send: SendAttr) -> (u64, u64) {
    let mut solo = measured_with(config, send);
    let begin = solo.now;
    (20..30).for_each(|id| post(&mut solo, id, Operation::Send, 10));
    let sent_before = solo.host.engine.stats().tx_packets;
    while solo.host.sends().is_empty() {
        solo.sent();
        let next = solo.host.engine.poll_timeout().expect("it waits");
        let wait_ns = next.ns_since(solo.now);
        solo.pass_ns(wait_ns);
    }
    assert_eq!(solo.host.sends()[0], (20, Status::RetryExceeded));
    (solo.now.ns_since(begin), solo.host.engine.stats().tx_packets - sent_before)
}

/// RC-4.2, RC-4.5: what is early is no failure, so that silence is borne as long as ever.
#[test]
fn a_dead_peer_ends_after_the_same_time() {
    for retry_cnt in [0, 1, 3, 7] {
        let send = SendAttr { retry_cnt, ..send_attr() };
        let (late, early) = (given_up(Config::strict(), send), given_up(early(), send));
        assert_eq!(late.0, (u64::from(retry_cnt) + 1) * TIMEOUT_NS);
        assert_eq!(late.0, early.0, "{retry_cnt} retries");
        assert!(early.1 < late.1 + 20, "{} packets instead of {}", early.1, late.1);
    }
}

/// RC-4.5: what was late was not lost, and nothing is sent twice but the packet that asked.
#[test]
fn what_was_late_costs_one_packet() {
    let mut solo = measured();
    (20..40).for_each(|id| post(&mut solo, id, Operation::Send, 10));
    let window = solo.host.engine.window_packets();
    let there = numbers(&mut solo).len() as u32;
    assert!(there > 10, "a window of {window}");
    solo.pass_ns(FLOOR_NS);
    assert_eq!(numbers(&mut solo), sends(20..=20));
    assert_eq!(solo.host.engine.window_packets(), 1);
    solo.give(&ack(ours(24))).unwrap();
    assert!(solo.host.engine.window_packets() >= window);
    assert!(numbers(&mut solo).iter().all(|psn| *psn >= ours(20 + there)), "only what is new");
    solo.give(&ack(ours(39))).unwrap();
    assert_eq!(solo.host.sends().len(), 20);
    assert_eq!(solo.host.engine.stats().tx_repeated, 1);
}

/// RC-4.5, RC-3.11: what was late does not carry a requester past a work request that its host
/// cannot do, nor past the last one before it, which has asked for nothing.
#[test]
fn what_was_late_leaves_a_local_fault_where_it_is() {
    let mut solo = measured();
    (20..=24).for_each(|id| post(&mut solo, id, Operation::Send, 10));
    assert_eq!(numbers(&mut solo), sends(20..=24));
    solo.pass_ns(FLOOR_NS);
    assert_eq!(numbers(&mut solo), sends(20..=20));
    solo.host.engine.withdraw(solo.now, WrId(23), Status::LocalProtection);
    post(&mut solo, 25, Operation::Send, 10);
    assert_eq!(numbers(&mut solo), sends(20..=20));
    solo.give(&ack(ours(21))).unwrap();
    let sent = solo.sent();
    let asks: Vec<_> = sent.iter().map(|seen| (seen.psn, seen.headers.bth.wants_ack)).collect();
    assert_eq!(asks, [(ours(22), true)], "nothing behind the fault");
    solo.give(&ack(ours(22))).unwrap();
    let (done, behind) = (Status::Ok, Status::Flushed);
    let ended = [(20, done), (21, done), (22, done), (23, Status::LocalProtection)];
    assert_eq!(solo.host.sends()[..4], ended);
    assert_eq!(solo.host.sends()[4..], [(24, behind), (25, behind)]);
}

/// RC-4.5: a peer that has become slower is waited for, once it was measured (Karn's algorithm).
#[test]
fn a_slower_peer_is_learned() {
    let mut solo = measured();
    let slow_ns = 3 * FLOOR_NS;
    for n in 20..60 {
        post(&mut solo, u64::from(n), Operation::Send, 10);
        let mut left_ns = slow_ns;
        loop {
            solo.sent();
            let next = solo.host.engine.poll_timeout().expect("it waits").ns_since(solo.now);
            if next >= left_ns {
                break;
            }
            solo.pass_ns(next);
            left_ns -= next;
        }
        solo.pass_ns(left_ns);
        solo.sent();
        solo.give(&ack(ours(n))).unwrap();
    }
    let repeated = solo.host.engine.stats().tx_repeated;
    assert!(repeated < 6, "{repeated} of 40 messages were sent again");
}

/// RC-4.6: a NAK's repetition was lost again, says the peer.
#[test]
fn a_repetition_that_is_lost_is_repeated_after_a_round_trip() {
    let mut solo = measured();
    (20..24).for_each(|id| post(&mut solo, id, Operation::Send, 10));
    solo.sent();
    solo.pass_ns(TRIP_NS);
    solo.give(&nak(ours(20), NakCode::Sequence)).unwrap();
    assert_eq!(numbers(&mut solo), sends(20..=23));
    solo.pass_ns(TRIP_NS / 4);
    solo.give(&nak(ours(20), NakCode::Sequence)).unwrap();
    assert_eq!(numbers(&mut solo), [], "too early for an answer: a copy of the first");
    for _ in 0..20 {
        solo.pass_ns(TRIP_NS);
        solo.give(&nak(ours(20), NakCode::Sequence)).unwrap();
        assert!(!numbers(&mut solo).is_empty(), "the peer has seen a later one");
        assert_eq!(solo.host.sends(), [], "which is no failure");
    }
    solo.give(&ack(ours(20))).unwrap();
    assert_eq!(solo.host.sends(), [(20, Status::Ok)]);
}

/// RC-4.2, RC-4.6: a path that never lets one packet through ends as ever.
#[test]
fn one_packet_that_never_arrives_ends_the_retries() {
    for config in [Config::strict(), early()] {
        let mut solo = measured_with(config, send_attr());
        post(&mut solo, 20, Operation::Send, 10);
        post(&mut solo, 21, Operation::Send, 10);
        let begin = solo.now;
        while solo.host.sends().is_empty() {
            solo.sent();
            solo.pass_ns(TRIP_NS);
            // The peer has got the second one, and says so as often as it likes.
            let _ = solo.give(&nak(ours(20), NakCode::Sequence));
            assert!(solo.now.ns_since(begin) < 10 * TIMEOUT_NS, "it goes on for ever");
        }
        assert_eq!(solo.host.sends()[0], (20, Status::RetryExceeded));
    }
}

/// RC-4.7.
#[test]
fn copies_of_the_newest_acknowledgement_tell_of_a_loss() {
    let mut solo = measured();
    (20..24).for_each(|id| post(&mut solo, id, Operation::Send, 10));
    assert_eq!(numbers(&mut solo), sends(20..=23));
    solo.pass_ns(TRIP_NS);
    for _ in 0..2 {
        assert_eq!(solo.give(&ack(ours(19))), Err(DropReason::Stale));
        assert_eq!(solo.give(&ack(ours(18))), Err(DropReason::Stale), "an old one tells nothing");
    }
    assert_eq!(numbers(&mut solo), []);
    assert_eq!(solo.give(&ack(ours(19))), Err(DropReason::Stale));
    assert_eq!(numbers(&mut solo), sends(20..=23));
    (0..9).for_each(|_| assert_eq!(solo.give(&ack(ours(19))), Err(DropReason::Stale)));
    assert_eq!(numbers(&mut solo), [], "once in a round trip");
    let mut solo = measured_with(Config::strict(), send_attr());
    post(&mut solo, 20, Operation::Send, 10);
    solo.sent();
    solo.pass_ns(TRIP_NS);
    (0..9).for_each(|_| assert_eq!(solo.give(&ack(ours(19))), Err(DropReason::Stale)));
    assert_eq!(numbers(&mut solo), [], "adapters take no hints");
}

/// RC-4.7: copies that came while nothing was on its way made the next packet leave twice.
#[test]
fn copies_of_what_is_long_over_tell_nothing() {
    let mut solo = measured();
    (0..5).for_each(|_| assert_eq!(solo.give(&ack(ours(19))), Err(DropReason::Stale)));
    (20..24).for_each(|id| post(&mut solo, id, Operation::Send, 10));
    assert_eq!(numbers(&mut solo), sends(20..=23));
    solo.pass_ns(TRIP_NS);
    assert_eq!(solo.give(&ack(ours(19))), Err(DropReason::Stale));
    assert_eq!(numbers(&mut solo), []);
}

fn request(n: u32) -> Craft {
    Craft::new(Kind::SendOnly, THEIR_PSN + n).with(4).asks()
}

/// What there is to say: number, and whether it is a NAK.
fn said(solo: &mut Solo) -> Vec<(u32, bool)> {
    let is_nak = |seen: &common::craft::Seen| {
        matches!(seen.headers.aeth.syndrome, Syndrome::Nak(NakCode::Sequence))
    };
    solo.sent().iter().map(|seen| (seen.psn, is_nak(seen))).collect()
}

/// RC-5.2, RC-4.6: the peer is told again when it has had time to repeat, and only when later
/// packets come.
#[test]
fn a_gap_is_told_again_after_two_round_trips() {
    let mut solo = measured();
    (0..9).for_each(|id| solo.host.post_receive(id, 100));
    assert_eq!(solo.give(&request(1)), Err(DropReason::Gap));
    assert_eq!(said(&mut solo), [(THEIR_PSN, true)]);
    solo.pass_ns(2 * TRIP_NS - 1000);
    assert_eq!(solo.give(&request(2)), Err(DropReason::Gap));
    assert_eq!(said(&mut solo), [], "what was on its way already");
    solo.pass_ns(5000);
    assert_eq!(said(&mut solo), [], "nothing has come: silence is for the requester's clock");
    for _ in 0..3 {
        assert_eq!(solo.give(&request(1)), Err(DropReason::Gap));
        assert_eq!(solo.give(&request(2)), Err(DropReason::Gap));
        assert_eq!(said(&mut solo), [(THEIR_PSN, true)]);
        solo.pass_ns(2 * TRIP_NS + 5000);
    }
    solo.give(&request(0)).unwrap();
    assert_eq!(said(&mut solo), [(THEIR_PSN, false)]);
}

/// RC-5.2: a requester that was stopped for ten seconds made its responder wait for twenty, and for
/// more than a second at fifty gaps after that.
#[test]
fn a_stopped_peer_does_not_make_later_gaps_long() {
    let mut solo = measured();
    (0..9).for_each(|id| solo.host.post_receive(id, 100));
    assert_eq!(solo.give(&request(1)), Err(DropReason::Gap));
    assert_eq!(said(&mut solo), [(THEIR_PSN, true)]);
    solo.pass_ns(10_000_000_000);
    solo.give(&request(0)).unwrap();
    assert_eq!(said(&mut solo), [(THEIR_PSN, false)]);
    assert_eq!(solo.give(&request(2)), Err(DropReason::Gap));
    assert_eq!(said(&mut solo), [(THEIR_PSN + 1, true)]);
    solo.pass_ns(2 * 8 * FLOOR_NS);
    assert_eq!(solo.give(&request(3)), Err(DropReason::Gap));
    assert_eq!(said(&mut solo), [(THEIR_PSN + 1, true)]);
}

/// RC-5.2: an adapter says it once.
#[test]
fn an_adapter_tells_of_a_gap_once() {
    for config in [Config::strict(), Config::hardware(64)] {
        let mut solo = measured_with(config, send_attr());
        assert_eq!(solo.give(&request(1)), Err(DropReason::Gap));
        assert_eq!(said(&mut solo), [(THEIR_PSN, true)]);
        solo.pass_ns(TIMEOUT_NS);
        assert_eq!(solo.give(&request(1)), Err(DropReason::Gap));
        assert_eq!(said(&mut solo), []);
    }
}

/// A window of READs whose answer is overdue asks again for what is missing alone.
#[test]
fn an_overdue_answer_is_asked_for_again() {
    let mut solo = measured();
    post(&mut solo, 20, Operation::Read(HERE), 700);
    assert_eq!(solo.sent_short(), [(Kind::ReadRequest, ours(20))]);
    let part = |n, kind, len| Craft::new(kind, ours(n)).says(Syndrome::ACK).with(len);
    solo.give(&part(20, Kind::ReadResponseFirst, 256)).unwrap();
    solo.pass_ns(FLOOR_NS);
    assert_eq!(solo.sent_short(), [(Kind::ReadRequest, ours(21))]);
    solo.give(&part(21, Kind::ReadResponseFirst, 256)).unwrap();
    solo.give(&part(22, Kind::ReadResponseLast, 188)).unwrap();
    assert_eq!(solo.host.sends(), [(20, Status::Ok)]);
}

/// What a ping-pong of `rounds` needs: virtual time, attribute timeouts, packets.
fn ping_pong(config: Config, faults: Faults, seed: u64, rounds: u64) -> (u64, u64, u64) {
    let setup = Setup { config, timeout: 14, ..Setup::default() };
    let mut pair = Pair::new(&setup, seed);
    pair.faults = faults;
    pair.latency_ns = TRIP_NS / 2;
    let begin = pair.now;
    for round in 0..rounds {
        for who in 0..2 {
            pair.hosts[1 - who].post_receive(round, 1000);
            let request = SendRequest::new(WrId(round), Operation::Send, 1000);
            pair.hosts[who].post(pair.now, request, vec![round as u8; 1000]);
            let count = |pair: &Pair| {
                let is_it = |done: &&Done| matches!(done, Done::Receive { .. });
                pair.hosts[1 - who].done.iter().filter(is_it).count() as u64
            };
            let limit = pair.now.plus_ns(60_000_000_000);
            while count(&pair) <= round {
                assert!(pair.step(limit), "a message does not arrive");
            }
        }
    }
    let timeouts = pair.hosts.iter().map(|host| host.engine.stats().timeouts).sum();
    (pair.now.ns_since(begin), timeouts, pair.packets)
}

/// RC-4.5 to RC-4.7: what a lossy or reordering network costs is some round trips, not the timeouts
/// of the connection. 500 rounds of 2 x 4 packets take 10 ms of virtual time where nothing is lost.
#[test]
fn losses_cost_round_trips_and_not_timeouts() {
    let lossy = Faults { loss: 100, ..Faults::default() };
    let reordering = Faults { reorder: 200, duplicate: 10, ..Faults::default() };
    explore("recovery", "losses_cost", 5, |seed| {
        for faults in [lossy, reordering] {
            let (ns, timeouts, packets) = ping_pong(Config::socket(), faults, seed, 500);
            assert!(timeouts <= 5, "{timeouts} timeouts of 67 ms under {faults:?}");
            assert!(ns < 2_000_000_000, "{} us of virtual time under {faults:?}", ns / 1000);
            assert!(packets < 30_000, "{packets} packets under {faults:?}");
        }
    });
}

/// A stream over the same networks: what goes back and forth stays in proportion.
#[test]
fn a_stream_recovers_without_timeouts() {
    explore("recovery", "a_stream", 5, |seed| {
        let mut rng = Rng(seed);
        for loss in [10, 50, 100] {
            let setup = Setup { timeout: 14, ..Setup::default() };
            let mut pair = Pair::new(&setup, rng.next());
            pair.faults = Faults { loss, ..Faults::default() };
            for id in 0..300 {
                pair.hosts[1].post_receive(id, 4096);
                let request = SendRequest::new(WrId(id), Operation::Send, 4096);
                pair.hosts[0].post(pair.now, request, vec![id as u8; 4096]);
            }
            let begin = pair.now;
            assert!(pair.run_until_done(60_000_000_000), "{loss} permille lost: no end");
            let (stats, ns) = (pair.hosts[0].engine.stats(), pair.now.ns_since(begin));
            assert!(stats.timeouts <= 5, "{} timeouts, {loss} permille lost", stats.timeouts);
            let count = stats.tx_packets;
            assert!(count < 4800 * 4, "{count} packets for 4,800 of {loss} permille lost");
            assert!(ns < 3_000_000_000, "{} us, {loss} permille lost", ns / 1000);
        }
    });
}
