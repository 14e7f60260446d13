//! Commands in the wrong order, with wrong values, or made of noise.

use crate::common::net::address;
use crate::common::process::{World, number as command, param};
use crate::common::{Rng, number};
use cm::ids::Host as _;
use cm::ucma::{
    Bind, CreateId, DestroyId, Errno, JoinMcast, MigrateId, Query, QueryAddrResp, QueryRouteResp,
    SetOption, UdParam, event, port_space, write_ib, write_ip,
};
use std::net::SocketAddr;

const PORT: u16 = 7471;

fn at(host: [u8; 4], port: u16) -> SocketAddr {
    SocketAddr::new(host.into(), port)
}

fn here(port: u16) -> SocketAddr {
    SocketAddr::new(address(0).ip(), port)
}

#[test]
fn ids_belong_to_their_descriptor() {
    let mut world = World::new(1);
    let id = world.create(0, 1, port_space::TCP);
    assert_eq!(world.destroy(0, id + 1), Err(Errno::ENOENT));
    let other = world.processes[0].ids.open();
    let body = DestroyId { response: 1, id }.emit();
    let theirs = world.write_to(0, other, command::DESTROY_ID, &body, 4);
    assert_eq!(theirs, Err(Errno::EINVAL));
    assert_eq!(world.destroy(0, id), Ok(0));
    assert_eq!(world.destroy(0, id), Err(Errno::ENOENT));
    assert_ne!(world.create(0, 1, port_space::TCP), id, "a number is not given twice in a row");
}

#[test]
fn answers_need_their_room() {
    let mut world = World::new(1);
    let create = CreateId { uid: 1, response: 1, ps: port_space::TCP, qp_type: 0 }.emit();
    assert_eq!(world.write(0, command::CREATE_ID, &create, 3), Err(Errno::ENOSPC));
    let id = world.create(0, 1, port_space::TCP);
    let destroy = DestroyId { response: 1, id }.emit();
    assert_eq!(world.write(0, command::DESTROY_ID, &destroy, 3), Err(Errno::ENOSPC));
    let query = |option| Query { response: 1, id, option }.emit();
    assert_eq!(world.write(0, command::QUERY, &query(0), 271), Err(Errno::ENOSPC));
    assert_eq!(world.write(0, command::QUERY, &query(1), 7), Err(Errno::ENOSPC));
    assert_eq!(world.write(0, command::QUERY, &query(2), 271), Err(Errno::ENOSPC));
    assert_eq!(world.write(0, command::QUERY, &query(3), 500), Err(Errno::ENOSYS));
    assert_eq!(world.write(0, command::QUERY_ROUTE, &query(0), 199), Err(Errno::ENOSPC));
    assert_eq!(world.write(0, command::GET_EVENT, &[0; 8], 323), Err(Errno::ENOSPC));
    assert_eq!(world.write(0, command::GET_EVENT, &[0; 8], 324), Err(Errno::EAGAIN));
    assert_eq!(world.write(0, command::INIT_QP_ATTR, &[0; 16], 143), Err(Errno::ENOSPC));
    assert_eq!(world.processes[0].ids.count(), 1);
    // Older libraries have less room, and get a shorter answer.
    let short = world.write(0, command::QUERY, &query(0), 272).unwrap().unwrap();
    assert_eq!(short.bytes.len(), 272);
}

#[test]
fn port_spaces_are_those_of_linux() {
    let mut world = World::new(1);
    for (ps, good) in [(0x0106, true), (0x0111, true), (2, true), (0x013F, true), (0x0107, false)] {
        let body = CreateId { uid: 1, response: 1, ps, qp_type: 2 }.emit();
        assert_eq!(world.write(0, command::CREATE_ID, &body, 4).is_ok(), good, "{ps:#x}");
    }
}

#[test]
fn bind_checks_what_it_is_given() {
    let mut world = World::new(1);
    let id = world.create(0, 1, port_space::TCP);
    let mut bind = Bind { id, ..Bind::default() };
    bind.addr_size = write_ib([0; 16], 0xFFFF, 1, &mut bind.addr);
    // librdmacm requests InfiniBand's own addresses in this way, which must fail.
    assert_eq!(world.write(0, command::BIND, &bind.emit(), 0), Err(Errno::EAFNOSUPPORT));
    bind.addr = [0; 128];
    bind.addr_size = write_ip(here(PORT), &mut bind.addr) + 1;
    assert_eq!(world.write(0, command::BIND, &bind.emit(), 0), Err(Errno::EINVAL));
    (bind.addr_size, bind.reserved) = (16, 1);
    assert_eq!(world.write(0, command::BIND, &bind.emit(), 0), Err(Errno::EINVAL));
    assert_eq!(world.bind(0, id, at([10, 9, 9, 9], PORT)), Err(Errno::EADDRNOTAVAIL));
    assert_eq!(world.bind(0, id, here(PORT)), Ok(()));
    assert_eq!(world.bind(0, id, here(PORT)), Err(Errno::EINVAL), "bound already");
    let other = world.create(0, 2, port_space::TCP);
    assert_eq!(world.bind(0, other, here(PORT)), Err(Errno::EADDRINUSE));
    world.destroy(0, id).unwrap();
    assert_eq!(world.bind(0, other, here(PORT)), Ok(()), "the port is free again");
}

#[test]
fn steps_come_in_their_order() {
    let mut world = World::new(1);
    let id = world.create(0, 1, port_space::TCP);
    assert_eq!(world.resolve_route(0, id), Err(Errno::EINVAL));
    assert_eq!(world.connect(0, id, param(1, &[])), Err(Errno::EINVAL));
    assert_eq!(world.accept(0, id, 1, param(1, &[])), Err(Errno::EINVAL));
    assert_eq!(world.simple(0, command::DISCONNECT, id), Err(Errno::EINVAL));
    assert_eq!(world.qp_attr(0, id, 1), Err(Errno::EINVAL), "no adapter yet");
    world.resolve_addr(0, id, at([10, 0, 0, 2], PORT)).unwrap();
    assert_eq!(world.resolve_addr(0, id, at([10, 0, 0, 2], PORT)), Err(Errno::EINVAL));
    assert_eq!(world.listen(0, id, 1), Err(Errno::EINVAL));
    assert_eq!(world.connect(0, id, param(1, &[])), Err(Errno::EINVAL), "no route yet");
    world.resolve_route(0, id).unwrap();
    let unset = cm::ucma::ConnParam { valid: 0, ..param(1, &[]) };
    assert_eq!(world.connect(0, id, unset), Err(Errno::EINVAL));
    assert_eq!(world.connect(0, id, param(1, &[0; 57])), Err(Errno::EINVAL), "57 bytes");
    world.connect(0, id, param(1, &[0; 56])).unwrap();
    assert_eq!(world.connect(0, id, param(1, &[])), Err(Errno::EINVAL), "once only");
}

#[test]
fn an_address_out_of_reach_is_an_event() {
    let mut world = World::new(1);
    let id = world.create(0, 1, port_space::TCP);
    world.resolve_addr(0, id, at([99, 0, 0, 1], PORT)).unwrap();
    let resp = world.expect(0, event::ADDR_ERROR, 1);
    assert_eq!(resp.status as i32, -Errno::EHOSTUNREACH.0);
    world.resolve_addr(0, id, at([10, 0, 0, 2], PORT)).unwrap();
    world.expect(0, event::ADDR_RESOLVED, 1);
}

#[test]
fn queries_tell_addresses_gids_and_the_path() {
    let mut world = World::new(1);
    let id = world.routed(0, 1, port_space::TCP, at([10, 0, 0, 2], PORT));
    let query = |option| Query { response: 9, id, option }.emit();
    let reply = world.write(0, command::QUERY, &query(0), 280).unwrap().unwrap();
    let resp = QueryAddrResp::parse(&reply.bytes).unwrap();
    assert_eq!((resp.src_size, resp.dst_size, resp.ibdev_index), (16, 16, 3));
    assert_eq!((resp.port_num, resp.pkey), (1, [0xFF, 0xFF]));
    assert_eq!(resp.dst_addr[2..8], [0x1D, 0x2F, 10, 0, 0, 2]);
    assert_eq!(resp.node_guid, [2, 0x53, 0x45, 0, 10, 0, 0, 1]);

    let reply = world.write(0, command::QUERY, &query(2), 280).unwrap().unwrap();
    let resp = QueryAddrResp::parse(&reply.bytes).unwrap();
    assert_eq!((resp.src_size, resp.dst_size), (48, 48));
    assert_eq!(resp.dst_addr[8..24], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 0, 0, 2]);

    let reply = world.write(0, command::QUERY, &query(1), 440).unwrap().unwrap();
    assert_eq!((reply.bytes.len(), reply.bytes[0], reply.bytes[8]), (80, 1, 0x2B));
    let record = &reply.bytes[16..];
    assert_eq!(record[..8], [0, 0, 0, 0, 1, 6, 0x1D, 0x2F]);
    assert_eq!((record[47], record[54], record[56]), (64, 0x83, 0x90));
    let narrow = world.write(0, command::QUERY, &query(1), 8).unwrap().unwrap();
    assert_eq!(narrow.bytes.len(), 8);

    let reply = world.write(0, command::QUERY_ROUTE, &query(0), 208).unwrap().unwrap();
    let resp = QueryRouteResp::parse(&reply.bytes).unwrap();
    assert_eq!((resp.num_paths, resp.ib_route.mtu, resp.ib_route.hop_limit), (1, 3, 64));
    assert_eq!(resp.ib_route.dgid[12..], [10, 0, 0, 2]);
}

/// As for sockets, `[::]` includes `0.0.0.0` unless the program excludes it.
#[test]
fn listeners_of_two_families_share_a_port_when_one_says_so() {
    let any = |v6: bool| -> SocketAddr {
        if v6 { "[::]:7471".parse().unwrap() } else { "0.0.0.0:7471".parse().unwrap() }
    };
    for only in [0u8, 1] {
        let mut world = World::new(2);
        let [v6, v4] = [0x61, 0x41].map(|uid| world.create(1, uid, port_space::TCP));
        world.processes[1].host.value = vec![only, 0, 0, 0];
        let option = SetOption { optval: 8, id: v6, level: 0, optname: 2, optlen: 4 }.emit();
        world.write(1, command::SET_OPTION, &option, 0).unwrap();
        for id in [v6, v4] {
            let shared = SetOption { optval: 8, id, level: 0, optname: 1, optlen: 4 }.emit();
            world.processes[1].host.value = vec![1, 0, 0, 0];
            world.write(1, command::SET_OPTION, &shared, 0).unwrap();
        }
        world.bind(1, v6, any(true)).unwrap();
        world.listen(1, v6, 8).unwrap();
        if only == 1 {
            world.bind(1, v4, any(false)).unwrap();
            world.listen(1, v4, 8).unwrap();
        }
        let client = world.routed(0, 0xC1, port_space::TCP, at([10, 0, 0, 2], PORT));
        world.connect(0, client, param(1, &[])).unwrap();
        world.run(crate::common::process::MS);
        world.expect(1, event::CONNECT_REQUEST, if only == 1 { 0x41 } else { 0x61 });
    }
}

#[test]
fn options_have_their_lengths() {
    let mut world = World::new(1);
    let id = world.create(0, 1, port_space::TCP);
    let option =
        |level, optname, optlen| SetOption { optval: 8, id, level, optname, optlen }.emit();
    let mut set = |body: [u8; 24]| world.write(0, command::SET_OPTION, &body, 0).map(drop);
    assert_eq!(set(option(0, 0, 1)), Ok(()));
    assert_eq!(set(option(0, 0, 4)), Err(Errno::EINVAL));
    assert_eq!(set(option(0, 1, 4)), Ok(()));
    assert_eq!(set(option(0, 1, 1)), Err(Errno::EINVAL));
    assert_eq!(set(option(0, 2, 4)), Ok(()));
    assert_eq!(set(option(0, 3, 1)), Ok(()));
    assert_eq!(set(option(0, 4, 1)), Err(Errno::ENOSYS));
    assert_eq!(set(option(7, 0, 1)), Err(Errno::ENOSYS));
    assert_eq!(set(option(0, 0, 1 << 30)), Err(Errno::EINVAL));
    assert_eq!(set(option(0, 0, 100)), Err(Errno::EFAULT));
}

/// As in the kernel's `rdma_set_reuseaddr` and `rdma_set_afonly`.
#[test]
fn what_is_said_of_a_bound_port_counts() {
    let mut world = World::new(1);
    let id = world.create(0, 1, port_space::TCP);
    let set = |world: &mut World, optname, value: u8| {
        world.processes[0].host.value = vec![value, 0, 0, 0];
        let body = SetOption { optval: 8, id, level: 0, optname, optlen: 4 }.emit();
        world.write(0, command::SET_OPTION, &body, 0).map(drop)
    };
    assert_eq!([set(&mut world, 1, 1), set(&mut world, 1, 0)], [Ok(()); 2]);
    world.bind(0, id, at([10, 0, 0, 1], PORT)).unwrap();
    assert_eq!([set(&mut world, 2, 1), set(&mut world, 1, 1)], [Ok(()); 2]);
    assert_eq!(world.processes[0].host.changed, [(id, false, true), (id, true, true)]);
    assert_eq!(set(&mut world, 1, 0), Err(Errno::EINVAL));
    world.listen(0, id, 8).unwrap();
    assert_eq!(set(&mut world, 1, 1), Err(Errno::EINVAL));
    assert_eq!(set(&mut world, 2, 0), Err(Errno::EINVAL));
}

/// CM-8.4.
#[test]
fn a_migrated_id_takes_its_events_along() {
    let mut world = World::new(1);
    let (moves, stays) = (world.create(0, 1, port_space::TCP), world.create(0, 2, port_space::TCP));
    for id in [moves, stays, moves] {
        let _ = world.resolve_addr(0, id, at([99, 0, 0, 1], PORT));
    }
    world.expect(0, event::ADDR_ERROR, 1);
    let channel = world.processes[0].channel;
    let other = world.processes[0].ids.open();
    world.processes[0].host.channels.push(other);
    assert_eq!(world.processes[0].host.channel(1), Some(other));
    let body = MigrateId { response: 5, id: moves, fd: 0 }.emit();
    let reply = world.write_to(0, other, command::MIGRATE_ID, &body, 4).unwrap().unwrap();
    assert_eq!(reply.bytes, 1u32.to_ne_bytes(), "events reported so far");
    let gone = MigrateId { response: 5, id: moves, fd: 9 }.emit();
    let unknown = world.write_to(0, other, command::MIGRATE_ID, &gone, 4);
    assert_eq!(unknown, Err(Errno::ENOENT));
    world.expect(0, event::ADDR_ERROR, 2);
    assert_eq!(world.get_event(0), Err(Errno::EAGAIN));
    assert!(world.processes[0].ids.is_readable(other));
    assert_eq!(world.processes[0].ids.poll_readable(), Some(channel));
    assert_eq!(world.processes[0].ids.poll_readable(), Some(other), "it was given one");
    assert_eq!(world.processes[0].ids.poll_readable(), None, "each is told once");
    assert_eq!(world.destroy(0, moves), Err(Errno::EINVAL), "it is another descriptor's now");
}

#[test]
fn a_group_is_joined_and_left() {
    let mut world = World::new(1);
    let id = world.routed(0, 1, port_space::UDP, at([10, 0, 0, 2], PORT));
    let mut join = JoinMcast { response: 1, uid: 0x77, id, ..JoinMcast::default() };
    join.addr_size = write_ip(at([239, 1, 2, 3], 0), &mut join.addr);
    let refused = JoinMcast { join_flags: 2, ..join };
    assert_eq!(world.write(0, command::JOIN_MCAST, &refused.emit(), 4), Err(Errno::EINVAL));
    let mut host = join;
    host.addr_size = write_ip(at([10, 1, 2, 3], 0), &mut host.addr);
    let refused = world.write(0, command::JOIN_MCAST, &host.emit(), 4);
    assert_eq!(refused, Err(Errno::EINVAL), "it is no group");
    let reply = world.write(0, command::JOIN_MCAST, &join.emit(), 4).unwrap().unwrap();
    let resp = world.expect(0, event::MULTICAST_JOIN, 0x77);
    assert_eq!(resp.id.to_ne_bytes(), reply.bytes[..]);
    let told = UdParam::parse(&resp.param).unwrap();
    assert_eq!((told.qp_num, told.qkey), (0x00FF_FFFF, 0x0123_4567));
    assert_eq!(told.ah_attr.dgid[10..], [0xFF, 0xFF, 239, 1, 2, 3]);
    let leave = DestroyId { response: 1, id: resp.id }.emit();
    let reply = world.write(0, command::LEAVE_MCAST, &leave, 4).unwrap().unwrap();
    assert_eq!(reply.bytes, 1u32.to_ne_bytes());
    assert_eq!(world.write(0, command::LEAVE_MCAST, &leave, 4), Err(Errno::ENOENT));
    let reply = world.write(0, command::JOIN_MCAST, &join.emit(), 4).unwrap().unwrap();
    assert_eq!(world.destroy(0, id), Ok(3), "its join counts, too");
    assert_eq!(world.processes[0].ids.groups(), 0);
    let group = u32::from_ne_bytes(reply.bytes[..].try_into().unwrap());
    let leave = DestroyId { response: 1, id: group }.emit();
    let left = world.write(0, command::LEAVE_MCAST, &leave, 4);
    assert_eq!(left, Err(Errno::ENOENT), "a membership ends with its id");
}

/// An id that connects needs no port that others can connect to, and so cannot listen on it,
/// either.
#[test]
fn the_host_learns_what_a_port_is_for() {
    let mut world = World::new(1);
    let (connects, listens) =
        (world.create(0, 1, port_space::TCP), world.create(0, 2, port_space::TCP));
    world.resolve_addr(0, connects, at([99, 0, 0, 1], PORT)).unwrap();
    world.expect(0, event::ADDR_ERROR, 1);
    assert_eq!(world.listen(0, connects, 1), Err(Errno::EINVAL));
    world.bind(0, listens, at([0, 0, 0, 0], 0)).unwrap();
    assert_eq!(world.listen(0, listens, 1), Ok(()));
    let outgoing = &world.processes[0].host.outgoing;
    assert_eq!(outgoing[..], [true, false]);
}

/// Random commands, many with existing ids.
#[test]
fn hostile_commands_never_panic() {
    let (cases, seed) = (number("CM_CASES", 300), number("CM_SEED", 1));
    println!("CM_SEED={seed} CM_CASES={cases} cargo test -p cm --test all commands");
    let mut rng = Rng::new(seed);
    let mut world = World::new(2);
    let mut succeeded = 0;
    for _ in 0..cases * 100 {
        let i = rng.below(2) as usize;
        let mut body = vec![0; rng.below(300) as usize];
        if rng.permille(500) {
            rng.fill(&mut body);
        }
        // Ids are small, and are at one of a few offsets.
        for place in [0, 8, 32, 36, 44, 56, 272, 280] {
            if let Some(id) = body.get_mut(place..place + 4).filter(|_| rng.permille(700)) {
                id.copy_from_slice(&(rng.below(12) as u32).to_ne_bytes());
            }
        }
        for place in [8, 16, 24, 28, 144] {
            if body.len() >= place + 28 && rng.permille(300) {
                write_ip(at([10, 0, 0, 1 + rng.below(2) as u8], PORT), &mut body[place..]);
            }
        }
        let (number, out_len) = (rng.below(25) as u32, rng.below(400) as u16);
        succeeded += u64::from(world.write(i, number, &body, out_len).is_ok());
        if rng.permille(50) {
            world.run(crate::common::process::MS * rng.below(3000) as u32);
        }
        if rng.permille(20) && world.processes[i].ids.count() > 12 {
            let (now, process) = (world.now, &mut world.processes[i]);
            process.ids.close(now, &mut process.host, process.channel);
            process.channel = process.ids.open();
            process.host.channels = vec![process.channel];
        }
    }
    assert!(succeeded > cases, "the test reaches too little: {succeeded} commands succeeded");
}
