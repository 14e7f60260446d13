//! Who may open a connection, and what that costs (SRD-3.1 to SRD-3.11).

use crate::common::Pair;
use crate::common::scene::{
    KEY, Opening, SENDER, Scene, VICTIM, WRONG_KEY, challenge, data_of, kind_of, opening, refused,
};
use srd::wire::Kind;
use srd::{Address, Config, DropReason, Event, Message, MsgId, PathId, Status};

const MS_NS: u64 = 1_000_000;

fn challenging() -> Config {
    Config { always_challenge: true, ..Config::socket() }
}

/// SRD-3.10: a sender that forgot its peer reconnects within a round trip and without a timeout.
#[test]
fn a_reconnect_costs_one_round_trip() {
    let mut scene = Scene::connected(Config::socket());
    scene.run_ms(12_000);
    let before = scene.carried;
    (1..=20).for_each(|id| scene.sender.send(scene.now, VICTIM, id, KEY));
    // Two round trips of 20 us, and the time for which the acknowledgement is held back.
    scene.run_ms(1);
    assert!((1..=20).all(|id| scene.sender.status_of(id) == Some(Status::Ok)));
    let stats = scene.sender.engine.stats();
    assert_eq!((stats.rx_challenges, stats.retrans_timeout_events), (1, 0));
    assert_eq!(stats.retrans_pkts, 20, "each message twice");
    let peer = scene.sender.engine.peer(scene.now, VICTIM);
    let window = scene.sender.engine.window_bytes(peer);
    assert!(window >= Some(u64::from(scene.config.window_initial_bytes)), "nothing was lost");
    let paths = (0..4).filter_map(|path| scene.sender.engine.path_stats(peer, PathId(path)));
    assert!(paths.into_iter().all(|path| path.lost_packets == 0 && !path.quarantined));
    assert!(scene.carried - before <= 20 + 1 + 20 + 2, "{}", scene.carried - before);
}

/// SRD-3.4: a sender that still knows the token of its last connection is not challenged.
#[test]
fn a_peer_that_is_remembered_reconnects_at_once() {
    let mut scene = Scene::connected(Config::socket());
    for id in 1..4 {
        // Messages in the other direction keep the peer, but not the connection.
        for round in 0..6 {
            scene.victim.send(scene.now, SENDER, id * 100 + round, KEY);
            scene.run_ms(2_000);
        }
        scene.sender.send(scene.now, VICTIM, id, KEY);
        let datagram = scene.sender.sends(scene.now).remove(0).1;
        assert!(data_of(&datagram).cookie.is_some_and(|cookie| cookie != 0), "it opens anew");
        scene.victim.take(scene.now, SENDER, &datagram);
        scene.run_ms(1);
        assert_eq!(scene.sender.status_of(id), Some(Status::Ok));
        assert_eq!(scene.sender.engine.stats().rx_challenges, 0);
    }
}

/// SRD-3.10: no state is created for a stranger that has not answered the challenge.
#[test]
fn who_is_always_challenged_takes_no_memory() {
    let mut scene = Scene::new(challenging());
    let empty = scene.victim.engine.memory_bytes();
    for host in 0..100 {
        let from = Address { host, qpn: 5 };
        let what = Opening { conn: 9, psn: 1, oldest: 0, qkey: KEY, proof: 1 };
        scene.forge(from, &opening(from, VICTIM, what));
        let sent = scene.victim.sends(scene.now);
        assert_eq!((sent.len(), sent[0].0, kind_of(&sent[0].1)), (1, from, Kind::Challenge));
    }
    assert_eq!(scene.victim.accepted, 0);
    assert!(scene.victim.engine.memory_bytes() < empty + 4096);
    scene.assert_served(1);
    assert_eq!(scene.sender.engine.stats().rx_challenges, 1);
    // Connected peers are not challenged.
    scene.assert_served(2);
    assert_eq!(scene.sender.engine.stats().rx_challenges, 1);
}

/// SRD-3.4: the cookie of an opening is valid once, however late a copy arrives.
#[test]
fn a_copy_of_a_proved_opening_opens_nothing() {
    for config in [Config::socket(), challenging()] {
        let mut scene = Scene::connected(config.clone());
        scene.sender.restart(&config, 50);
        scene.sender.send(scene.now, VICTIM, 1, KEY);
        let unproved = scene.sender.sends(scene.now).remove(0).1;
        scene.victim.take(scene.now, SENDER, &unproved);
        let asked = scene.victim.sends(scene.now).remove(0).1;
        scene.sender.take(scene.now, VICTIM, &asked);
        let proved = scene.sender.sends(scene.now).remove(0).1;
        scene.victim.take(scene.now, SENDER, &proved);
        scene.run_ms(1);
        assert_eq!(scene.sender.status_of(1), Some(Status::Ok));
        // The sender is restarted; then the copy arrives.
        scene.sender.restart(&config, 51);
        scene.assert_served(2);
        let (accepted, host) = (scene.victim.accepted, SENDER.host);
        let got = scene.victim.engine.handle_datagram(scene.now, host, &proved, proved.len());
        assert_eq!(got, Err(DropReason::Unproven));
        scene.assert_served(3);
        assert_eq!(scene.victim.accepted, accepted + 1);
        // Nor when the connection is forgotten and every sender has to prove its address.
        if config.always_challenge {
            for _ in 0..33 {
                scene.now = scene.now.plus_ns(1_000 * MS_NS);
                scene.victim.sends(scene.now);
            }
            let got = scene.victim.engine.handle_datagram(scene.now, host, &proved, proved.len());
            assert_eq!(got, Err(DropReason::Unproven));
        }
    }
}

/// SRD-3.9: each message is judged by its own key; one with the right key opens the connection.
#[test]
fn a_refusal_ends_exactly_its_messages() {
    let mut scene = Scene::new(Config::socket());
    for id in 0..200 {
        let qkey = if id % 3 == 0 { WRONG_KEY } else { KEY };
        scene.sender.send(scene.now, VICTIM, id, qkey);
    }
    scene.run_ms(1000);
    for id in 0..200 {
        let want = if id % 3 == 0 { Status::BadDestQpn } else { Status::Ok };
        assert_eq!(scene.sender.status_of(id), Some(want), "message {id}");
    }
    assert_eq!(scene.sender.engine.in_flight(), 0);
}

/// SRD-3.9: thousands of messages with a wrong key end by a few answers, and nothing is stored.
#[test]
fn consecutive_refusals_share_their_answer() {
    let mut scene = Scene::new(Config::socket());
    (0..10_000).for_each(|id| scene.sender.send(scene.now, VICTIM, id, WRONG_KEY));
    scene.run_ms(100);
    assert!((0..10_000).all(|id| scene.sender.status_of(id) == Some(Status::BadDestQpn)));
    let (stats, told) = (scene.sender.engine.stats(), scene.victim.engine.stats().strangers);
    assert_eq!((stats.completed_error, stats.unresponsive_remote_events), (10_000, 0));
    assert!(told.refused < 100 && told.unanswered == 0, "{told:?}");
    assert!(scene.victim.engine.memory_bytes() < 32 << 10);
    scene.assert_served(20_000);
}

/// SRD-3.9, SRD-7.5: a peer that refuses some messages is alive, even if others do not get through.
#[test]
fn who_refuses_is_not_silent() {
    let mut scene = Scene::new(Config::socket());
    scene.sender.send(scene.now, VICTIM, 1, KEY);
    for id in 2..14 {
        scene.sender.send(scene.now, VICTIM, id, WRONG_KEY);
        for _ in 0..100_000 {
            let mut sent = scene.sender.sends(scene.now);
            sent.retain(|(_, datagram)| data_of(datagram).qkey == WRONG_KEY);
            sent.iter().for_each(|(_, datagram)| scene.victim.take(scene.now, SENDER, datagram));
            for (_, datagram) in scene.victim.sends(scene.now) {
                scene.sender.take(scene.now, VICTIM, &datagram);
            }
            scene.now = scene.now.plus_ns(10_000);
        }
        assert_eq!(scene.sender.status_of(id), Some(Status::BadDestQpn));
    }
    assert_eq!(scene.sender.status_of(1), None, "given up though somebody is there");
    scene.run_ms(100);
    assert_eq!(scene.sender.status_of(1), Some(Status::Ok));
}

/// SRD-3.4: the cookie of a connection that was never acknowledged is invalid for the next.
#[test]
fn a_cookie_goes_with_its_connection() {
    let mut scene = Scene::new(Config::socket());
    scene.sender.send(scene.now, VICTIM, 1, KEY);
    let first = data_of(&scene.sender.sends(scene.now).remove(0).1);
    let datagram = challenge(VICTIM, SENDER, first.conn, 5);
    scene.sender.take(scene.now, VICTIM, &datagram);
    let again = data_of(&scene.sender.sends(scene.now).remove(0).1);
    assert_eq!((first.cookie, again.cookie), (Some(0), Some(5)));
    for _ in 0..900 {
        scene.now = scene.now.plus_ns(10 * MS_NS);
        scene.sender.sends(scene.now);
    }
    assert_eq!(scene.sender.status_of(1), Some(Status::UnreachRemote));
    scene.sender.send(scene.now, VICTIM, 2, KEY);
    let next = data_of(&scene.sender.sends(scene.now).remove(0).1);
    assert_ne!(next.conn, first.conn);
    assert_eq!(next.cookie, Some(0));
}

/// SRD-6.6: a message to a closing endpoint.
#[test]
fn a_closing_endpoint_refuses_strangers_without_a_trace() {
    let mut scene = Scene::connected(Config::socket());
    scene.victim.engine.begin_close(scene.now);
    let before = scene.victim.engine.memory_bytes();
    let config = scene.config.clone();
    scene.sender.restart(&config, 60);
    (1..=3).for_each(|id| scene.sender.send(scene.now, VICTIM, id, KEY));
    scene.run_ms(1);
    assert!((1..=3).all(|id| scene.sender.status_of(id) == Some(Status::BadDestQpn)));
    let other = Address { host: 5, qpn: 5 };
    let what = Opening { conn: 9, psn: 1, oldest: 0, qkey: KEY, proof: 0 };
    scene.forge(other, &opening(other, VICTIM, what));
    let sent = scene.victim.sends(scene.now);
    assert_eq!((sent[0].0, kind_of(&sent[0].1)), (other, Kind::Refused));
    assert!(scene.victim.engine.memory_bytes() < before + 4096);
}

/// SRD-3.10: each new cookie once, and no more than four times.
#[test]
fn challenges_cannot_make_a_sender_flood() {
    let mut scene = Scene::new(Config::socket());
    (0..10).for_each(|id| scene.sender.send(scene.now, VICTIM, id, KEY));
    let conn = data_of(&scene.sender.sends(scene.now)[0].1).conn;
    let mut sent = Vec::new();
    for i in 0..1000 {
        for conn in [conn, conn ^ 1, 0] {
            let datagram = challenge(VICTIM, SENDER, conn, 1 + i / 2);
            scene.sender.take(scene.now, VICTIM, &datagram);
            sent.extend(scene.sender.sends(scene.now));
        }
    }
    assert_eq!(sent.len(), 4 * 10, "datagrams for a thousand challenges");
    assert!(sent[10..20].iter().all(|(_, datagram)| data_of(datagram).cookie == Some(2)));
}

/// SRD-3.9, SRD-3.10: REFUSED and CHALLENGE for an acknowledged connection are old or forged.
#[test]
fn an_acknowledged_connection_heeds_no_late_answers() {
    let mut scene = Scene::connected(Config::socket());
    scene.sender.send(scene.now, VICTIM, 1, KEY);
    let block = data_of(&scene.sender.sends(scene.now).remove(0).1);
    assert_eq!(block.cookie, None, "it is acknowledged");
    for datagram in [
        challenge(VICTIM, SENDER, block.conn, 5),
        refused(VICTIM, SENDER, block.conn, block.psn.0, 1),
    ] {
        let got = scene.sender.engine.handle_datagram(scene.now, 101, &datagram, datagram.len());
        assert_eq!(got, Err(DropReason::UnknownConn));
        assert!(scene.sender.sends(scene.now).is_empty() && scene.sender.status_of(1).is_none());
    }
    scene.run_ms(100);
    assert_eq!(scene.sender.status_of(1), Some(Status::Ok));
}

/// SRD-3.7: a host that knows it without a quoted datagram.
#[test]
fn who_is_known_to_be_gone_is_not_waited_for() {
    let mut scene = Scene::new(Config::socket());
    let engine = &mut scene.sender.engine;
    let other = Address { host: 200, ..VICTIM };
    for (id, to) in [(1, VICTIM), (2, other)] {
        let peer = engine.peer(scene.now, to);
        let msg = Message { id: MsgId(id), len: 64, qkey: KEY, ..Message::default() };
        engine.send(scene.now, peer, msg).expect("there is room");
    }
    engine.peer_unreachable(scene.now, VICTIM);
    assert_eq!(engine.poll_event(), None, "nothing was sent there yet");
    assert_eq!(scene.sender.sends(scene.now).len(), 2);
    let engine = &mut scene.sender.engine;
    engine.peer_unreachable(scene.now, Address { host: 1, qpn: 1 });
    engine.peer_unreachable(scene.now, VICTIM);
    let peer = engine.peer(scene.now, VICTIM);
    let want = Event::Completed { peer, msg: MsgId(1), status: Status::BadDestQpn };
    assert_eq!((engine.poll_event(), engine.poll_event()), (Some(want), None));
    assert_eq!(engine.in_flight(), 1);
    scene.sender.ended.clear();
    scene.assert_served(3);
}

/// SRD-3.11: beyond half of the peers a stranger must prove its address, beyond all nobody is
/// admitted.
#[test]
fn a_crowd_is_challenged_and_then_turned_away() {
    let mut scene = Scene::new(Config { peers_max: 8, ..Config::socket() });
    let come = |scene: &mut Scene, qpn, proof| {
        let from = Address { host: 7, qpn };
        let what = Opening { conn: 9, psn: 1, oldest: 0, qkey: KEY, proof };
        scene.forge(from, &opening(from, VICTIM, what));
        let sent = scene.victim.sends(scene.now).remove(0).1;
        let cookie = u64::from_be_bytes(sent[sent.len() - 8..].try_into().expect("eight bytes"));
        (kind_of(&sent), cookie)
    };
    let kinds: Vec<Kind> = (0..8).map(|qpn| come(&mut scene, qpn, 0).0).collect();
    assert_eq!(kinds, [vec![Kind::Srd; 5], vec![Kind::Challenge; 3]].concat());
    for qpn in 5..8 {
        let (_, cookie) = come(&mut scene, qpn, 0);
        assert_eq!(come(&mut scene, qpn, cookie).0, Kind::Srd);
    }
    let (_, cookie) = come(&mut scene, 9, 0);
    let from = Address { host: 7, qpn: 9 };
    let what = Opening { conn: 9, psn: 1, oldest: 0, qkey: KEY, proof: cookie };
    scene.forge(from, &opening(from, VICTIM, what));
    assert!(scene.victim.sends(scene.now).is_empty());
    assert_eq!(scene.victim.engine.stats().strangers.turned_away, 1);
    assert_eq!(scene.victim.engine.stats().dropped[DropReason::Crowded as usize], 1);
}

/// SRD-3.6: the acknowledgement of an opening was lost, and copies of it waited while their
/// receiver stood still for longer than it remembers an idle connection.
#[test]
fn a_copy_that_waited_for_its_receiver_opens_nothing() {
    let mut pair = Pair::socket(55);
    pair.send(0, 0, 64);
    let limit = pair.now.plus_ns(pair.latency_ns);
    pair.step(limit);
    pair.faults.loss = 1000;
    pair.turn();
    pair.faults.loss = 0;
    pair.asleep[1] = true;
    pair.run_ns(40_000 * MS_NS);
    pair.asleep[1] = false;
    pair.run_ns(1000 * MS_NS);
    assert_eq!(pair.nodes[0].statuses(), [Status::UnreachRemote]);
    assert_eq!(pair.nodes[1].delivered, [0]);
    assert!(pair.nodes[1].engine.stats().rx_duplicates > 0);
    // In the end the connection is forgotten.
    let peer = pair.peer_of(1);
    pair.run_ns(45_000 * MS_NS);
    assert_eq!(pair.nodes[1].engine.peer_memory_bytes(peer), None);
}
