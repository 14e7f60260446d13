//! The end of connections, orderly or not.

use crate::common::net::{MS, NO_LISTENER_WAIT, Net, address, offer};
use cm::mad::reason;
use cm::{CallError, Config, DropReason, Event, Route};
use std::net::SocketAddr;
use std::time::Duration;

const REJ: u16 = 0x12;
const RTU: u16 = 0x14;
const DREQ: u16 = 0x15;
const DREP: u16 = 0x16;
/// Longer than every repetition takes.
const LONG: Duration = Duration::from_secs(120);

/// CM-4.4.
#[test]
fn a_dreq_establishes_before_it_ends() {
    let mut net = Net::new(2, 4);
    let (ours, theirs) = net.requested();
    net.agents[1].accept(net.now, theirs, offer(0x200), &[]).unwrap();
    net.run(MS);
    net.lose.insert(RTU, 1);
    net.agents[0].ready(net.now, ours).unwrap();
    net.agents[0].disconnect(net.now, ours).unwrap();
    net.run(MS);
    let expected = [
        Event::Established { conn: theirs },
        Event::Disconnected { conn: theirs, timed_out: false },
    ];
    assert_eq!(net.events(1), expected);
}

#[test]
fn the_end_is_told_once_on_both_sides() {
    let mut net = Net::new(2, 14);
    let (ours, theirs) = net.established();
    net.agents[0].disconnect(net.now, ours).unwrap();
    net.run(MS);
    net.nothing(0);
    assert_eq!(net.event(1), Event::Disconnected { conn: theirs, timed_out: false });
    assert_eq!(net.agents[1].qp_params(theirs), None, "it is over");
    net.agents[1].disconnect(net.now, theirs).unwrap();
    net.run(MS);
    assert_eq!(net.event(0), Event::Disconnected { conn: ours, timed_out: false });
    net.nothing(1);
    net.run(Duration::from_secs(1));
    assert_eq!(net.event(0), Event::TimewaitExit { conn: ours });
    assert_eq!(net.event(1), Event::TimewaitExit { conn: theirs });
    assert_eq!((net.sent(0, DREQ), net.sent(1, DREP)), (1, 1));
    net.assert_nothing_is_left();
}

#[test]
fn a_lost_dreq_or_drep_is_repeated() {
    for lost in [DREQ, DREP] {
        let mut net = Net::new(2, 15);
        let (ours, theirs) = net.established();
        net.lose.insert(lost, 1);
        net.agents[0].disconnect(net.now, ours).unwrap();
        net.run(Duration::from_secs(5));
        assert!(matches!(net.event(1), Event::Disconnected { timed_out: false, .. }));
        net.agents[1].disconnect(net.now, theirs).unwrap();
        net.run(LONG);
        let events = net.events(0);
        assert_eq!(events[0], Event::Disconnected { conn: ours, timed_out: false }, "{lost:#x}");
        assert_eq!(events.len(), 2);
        assert_eq!(net.event(1), Event::TimewaitExit { conn: theirs });
        net.assert_nothing_is_left();
    }
}

/// CM-5.2.
#[test]
fn both_sides_end_it_at_once() {
    let mut net = Net::new(2, 16);
    let (ours, theirs) = net.established();
    net.agents[0].disconnect(net.now, ours).unwrap();
    net.agents[1].disconnect(net.now, theirs).unwrap();
    net.run(MS * 100);
    assert_eq!(net.event(0), Event::Disconnected { conn: ours, timed_out: false });
    assert_eq!(net.event(1), Event::Disconnected { conn: theirs, timed_out: false });
    net.run(LONG);
    assert_eq!(net.event(0), Event::TimewaitExit { conn: ours });
    assert_eq!(net.event(1), Event::TimewaitExit { conn: theirs });
    net.assert_nothing_is_left();
}

#[test]
fn an_end_without_answer_is_an_end() {
    let mut net = Net::new(2, 17);
    let (ours, _) = net.established();
    net.lose.insert(DREQ, 100);
    net.agents[0].disconnect(net.now, ours).unwrap();
    net.run(LONG);
    let events = net.events(0);
    assert_eq!(events[0], Event::Disconnected { conn: ours, timed_out: true });
    assert_eq!(net.sent(0, DREQ), 16);
}

/// CM-3.3.
#[test]
fn the_end_of_an_unknown_connection_is_agreed_to() {
    let mut net = Net::quiet(2, 18);
    let (ours, theirs) = net.established();
    net.lose.insert(DREQ, 100);
    net.agents[1].destroy(net.now, theirs);
    net.run(LONG);
    assert_eq!(net.agents[1].connections(), 0);
    net.lose.clear();
    net.agents[0].disconnect(net.now, ours).unwrap();
    net.run(MS);
    assert_eq!(net.event(0), Event::Disconnected { conn: ours, timed_out: false });
}

/// CM-5.5.
#[test]
fn a_destroyed_connection_is_ended_until_the_peer_knows() {
    let mut net = Net::new(2, 19);
    let (ours, theirs) = net.established();
    net.lose.insert(DREQ, 3);
    net.agents[0].destroy(net.now, ours);
    assert_eq!(net.agents[0].disconnect(net.now, ours), Err(CallError::Unknown));
    net.run(Duration::from_secs(20));
    assert_eq!(net.event(1), Event::Disconnected { conn: theirs, timed_out: false });
    net.agents[1].destroy(net.now, theirs);
    net.run(LONG);
    net.nothing(0);
    net.nothing(1);
    net.assert_nothing_is_left();
}

/// CM-4.8: the peer was restarted and uses the same queue pair number.
#[test]
fn a_stale_connection_is_ended_and_the_new_one_may_try_again() {
    let mut net = Net::new(2, 20);
    let (ours, theirs) = net.established();
    net.agents[0] = cm::Agent::new(Config::default(), cm::Seed::from_u64(99));
    net.connect(0, 1, 0x100, &[]);
    net.run(MS);
    let Event::Rejected { reason, .. } = net.event(0) else { panic!() };
    assert_eq!(reason, reason::STALE_CONNECTION);
    assert_eq!(net.event(1), Event::Disconnected { conn: theirs, timed_out: false });
    net.run(Duration::from_secs(1));
    net.events(1);
    let new = net.connect(0, 1, 0x100, &[]);
    assert_ne!(new, ours);
    net.run(MS);
    assert!(matches!(net.event(1), Event::Requested { .. }));
}

/// CM-4.8, the other way round: the responder was restarted.
#[test]
fn a_stale_responder_is_refused() {
    let mut net = Net::new(2, 21);
    let (ours, _) = net.established();
    net.agents[1] = cm::Agent::new(Config::default(), cm::Seed::from_u64(98));
    net.listen(1, 8);
    let new = net.connect(0, 1, 0x101, &[]);
    net.run(MS);
    let Event::Requested { conn: theirs, .. } = net.event(1) else { panic!() };
    net.agents[1].accept(net.now, theirs, offer(0x200), &[]).unwrap();
    net.run(MS);
    let events = net.events(0);
    let Event::Rejected { conn, reason, .. } = events[0] else { panic!() };
    assert_eq!((conn, reason), (new, reason::STALE_CONNECTION));
    assert_eq!(events[1..], [Event::Disconnected { conn: ours, timed_out: false }]);
    assert!(matches!(net.event(1), Event::Rejected { reason: 10, .. }));
}

/// CM-4.9.
#[test]
fn an_unreachable_peer_ends_everything_at_once() {
    let mut net = Net::new(2, 22);
    let (ours, theirs) = net.established();
    let asking = net.connect(0, 1, 0x101, &[]);
    net.now += NO_LISTENER_WAIT;
    net.agents[0].unreachable(net.now, address(1));
    let events = net.events(0);
    assert_eq!(events.len(), 2);
    assert!(events.contains(&Event::Disconnected { conn: ours, timed_out: false }));
    let refused =
        |event: &Event| matches!(event, Event::Rejected { conn, reason: 8, .. } if *conn == asking);
    assert!(events.iter().any(refused));
    net.agents[1].disconnect(net.now, theirs).unwrap();
    net.agents[1].unreachable(net.now, address(0));
    assert_eq!(net.event(1), Event::Disconnected { conn: theirs, timed_out: false });
    net.agents[1].unreachable(net.now, address(0));
    net.nothing(1);
}

/// CM-5.4: a server whose client has ended with several connections is notified of the end of each.
#[test]
fn who_has_not_agreed_yet_is_told_the_end_of_an_unreachable_peer() {
    let mut net = Net::new(2, 23);
    let (ours, theirs) = net.established();
    net.agents[1].disconnect(net.now, theirs).unwrap();
    net.run(Duration::from_millis(10));
    assert_eq!(net.event(0), Event::Disconnected { conn: ours, timed_out: false });
    net.agents[0].unreachable(net.now, address(1));
    net.agents[0].disconnect(net.now, ours).unwrap();
    net.run(Duration::from_secs(1));
    assert_eq!(net.event(0), Event::TimewaitExit { conn: ours });
}

/// CM-4.10: an end that only waits is notified of the death of the other, as in the migration of a
/// virtual machine whose destination is killed.
#[test]
fn an_idle_end_learns_that_its_peer_was_killed() {
    for dead in 0..2 {
        let mut net = Net::new(2, 28);
        let (ours, theirs) = net.established();
        let (conn, alive) = [(theirs, 1), (ours, 0)][dead];
        net.run(Duration::from_millis(1500));
        assert_eq!((net.sent(0, RTU), net.sent(1, RTU)), (2, 1), "one keepalive each");
        assert_eq!(net.sent.len(), 5, "which nobody answers");
        net.nothing(0);
        net.nothing(1);
        // The ICMP error arrives when the next message is sent.
        let at = net.agents[alive].poll_timeout().unwrap();
        assert!(at <= net.now + Duration::from_secs(1));
        net.agents[alive].handle_timeout(at);
        let said = net.agents[alive].poll_transmit().unwrap();
        assert!(net.agents[alive].has_sent_to(address(dead), &said.bytes[..28]));
        net.agents[alive].unreachable(at, address(dead));
        assert_eq!(net.event(alive), Event::Disconnected { conn, timed_out: false });
    }
}

/// CM-4.10: another process has replaced the one that died.
#[test]
fn an_idle_end_learns_that_another_has_the_place_of_its_peer() {
    for dead in 0..2 {
        let mut net = Net::new(2, 29);
        let (ours, theirs) = net.established();
        let (conn, alive) = [(theirs, 1), (ours, 0)][dead];
        net.agents[dead] = cm::Agent::new(Config::default(), cm::Seed::from_u64(99));
        net.run(Duration::from_millis(1500));
        assert_eq!(net.event(alive), Event::Disconnected { conn, timed_out: false });
        net.nothing(dead);
    }
}

/// CM-4.10: with many connections, keepalives would outweigh the traffic.
#[test]
fn keepalives_have_a_rate() {
    let config = Config { keepalives_per_second_max: 2, ..Config::default() };
    let mut net = Net::with(2, 30, &config);
    net.established();
    for nth in 1..10 {
        net.established_again(nth);
    }
    let before = net.sent(0, RTU);
    net.run(Duration::from_secs(60));
    let said = net.sent(0, RTU) - before;
    assert!((100..=125).contains(&said), "two a second: {said}");
}

/// CM-4.9: a server that is about to listen is asked again.
#[test]
fn a_port_that_nobody_has_yet_is_asked_again_for_a_while() {
    let mut net = Net::new(2, 25);
    let conn = net.connect(0, 1, 0x101, &[]);
    let req = net.agents[0].poll_transmit().unwrap();
    let mut asked = 1;
    let begin = net.now;
    while net.now < begin + NO_LISTENER_WAIT {
        net.agents[0].unreachable(net.now, address(1));
        net.nothing(0);
        net.now = net.agents[0].poll_timeout().unwrap();
        net.agents[0].handle_timeout(net.now);
        assert_eq!(net.agents[0].poll_transmit().as_ref(), Some(&req), "the same question");
        asked += 1;
    }
    assert_eq!(asked, 21, "each 10 ms");
    // After that it counts as refused; silence takes as long as ever.
    net.agents[0].unreachable(net.now, address(1));
    assert!(matches!(net.event(0), Event::Rejected { conn: c, reason: 8, .. } if c == conn));
    net.assert_nothing_is_left();
}

/// CM-4.1: ICMP errors for many requests do not make the requester repeat them faster.
#[test]
fn questions_in_parallel_are_repeated_as_often_as_others() {
    let mut net = Net::new(2, 25);
    for i in 0..10 {
        net.connect(0, 1, 0x101 + i, &[]);
    }
    let begin = net.now;
    while net.now < begin + NO_LISTENER_WAIT {
        (0..10).for_each(|_| net.agents[0].unreachable(net.now, address(1)));
        net.now = net.agents[0].poll_timeout().unwrap();
        net.agents[0].handle_timeout(net.now);
    }
    let asked = |net: &mut Net| std::iter::from_fn(|| net.agents[0].poll_transmit()).count();
    asked(&mut net);
    let mut later = 0;
    while net.events(0).is_empty() {
        net.now = net.agents[0].poll_timeout().unwrap();
        net.agents[0].handle_timeout(net.now);
        later += asked(&mut net);
    }
    assert!((140..=160).contains(&later), "{later}");
}

/// CM-4.5: a server destroys its listener and takes its time; the port is gone.
#[test]
fn who_asked_a_listener_that_is_gone_repeats_itself_elsewhere() {
    let mut net = Net::new(2, 26);
    let listener = net.listen(1, 8);
    let conn = net.connect(0, 1, 0x101, &[]);
    net.run(MS);
    let Event::Requested { conn: theirs, .. } = net.event(1) else { panic!("no request") };
    net.agents[1].taken(theirs);
    net.agents[1].close_listener(listener).unwrap();
    let mra = net.agents[1].poll_transmit().expect("it is told to whom");
    let peer = SocketAddr::new(address(1).ip(), 9);
    let elsewhere = Route { local: address(0).ip(), peer };
    assert_eq!(net.agents[0].handle_mad(net.now, elsewhere, &mra.bytes), Ok(()));
    net.now = net.agents[0].poll_timeout().unwrap();
    net.agents[0].handle_timeout(net.now);
    let again = net.agents[0].poll_transmit().expect("it asks again");
    assert_eq!(again.route.peer, peer);
    net.agents[0].unreachable(net.now, address(1));
    net.nothing(0);
    net.agents[1].accept(net.now, theirs, offer(0x200), &[]).unwrap();
    net.run(MS);
    assert!(matches!(net.event(0), Event::Accepted { conn: c, .. } if c == conn));
}

/// CM-4.9: the same for a server that has its port and does not listen yet.
#[test]
fn a_server_that_does_not_listen_yet_is_asked_again_for_a_while() {
    for listens in [true, false] {
        let mut net = Net::new(2, 27);
        let conn = net.connect(0, 1, 0x101, &[]);
        net.run(Duration::from_millis(50));
        net.nothing(0);
        assert!((4..=6).contains(&net.sent(1, REJ)), "each 10 ms: {}", net.sent(1, REJ));
        if listens {
            net.listen(1, 8);
            net.run(Duration::from_millis(20));
            assert!(matches!(net.event(1), Event::Requested { .. }));
            continue;
        }
        net.run(2 * NO_LISTENER_WAIT);
        assert!(matches!(net.event(0), Event::Rejected { conn: c, reason: 8, .. } if c == conn));
        net.assert_nothing_is_left();
    }
}

/// CM-4.9: an address without a route ends a request, and nothing else.
#[test]
fn a_question_without_a_way_is_given_up_after_two_seconds() {
    let mut net = Net::new(2, 26);
    let (_, _) = net.established();
    let asking = net.connect(0, 1, 0x101, &[]);
    net.agents[0].no_route(net.now + Duration::from_millis(1999), address(1));
    net.nothing(0);
    net.agents[0].no_route(net.now + Duration::from_secs(2), address(0));
    net.nothing(0);
    net.agents[0].no_route(net.now + Duration::from_secs(2), address(1));
    assert_eq!(net.event(0), Event::Unreachable { conn: asking });
    assert_eq!(net.agents[0].connections(), 1, "the established one");
}

/// CM-4.9: a host that cannot read our messages cannot fake an ICMP error about a peer.
#[test]
fn only_what_was_said_can_be_quoted() {
    let mut net = Net::new(2, 24);
    let (ours, _) = net.established();
    net.agents[0].disconnect(net.now, ours).unwrap();
    let said = net.agents[0].poll_transmit().unwrap();
    let (agent, peer) = (&net.agents[0], address(1));
    assert!(agent.has_sent_to(peer, &said.bytes) && agent.has_sent_to(peer, &said.bytes[..28]));
    assert!(!agent.has_sent_to(peer, &said.bytes[..27]), "too short to name a connection");
    assert!(!agent.has_sent_to(peer, &[]));
    assert!(!agent.has_sent_to(address(0), &said.bytes), "said to somebody else");
    let mut other = said.bytes;
    other[27] ^= 1;
    assert!(!agent.has_sent_to(peer, &other), "a connection that is not known");
}

#[test]
fn a_repeated_dreq_is_agreed_to_again() {
    let mut net = Net::new(2, 23);
    let (ours, theirs) = net.established();
    net.agents[0].disconnect(net.now, ours).unwrap();
    let dreq = net.tap(0);
    net.forge(0, 1, dreq.transaction_id, dreq.message).unwrap();
    net.agents[1].disconnect(net.now, theirs).unwrap();
    net.lose.insert(DREP, 1);
    net.send_all();
    let again = net.forge(0, 1, dreq.transaction_id, dreq.message);
    assert_eq!(again, Err(DropReason::Duplicate));
    net.run(MS);
    assert_eq!(net.sent(1, DREP), 2);
    assert_eq!(net.event(0), Event::Disconnected { conn: ours, timed_out: false });
}

/// CM-4.8: programs that connect without a queue pair all send 0.
#[test]
fn no_queue_pair_is_never_stale() {
    let mut net = Net::new(2, 27);
    net.listen(1, 8);
    for _ in 0..2 {
        net.connect(0, 1, 0, &[]);
        net.run(MS);
        assert!(matches!(net.event(1), Event::Requested { .. }));
    }
}
