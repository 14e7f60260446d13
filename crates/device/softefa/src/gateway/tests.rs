//! A gateway on the loopback interface, with programs and strangers.

use std::io::{ErrorKind, IoSlice, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cm::mad::{Dreq, MAD_LEN, Mad, Message, Rej};
use rc::wire::icrc::{self, Addresses, Route};
use rc::wire::{Bth, Headers, Kind, Opcode, Transport};
use rc::{Psn, wire};
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, set_ip_freebind, set_ip_mtu_discover, set_socket_linger,
    set_socket_reuseaddr,
};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    connect, send, sendmsg,
};

use super::message::Question;
use super::*;

/// A gateway that runs until its counts are taken.
struct Running {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Server>,
}

impl Running {
    fn start(may_see_headers: bool) -> Self {
        let (at, stop) = (fresh(), Arc::new(AtomicBool::new(false)));
        let mut server = Server::open(&[at.ip()], at.port(), may_see_headers).unwrap();
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                server.turn(Duration::from_millis(5)).unwrap();
            }
            // Datagrams that were sent before the end count.
            for _ in 0..100 {
                server.turn(Duration::ZERO).unwrap();
            }
            server
        });
        Self { at, stop, thread }
    }

    fn connect(&self) -> Arc<Gateway> {
        Gateway::connect(self.at.ip(), self.at.port()).unwrap()
    }

    fn finish(self) -> Server {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// An address and port that no other test, and no other test process, uses.
fn fresh() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let process = std::process::id() & 0xFFFF;
    let addr = 0x7F80_0000 | process << 6 | (NEXT.fetch_add(1, Ordering::Relaxed) & 0x3F);
    bound(Ipv4Addr::from_bits(addr).into()).1
}

fn bound(addr: IpAddr) -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind((addr, 0)).unwrap();
    set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let at = socket.local_addr().unwrap();
    (socket, at)
}

/// A SEND ONLY of 10 bytes to this queue pair, without its ICRC.
fn send_only(dest_qpn: u32) -> Vec<u8> {
    let headers = Headers::new(Bth {
        opcode: Opcode { transport: Transport::Rc, kind: Kind::SendOnly },
        is_solicited: false,
        is_migrated: true,
        pad: 2,
        pkey: wire::DEFAULT_PKEY,
        has_fecn: false,
        has_becn: false,
        joined: 0,
        dest_qpn,
        wants_ack: true,
        psn: Psn::new(5),
    });
    let mut bytes = vec![0; 64];
    let len = headers.emit(&mut bytes);
    bytes.truncate(len);
    bytes.extend_from_slice(b"ten bytes!\0\0");
    bytes
}

/// A message with these ids. In a REQ and a SIDR_REQ the second is the service.
fn mad(attribute: u16, local: u32, remote: u32) -> [u8; MAD_LEN] {
    let mut mad = [0; MAD_LEN];
    mad[..4].copy_from_slice(&[1, 7, 2, 3]);
    mad[16..18].copy_from_slice(&attribute.to_be_bytes());
    mad[24..28].copy_from_slice(&local.to_be_bytes());
    let at = if [0x10, 0x17].contains(&attribute) { 36 } else { 28 };
    mad[at..at + 4].copy_from_slice(&remote.to_be_bytes());
    mad
}

/// A message of the connection manager, without its ICRC.
fn to_manager(mad: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x64, 0x40, 0xFF, 0xFF, 0, 0, 0, 1, 0, 0, 0, 0];
    bytes.extend([0x80, 1, 0, 0, 0, 0, 0, 1]);
    bytes.extend_from_slice(mad);
    bytes
}

/// Appends the ICRC for this route.
fn sealed(mut packet: Vec<u8>, from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let addresses = Addresses::of_datagram(from.ip(), to.ip());
    let route = Route { addresses, src_port: from.port(), dst_port: to.port() };
    packet.extend(icrc::of(&route, &packet));
    packet
}

/// The packet that a program has received, and its sender.
fn received(socket: &UdpSocket, registered: &RegisteredSocket) -> Option<(SocketAddr, Vec<u8>)> {
    let mut bytes = [0; 5000];
    let (len, from) = socket.recv_from(&mut bytes).unwrap();
    registered.open(from, &bytes[..len]).map(|(from, packet)| (from, packet.to_vec()))
}

#[test]
fn what_is_intact_reaches_its_program_and_nothing_else_does() {
    for may_see_headers in [false, true] {
        let running = Running::start(may_see_headers);
        let (own, at) = bound(running.at.ip());
        let registered =
            running.connect().register(at, own.as_fd(), SocketKind::QueuePair).unwrap();
        let (peer, from) = bound(IpAddr::from([127, 0, 0, 1]));
        let send = |packet: &[u8]| peer.send_to(packet, running.at).unwrap();
        let qpn = u32::from(at.port()) << 8 | 0x5A;
        let good = sealed(send_only(qpn), from, running.at);
        for at in [12, good.len() - 1] {
            let mut bent = good.clone();
            bent[at] ^= 1;
            send(&bent);
        }
        send(&sealed(send_only(qpn), running.at, from));
        for nobodys in [qpn ^ 0x100, 0, 2, 0xFF_FFFF] {
            send(&sealed(send_only(nobodys), from, running.at));
        }
        send(&sealed(send_only(1), from, running.at));
        for len in [0, 1, 11, 12, 15] {
            send(&good[..len]);
        }
        send(&[&good[..], &vec![0; 5000][..]].concat());
        send(&sealed([&[0x84_u8][..], &[0; 60]].concat(), from, running.at));
        send(&sealed([&[0xFF_u8][..], &[0; 63]].concat(), from, running.at));
        send(&good);
        assert_eq!(received(&own, &registered), Some((from, good)), "the first that comes");
        let counts = running.finish().counts();
        assert_eq!((counts.forwarded, counts.icrc, counts.no_queue_pair), (1, 3, 4));
        assert_eq!((counts.malformed, counts.packets), (9, 17));
        assert_eq!(counts.messages + counts.no_connection + counts.no_room + counts.refused, 0);
    }
}

#[test]
fn what_finds_no_room_at_the_gateway_is_counted() {
    for may_see_headers in [false, true] {
        let at = fresh();
        let server = Server::open(&[at.ip()], at.port(), may_see_headers).unwrap();
        let (peer, _) = bound(IpAddr::from([127, 0, 0, 1]));
        // The raw socket's filter drops it.
        peer.send_to(&[0; 10], SocketAddr::new(at.ip(), at.port() ^ 1)).unwrap();
        assert_eq!(server.counts().overruns, 0);
        let mut sent = 0;
        while server.counts().overruns == 0 {
            assert!(sent < 1 << 20, "there is room for {sent} datagrams");
            (0..100).for_each(|_| drop(peer.send_to(&[0; 4000], at)));
            sent += 100;
        }
    }
}

/// The kernel increments the identification of senders that allow fragmentation.
#[test]
fn a_check_over_another_identification_is_wrong() {
    let running = Running::start(true);
    let (own, at) = bound(running.at.ip());
    let _seat = running.connect().register(at, own.as_fd(), SocketKind::QueuePair).unwrap();
    let (peer, from) = bound(IpAddr::from([127, 0, 0, 1]));
    set_ip_mtu_discover(&peer, Ipv4PathMtuDiscovery::DONT).unwrap();
    let packet = sealed(send_only(u32::from(at.port()) << 8), from, running.at);
    peer.send_to(&packet, running.at).unwrap();
    let server = running.finish();
    // A gateway that does not see headers assumes that peers do not fragment.
    let expected = if server.sees_headers() { (0, 1) } else { (1, 0) };
    assert_eq!((server.counts().forwarded, server.counts().icrc), expected);
}

#[test]
fn nobody_else_can_hand_a_packet_over() {
    let running = Running::start(true);
    let (own, at) = bound(running.at.ip());
    let (other, other_at) = bound(running.at.ip());
    let gateway = running.connect();
    let registered = gateway.register(at, own.as_fd(), SocketKind::QueuePair).unwrap();
    let others = gateway.register(other_at, other.as_fd(), SocketKind::QueuePair).unwrap();
    let good = sealed(send_only(u32::from(at.port()) << 8), other_at, running.at);
    other.send_to(&good, running.at).unwrap();
    let mut handed = [0; 500];
    let (len, from) = own.recv_from(&mut handed).unwrap();
    assert!(registered.open(from, &handed[..len]).is_some());
    assert_eq!(others.open(from, &handed[..len]), None, "the key is another one");
    // A program repeats a packet that was forwarded to it, and another one tries without a key.
    for forged in [&handed[..len], &[0; 100], &good, &[]] {
        other.send_to(forged, at).unwrap();
        assert_eq!(received(&own, &registered), None);
    }
    running.finish();
}

#[test]
fn who_does_not_have_a_socket_is_not_served_by_it() {
    let running = Running::start(true);
    let gateway = running.connect();
    let (own, at) = bound(running.at.ip());
    let (elsewhere, far) = bound(IpAddr::from([127, 0, 0, 1]));
    let refused = |at, socket| gateway.register(at, socket, SocketKind::QueuePair).unwrap_err();
    let is_refused = |error| matches!(error, GatewayError::Refused { .. });
    let next = SocketAddr::new(at.ip(), at.port() ^ 1);
    assert!(is_refused(refused(next, own.as_fd())));
    assert!(is_refused(refused(at, elsewhere.as_fd())));
    let tcp = TcpListener::bind(at).unwrap();
    assert!(is_refused(refused(at, tcp.as_fd())));
    assert!(matches!(refused(far, elsewhere.as_fd()), GatewayError::NotServed { .. }));
    let file = tempfile::tempfile().unwrap();
    assert!(is_refused(refused(at, file.as_fd())));
    // Another socket may be bound to the same port.
    set_socket_reuseaddr(&own, true).unwrap();
    assert!(is_refused(refused(at, own.as_fd())));
    set_socket_reuseaddr(&own, false).unwrap();
    assert!(gateway.register(at, own.as_fd(), SocketKind::QueuePair).is_ok());
    let server = running.finish();
    wait_until("the socket is released", || server.sizes() == (1, 0));
    assert_eq!(server.counts().refused, 6);
}

/// Anybody can make a network namespace, and bind any address and port there.
#[test]
#[allow(unsafe_code)]
fn a_socket_of_another_network_is_not_admitted() {
    let running = Running::start(true);
    let (own, at) = bound(running.at.ip());
    let gateway = running.connect();
    let registered = gateway.register(at, own.as_fd(), SocketKind::QueuePair).unwrap();
    let elsewhere = std::thread::spawn(move || {
        // SAFETY: the call takes no memory; this thread alone leaves, and opens one socket.
        let is_apart = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
        is_apart.then(|| {
            let udp = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
            set_ip_freebind(&udp, true).unwrap();
            rustix::net::bind(&udp, &at).unwrap();
            udp
        })
    });
    let Some(elsewhere) = elsewhere.join().unwrap() else {
        eprintln!("SKIPPED, NOT TESTED: only root makes network namespaces");
        return;
    };
    let other = running.connect();
    let refused = other.register(at, elsewhere.as_fd(), SocketKind::QueuePair);
    assert!(matches!(refused, Err(GatewayError::Refused { .. })), "{refused:?}");
    let (peer, from) = bound(IpAddr::from([127, 0, 0, 1]));
    let good = sealed(send_only(u32::from(at.port()) << 8), from, running.at);
    peer.send_to(&good, running.at).unwrap();
    assert_eq!(received(&own, &registered), Some((from, good)), "it keeps its registration");
}

#[test]
fn messages_of_connections_find_who_listens_and_who_asked() {
    let running = Running::start(true);
    let [asks, serves] = [(); 2].map(|()| running.connect());
    let registered = |gateway: &Arc<Gateway>| {
        let (own, at) = bound(running.at.ip());
        let registered = gateway.register(at, own.as_fd(), SocketKind::ConnectionManager).unwrap();
        (own, at, registered)
    };
    let (asker, _, at_asker) = registered(&asks);
    let (server, service, at_server) = registered(&serves);
    let (peer, from) = bound(IpAddr::from([127, 0, 0, 1]));
    let send = |mad: &[u8]| peer.send_to(&sealed(to_manager(mad), from, running.at), running.at);
    // This answers nothing that was asked. It has been handled when the next message arrives.
    send(&mad(0x16, 9, 77)).unwrap();
    let req = mad(0x10, 7, 0x0106_0000 | u32::from(service.port()));
    send(&req).unwrap();
    let (sender, packet) = received(&server, &at_server).unwrap();
    assert_eq!((sender, &packet[20..276]), (from, &req[..]));
    asks.announce(running.at.ip(), &mad(0x10, 77, 1)).unwrap();
    let taken = serves.announce(running.at.ip(), &mad(0x10, 77, 1));
    assert!(matches!(taken, Err(GatewayError::Refused { .. })), "{taken:?}");
    let rep = mad(0x13, 9, 77);
    send(&rep).unwrap();
    assert_eq!(received(&asker, &at_asker).unwrap().1[20..276], rep);
    for nobodys in [mad(0x30, 7, 77), mad(0x03, 1, 1)] {
        send(&nobodys).unwrap();
    }
    let mut wrong_key = to_manager(&rep);
    wrong_key[12] = 0;
    peer.send_to(&sealed(wrong_key, from, running.at), running.at).unwrap();
    let counts = running.finish().counts();
    assert_eq!((counts.messages, counts.no_connection), (2, 1));
    assert_eq!((counts.malformed, counts.refused), (3, 1));
}

/// A peer with the same UDP port as the gateway, because answers go to that port.
fn peer_of(running: &Running) -> (UdpSocket, SocketAddr) {
    let at = SocketAddr::new(fresh().ip(), running.at.port());
    let socket = UdpSocket::bind(at).unwrap();
    set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    (socket, at)
}

/// A message that the gateway itself sends to a peer, with a verified ICRC.
fn told(peer: &UdpSocket, at: SocketAddr, gateway: SocketAddr) -> Mad {
    let mut bytes = [0; 5000];
    let (len, from) = peer.recv_from(&mut bytes).unwrap();
    assert_eq!(from, gateway);
    Mad::parse(crate::mad::unpack(Some((from, at)), &bytes[..len]).unwrap()).unwrap()
}

/// Without an answer the sender would wait for minutes (RC-1.12).
#[test]
fn what_is_nobodys_is_answered() {
    let running = Running::start(true);
    let (peer, from) = peer_of(&running);
    let asks = |mad: &[u8]| {
        peer.send_to(&sealed(to_manager(mad), from, running.at), running.at).unwrap();
        told(&peer, from, running.at).message
    };
    let refused = |answer: Message| match answer {
        Message::Rej(Rej { remote_comm_id: 7, reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(asks(&mad(0x10, 7, 0x0106_0000 | 7471))), 8, "nobody listens");
    assert_eq!(refused(asks(&mad(0x13, 7, 99))), 6, "nobody asked");
    assert_eq!(refused(asks(&mad(0x14, 7, 99))), 6, "the program is gone");
    assert!(matches!(asks(&mad(0x15, 7, 99)), Message::Drep(drep) if drep.remote_comm_id == 7));
    assert!(
        matches!(asks(&mad(0x17, 7, 0x0111_0000 | 7471)), Message::SidrRep(rep) if rep.status == 1)
    );
    for silent in [0x11, 0x12, 0x16, 0x18] {
        peer.send_to(&sealed(to_manager(&mad(silent, 7, 99)), from, running.at), running.at)
            .unwrap();
    }
    let counts = running.finish().counts();
    assert_eq!((counts.answered, counts.no_connection), (5, 4));
}

/// No program is left that could tell them (RC-1.16).
#[test]
fn peers_of_a_program_that_is_gone_are_told() {
    let running = Running::start(true);
    let (peer, from) = peer_of(&running);
    let program = running.connect();
    let (own, at) = bound(running.at.ip());
    let registered = program.register(at, own.as_fd(), SocketKind::ConnectionManager).unwrap();
    program.announce(running.at.ip(), &mad(0x10, 77, 1)).unwrap();
    let mut rep = mad(0x13, 9, 77);
    rep[36..40].copy_from_slice(&(0x1234_u32 << 8).to_be_bytes());
    peer.send_to(&sealed(to_manager(&rep), from, running.at), running.at).unwrap();
    received(&own, &registered).unwrap();
    drop((registered, program));
    let first = told(&peer, from, running.at);
    let expected = Dreq { local_comm_id: 77, remote_comm_id: 9, remote_qpn: 0x1234, ..Dreq::ZERO };
    assert_eq!(first.message, Message::Dreq(expected));
    assert_eq!(told(&peer, from, running.at), first, "repeated until it is answered");
    peer.send_to(&sealed(to_manager(&mad(0x16, 9, 77)), from, running.at), running.at).unwrap();
    let server = running.finish();
    assert_eq!((server.counts().farewells, server.counts().answered), (1, 1));
    assert!(!server.waits_for_answers());
}

#[test]
fn there_is_one_gateway_and_its_end_is_noticed() {
    let running = Running::start(true);
    let at = running.at;
    let second = Server::open(&[at.ip()], at.port(), true).unwrap_err();
    assert!(matches!(second, OpenGatewayError::Running { .. }), "{second}");
    assert!(second.to_string().contains(&format!("process {} ", std::process::id())), "{second}");
    let foreign = Gateway::connect(IpAddr::from([127, 0, 0, 1]), at.port()).unwrap_err();
    assert!(foreign.to_string().contains("--address 127.0.0.1"), "{foreign}");
    let gateway = running.connect();
    assert!(!gateway.is_known_to_have_ended());
    drop(running.finish());
    wait_until("the end is told", || gateway.is_known_to_have_ended());
    let (own, own_at) = bound(at.ip());
    for _ in 0..2 {
        let gone = gateway.register(own_at, own.as_fd(), SocketKind::QueuePair).unwrap_err();
        assert!(matches!(gone, GatewayError::Silent { .. }), "{gone}");
    }
    let absent = Gateway::connect(at.ip(), at.port()).unwrap_err();
    assert!(absent.to_string().contains("softefa gateway"), "{absent}");
    let _holder = UdpSocket::bind(at).unwrap();
    let taken = Server::open(&[at.ip()], at.port(), true).unwrap_err();
    assert!(matches!(taken, OpenGatewayError::Taken { .. }), "{taken}");
    let not_local = Server::open(&[IpAddr::from([192, 0, 2, 1])], at.port(), true).unwrap_err();
    assert!(matches!(not_local, OpenGatewayError::NotLocal { .. }), "{not_local}");
}

/// Any process can take the name; that does not make it a gateway.
#[test]
fn who_has_the_name_of_a_gateway_is_told() {
    let at = fresh();
    let holder = program_socket::unix_socket(SocketFlags::empty()).unwrap();
    rustix::net::bind(&holder, &message::name(at.port()).unwrap()).unwrap();
    let refused = || Server::open(&[at.ip()], at.port(), false).unwrap_err();
    assert!(matches!(refused(), OpenGatewayError::NameHeld { .. }), "{}", refused());
    rustix::net::listen(&holder, 1).unwrap();
    let why = refused();
    let own = i32::try_from(std::process::id()).unwrap();
    assert!(matches!(why, OpenGatewayError::NameTaken { pid, .. } if pid == own), "{why}");
}

/// A gateway that was stopped for a while answers late, and late answers are not taken for answers
/// to other questions.
#[test]
fn a_gateway_that_stands_still_may_go_on() {
    let at = fresh();
    let server = Server::open(&[at.ip()], at.port(), true).unwrap();
    let (own, own_at) = bound(at.ip());
    let gateway = Gateway::connect(at.ip(), at.port()).unwrap();
    let stopped = server.programs().state();
    for _ in 0..3 {
        let silent = gateway.register(own_at, own.as_fd(), SocketKind::QueuePair).unwrap_err();
        assert!(matches!(silent, GatewayError::Silent { .. }), "{silent}");
    }
    drop(stopped);
    // The late answers arrive one by one.
    let mut registered = None;
    wait_until("it goes on", || {
        match gateway.register(own_at, own.as_fd(), SocketKind::QueuePair) {
            Err(GatewayError::Silent { .. }) => {}
            other => registered = Some(other.unwrap()),
        }
        registered.is_some()
    });
    let elsewhere = SocketAddr::new(IpAddr::from([127, 0, 0, 1]), own_at.port());
    let refused = gateway.register(elsewhere, own.as_fd(), SocketKind::QueuePair).unwrap_err();
    assert!(!matches!(refused, GatewayError::Silent { .. }), "{refused}");
    drop(registered);
}

/// A TCP socket whose close waits for `seconds` while its peer, the other one, does not read.
fn lingering(seconds: u64) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut own = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    own.set_nonblocking(true).unwrap();
    while own.write(&[0; 1 << 16]).is_ok() {}
    set_socket_linger(&own, Some(Duration::from_secs(seconds))).unwrap();
    (own, peer)
}

/// Closing such a socket blocks, which must stop neither the gateway nor other programs.
#[test]
fn what_a_program_sends_along_holds_up_nobody_else() {
    let at = fresh();
    let mut server = Server::open(&[at.ip()], at.port(), true).unwrap();
    let question = Question::Register(at, SocketKind::QueuePair).emit();
    let mut peers = Vec::new();
    // A question, a malformed message, and more sockets than are read; the second message is not
    // received at all if the answer to the first has failed.
    let programs = [(&question[..], 1), (&question[1..], 1), (&question[..], 3)];
    for (says, files) in programs {
        // No program is accepted meanwhile, so the gateway has these sockets when the test has
        // closed its own.
        let stopped = server.programs().state();
        let socket = program_socket::unix_socket(SocketFlags::empty()).unwrap();
        connect(&socket, &message::name(at.port()).unwrap()).unwrap();
        for _ in 0..2 {
            let (own, theirs): (Vec<_>, Vec<_>) = (0..files).map(|_| lingering(600)).unzip();
            peers.extend(theirs);
            let borrowed: Vec<_> = own.iter().map(AsFd::as_fd).collect();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&borrowed));
            sendmsg(&socket, &[IoSlice::new(says)], &mut control, SendFlags::NOSIGNAL).unwrap();
        }
        drop(socket);
        drop(stopped);
    }
    let (own, own_at) = bound(at.ip());
    let gateway = Gateway::connect(at.ip(), at.port()).unwrap();
    let registered = gateway.register(own_at, own.as_fd(), SocketKind::QueuePair).unwrap();
    let (peer, from) = bound(IpAddr::from([127, 0, 0, 1]));
    let good = sealed(send_only(u32::from(own_at.port()) << 8), from, at);
    peer.send_to(&good, at).unwrap();
    server.turn(Duration::from_secs(20)).unwrap();
    assert_eq!(received(&own, &registered), Some((from, good)));
    assert_eq!(server.programs().served(), 1 + programs.len(), "nobody waits for a socket");
    drop(peers);
    wait_until("all is closed", || server.programs().served() == 1);
}

#[test]
fn each_address_is_served_once() {
    let at = fresh();
    let served = |addrs: &[IpAddr]| {
        let server = Server::open(addrs, at.port(), false).unwrap();
        server.addrs().collect::<Vec<_>>()
    };
    assert_eq!(served(&[at.ip(), at.ip()]), [at.ip()]);
    let all = served(&[]);
    assert!(
        all.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST))
            && !all.contains(&IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        "{all:?}"
    );
    assert_eq!(served(&[IpAddr::V4(Ipv4Addr::UNSPECIFIED)]), all);
}

/// Whatever a stranger writes to the port and to the Unix socket, nothing is forwarded, and the
/// next program is served.
#[test]
fn garbage_does_no_harm() {
    let seed = std::env::var("SOFTEFA_SEED").ok().and_then(|text| text.parse().ok());
    let seed: u64 = seed.unwrap_or_else(crate::host::random_u64);
    eprintln!("SOFTEFA_SEED={seed}");
    let mut state = seed | 1;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let running = Running::start(true);
    let (own, at) = bound(running.at.ip());
    let registered = running.connect().register(at, own.as_fd(), SocketKind::QueuePair).unwrap();
    let (peer, from) = bound(IpAddr::from([127, 0, 0, 1]));
    let good = sealed(send_only(u32::from(at.port()) << 8), from, running.at);
    for _ in 0..3000 {
        let mut bytes = match random() % 3 {
            0 => good.clone(),
            1 => sealed(to_manager(&mad((random() % 64) as u16, 1, 2)), from, running.at),
            _ => (0..random() % 400).map(|_| random() as u8).collect(),
        };
        let bits = 1 + random() % 4;
        for _ in 0..bits.min(bytes.len() as u64) {
            let at = random() as usize % bytes.len();
            // Congestion marks are not covered.
            bytes[at] ^= if at == 4 { 0 } else { 1 << (random() % 8) };
        }
        if bytes == good {
            continue;
        }
        peer.send_to(&bytes, running.at).unwrap();
        if random() % 8 == 0 {
            strange_program(running.at.port(), &bytes);
        }
    }
    peer.send_to(&good, running.at).unwrap();
    loop {
        let came = received(&own, &registered);
        // The loop skips packets whose changed bits were changed back, or are not covered by the
        // ICRC.
        if came == Some((from, good.clone())) {
            break;
        }
    }
    assert!(running.connect().register(at, own.as_fd(), SocketKind::QueuePair).is_ok());
    let server = running.finish();
    assert!(server.counts().forwarded <= 2, "{:?}", server.counts());
    assert_eq!(server.counts().messages, 0, "{:?}", server.counts());
}

/// Connects, sends a message, and disconnects or is disconnected.
fn strange_program(port: u16, says: &[u8]) {
    let socket = program_socket::unix_socket(SocketFlags::empty()).unwrap();
    connect(&socket, &message::name(port).unwrap()).unwrap();
    let sent = send(&socket, says, SendFlags::NOSIGNAL);
    assert!(sent.is_ok() || sent.map_err(|it| it.kind()) == Err(ErrorKind::BrokenPipe));
}
