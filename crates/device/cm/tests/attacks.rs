//! Peers that forge, guess and flood.

use crate::common::net::{MS, Net, SERVICE, address, offer};
use crate::common::{Rng, number, vectors};
use cm::mad::{Dreq, IpHeader, Mad, Message, Rej, Rep, Req, Rtu, reason};
use cm::{Agent, Config, DropReason, Event, ListenParams, Route, ServiceQp};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

fn req(local_comm_id: u32, local_qpn: u32) -> Message {
    let service_id = SERVICE;
    Message::Req(Req {
        local_comm_id,
        service_id,
        local_qpn,
        local_ca_guid: 0xA00,
        local_response_timeout: 20,
        max_cm_retries: 15,
        ..Req::ZERO
    })
}

fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut padded = [0; N];
    padded[..bytes.len()].copy_from_slice(bytes);
    padded
}

/// CM-3.2: messages from another host are not believed, even if all ids are right.
#[test]
fn a_third_host_cannot_speak_for_a_peer() {
    let mut net = Net::new(3, 1);
    let (ours, theirs) = net.established();
    net.agents[0].disconnect(net.now, ours).unwrap();
    let dreq = net.tap(0);
    let forged = net.forge(2, 1, dreq.transaction_id, dreq.message);
    assert_eq!(forged, Err(DropReason::WrongPeer));
    net.nothing(1);
    let Message::Dreq(body) = dreq.message else { panic!() };
    let (local_comm_id, remote_comm_id) = (body.local_comm_id, body.remote_comm_id);
    let rej = Rej { local_comm_id, remote_comm_id, reason: 28, ..Rej::ZERO };
    assert_eq!(net.forge(2, 1, 1, Message::Rej(rej)), Err(DropReason::WrongPeer));
    // The right host with a wrong queue pair, or a wrong id of its own.
    let bent = Dreq { remote_qpn: body.remote_qpn ^ 1, ..body };
    assert_eq!(net.forge(0, 1, 1, Message::Dreq(bent)), Err(DropReason::WrongPeer));
    let bent = Dreq { local_comm_id: local_comm_id ^ 1, ..body };
    assert_eq!(net.forge(0, 1, 1, Message::Dreq(bent)), Err(DropReason::WrongPeer));
    assert!(net.agents[1].qp_params(theirs).is_some());
    net.run(MS);
    net.nothing(1);
}

/// CM-3.2: only a host that has seen a REQ can answer it.
#[test]
fn an_answer_needs_the_transaction_of_the_question() {
    let mut net = Net::new(2, 2);
    let ours = net.connect(0, 1, 0x100, &[]);
    let asked = net.tap(0);
    let Message::Req(body) = asked.message else { panic!() };
    let rep = Rep { local_comm_id: 7, remote_comm_id: body.local_comm_id, ..Rep::ZERO };
    let rej = Rej { remote_comm_id: body.local_comm_id, reason: 8, ..Rej::ZERO };
    for message in [Message::Rep(rep), Message::Rej(rej)] {
        let guessed = net.forge(1, 0, asked.transaction_id ^ 1, message);
        assert_eq!(guessed, Err(DropReason::WrongPeer));
    }
    net.nothing(0);
    let zero = Rep { local_comm_id: 0, ..rep };
    let refused = net.forge(1, 0, asked.transaction_id, Message::Rep(zero));
    assert_eq!(refused, Err(DropReason::Duplicate));
    assert_eq!(net.forge(1, 0, asked.transaction_id, Message::Rep(rep)), Ok(()));
    assert!(matches!(net.event(0), Event::Accepted { conn, .. } if conn == ours));
}

/// CM-6.1.
#[test]
fn a_full_backlog_drops_and_has_room_again() {
    let mut net = Net::new(2, 3);
    net.listen(1, 2);
    assert_eq!(net.forge(0, 1, 1, req(1, 1)), Ok(()));
    assert_eq!(net.forge(0, 1, 2, req(2, 2)), Ok(()));
    assert_eq!(net.forge(0, 1, 3, req(3, 3)), Err(DropReason::Backlog));
    assert!(net.agents[1].poll_transmit().is_none(), "no answer: the requester tries again");
    let events = net.events(1);
    let Event::Requested { conn: first, .. } = events[0] else { panic!() };
    net.agents[1].taken(first);
    net.agents[1].taken(first);
    assert_eq!(net.forge(0, 1, 3, req(3, 3)), Ok(()));
    assert_eq!(net.forge(0, 1, 4, req(4, 4)), Err(DropReason::Backlog));
    net.agents[1].accept(net.now, first, offer(9), &[]).unwrap();
    assert_eq!(net.forge(0, 1, 4, req(4, 4)), Err(DropReason::Backlog), "it counts once");
    let Event::Requested { conn: second, .. } = events[1] else { panic!() };
    net.agents[1].reject(net.now, second, 28, &[]).unwrap();
    assert_eq!(net.forge(0, 1, 4, req(4, 4)), Ok(()));
}

/// CM-6.1: a requester that gives up still occupies its place, because its event is still queued.
#[test]
fn who_takes_requests_back_does_not_fill_the_queue_of_events() {
    let mut net = Net::new(2, 3);
    let listener = net.listen(1, 2);
    let mut requested = Vec::new();
    for i in 1..1000 {
        let _ = net.forge(0, 1, u64::from(i), req(i, i));
        let ari = padded(&0xA00_u64.to_be_bytes());
        let rej = Rej { local_comm_id: i, reason: reason::TIMEOUT, ari, ..Rej::ZERO };
        let _ = net.forge(0, 1, u64::from(i), Message::Rej(rej));
        net.now += Duration::from_secs(10);
        net.agents[1].handle_timeout(net.now);
        let events = net.events(1).into_iter();
        requested.extend(events.filter(|event| matches!(event, Event::Requested { .. })));
    }
    assert_eq!(requested.len(), 2);
    assert_eq!(net.forge(0, 1, 1, req(1, 1)), Err(DropReason::Backlog));
    net.agents[1].taken(requested[0].conn());
    net.agents[1].taken(requested[0].conn());
    assert_eq!(net.forge(0, 1, 1, req(1, 1)), Ok(()));
    assert_eq!(net.forge(0, 1, 2, req(2, 2)), Err(DropReason::Backlog));
    net.agents[1].destroy(net.now, requested[1].conn());
    assert_eq!(net.forge(0, 1, 2, req(2, 2)), Ok(()));
    net.agents[1].close_listener(listener).unwrap();
}

/// CM-3.2: the GUID is no secret, and one id can be guessed.
#[test]
fn an_established_connection_does_not_end_by_one_id() {
    let mut net = Net::new(2, 1);
    let conn = net.connect(0, 1, 0x100, &[]);
    let asked = net.tap(0);
    let Message::Req(body) = asked.message else { panic!() };
    net.listen(1, 2);
    assert_eq!(net.forge(0, 1, asked.transaction_id, asked.message), Ok(()));
    let Event::Requested { conn: theirs, .. } = net.event(1) else { panic!() };
    let ari = padded(&body.local_ca_guid.to_be_bytes());
    let local_comm_id = body.local_comm_id;
    let rej = Rej { local_comm_id, reason: reason::TIMEOUT, ari, ..Rej::ZERO };
    let guessed = net.forge(0, 1, asked.transaction_id ^ 1, Message::Rej(rej));
    assert_eq!(guessed, Err(DropReason::WrongPeer), "another question's");
    net.agents[1].accept(net.now, theirs, offer(0x200), &[]).unwrap();
    net.run(MS);
    net.agents[0].ready(net.now, conn).unwrap();
    net.run(MS);
    net.events(1);
    let late = net.forge(0, 1, asked.transaction_id, Message::Rej(rej));
    assert_eq!(late, Err(DropReason::WrongPeer), "it was answered");
    net.nothing(1);
}

/// A request over IPv6 cannot ask for IPv4.
#[test]
fn addresses_of_another_family_are_refused() {
    let mut net = Net::new(2, 3);
    let any = "::".parse().ok();
    let (service_id, is_datagram, backlog) = (SERVICE, false, 8);
    let params = ListenParams { service_id, address: any, is_datagram, backlog };
    net.agents[1].listen(params).unwrap();
    let [source, destination] = ["2001:db8::1", "2001:db8::2"].map(|ip| ip.parse().unwrap());
    let header = IpHeader { source, source_port: 1, destination }.emit().unwrap();
    let Message::Req(body) = req(1, 1) else { panic!() };
    let message = Message::Req(Req { private_data: padded(&header), ..body });
    assert_eq!(net.forge(0, 1, 1, message), Err(DropReason::NoListener));
    net.nothing(1);
}

/// CM-6.2.
#[test]
fn a_flood_of_requests_is_bounded() {
    let config = Config { half_open_max: 100, connections_max: 150, ..Config::default() };
    let mut net = Net::with(2, 4, &config);
    net.listen(1, 1_000_000);
    let mut full = 0;
    for i in 1..10_000 {
        let taken = net.forge(0, 1, u64::from(i), req(i, i));
        full += u32::from(taken == Err(DropReason::Full));
        net.events(1);
    }
    assert_eq!(full, 9_999 - 100);
    assert_eq!((net.agents[1].connections(), net.agents[1].half_open()), (100, 100));
    // The process's own connections still have room.
    for i in 0..50 {
        net.connect(1, 0, 0x500 + i, &[]);
    }
    assert_eq!(net.agents[1].connections(), 150);
}

/// CM-6.2: a rejection is remembered only where there is room.
#[test]
fn refusals_do_not_fill_the_table() {
    let config = Config { connections_max: 200, ..Config::default() };
    let mut net = Net::with(2, 5, &config);
    net.listen(1, 8);
    for i in 1..1_000 {
        net.forge(0, 1, u64::from(i), req(i, i)).unwrap();
        let Event::Requested { conn, .. } = net.event(1) else { panic!() };
        net.agents[1].reject(net.now, conn, 28, &[]).unwrap();
    }
    assert!(net.agents[1].connections() <= 101, "{}", net.agents[1].connections());
}

/// CM-6.3.
#[test]
fn answers_to_strangers_are_bounded() {
    let config = Config { answers_max: 16, ..Config::default() };
    let mut net = Net::with(2, 6, &config);
    for i in 1..1_000 {
        let (local_comm_id, remote_comm_id) = (i, i);
        let dreq = Dreq { local_comm_id, remote_comm_id, ..Dreq::ZERO };
        let rtu = Rtu { local_comm_id, remote_comm_id, ..Rtu::ZERO };
        for message in [Message::Dreq(dreq), Message::Rtu(rtu), req(i, i)] {
            assert!(net.forge(0, 1, 1, message).is_err());
        }
    }
    let answers = core::iter::from_fn(|| net.agents[1].poll_transmit()).count();
    assert_eq!((answers, net.agents[1].connections()), (16, 0));
}

/// Answers to strangers do not cause answers: two agents without connections fall silent.
#[test]
fn strangers_do_not_talk_for_ever() {
    let mut net = Net::new(2, 7);
    for mad in vectors::messages() {
        let _ = net.forge(0, 1, 1, mad.message);
    }
    net.run(Duration::from_secs(1));
    assert!(net.sent.len() <= 2 * vectors::messages().len(), "{:?}", net.sent);
    net.assert_nothing_is_left();
}

/// CM-3.1.
#[test]
fn ids_are_not_drawn_in_a_row() {
    let mut net = Net::new(2, 8);
    let mut ids = Vec::new();
    for i in 0..200 {
        let conn = net.connect(0, 1, 0x100 + i, &[]);
        let mad = net.tap(0);
        let Message::Req(body) = mad.message else { panic!() };
        ids.push(body.local_comm_id);
        net.agents[0].destroy(net.now, conn);
        while net.agents[0].poll_transmit().is_some() {}
    }
    assert!(ids.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 1));
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 200, "and none comes twice");
}

/// Random messages, many of which name existing connections, from the peer and from others.
#[test]
fn hostile_messages_never_panic() {
    let (cases, seed) = (number("CM_CASES", 300), number("CM_SEED", 1));
    println!("CM_SEED={seed} CM_CASES={cases} cargo test -p cm --test all attacks");
    let mut rng = Rng::new(seed);
    let config = Config { connections_max: 64, half_open_max: 32, ..Config::default() };
    let mut net = Net::with(3, seed, &config);
    net.listen(1, 4);
    net.established_again(0);
    let mut seen: Vec<Mad> = vectors::messages().to_vec();
    for round in 0..cases * 20 {
        if rng.permille(30) {
            let qpn = rng.below(6) as u32;
            let full = net.agents[0].connections() >= 64;
            if !full {
                net.connect(0, 1, qpn, &[]);
            }
        }
        for i in 0..3 {
            while let Some(transmit) = net.agents[i].poll_transmit() {
                seen.extend(Mad::parse(&transmit.bytes));
            }
        }
        let old = seen.len().saturating_sub(40);
        seen.drain(..old);
        let mut bytes = seen[rng.below(seen.len() as u64) as usize].emit();
        bend(&mut rng, &mut bytes);
        let to = rng.below(2) as usize;
        let from = Route {
            local: address(to).ip(),
            peer: if rng.permille(900) {
                address(1 - to)
            } else {
                SocketAddr::new(IpAddr::from([10, 0, 0, 9]), rng.below(65_536) as u16)
            },
        };
        let _ = net.agents[to].handle_mad(net.now, from, &bytes);
        act(&mut rng, &mut net.agents[to], net.now);
        net.now += Duration::from_millis(rng.below(1500));
        net.agents.iter_mut().for_each(|agent| agent.handle_timeout(net.now));
        assert!(net.agents.iter().all(|agent| agent.connections() <= 64), "round {round}");
    }
}

/// Changes some bytes, often such that the ids remain.
fn bend(rng: &mut Rng, bytes: &mut [u8; 256]) {
    for _ in 0..rng.below(4) {
        let at = rng.below(256) as usize;
        bytes[at] = rng.next() as u8;
    }
    if rng.permille(100) {
        bytes[17] = 0x10 + rng.below(9) as u8;
    }
    if rng.permille(100) {
        // The ids are swapped, as in an answer.
        let (mine, theirs) = (bytes[24..28].to_vec(), bytes[28..32].to_vec());
        bytes[24..28].copy_from_slice(&theirs);
        bytes[28..32].copy_from_slice(&mine);
    }
}

/// A program that answers at random.
fn act(rng: &mut Rng, agent: &mut Agent, now: Duration) {
    while let Some(event) = agent.poll_event() {
        let conn = event.conn();
        let _ = match rng.below(7) {
            0 => agent.accept(now, conn, offer(rng.below(6) as u32), &[]),
            1 => agent.ready(now, conn),
            2 => agent.reject(now, conn, reason::CONSUMER_DEFINED, &[]),
            3 => agent.disconnect(now, conn),
            4 => agent.establish(now, conn),
            5 => agent.accept_resolution(now, conn, ServiceQp { qpn: 1, qkey: 2 }, &[]),
            _ => {
                agent.destroy(now, conn);
                Ok(())
            }
        };
    }
}
