//! Programs that write the commands of librdmacm, and the answers.

use crate::common::net::address;
use crate::common::process::{MS, World, number, param};
use cm::Route;
use cm::ucma::{ConnParam, Errno, Query, QueryAddrResp, UdParam, event, port_space, qp_mask};
use std::net::SocketAddr;
use std::time::Duration;

const PORT: u16 = 7471;
const SERVER: usize = 1;
const CLIENT: usize = 0;

fn server_address() -> SocketAddr {
    SocketAddr::new(address(SERVER).ip(), PORT)
}

/// Returns the ids of a listener, of a client, and of the new connection at the server.
fn requested(world: &mut World) -> (u32, u32, u32) {
    let listener = world.listening(SERVER, 0x51, port_space::TCP, PORT);
    let client = world.routed(CLIENT, 0xC1, port_space::TCP, server_address());
    world.connect(CLIENT, client, param(0x100, b"hello")).expect("what a test does is allowed");
    world.run(MS);
    let resp = world.expect(SERVER, event::CONNECT_REQUEST, 0x51);
    assert_ne!(resp.id, listener, "an id of its own");
    let said = ConnParam::parse(&resp.param).expect("what a test does is allowed");
    assert_eq!((&said.private_data[..5], said.private_data_len), (&b"hello"[..], 56));
    assert_eq!((said.qp_num, said.responder_resources, said.initiator_depth), (0x100, 3, 4));
    assert_eq!((said.retry_count, said.rnr_retry_count), (6, 5));
    (listener, client, resp.id)
}

fn established(world: &mut World) -> (u32, u32, u32) {
    let (listener, client, server) = requested(world);
    world
        .accept(SERVER, server, 0x52, param(0x200, b"welcome"))
        .expect("what a test does is allowed");
    world.run(MS);
    let resp = world.expect(CLIENT, event::CONNECT_RESPONSE, 0xC1);
    let said = ConnParam::parse(&resp.param).expect("what a test does is allowed");
    assert_eq!((&said.private_data[..7], said.private_data_len), (&b"welcome"[..], 196));
    world.accept(CLIENT, client, 0, ConnParam::default()).expect("what a test does is allowed");
    world.run(MS);
    let resp = world.expect(SERVER, event::ESTABLISHED, 0x52);
    assert_eq!(resp.id, server);
    (listener, client, server)
}

/// CM-5.6: programs may destroy a queue pair at the disconnect, so it must have taken its data
/// before.
#[test]
fn the_host_learns_which_queue_pair_has_lost_its_connection() {
    let mut world = World::new(2);
    let (_, client, _) = established(&mut world);
    world.simple(CLIENT, number::DISCONNECT, client).unwrap();
    world.run(MS);
    assert_eq!(world.processes[SERVER].ended, [(address(SERVER).ip(), 0x200)]);
    assert_eq!(world.processes[CLIENT].ended, [], "its peer has not agreed yet");
    world.expect(SERVER, event::DISCONNECTED, 0x52);
}

/// CM-5.6: completions from before the end are polled first, or they are lost with the queue pair.
#[test]
fn a_program_hears_of_the_end_when_its_host_says_so() {
    let mut world = World::new(2);
    let (_, client, _) = established(&mut world);
    world.processes[SERVER].withholds = true;
    world.simple(CLIENT, number::DISCONNECT, client).unwrap();
    world.run(MS);
    let is_readable = |world: &mut World| world.processes[SERVER].ids.poll_readable().is_some();
    while is_readable(&mut world) {}
    let [(local, qpn)] = world.processes[SERVER].ended[..] else { panic!("one has ended") };
    world.processes[SERVER].ids.report_disconnect(local, qpn + 1);
    assert!(!is_readable(&mut world), "that is another's");
    world.processes[SERVER].ids.report_disconnect(local, qpn);
    assert!(is_readable(&mut world));
    world.expect(SERVER, event::DISCONNECTED, 0x52);
    world.processes[SERVER].ids.report_disconnect(local, qpn);
    assert!(!is_readable(&mut world), "it was told once");
}

/// CM-5.4: a process that was stopped for a second gets the disconnect before the exit.
#[test]
fn the_end_is_told_before_the_exit() {
    let mut world = World::new(2);
    let (_, client, server) = established(&mut world);
    world.processes[CLIENT].withholds = true;
    world.simple(CLIENT, number::DISCONNECT, client).unwrap();
    world.run(MS);
    world.expect(SERVER, event::DISCONNECTED, 0x52);
    world.simple(SERVER, number::DISCONNECT, server).unwrap();
    world.run(1_000 * MS);
    world.expect(CLIENT, event::DISCONNECTED, 0xC1);
    world.expect(CLIENT, event::TIMEWAIT_EXIT, 0xC1);
}

/// The number of an id may soon be used again.
#[test]
fn an_end_that_was_not_told_goes_with_its_id() {
    let mut world = World::new(2);
    let (_, client, server) = established(&mut world);
    world.processes[SERVER].withholds = true;
    world.simple(CLIENT, number::DISCONNECT, client).unwrap();
    world.run(MS);
    world.destroy(SERVER, server).unwrap();
    while world.processes[SERVER].ids.poll_readable().is_some() {}
    let (local, qpn) = world.processes[SERVER].ended[0];
    world.processes[SERVER].ids.report_disconnect(local, qpn);
    assert_eq!(world.processes[SERVER].ids.poll_readable(), None);
}

#[test]
fn a_connection_lives_and_ends_as_librdmacm_wants_it() {
    let mut world = World::new(2);
    let (listener, client, server) = established(&mut world);
    world.simple(CLIENT, number::DISCONNECT, client).unwrap();
    world.run(MS);
    world.expect(SERVER, event::DISCONNECTED, 0x52);
    world.simple(SERVER, number::DISCONNECT, server).unwrap();
    world.run(MS);
    world.expect(CLIENT, event::DISCONNECTED, 0xC1);
    world.simple(CLIENT, number::DISCONNECT, client).unwrap();
    world.run(Duration::from_secs(1));
    world.expect(CLIENT, event::TIMEWAIT_EXIT, 0xC1);
    world.expect(SERVER, event::TIMEWAIT_EXIT, 0x52);
    // Resolved twice, response, disconnected, exit; the request counts for the listener.
    assert_eq!(world.destroy(CLIENT, client), Ok(5));
    assert_eq!(world.destroy(SERVER, server), Ok(3));
    assert_eq!(world.destroy(SERVER, listener), Ok(1));
    for process in &world.processes {
        assert_eq!((process.ids.count(), process.ids.agent().connections()), (0, 0));
        assert_eq!(process.ids.agent().listeners(), 0);
        assert!(process.host.ports.is_empty(), "a port was kept");
    }
}

#[test]
fn queue_pairs_get_what_both_sides_agreed_on() {
    use qp_mask::*;
    let mut world = World::new(2);
    let client = world.routed(CLIENT, 0xC1, port_space::TCP, server_address());
    let plain = world.qp_attr(CLIENT, client, 1).unwrap();
    assert_eq!(plain.qp_attr_mask, STATE | ACCESS_FLAGS | PKEY_INDEX | PORT);
    assert_eq!((plain.qp_access_flags, plain.port_num), (0, 1));
    drop(world);

    let mut world = World::new(2);
    let (_, client, server) = requested(&mut world);
    assert_eq!(world.qp_attr(CLIENT, client, 2), Err(Errno::EINVAL), "no answer yet");
    assert_eq!(world.qp_attr(CLIENT, client, 7), Err(Errno::EINVAL));
    let init = world.qp_attr(SERVER, server, 1).unwrap();
    assert_eq!((init.qp_state, init.qp_access_flags), (1, 0b1110));
    let rtr = world.qp_attr(SERVER, server, 2).unwrap();
    let rc = MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER;
    assert_eq!(rtr.qp_attr_mask, STATE | AV | PATH_MTU | DEST_QPN | RQ_PSN | rc);
    assert_eq!((rtr.path_mtu, rtr.dest_qp_num, rtr.max_dest_rd_atomic), (3, 0x100, 3));
    assert_eq!((rtr.ah_attr.is_global, rtr.ah_attr.hop_limit), (1, 64));
    assert_eq!(rtr.ah_attr.dgid[12..], [10, 0, 0, 1]);
    let rts = world.qp_attr(SERVER, server, 3).unwrap();
    let rc = RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC | TIMEOUT;
    assert_eq!(rts.qp_attr_mask, STATE | SQ_PSN | rc);
    assert_eq!((rts.retry_cnt, rts.rnr_retry, rts.max_rd_atomic, rts.timeout), (6, 5, 4, 17));

    world.accept(SERVER, server, 0x52, param(0x200, &[])).unwrap();
    world.run(MS);
    world.expect(CLIENT, event::CONNECT_RESPONSE, 0xC1);
    let there = world.qp_attr(CLIENT, client, 2).unwrap();
    assert_eq!((there.dest_qp_num, there.rq_psn), (0x200, rts.sq_psn));
    assert_eq!(world.qp_attr(CLIENT, client, 3).unwrap().sq_psn, rtr.rq_psn);
    assert_eq!(there.ah_attr.dgid[12..], [10, 0, 0, 2]);
}

#[test]
fn a_datagram_service_is_resolved() {
    let mut world = World::new(2);
    world.listening(SERVER, 0x51, port_space::UDP, PORT);
    let client = world.routed(CLIENT, 0xC1, port_space::UDP, server_address());
    let attr = world.qp_attr(CLIENT, client, 1).unwrap();
    assert_eq!((attr.qkey, attr.qp_attr_mask & qp_mask::QKEY), (0x0123_4567, qp_mask::QKEY));
    world.connect(CLIENT, client, param(0x100, b"who?")).unwrap();
    world.run(MS);
    let resp = world.expect(SERVER, event::CONNECT_REQUEST, 0x51);
    let asked = UdParam::parse(&resp.param).unwrap();
    assert_eq!((&asked.private_data[..4], asked.private_data_len), (&b"who?"[..], 180));
    world.accept(SERVER, resp.id, 0x52, param(0x77, b"me")).unwrap();
    world.run(MS);
    let resp = world.expect(CLIENT, event::ESTABLISHED, 0xC1);
    let told = UdParam::parse(&resp.param).unwrap();
    assert_eq!((told.qp_num, told.qkey, told.private_data_len), (0x77, 0x0123_4567, 136));
    assert_eq!((&told.private_data[..2], told.ah_attr.is_global), (&b"me"[..], 1));
    assert_eq!(told.ah_attr.dgid[12..], [10, 0, 0, 2]);
    assert_eq!(world.get_event(SERVER), Err(Errno::EAGAIN));

    let nobody = world.routed(CLIENT, 0xC2, port_space::UDP, address(SERVER));
    world.connect(CLIENT, nobody, param(0x100, &[])).unwrap();
    world.run(MS);
    assert_eq!(world.expect(CLIENT, event::UNREACHABLE, 0xC2).status, 1);
}

#[test]
fn a_refusal_comes_with_its_reason() {
    let mut world = World::new(2);
    let (_, client, server) = requested(&mut world);
    let mut reject = cm::ucma::Reject { id: server, reason: 7, ..Default::default() };
    assert_eq!(world.write(SERVER, number::REJECT, &reject.emit(), 0), Err(Errno::EINVAL));
    (reject.reason, reject.private_data_len) = (0, 149);
    assert_eq!(world.write(SERVER, number::REJECT, &reject.emit(), 0), Err(Errno::EINVAL));
    reject.private_data_len = 2;
    reject.private_data[..2].copy_from_slice(b"no");
    assert_eq!(world.write(SERVER, number::REJECT, &reject.emit(), 0), Ok(None));
    assert_eq!(world.write(SERVER, number::REJECT, &reject.emit(), 0), Err(Errno::EINVAL));
    world.run(MS);
    let resp = world.expect(CLIENT, event::REJECTED, 0xC1);
    let said = ConnParam::parse(&resp.param).unwrap();
    assert_eq!((resp.status, said.private_data_len), (28, 148));
    assert_eq!(&said.private_data[..2], b"no");
    assert_eq!(world.qp_attr(CLIENT, client, 1), Err(Errno::EINVAL), "there is no connection");
    let late = world.accept(SERVER, server, 9, param(1, &[]));
    assert_eq!(late, Err(Errno::EINVAL));
}

/// CM-8.4: a listener goes away with requests that no program has seen.
#[test]
fn a_destroyed_listener_refuses_who_waits() {
    let mut world = World::new(2);
    let listener = world.listening(SERVER, 0x51, port_space::TCP, PORT);
    for uid in [0xC1, 0xC2] {
        let client = world.routed(CLIENT, uid, port_space::TCP, server_address());
        world.connect(CLIENT, client, param(0x100 + uid as u32, &[])).unwrap();
    }
    world.run(MS);
    let taken = world.expect(SERVER, event::CONNECT_REQUEST, 0x51).id;
    assert_eq!(world.destroy(SERVER, listener), Ok(1));
    assert_eq!(world.get_event(SERVER), Err(Errno::EAGAIN), "its events go with it");
    world.run(MS);
    assert_eq!(world.expect(CLIENT, event::REJECTED, 0xC2).status, 28);
    // The connection that was taken stays.
    world.accept(SERVER, taken, 0x52, param(0x200, &[])).unwrap();
    world.run(MS);
    world.expect(CLIENT, event::CONNECT_RESPONSE, 0xC1);
}

/// CM-6.1: a request counts until GET_EVENT, not until it is accepted.
#[test]
fn get_event_makes_room_in_the_backlog() {
    let mut world = World::new(2);
    let listener = world.create(SERVER, 0x51, port_space::TCP);
    world.bind(SERVER, listener, SocketAddr::new([0, 0, 0, 0].into(), PORT)).unwrap();
    world.listen(SERVER, listener, 1).unwrap();
    for uid in [0xC1, 0xC2, 0xC3] {
        let client = world.routed(CLIENT, uid, port_space::TCP, server_address());
        world.connect(CLIENT, client, param(uid as u32, &[])).unwrap();
    }
    world.run(MS);
    for _ in 0..2 {
        world.expect(SERVER, event::CONNECT_REQUEST, 0x51);
        assert_eq!(world.get_event(SERVER), Err(Errno::EAGAIN));
        world.run(Duration::from_secs(5));
    }
    world.expect(SERVER, event::CONNECT_REQUEST, 0x51);
}

/// A program relies on its connection having an adapter, whatever address its peer requested.
#[test]
fn a_request_for_an_address_of_nobody_comes_by_the_adapter_it_came_to() {
    let mut world = World::new(2);
    let listener = world.listening(SERVER, 0x51, port_space::TCP, PORT);
    let elsewhere = SocketAddr::new([10, 0, 0, 77].into(), PORT);
    let client = world.routed(CLIENT, 0xC1, port_space::TCP, elsewhere);
    world.connect(CLIENT, client, param(0x100, &[])).unwrap();
    let transmit = world.processes[CLIENT].ids.poll_transmit().unwrap();
    let route = Route { local: address(SERVER).ip(), peer: address(CLIENT) };
    let now = world.now;
    world.processes[SERVER].ids.handle_mad(now, route, &transmit.bytes).unwrap();
    let resp = world.expect(SERVER, event::CONNECT_REQUEST, 0x51);
    assert_ne!(resp.id, listener);
    let query = Query { response: 1, id: resp.id, option: 0 }.emit();
    let reply = world.write(SERVER, number::QUERY, &query, 280).unwrap().unwrap();
    let addresses = QueryAddrResp::parse(&reply.bytes).unwrap();
    assert_ne!(addresses.node_guid, [0; 8]);
}

/// CM-8.3: a connection that the program has not named has no events.
#[test]
fn a_connection_without_name_has_no_events() {
    let mut world = World::new(2);
    let (_, client, server) = requested(&mut world);
    world.destroy(CLIENT, client).unwrap();
    world.run(MS);
    assert_eq!(world.get_event(SERVER), Err(Errno::EAGAIN));
    assert_eq!(world.accept(SERVER, server, 0x52, param(1, &[])), Err(Errno::EINVAL));
    assert_eq!(world.destroy(SERVER, server), Ok(0));
}

#[test]
fn data_establishes_by_notify() {
    let mut world = World::new(2);
    let (_, _, server) = requested(&mut world);
    let notify = |event: u32| cm::ucma::Notify { id: server, event }.emit();
    world.accept(SERVER, server, 0x52, param(0x200, &[])).unwrap();
    assert_eq!(world.write(SERVER, number::NOTIFY, &notify(5), 0), Err(Errno::EINVAL));
    assert_eq!(world.write(SERVER, number::NOTIFY, &notify(4), 0), Ok(None));
    world.expect(SERVER, event::ESTABLISHED, 0x52);
    assert_eq!(world.write(SERVER, number::NOTIFY, &notify(4), 0), Err(Errno::EISCONN));
}

#[test]
fn a_closed_descriptor_ends_all_that_it_had() {
    let mut world = World::new(2);
    established(&mut world);
    let waiting = world.routed(CLIENT, 0xC2, port_space::TCP, server_address());
    world.connect(CLIENT, waiting, param(0x101, &[])).unwrap();
    world.run(MS);
    let now = world.now;
    let server = &mut world.processes[SERVER];
    server.ids.close(now, &mut server.host, server.channel);
    assert_eq!(server.ids.count(), 0);
    assert!(server.host.ports.is_empty());
    world.run(MS);
    assert_eq!(world.expect(CLIENT, event::REJECTED, 0xC2).status, 28);
    world.expect(CLIENT, event::DISCONNECTED, 0xC1);
}

/// A process that ends: its peers are notified, and events that it waits for still arrive.
#[test]
fn who_parts_tells_everybody_and_goes_on_listening() {
    let mut world = World::new(2);
    world.listening(1, 9, port_space::TCP, PORT);
    let connect = |world: &mut World, uid| {
        let id = world.routed(0, uid, port_space::TCP, server_address());
        world.connect(0, id, param(0x100 + uid as u32, b"")).unwrap();
        world.run(MS);
        id
    };
    let first = connect(&mut world, 1);
    let theirs = world.expect(1, event::CONNECT_REQUEST, 9).id;
    world.accept(1, theirs, 5, param(0x200, b"")).unwrap();
    world.run(MS);
    world.expect(0, event::CONNECT_RESPONSE, 1);
    world.accept(0, first, 1, ConnParam::default()).unwrap();
    world.run(MS);
    world.expect(1, event::ESTABLISHED, 5);
    // One that the other program has seen, and one that it has not.
    connect(&mut world, 2);
    let seen = world.expect(1, event::CONNECT_REQUEST, 9).id;
    connect(&mut world, 3);
    let now = world.now;
    world.processes[1].ids.disconnect_all(now);
    world.run(MS);
    world.expect(0, event::DISCONNECTED, 1);
    world.expect(0, event::REJECTED, 2);
    world.expect(0, event::REJECTED, 3);
    world.simple(0, number::DISCONNECT, first).unwrap();
    world.run(MS);
    // The second request still arrives, and cannot be accepted any more.
    let late = world.expect(1, event::CONNECT_REQUEST, 9).id;
    assert_eq!(world.accept(1, late, 6, param(0x201, b"")), Err(Errno::EINVAL));
    assert_eq!(world.accept(1, seen, 7, param(0x202, b"")), Err(Errno::EINVAL));
    world.expect(1, event::DISCONNECTED, 5);
    assert_eq!(world.destroy(1, theirs), Ok(2));
}
