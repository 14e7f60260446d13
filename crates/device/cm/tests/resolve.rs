//! SIDR: questions for the queue pair of a datagram service.

use crate::common::net::{MS, NO_LISTENER_WAIT, Net, address, route};
use cm::mad::{IpHeader, sidr_status};
use cm::{CallError, ConnId, DropReason, Event, ListenParams, ResolveParams, ServiceQp};
use std::time::Duration;

const SERVICE: u64 = 0x0111_0000 + 7174;
const SIDR_REQ: u16 = 0x17;
const SIDR_REP: u16 = 0x18;
const LONG: Duration = Duration::from_secs(120);

fn listen(net: &mut Net, backlog: usize) {
    let params = ListenParams { service_id: SERVICE, address: None, is_datagram: true, backlog };
    net.agents[1].listen(params).expect("what a test does is allowed");
}

fn ask(net: &mut Net) -> ConnId {
    let addresses =
        IpHeader { source: address(0).ip(), source_port: 50_000, destination: address(1).ip() };
    let params = ResolveParams {
        service_id: SERVICE,
        addresses: Some(addresses),
        pkey: 0xFFFF,
        private_data: b"who?",
    };
    net.agents[0].resolve(net.now, route(0, 1), &params).expect("what a test does is allowed")
}

fn asked(net: &mut Net) -> ConnId {
    let Event::ResolutionRequested { conn, request, .. } = net.event(1) else { panic!() };
    assert_eq!((&request.private_data[..4], request.private_data.len()), (&b"who?"[..], 180));
    assert_eq!(request.addresses.expect("what a test does is allowed").source, address(0).ip());
    conn
}

#[test]
fn a_question_is_answered_once() {
    let mut net = Net::new(2, 1);
    listen(&mut net, 8);
    let ours = ask(&mut net);
    net.run(MS);
    let theirs = asked(&mut net);
    net.agents[1]
        .accept_resolution(net.now, theirs, ServiceQp { qpn: 0x77, qkey: 0x0123_4567 }, b"me")
        .expect("what a test does is allowed");
    let again =
        net.agents[1].accept_resolution(net.now, theirs, ServiceQp { qpn: 1, qkey: 1 }, &[]);
    assert_eq!(again, Err(CallError::Unknown));
    net.run(MS);
    let Event::Resolved { conn, qpn, qkey, private_data } = net.event(0) else { panic!() };
    assert_eq!((conn, qpn, qkey, &private_data[..2]), (ours, 0x77, 0x0123_4567, &b"me"[..]));
    net.run(LONG);
    net.nothing(0);
    net.nothing(1);
    net.assert_nothing_is_left();
}

/// CM-7.2.
#[test]
fn a_lost_question_or_answer_is_repeated_and_the_program_asked_once() {
    for lost in [SIDR_REQ, SIDR_REP] {
        let mut net = Net::new(2, 2);
        listen(&mut net, 8);
        net.lose.insert(lost, 1);
        let ours = ask(&mut net);
        net.run(Duration::from_secs(5));
        let theirs = asked(&mut net);
        net.agents[1]
            .reject_resolution(net.now, theirs, sidr_status::NO_QP, &[])
            .expect("what a test does is allowed");
        net.run(Duration::from_secs(5));
        let Event::NotResolved { conn, status, .. } = net.event(0) else { panic!() };
        assert_eq!((conn, status), (ours, sidr_status::NO_QP));
        net.nothing(1);
        net.run(LONG);
        net.assert_nothing_is_left();
    }
}

#[test]
fn nobody_listens_or_answers() {
    let mut net = Net::new(2, 3);
    ask(&mut net);
    net.run(MS);
    assert!(matches!(net.event(0), Event::NotResolved { status: sidr_status::UNSUPPORTED, .. }));
    net.lose.insert(SIDR_REQ, 100);
    let ours = ask(&mut net);
    net.run(LONG);
    assert_eq!(net.event(0), Event::Unreachable { conn: ours });
    assert_eq!(net.sent(0, SIDR_REQ), 17);
    ask(&mut net);
    net.now += NO_LISTENER_WAIT;
    net.agents[0].unreachable(net.now, address(1));
    assert!(matches!(net.event(0), Event::NotResolved { status: sidr_status::UNSUPPORTED, .. }));
}

#[test]
fn a_destroyed_question_is_refused() {
    let mut net = Net::new(2, 4);
    listen(&mut net, 8);
    ask(&mut net);
    net.run(MS);
    let theirs = asked(&mut net);
    net.agents[1].destroy(net.now, theirs);
    net.run(MS);
    assert!(matches!(net.event(0), Event::NotResolved { status: sidr_status::REJECT, .. }));
}

#[test]
fn a_connection_is_not_asked_for_where_datagrams_are_served() {
    let mut net = Net::new(2, 5);
    let service_id = crate::common::net::SERVICE;
    let params = ListenParams { service_id, address: None, is_datagram: true, backlog: 8 };
    net.agents[1].listen(params).expect("what a test does is allowed");
    net.connect(0, 1, 0x100, &[]);
    net.run(MS);
    assert!(matches!(net.event(0), Event::Rejected { reason: 9, .. }));
}

#[test]
fn questions_count_in_the_backlog() {
    let mut net = Net::new(2, 6);
    listen(&mut net, 1);
    ask(&mut net);
    net.run(MS);
    let theirs = asked(&mut net);
    ask(&mut net);
    let bytes = net.agents[0].poll_transmit().expect("what a test does is allowed").bytes;
    let dropped = net.agents[1].handle_mad(net.now, route(1, 0), &bytes);
    assert_eq!(dropped, Err(DropReason::Backlog));
    net.agents[1].taken(theirs);
    assert_eq!(net.agents[1].handle_mad(net.now, route(1, 0), &bytes), Ok(()));
}
