//! Two agents and single messages: the reaction of each state to what arrives.

use crate::common::net::{MS, Net, address, offer};
use cm::mad::{Message, reason};
use cm::{CallError, DropReason, Event, ServiceQp};
use std::time::Duration;

const REQ: u16 = 0x10;
const MRA: u16 = 0x11;
const REJ: u16 = 0x12;
const REP: u16 = 0x13;
const RTU: u16 = 0x14;
/// Longer than every repetition takes.
const LONG: Duration = Duration::from_secs(120);

#[test]
fn a_connection_is_made_with_what_both_sides_offer() {
    let mut net = Net::quiet(2, 1);
    net.listen(1, 8);
    let ours = net.connect(0, 1, 0x100, b"hello");
    net.run(MS);
    let Event::Requested { conn: theirs, request, .. } = net.event(1) else { panic!() };
    assert_eq!(&request.private_data[..5], b"hello");
    assert_eq!(request.private_data.len(), 56);
    assert_eq!((request.offer.qpn, request.offer.ca_guid), (0x100, 0xA00));
    let addresses = request.addresses.unwrap();
    assert_eq!((addresses.source, addresses.destination), (address(0).ip(), address(1).ip()));
    let qp = net.agents[1].qp_params(theirs).unwrap();
    assert_eq!((qp.remote_qpn, qp.responder_resources, qp.initiator_depth), (0x100, 3, 4));
    assert_eq!((qp.retry_count, qp.rnr_retry_count, qp.ack_timeout), (6, 5, 17));

    let taken = cm::Offer { responder_resources: 2, initiator_depth: 1, ..offer(0x200) };
    net.agents[1].accept(net.now, theirs, taken, b"welcome").unwrap();
    net.run(MS);
    let Event::Accepted { conn, offer, private_data } = net.event(0) else { panic!() };
    assert_eq!((conn, offer.qpn, private_data.len()), (ours, 0x200, 196));
    assert_eq!(&private_data[..7], b"welcome");
    let here = net.agents[0].qp_params(ours).unwrap();
    let there = net.agents[1].qp_params(theirs).unwrap();
    assert_eq!((here.rq_psn, here.sq_psn), (there.sq_psn, there.rq_psn));
    assert_eq!((here.responder_resources, here.initiator_depth), (1, 2));
    assert!(here.is_answered && here.remote_qpn == 0x200);

    net.agents[0].ready(net.now, ours).unwrap();
    net.run(LONG);
    assert_eq!(net.event(1), Event::Established { conn: theirs });
    assert_eq!(net.sent, [(0, REQ), (1, REP), (0, RTU)], "nothing is repeated");
}

#[test]
fn a_lost_message_of_each_kind_is_repeated() {
    for lost in [REQ, REP, RTU] {
        let mut net = Net::new(2, 2);
        net.listen(1, 8);
        let ours = net.connect(0, 1, 0x100, &[]);
        net.lose.insert(lost, 2);
        net.run(LONG);
        let Event::Requested { conn: theirs, .. } = net.event(1) else { panic!() };
        net.agents[1].accept(net.now, theirs, offer(0x200), &[]).unwrap();
        net.run(LONG);
        assert!(matches!(net.event(0), Event::Accepted { .. }), "{lost:#x}");
        net.agents[0].ready(net.now, ours).unwrap();
        net.run(LONG);
        assert_eq!(net.event(1), Event::Established { conn: theirs }, "{lost:#x}");
        net.agents[0].disconnect(net.now, ours).unwrap();
        net.run(MS);
        assert!(matches!(net.event(1), Event::Disconnected { timed_out: false, .. }));
    }
}

/// CM-4.4.
#[test]
fn the_first_data_establishes_when_the_rtu_is_lost() {
    let mut net = Net::new(2, 3);
    let (ours, theirs) = net.requested();
    net.agents[1].accept(net.now, theirs, offer(0x200), &[]).unwrap();
    net.run(MS);
    net.events(0);
    net.lose.insert(RTU, 1);
    net.agents[0].ready(net.now, ours).unwrap();
    net.run(MS);
    net.nothing(1);
    net.agents[1].data_arrived(net.now, 0xABC, 0x201);
    net.agents[1].data_arrived(net.now, 0xABD, 0x200);
    net.nothing(1);
    net.agents[1].data_arrived(net.now, 0xABC, 0x200);
    assert_eq!(net.event(1), Event::Established { conn: theirs });
    assert_eq!(net.agents[1].establish(net.now, theirs), Err(CallError::Connected));
    net.run(LONG);
    net.nothing(1);
    assert_eq!(net.sent(1, REP), 1, "an established connection repeats no REP");
}

/// CM-4.5.
#[test]
fn a_repeated_request_is_asked_for_time() {
    let mut net = Net::quiet(2, 5);
    let (_, theirs) = net.requested();
    net.run(Duration::from_secs(5));
    assert_eq!((net.sent(0, REQ), net.sent(1, MRA)), (2, 1));
    // 4.8 s of its own and 68.7 s that it was asked for.
    net.run(Duration::from_secs(70));
    assert_eq!(net.sent(0, REQ), 2, "the requester waits");
    net.nothing(1);
    net.agents[1].accept(net.now, theirs, offer(0x200), &[]).unwrap();
    net.run(MS);
    assert!(matches!(net.event(0), Event::Accepted { .. }));
    // The requester's program takes its time, too.
    net.run(Duration::from_secs(60));
    assert_eq!((net.sent(1, REP), net.sent(0, MRA)), (2, 1));
}

/// CM-4.5: a peer that asks for time repeatedly does not get it.
#[test]
fn time_is_asked_for_once_per_repetition() {
    let mut net = Net::quiet(2, 6);
    net.connect(0, 1, 0x100, &[]);
    let req = net.tap(0);
    let Message::Req(body) = req.message else { panic!() };
    let mra = cm::mad::Mra {
        remote_comm_id: body.local_comm_id,
        service_timeout: 31,
        ..cm::mad::Mra::ZERO
    };
    assert_eq!(net.forge(1, 0, req.transaction_id, Message::Mra(mra)), Ok(()));
    let deadline = net.agents[0].poll_timeout().unwrap();
    assert!(deadline - net.now < Duration::from_secs(310), "a cap of 300 s");
    net.now += Duration::from_secs(100);
    let again = net.forge(1, 0, req.transaction_id, Message::Mra(mra));
    assert_eq!(again, Err(DropReason::Duplicate));
    assert_eq!(net.agents[0].poll_timeout(), Some(deadline));
}

/// CM-4.5: whoever was asked for time repeats its message as a keepalive, and hears of the death of
/// the peer's process.
#[test]
fn a_peer_that_dies_after_it_asked_for_time_is_noticed() {
    let mut net = Net::new(2, 5);
    let (ours, _) = net.requested();
    net.run(Duration::from_secs(5));
    let sent = net.sent(0, REQ);
    net.run(Duration::from_secs(20));
    assert!((15..=21).contains(&(net.sent(0, REQ) - sent)), "one in a second");
    net.nothing(0);
    net.agents[0].unreachable(net.now, address(1));
    let Event::Rejected { conn, reason, .. } = net.event(0) else { panic!() };
    assert_eq!((conn, reason), (ours, reason::INVALID_SERVICE_ID));
}

/// CM-4.5: keepalives are no repetitions, of which there are fifteen.
#[test]
fn keepalives_do_not_use_up_repetitions() {
    let mut net = Net::new(2, 5);
    let (_, theirs) = net.requested();
    net.run(Duration::from_secs(200));
    assert!(net.sent(0, REQ) > 100);
    net.nothing(0);
    net.agents[1].accept(net.now, theirs, offer(0x200), &[]).unwrap();
    net.run(MS);
    assert!(matches!(net.event(0), Event::Accepted { .. }));
}

/// CM-4.7.
#[test]
fn a_rejection_is_told_with_its_reason_and_repeated() {
    let mut net = Net::new(2, 7);
    let (ours, theirs) = net.requested();
    net.lose.insert(REJ, 1);
    net.agents[1].reject(net.now, theirs, reason::CONSUMER_DEFINED, b"no").unwrap();
    net.send_all();
    let again = net.agents[1].reject(net.now, theirs, 28, &[]);
    assert_eq!(again, Err(CallError::Unknown), "the connection is forgotten");
    net.run(Duration::from_secs(5));
    let Event::Rejected { conn, reason, private_data } = net.event(0) else { panic!() };
    assert_eq!((conn, reason, &private_data[..2]), (ours, 28, &b"no"[..]));
    net.nothing(1);
    assert_eq!((net.sent(0, REQ), net.sent(1, REJ)), (2, 2));
    net.run(LONG);
    net.assert_nothing_is_left();
}

/// CM-4.7: the requester that was asked for time repeats its REQ much later; its program must not
/// be asked twice.
#[test]
fn a_lost_rejection_is_repeated_to_who_was_asked_for_time() {
    let mut net = Net::quiet(2, 31);
    let (ours, theirs) = net.requested();
    net.run(Duration::from_secs(10));
    assert_eq!(net.sent(1, MRA), 1);
    net.lose.insert(REJ, 1);
    net.agents[1].reject(net.now, theirs, reason::CONSUMER_DEFINED, b"no").unwrap();
    net.run(LONG);
    let Event::Rejected { conn, reason, .. } = net.event(0) else { panic!() };
    assert_eq!((conn, reason, net.sent(1, REJ)), (ours, 28, 2));
    net.nothing(1);
}

/// CM-6.2: a peer that asks for much time and then is silent must not stay half-open for long.
#[test]
fn a_stranger_does_not_choose_how_long_it_is_waited_for() {
    let mut net = Net::new(2, 32);
    net.listen(1, 8);
    net.connect(0, 1, 0x100, &[]);
    let req = net.tap(0);
    let Message::Req(mut body) = req.message else { panic!() };
    (body.local_response_timeout, body.max_cm_retries) = (31, 15);
    net.forge(0, 1, req.transaction_id, Message::Req(body)).unwrap();
    let Event::Requested { conn, .. } = net.event(1) else { panic!() };
    net.agents[1].accept(net.now, conn, offer(0x200), &[]).unwrap();
    net.lose.insert(RTU, 1000);
    net.lose.insert(MRA, 1000);
    net.run(LONG);
    assert_eq!(net.event(1), Event::Unreachable { conn });
}

/// CM-4.7: a late copy of the REQ finds the rejection, not the listener.
#[test]
fn a_late_copy_of_a_refused_request_is_refused_again() {
    let mut net = Net::new(2, 8);
    net.listen(1, 8);
    let ours = net.connect(0, 1, 0x100, &[]);
    let req = net.tap(0);
    net.forge(0, 1, req.transaction_id, req.message).unwrap();
    let Event::Requested { conn: theirs, .. } = net.event(1) else { panic!() };
    net.agents[1].reject(net.now, theirs, reason::CONSUMER_DEFINED, b"no").unwrap();
    let copy = net.forge(0, 1, req.transaction_id, req.message);
    assert_eq!(copy, Err(DropReason::Duplicate));
    net.run(MS);
    net.nothing(1);
    assert_eq!(net.sent(1, REJ), 2);
    let Event::Rejected { conn, reason, private_data } = net.event(0) else { panic!() };
    assert_eq!((conn, reason, &private_data[..2]), (ours, 28, &b"no"[..]));
    // The same queue pair may connect again at once: nothing of it is stale.
    net.connect(0, 1, 0x100, &[]);
    net.run(MS);
    assert!(matches!(net.event(1), Event::Requested { .. }));
}

#[test]
fn nobody_listens() {
    let mut net = Net::new(2, 9);
    let ours = net.connect(0, 1, 0x100, &[]);
    // A little patience (CM-4.9).
    net.run(300 * MS);
    let Event::Rejected { conn, reason, .. } = net.event(0) else { panic!() };
    assert_eq!((conn, reason), (ours, reason::INVALID_SERVICE_ID));
    net.assert_nothing_is_left();
}

#[test]
fn a_requester_gives_up_after_sixteen_requests_and_says_so() {
    let mut net = Net::new(2, 10);
    net.listen(1, 8);
    let ours = net.connect(0, 1, 0x100, &[]);
    net.lose.insert(REQ, 100);
    net.run(LONG);
    assert_eq!(net.event(0), Event::Unreachable { conn: ours });
    assert_eq!((net.sent(0, REQ), net.sent(0, REJ)), (16, 1));
    net.assert_nothing_is_left();
}

/// CM-4.6: the requester has given up, the responder's program has not decided yet.
#[test]
fn a_responder_learns_that_its_requester_gave_up() {
    let mut net = Net::new(2, 11);
    let (_, theirs) = net.requested();
    net.lose.insert(MRA, 100);
    net.run(LONG);
    assert!(matches!(net.event(0), Event::Unreachable { .. }));
    let Event::Rejected { conn, reason, .. } = net.event(1) else { panic!() };
    assert_eq!((conn, reason), (theirs, reason::TIMEOUT));
    let late = net.agents[1].accept(net.now, theirs, offer(1), &[]);
    assert_eq!(late, Err(CallError::Unknown));
    // It is unknown whether the request for time arrived.
    net.run(LONG);
    net.assert_nothing_is_left();
}

/// CM-4.6: no RTU comes, whatever is repeated.
#[test]
fn a_responder_gives_up_and_the_requester_learns_it() {
    let mut net = Net::quiet(2, 12);
    let (ours, theirs) = net.requested();
    net.agents[1].accept(net.now, theirs, offer(0x200), &[]).unwrap();
    net.run(MS);
    net.events(0);
    net.lose.insert(RTU, 100);
    net.agents[0].ready(net.now, ours).unwrap();
    net.run(LONG);
    assert_eq!(net.event(1), Event::Unreachable { conn: theirs });
    assert_eq!((net.sent(1, REP), net.sent(0, RTU)), (16, 16));
    let events = net.events(0);
    assert_eq!(events[0], Event::Disconnected { conn: ours, timed_out: false });
    assert_eq!(events[1..], [Event::TimewaitExit { conn: ours }]);
    net.assert_nothing_is_left();
}

/// CM-3.3: a REP for a connection that its requester has forgotten.
#[test]
fn a_forgotten_requester_refuses_the_rep() {
    let mut net = Net::new(2, 13);
    let (ours, theirs) = net.requested();
    net.lose.insert(REJ, 1);
    net.agents[0].destroy(net.now, ours);
    net.run(MS);
    net.nothing(1);
    net.agents[1].accept(net.now, theirs, offer(0x200), &[]).unwrap();
    net.run(MS);
    let Event::Rejected { reason, .. } = net.event(1) else { panic!() };
    assert_eq!(reason, reason::INVALID_COMM_ID);
}

/// CM-4.7: a copy of the REQ comes after its requester has left.
#[test]
fn a_late_copy_of_a_withdrawn_request_is_nothing() {
    let mut net = Net::new(2, 24);
    net.listen(1, 8);
    let ours = net.connect(0, 1, 0x100, &[]);
    let req = net.tap(0);
    net.forge(0, 1, req.transaction_id, req.message).unwrap();
    net.events(1);
    net.agents[0].destroy(net.now, ours);
    net.run(MS);
    assert!(matches!(net.event(1), Event::Rejected { reason: reason::TIMEOUT, .. }));
    let copy = net.forge(0, 1, req.transaction_id, req.message);
    assert_eq!(copy, Err(DropReason::Duplicate));
    net.nothing(1);
}

#[test]
fn calls_are_checked_before_anything_happens() {
    let mut net = Net::new(2, 25);
    let (ours, theirs) = net.requested();
    let now = net.now;
    let [here, there] = &mut net.agents[..] else { panic!() };
    let too_long = [0; 256];
    let accepted = there.accept(now, theirs, offer(1), &too_long[..197]);
    assert_eq!(accepted, Err(CallError::PrivateData(197, 196)));
    let rejected = there.reject(now, theirs, 28, &too_long[..149]);
    assert_eq!(rejected, Err(CallError::PrivateData(149, 148)));
    assert_eq!(there.ready(now, theirs), Err(CallError::WrongState));
    assert_eq!(there.establish(now, theirs), Err(CallError::WrongState));
    assert_eq!(there.disconnect(now, theirs), Err(CallError::WrongState));
    assert_eq!(here.accept(now, ours, offer(1), &[]), Err(CallError::WrongState));
    let qp = ServiceQp { qpn: 1, qkey: 1 };
    assert_eq!(here.accept_resolution(now, ours, qp, &[]), Err(CallError::WrongState));
    assert_eq!(there.poll_transmit(), None);
    assert_eq!(there.accept(now, theirs, offer(1), &too_long[..196]), Ok(()));
}

#[test]
fn a_listener_with_an_address_comes_before_one_without() {
    use cm::ListenParams;
    let mut net = Net::new(2, 26);
    let own = net.listen(1, 8);
    let any = ListenParams {
        service_id: crate::common::net::SERVICE,
        address: None,
        is_datagram: false,
        backlog: 8,
    };
    let all = net.agents[1].listen(any).unwrap();
    assert_eq!(net.agents[1].listen(any), Err(CallError::ServiceInUse));
    for expected in [own, all] {
        net.connect(0, 1, 0x100 + net.sent.len() as u32, &[]);
        net.run(MS);
        let Event::Requested { listener, .. } = net.event(1) else { panic!() };
        assert_eq!(listener, expected);
        net.agents[1].close_listener(expected).unwrap();
    }
    net.connect(0, 1, 0x300, &[]);
    net.run(300 * MS);
    assert!(matches!(net.event(0), Event::Rejected { reason: 8, .. }));
    assert_eq!(net.agents[1].close_listener(own), Err(CallError::Unknown));
}
