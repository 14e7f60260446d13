//! The protocol as a host sees it, one rule per test.

use crate::common::{Answer, Faults, KEY, Pair};
use srd::{Address, Config, Event, Message, MsgId, Reject, SendError, Status};

const SECOND_NS: u64 = 1_000_000_000;

pub(crate) fn expect_all(pair: &Pair, count: u64) {
    assert_eq!(pair.nodes[1].delivered_sorted(), (0..count).collect::<Vec<_>>());
    assert_eq!(pair.nodes[0].completed.len() as u64, count);
    assert!(pair.nodes[0].completed.values().all(|&status| status == Status::Ok));
}

/// SRD-1.1, SRD-1.2: one datagram carries the message, without a handshake.
#[test]
fn a_message_arrives_and_completes() {
    let mut pair = Pair::socket(1);
    pair.send(0, 0, 64);
    assert!(pair.run_until_done(SECOND_NS));
    expect_all(&pair, 1);
    assert_eq!(pair.datagrams, 2, "one datagram each way");
}

#[test]
fn many_messages_arrive_in_bursts() {
    let mut pair = Pair::socket(2);
    (0..20_000).for_each(|id| pair.send(0, id, 64));
    assert!(pair.run_until_done(SECOND_NS));
    expect_all(&pair, 20_000);
    assert_eq!(pair.nodes[0].engine.stats().retrans_pkts, 0);
    assert!(pair.nodes[1].engine.stats().tx_pure_acks < 500);
}

/// SRD-1.3, SRD-4.3.
#[test]
fn everything_arrives_once_over_a_bad_link() {
    let mut pair = Pair::socket(3);
    pair.faults = Faults { loss: 50, duplicate: 50, reorder: 200, dead_paths: 0 };
    (0..5000).for_each(|id| pair.send(0, id, 1000));
    assert!(pair.run_until_done(60 * SECOND_NS));
    expect_all(&pair, 5000);
}

/// SRD-8.2.
#[test]
fn a_dead_path_is_left() {
    let mut pair = Pair::socket(4);
    pair.faults.dead_paths = 1 << 2;
    (0..5000).for_each(|id| pair.send(0, id, 8000));
    assert!(pair.run_until_done(10 * SECOND_NS));
    expect_all(&pair, 5000);
    let rtx = pair.nodes[0].engine.stats().retrans_pkts;
    assert!(rtx < 300, "{rtx} repetitions of 5000, a quarter of the paths is dead");
}

/// SRD-7.3: a slow stream uses one path, and other paths may have died together with it.
#[test]
fn one_silence_is_enough_while_one_path_lives() {
    for (seed, living) in (0..8).flat_map(|seed| (0..4).map(move |path| (seed, path))) {
        let mut pair = Pair::socket(100 + seed);
        (0..500).for_each(|id| pair.send(0, id, 1000));
        assert!(pair.run_until_done(SECOND_NS));
        pair.faults.dead_paths = 0b1111 & !(1 << living);
        (500..540).for_each(|id| pair.send(0, id, 1000));
        pair.run_ns(2 * pair.config.rto_floor_ns - 1);
        // Probes on the two other dead paths are repeated later.
        let missing = 540 - pair.nodes[1].delivered.len();
        assert!(missing <= 2, "seed {seed}, all paths but {living} died: {missing} are missing");
        assert!(pair.run_until_done(SECOND_NS));
        expect_all(&pair, 540);
    }
}

/// SRD-5.1, SRD-5.2.
#[test]
fn replies_carry_the_acknowledgement() {
    let mut pair = Pair::socket(5);
    pair.eager_acks = false;
    for round in 0..100 {
        let (from, before) = (round % 2, pair.nodes[1 - round % 2].delivered.len());
        pair.send(from, round as u64, 64);
        while pair.nodes[1 - from].delivered.len() == before {
            let limit = pair.now.plus_ns(SECOND_NS);
            pair.step(limit);
        }
    }
    assert_eq!(pair.datagrams, 100, "no datagram for an acknowledgement alone");
}

#[test]
fn refusals_end_only_their_own_message() {
    let mut pair = Pair::socket(8);
    for (id, why) in [Reject::BadDestQpn, Reject::BadLength].into_iter().enumerate() {
        pair.nodes[1].answer = Answer::Refuse(why);
        pair.send(0, id as u64, 64);
        assert!(pair.run_until_done(SECOND_NS));
    }
    pair.nodes[1].answer = Answer::Accept;
    pair.send(0, 2, 64);
    assert!(pair.run_until_done(SECOND_NS));
    let want = [Status::BadDestQpn, Status::BadLength, Status::Ok];
    assert_eq!(pair.nodes[0].statuses(), want);
}

/// SRD-6.4: more refusals than one acknowledgement can list.
#[test]
fn thousands_of_mixed_refusals_are_all_reported() {
    let mut pair = Pair::socket(9);
    (0..6000).for_each(|id| pair.send(0, id, 64));
    pair.nodes[1].answer = Answer::Mixed;
    pair.faults.loss = 20;
    assert!(pair.run_until_done(100 * SECOND_NS));
    let ok = pair.nodes[0].completed.iter().filter(|c| *c.1 == Status::Ok).map(|c| *c.0);
    let delivered = pair.nodes[1].delivered_sorted();
    assert!(ok.eq(delivered), "exactly what ended well was delivered");
    assert_eq!(pair.nodes[0].completed.len(), 6000);
    let refused = pair.nodes[1].engine.stats().rx_rejected;
    assert!(refused > 1000, "{refused}");
}

/// SRD-6.8: the oldest message must be refused even if no memory is left for refusals, because all
/// others wait for it.
#[test]
fn a_full_list_of_refusals_stops_nobody() {
    let mut pair = Pair::socket(30);
    pair.send(0, 10_000, 64);
    assert!(pair.run_until_done(SECOND_NS));
    pair.lose_id = Some(0);
    for id in 0..4000 {
        let qkey = KEY + u32::from(id % 2 == 0);
        let msg = Message { id: MsgId(id), len: 64, rnr_retry: 7, qkey, ..Message::default() };
        pair.send_with(0, msg);
    }
    pair.run_ns(SECOND_NS / 10);
    let stats = *pair.nodes[1].engine.stats();
    assert!(stats.rx_unanswered > 100 && stats.rx_rejected <= 1025, "{stats:?}");
    pair.lose_id = None;
    assert!(pair.run_until_done(10 * SECOND_NS), "messages wait for each other");
    for (id, status) in &pair.nodes[0].completed {
        let is_wrong = *id < 4000 && id % 2 == 0;
        assert_eq!(*status, if is_wrong { Status::BadDestQpn } else { Status::Ok }, "{id}");
    }
}

/// SRD-7.2, SRD-7.3: if the host requested it, each repetition is preceded by a reported loss.
#[test]
fn losses_are_reported_to_who_asks() {
    for report_losses in [true, false] {
        let mut pair = Pair::new(Config { report_losses, ..Config::socket() }, 31);
        pair.faults.loss = 20;
        (0..2000).for_each(|id| pair.send(0, id, 64));
        assert!(pair.run_until_done(10 * SECOND_NS));
        let is_loss = |event: &&Event| matches!(event, Event::Lost { .. });
        let reported = pair.nodes[0].events.iter().filter(is_loss).count() as u64;
        let repeated = pair.nodes[0].engine.stats().retrans_pkts;
        assert!(repeated > 10, "{repeated}");
        // A message that was answered late is not repeated.
        let bounds = if report_losses { repeated..=2 * repeated } else { 0..=0 };
        assert!(bounds.contains(&reported), "{reported} of {repeated}");
    }
}

/// SRD-7.5.
#[test]
fn silence_ends_messages() {
    let mut pair = Pair::socket(10);
    pair.faults.loss = 1000;
    pair.send(0, 0, 64);
    assert!(pair.run_until_done(9 * SECOND_NS), "dead after eight seconds");
    assert_eq!(pair.nodes[0].statuses(), [Status::UnreachRemote]);
    assert_eq!(pair.nodes[0].engine.stats().impaired_remote_conn_events, 1);
    pair.faults.loss = 0;
    pair.send(0, 1, 64);
    assert!(pair.run_until_done(SECOND_NS));
    pair.faults.loss = 1000;
    pair.send(0, 2, 64);
    assert!(pair.run_until_done(9 * SECOND_NS));
    assert_eq!(pair.nodes[0].statuses()[1], Status::Ok);
    assert_eq!(pair.nodes[0].statuses()[2], Status::UnrespRemote);
    assert_eq!(pair.nodes[0].engine.stats().unresponsive_remote_events, 2);
}

/// SRD-7.5: two hosts that were stopped together, as by a shell's job control, resume their
/// connection.
#[test]
fn a_host_that_slept_does_not_call_its_peer_silent() {
    for seed in 0..20 {
        let mut pair = Pair::socket(seed);
        pair.send(0, 0, 64);
        assert!(pair.run_until_done(SECOND_NS));
        pair.asleep = [false, true];
        pair.send(0, 1, 64);
        pair.run_ns(1 + seed * 10_000_000);
        pair.asleep = [true, true];
        pair.run_ns(20 * SECOND_NS);
        pair.asleep = [false, true];
        pair.run_ns(SECOND_NS);
        assert_eq!(pair.nodes[0].statuses(), [Status::Ok], "seed {seed}: given up");
        pair.asleep = [false, false];
        assert!(pair.run_until_done(SECOND_NS));
        assert_eq!(pair.nodes[0].statuses(), [Status::Ok; 2], "seed {seed}");
        assert_eq!(pair.nodes[1].delivered, [0, 1]);
    }
}

/// SRD-3.5.
#[test]
fn a_restarted_peer_aborts_what_is_in_flight() {
    let mut pair = Pair::socket(11);
    pair.send(0, 0, 64);
    assert!(pair.run_until_done(SECOND_NS));
    pair.restart(1, 99);
    pair.send(0, 1, 64);
    assert!(pair.run_until_done(SECOND_NS));
    assert_eq!(pair.nodes[0].statuses(), [Status::Ok, Status::RemoteAbort]);
    assert!(pair.nodes[0].events.iter().any(|event| matches!(event, Event::PeerReset { .. })));
    pair.send(0, 2, 64);
    assert!(pair.run_until_done(SECOND_NS));
    assert_eq!(pair.nodes[1].delivered, [2]);
}

/// SRD-3.3: the newer connection replaces the older.
#[test]
fn a_restarted_sender_is_heard() {
    let mut pair = Pair::socket(12);
    pair.send(0, 0, 64);
    assert!(pair.run_until_done(SECOND_NS));
    pair.restart(0, 99);
    pair.send(0, 1, 64);
    assert!(pair.run_until_done(SECOND_NS));
    assert_eq!(pair.nodes[1].delivered, [0, 1]);
}

/// SRD-6.6.
#[test]
fn closing_answers_duplicates_and_refuses_news() {
    let mut pair = Pair::socket(13);
    pair.send(0, 0, 64);
    pair.send(1, 7, 64);
    assert!(pair.run_until_done(SECOND_NS));
    let now = pair.now;
    pair.nodes[1].engine.begin_close(now);
    pair.send(0, 1, 64);
    assert!(pair.run_until_done(SECOND_NS));
    assert_eq!(pair.nodes[0].statuses(), [Status::Ok, Status::BadDestQpn]);
    let peer = pair.peer_of(1);
    let refused = pair.nodes[1].engine.send(now, peer, Message::default());
    assert_eq!(refused, Err(SendError::Closing));
}

#[test]
fn final_acks_reach_a_sender_that_lost_the_first() {
    let mut pair = Pair::socket(14);
    pair.send(0, 0, 64);
    let limit = pair.now.plus_ns(pair.latency_ns);
    pair.step(limit);
    pair.faults.loss = 1000;
    pair.turn();
    pair.faults.loss = 0;
    let now = pair.now;
    pair.nodes[1].engine.begin_close(now);
    pair.nodes[1].engine.final_acks(now);
    assert!(pair.run_until_done(4_000_000), "before the retransmission timer");
    expect_all(&pair, 1);
}

/// SRD-3.7.
#[test]
fn unreachable_ends_with_bad_destination() {
    let mut pair = Pair::socket(15);
    let peer = pair.peer_of(0);
    let now = pair.now;
    let node = &mut pair.nodes[0].engine;
    node.send(now, peer, Message { id: MsgId(5), len: 9, ..Message::default() }).unwrap();
    let mut header = [0; srd::HEADER_MAX];
    let out = node.poll_transmit(now, &mut header).unwrap();
    assert!(out.header_len <= 52, "{} bytes of header", out.header_len);
    node.handle_unreachable(now, &header[..out.header_len]);
    let want = Event::Completed { peer, msg: MsgId(5), status: Status::BadDestQpn };
    assert_eq!(node.poll_event(), Some(want));
    assert_eq!(node.poll_transmit(now, &mut header), None);
    assert!(node.is_quiescent());
}

/// SRD-4.4: the receiver slides past numbers that were given up.
#[test]
fn cancelled_messages_are_flushed_and_the_peer_lives_on() {
    let mut pair = Pair::socket(16);
    pair.send(0, 0, 64);
    assert!(pair.run_until_done(SECOND_NS));
    pair.faults.loss = 1000;
    for round in 0..40 {
        (1..500).for_each(|i| pair.send(0, round * 500 + i, 1000));
        pair.turn();
        let (now, peer) = (pair.now, pair.peer_of(0));
        pair.nodes[0].engine.cancel_peer(now, peer);
    }
    let lost = pair.nodes[0].engine.stats().tx_data;
    assert!(lost > 8192, "more numbers were given up than the window holds: {lost}");
    pair.faults.loss = 0;
    pair.send(0, 20_000, 64);
    assert!(pair.run_until_done(SECOND_NS));
    assert_eq!(pair.nodes[1].delivered, [0, 20_000]);
    assert_eq!(pair.nodes[0].statuses()[7], Status::Flushed);
}

/// SRD-3.6.
#[test]
fn idle_peers_are_small_and_collected() {
    let mut pair = Pair::socket(17);
    pair.faults = Faults { loss: 20, duplicate: 20, reorder: 300, dead_paths: 0 };
    (0..2000).for_each(|id| pair.send((id % 2) as usize, id, 1000));
    assert!(pair.run_until_done(60 * SECOND_NS));
    pair.run_ns(3 * SECOND_NS);
    for i in 0..2 {
        let peer = pair.peer_of(i);
        let bytes = pair.nodes[i].engine.peer_memory_bytes(peer).unwrap();
        println!("an idle peer takes {bytes} bytes");
        assert!(bytes <= 2048, "an idle peer takes {bytes} bytes");
    }
    let (peer, msg) = (pair.peer_of(0), Message::default());
    pair.run_ns(45 * SECOND_NS);
    assert_eq!(pair.nodes[0].engine.send(pair.now, peer, msg), Err(SendError::StalePeer));
    assert_eq!(pair.nodes[0].engine.poll_timeout(), None);
}

#[test]
fn an_idle_connection_starts_afresh() {
    let mut pair = Pair::socket(18);
    for id in 0..3 {
        pair.send(0, id, 64);
        assert!(pair.run_until_done(SECOND_NS));
        pair.run_ns(12 * SECOND_NS);
    }
    expect_all(&pair, 3);
}

/// SRD-3.6: a message that is posted after a long standstill leaves before any timer is handled.
#[test]
fn a_sender_that_stood_still_uses_no_forgotten_connection() {
    let mut pair = Pair::socket(18);
    pair.send(0, 0, 64);
    assert!(pair.run_until_done(SECOND_NS));
    pair.asleep[0] = true;
    pair.run_ns(40 * SECOND_NS);
    pair.asleep[0] = false;
    pair.send(0, 1, 64);
    pair.drain(0);
    assert!(pair.run_until_done(SECOND_NS));
    expect_all(&pair, 2);
}

#[test]
fn bad_messages_are_refused() {
    let mut pair = Pair::socket(19);
    let (now, peer) = (pair.now, pair.peer_of(0));
    let node = &mut pair.nodes[0].engine;
    let long = Message { len: 9000, ..Message::default() };
    assert_eq!(node.send(now, peer, long), Err(SendError::TooLong));
    let many = Message { rnr_retry: 8, ..Message::default() };
    assert_eq!(node.send(now, peer, many), Err(SendError::BadRnrRetry));
    assert!(node.is_quiescent());
}

/// SRD-8.8.
#[test]
fn a_burst_stays_on_one_path() {
    let mut pair = Pair::socket(20);
    let (now, peer) = (pair.now, pair.peer_of(0));
    for id in 0..128 {
        pair.send(0, id, 64);
    }
    let node = &mut pair.nodes[0].engine;
    let mut header = [0; srd::HEADER_MAX];
    let mut paths = Vec::new();
    while let Some(out) = node.poll_transmit(now, &mut header) {
        assert_eq!((out.peer, out.addr), (Some(peer), Address { host: 101, qpn: 8 }));
        paths.push(out.path);
    }
    assert_eq!(paths.len(), 128);
    paths.dedup();
    assert_eq!(paths.len(), 2);
}

#[test]
fn the_simulated_preset_works_too() {
    let mut pair = Pair::new(Config::simulated(12_500, 20_000, 4150), 21);
    pair.faults = Faults { loss: 10, duplicate: 0, reorder: 50, dead_paths: 1 << 3 };
    (0..5000).for_each(|id| pair.send(0, id, 4000));
    assert!(pair.run_until_done(SECOND_NS));
    expect_all(&pair, 5000);
}

/// SRD-6.5: a copy of an accepted message is a duplicate, even when it is marked as the last try.
#[test]
fn a_final_copy_of_an_accepted_message_is_acknowledged() {
    let mut pair = Pair::socket(22);
    pair.send_with(0, Message { id: MsgId(0), len: 64, rnr_retry: 0, ..Message::default() });
    pair.faults.loss = 0;
    let limit = pair.now.plus_ns(pair.latency_ns);
    pair.step(limit);
    pair.faults.loss = 1000;
    pair.turn();
    pair.faults.loss = 0;
    pair.nodes[1].answer = Answer::Refuse(Reject::Rnr);
    assert!(pair.run_until_done(SECOND_NS));
    expect_all(&pair, 1);
    assert_eq!(pair.nodes[1].engine.stats().rx_duplicates, 1);
}

/// Messages that were overtaken are counted by how far they were behind (RFC 4737).
#[test]
fn the_degree_of_disorder_is_counted() {
    let mut pair = Pair::socket(28);
    (0..8).for_each(|id| pair.send(0, id, 64));
    let sent = pair.tap(0);
    let (now, host) = (pair.now, pair.nodes[0].addr.host);
    let engine = &mut pair.nodes[1].engine;
    // 6 creates the gap; 1, 3 and 2 arrive behind it; a repetition does not count.
    for at in [0, 6, 1, 3, 2, 2, 7, 4, 5] {
        let bytes = &sent[at];
        let received = engine.handle_datagram(now, host, bytes, bytes.len()).unwrap();
        if let Some(new) = received.data {
            engine.accept(now, new.peer, new.psn);
        }
    }
    let order = engine.stats().rx_order;
    // Behind by: 1 -> 5, 3 -> 3, 2 -> 4, 4 -> 3, 5 -> 2.
    assert_eq!((order.out_of_sequence, order.behind_max), (5, 5));
    assert_eq!(order.behind[..4], [0, 3, 2, 0]);
}

/// A host that was stopped for long must not repeat messages that its receiver has forgotten
/// (SRD-3.6).
#[test]
fn a_stopped_sender_does_not_repeat_itself_to_a_forgetful_receiver() {
    let mut pair = Pair::socket(23);
    pair.send(0, 0, 64);
    let limit = pair.now.plus_ns(pair.latency_ns);
    pair.step(limit);
    pair.faults.loss = 1000;
    pair.turn();
    // The repetition is due when the host stops; the receiver's clock goes on.
    pair.now = pair.now.plus_ns(6_000_000);
    pair.nodes[0].engine.handle_timeout(pair.now);
    for _ in 0..45 {
        pair.now = pair.now.plus_ns(SECOND_NS);
        pair.nodes[1].engine.handle_timeout(pair.now);
    }
    let mut header = [0; srd::HEADER_MAX];
    assert_eq!(pair.nodes[0].engine.poll_transmit(pair.now, &mut header), None);
    pair.faults.loss = 0;
    assert!(pair.run_until_done(SECOND_NS));
    assert_eq!(pair.nodes[1].delivered, [0]);
    assert_eq!(pair.nodes[0].statuses(), [Status::UnreachRemote]);
}

/// The same for a sender that was stopped after its opening message had arrived: the answer was
/// lost, and the receiver has forgotten the connection.
fn after_a_standstill() -> Pair {
    let mut pair = Pair::socket(23);
    pair.send(0, 0, 64);
    let limit = pair.now.plus_ns(pair.latency_ns);
    pair.step(limit);
    pair.faults.loss = 1000;
    pair.turn();
    for _ in 0..45 {
        pair.now = pair.now.plus_ns(SECOND_NS);
        pair.nodes[1].engine.handle_timeout(pair.now);
    }
    pair.faults.loss = 0;
    pair
}

/// The same for a sender that was stopped before its repetition was due.
#[test]
fn a_sender_stopped_in_mid_flight_does_not_open_a_connection_again() {
    let mut pair = after_a_standstill();
    assert!(pair.run_until_done(SECOND_NS));
    assert_eq!(pair.nodes[1].delivered, [0]);
    assert_eq!(pair.nodes[0].statuses(), [Status::UnreachRemote]);
}

/// SRD-3.6: the same for a message that is posted before any timer is handled.
#[test]
fn a_message_posted_after_a_standstill_does_not_open_a_connection_again() {
    let mut pair = after_a_standstill();
    let before = pair.datagrams;
    pair.send(0, 1, 64);
    pair.drain(0);
    assert_eq!(
        pair.datagrams, before,
        "it would tell the receiver of a connection it has forgotten"
    );
    assert!(pair.run_until_done(SECOND_NS));
    assert_eq!(pair.nodes[1].delivered.iter().filter(|&&id| id == 0).count(), 1);
}

/// SRD-3.6: a receiver that was stopped while it held an acknowledgement sends it.
#[test]
fn an_acknowledgement_outlives_a_standstill() {
    let mut pair = Pair::socket(23);
    pair.send(0, 0, 64);
    assert!(pair.run_until_done(SECOND_NS));
    pair.eager_acks = false;
    pair.send(0, 1, 64);
    let limit = pair.now.plus_ns(pair.latency_ns);
    pair.step(limit);
    pair.step(limit);
    assert_eq!(pair.nodes[1].delivered, [0, 1]);
    pair.asleep = [true, true];
    pair.run_ns(45 * SECOND_NS);
    pair.asleep = [false, false];
    assert!(pair.run_until_done(SECOND_NS));
    expect_all(&pair, 2);
}

/// SRD-7.5: the time in which a stopped host waited for a receive of its peer is not silence,
/// either.
#[test]
fn a_host_that_slept_tries_again_what_found_no_receive() {
    let mut pair = Pair::socket(23);
    pair.nodes[1].answer = Answer::Refuse(Reject::Rnr);
    pair.send(0, 0, 64);
    pair.run_ns(SECOND_NS);
    pair.asleep = [true, true];
    pair.run_ns(20 * SECOND_NS);
    pair.asleep = [false, false];
    pair.nodes[1].answer = Answer::Accept;
    assert!(pair.run_until_done(SECOND_NS));
    expect_all(&pair, 1);
}

/// SRD-7.1: an answer that waited for a stopped host does not measure the network.
#[test]
fn a_loss_after_a_standstill_is_repeated_soon() {
    let mut pair = Pair::socket(23);
    pair.send(0, 0, 64);
    pair.turn();
    pair.asleep[0] = true;
    pair.run_ns(5 * SECOND_NS);
    pair.asleep[0] = false;
    assert!(pair.run_until_done(SECOND_NS));
    pair.faults.loss = 1000;
    pair.send(0, 1, 64);
    pair.turn();
    pair.faults.loss = 0;
    assert!(pair.run_until_done(SECOND_NS), "{:?}", pair.nodes[0].engine.stats());
    expect_all(&pair, 2);
}

/// SRD-4.2: while one message does not get through, at most 8,191 later ones do.
#[test]
fn no_message_is_overtaken_too_often() {
    for config in [Config::socket(), Config::simulated(12_500, 20_000, 4150)] {
        let mut pair = Pair::new(config, 24);
        pair.lose_id = Some(5);
        (0..20_000).for_each(|id| pair.send(0, id, 64));
        pair.run_ns(SECOND_NS);
        let delivered = pair.nodes[1].delivered.len();
        assert_eq!(delivered, 5 + 8191, "everything that may overtake did");
        pair.lose_id = None;
        assert!(pair.run_until_done(10 * SECOND_NS));
        expect_all(&pair, 20_000);
        assert_eq!(pair.check.overtaken_max, 8191);
    }
}

/// Ten milliseconds without the receiver cost no window and hardly a repetition (SRD-7.3).
#[test]
fn a_descheduled_receiver_costs_probes_not_a_window() {
    let mut pair = Pair::socket(25);
    (0..2000).for_each(|id| pair.send(0, id, 8000));
    pair.run_ns(50_000);
    pair.asleep[1] = true;
    pair.run_ns(30_000_000);
    pair.asleep[1] = false;
    assert!(pair.run_until_done(SECOND_NS));
    expect_all(&pair, 2000);
    let stats = *pair.nodes[0].engine.stats();
    assert!(stats.retrans_pkts <= 6, "{stats:?}");
    let peer = pair.peer_of(0);
    let window_bytes = pair.nodes[0].engine.window_bytes(peer).unwrap();
    assert!(window_bytes >= 256 << 10, "{window_bytes} bytes of window");
}

/// SRD-3.4: a late opening datagram of a dead incarnation does not replace its successor, because
/// its challenge is not answered.
#[test]
fn a_stale_opening_is_dropped() {
    let mut pair = Pair::socket(27);
    pair.send(0, 0, 64);
    let late = pair.tap(0).remove(0);
    pair.now = pair.now.plus_ns(1_000_000);
    pair.restart(0, 1);
    pair.send(0, 1, 64);
    assert!(pair.run_until_done(SECOND_NS));
    let now = pair.now;
    let refused = pair.nodes[1].engine.handle_datagram(now, 100, &late, late.len());
    assert_eq!(refused, Err(srd::DropReason::Unproven));
    pair.send(0, 2, 64);
    assert!(pair.run_until_done(SECOND_NS));
    assert_eq!(pair.nodes[1].delivered, [1, 2]);
}

/// SRD-8.7: probes during a long silence do not postpone the packets that the pacer holds.
#[test]
fn pacing_starts_afresh_after_a_long_silence() {
    let mut pair = Pair::new(Config::simulated(12_500, 20_000, 4150), 28);
    pair.faults.loss = 1000;
    (0..46).for_each(|id| pair.send(0, id, 8928));
    assert!(pair.run_until_done(9 * SECOND_NS));
    pair.faults.loss = 0;
    pair.send(0, 46, 64);
    assert!(pair.run_until_done(SECOND_NS), "the next message leaves at once");
    assert_eq!(pair.nodes[1].delivered, [46]);
}
