//! A peer made of the engine alone: it answers and asks what the adapter never would.

mod common;

use std::collections::HashMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{QKEY, Side, remote, side};
use softefa::{Ah, QpKind, SendOp, Status};
use srd::wire::{Flags, Header};
use srd::{Address, Arrival, Config, Endpoint, Event, Message, MsgId, Reject};

const OP_WRITE: u8 = 1;
const OP_READ: u8 = 2;
const OP_READ_DATA: u8 = 3;
const OP_PROBE: u8 = 5;
const LEN: u32 = 100;

struct Scripted {
    socket: UdpSocket,
    engine: Endpoint,
    start: Instant,
    epoch: u64,
    /// Bytes of messages that have not ended.
    bodies: HashMap<MsgId, Vec<u8>>,
    ended: HashMap<MsgId, srd::Status>,
}

impl Scripted {
    fn new() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        socket.set_nonblocking(true).expect("a socket that does not block");
        let (bodies, ended) = Default::default();
        let engine = engine(&socket, 1);
        Self { socket, engine, start: Instant::now(), epoch: 1, bodies, ended }
    }

    /// Forgets everything but its address.
    fn restart(&mut self) {
        self.epoch += 1;
        self.engine = engine(&self.socket, self.epoch);
    }

    fn qpn(&self) -> u16 {
        self.socket.local_addr().expect("an address").port()
    }

    fn now(&self) -> srd::Instant {
        let ns = u64::try_from(self.start.elapsed().as_nanos()).expect("less than 500 years");
        srd::Instant::from_ns(ns)
    }

    fn send(&mut self, to: Address, op: u8, body: &[u8]) -> MsgId {
        let id = MsgId((self.bodies.len() + self.ended.len()) as u64);
        let peer = self.engine.peer(self.now(), to);
        let len = u32::try_from(body.len()).expect("short");
        let message = Message { id, len, op, qkey: QKEY, rnr_retry: 7, ..Message::default() };
        self.engine.send(self.now(), peer, message).expect("there is room");
        self.bodies.insert(id, body.to_vec());
        id
    }

    /// Takes what has arrived, answers it, sends; the messages it took.
    fn turn(&mut self, answer: impl Fn(u8) -> Result<(), Reject>) -> Vec<(Address, u8, Vec<u8>)> {
        let (now, mut buffer, mut taken) = (self.now(), [0; 1 << 16], Vec::new());
        while let Ok((len, from)) = self.socket.recv_from(&mut buffer) {
            let std::net::IpAddr::V4(ip) = from.ip() else { continue };
            let (host, datagram) = (u64::from(u32::from(ip)), &buffer[..len]);
            let Ok(received) = self.engine.handle_datagram(now, host, datagram, len) else {
                continue;
            };
            let Some(Arrival { peer, psn, op, .. }) = received.data else { continue };
            match answer(op) {
                Ok(()) => self.engine.accept(now, peer, psn),
                Err(why) => self.engine.reject(now, peer, psn, why),
            }
            let from = self.engine.address(peer).expect("it just sent");
            taken.push((from, op, datagram[received.header_len..].to_vec()));
        }
        self.engine.flush_acks(now);
        self.engine.handle_timeout(now);
        self.transmit(now);
        while let Some(event) = self.engine.poll_event() {
            if let Event::Completed { msg, status, .. } = event {
                self.bodies.remove(&msg);
                self.ended.insert(msg, status);
            }
        }
        taken
    }

    fn transmit(&mut self, now: srd::Instant) {
        let mut header = [0; srd::HEADER_MAX];
        while let Some(out) = self.engine.poll_transmit(now, &mut header) {
            let body = out.msg.map_or(&[][..], |msg| &self.bodies[&msg]);
            let datagram = sealed([&header[..out.header_len], body].concat());
            self.socket.send_to(&datagram, (Ipv4Addr::LOCALHOST, out.addr.qpn)).expect("sent");
        }
    }
}

/// The datagram with its check (SRD-2.10), of all of it.
fn sealed(mut datagram: Vec<u8>) -> Vec<u8> {
    datagram[Header::FLAGS_AT] |= Flags::SEALED.0;
    let before = crc32c::crc32c(&datagram[..Header::CHECK.start]);
    let check = crc32c::crc32c_append(before, &datagram[Header::CHECK.end..]);
    datagram[Header::CHECK].copy_from_slice(&check.to_be_bytes());
    datagram
}

fn engine(socket: &UdpSocket, epoch: u64) -> Endpoint {
    let qpn = socket.local_addr().expect("an address").port();
    Endpoint::new(Config { paths: 1, ..Config::socket() }, qpn, epoch, epoch)
}

fn start() -> (Side, Arc<Ah>, Scripted) {
    let a = side(QpKind::Srd, "");
    let ah = a.ah(&a);
    (a, ah, Scripted::new())
}

/// Turns of both until `done` says so.
fn until(peer: &mut Scripted, mut done: impl FnMut(&mut Scripted) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !done(peer) {
        assert!(Instant::now() < deadline, "nothing happened for ten seconds");
    }
}

/// What the one work request of `a` ends with, while its peer refuses or accepts.
fn outcome(a: &Side, peer: &mut Scripted, answer: impl Fn(u8) -> Result<(), Reject>) -> Status {
    let mut status = None;
    until(peer, |peer| {
        peer.turn(&answer);
        status = a.cq.poll_one().map(|done| done.status);
        status.is_some()
    });
    status.expect("until it is there")
}

#[test]
fn every_refusal_has_its_status() {
    let (a, ah, mut peer) = start();
    let target = softefa::Remote { addr: 4096, rkey: 7 };
    for (why, status) in [
        (Reject::BadAddress, Status::RemoteBadAddress),
        (Reject::BadDestQpn, Status::RemoteBadDestQpn),
        (Reject::BadLength, Status::RemoteBadLength),
        (Reject::BadStatus, Status::RemoteBadStatus),
        (Reject::UnknownPeer, Status::RemoteUnknownPeer),
        (Reject::FeatureMismatch, Status::RemoteFeatureMismatch),
    ] {
        for op in [SendOp::Send, SendOp::Write(target), SendOp::Read(target)] {
            a.post(1, &ah, peer.qpn(), op, &[a.sge(0, LEN)]);
            assert_eq!(outcome(&a, &mut peer, |_| Err(why)), status, "{op:?} refused: {why:?}");
        }
    }
}

#[test]
fn a_peer_that_lost_its_state_aborts_what_is_on_its_way() {
    let (a, ah, mut peer) = start();
    a.post(1, &ah, peer.qpn(), SendOp::Send, &[a.sge(0, LEN)]);
    assert_eq!(outcome(&a, &mut peer, |_| Ok(())), Status::Ok);
    for op in [SendOp::Send, SendOp::Read(softefa::Remote { addr: 4096, rkey: 7 })] {
        // Sent to the life before.
        a.post(2, &ah, peer.qpn(), op, &[a.sge(0, LEN)]);
        peer.restart();
        assert_eq!(outcome(&a, &mut peer, |_| Ok(())), Status::RemoteAbort, "{op:?}");
        a.post(3, &ah, peer.qpn(), SendOp::Send, &[a.sge(0, LEN)]);
        assert_eq!(outcome(&a, &mut peer, |_| Ok(())), Status::Ok, "the new life is as good");
    }
}

#[test]
fn a_responder_that_lost_its_state_aborts_the_read_it_took() {
    let (a, ah, mut peer) = start();
    let read = SendOp::Read(softefa::Remote { addr: 4096, rkey: 7 });
    a.post(1, &ah, peer.qpn(), read, &[a.sge(0, LEN)]);
    until(&mut peer, |peer| {
        assert!(a.cq.poll_one().is_none());
        peer.turn(|_| Ok(())).iter().any(|(_, op, _)| *op == OP_READ)
    });
    peer.restart();
    assert_eq!(outcome(&a, &mut peer, |_| Ok(())), Status::RemoteAbort);
}

/// A READ's block as it came, with the fields an answer sets.
fn answer(request: &[u8], key: u32, total: u32, offset: u32, bytes: &[u8]) -> Vec<u8> {
    let tag = &request[20..24];
    let fields = [key.to_be_bytes(), total.to_be_bytes(), offset.to_be_bytes()].concat();
    [&[0; 8][..], &fields, tag, bytes].concat()
}

#[test]
fn answers_that_do_not_fit_fail_the_read_and_touch_nothing_else() {
    let byte = [9; LEN as usize];
    let cases: [(u32, u32, u32, &[u8], Status); 4] = [
        (0, LEN, 0, &byte, Status::Ok),
        (0, LEN + 1, 0, &byte, Status::RemoteBadStatus),
        (0, LEN - 1, 0, &byte[1..], Status::RemoteBadStatus),
        (7, LEN, 0, &byte, Status::RemoteBadAddress),
    ];
    for (key, total, offset, bytes, status) in cases {
        let (mut a, ah, mut peer) = start();
        a.fill(0, &[1; 3 * LEN as usize]);
        let read = SendOp::Read(softefa::Remote { addr: 4096, rkey: 7 });
        a.post(1, &ah, peer.qpn(), read, &[a.sge(LEN as usize, LEN)]);
        let mut found = None;
        until(&mut peer, |peer| {
            for (from, op, request) in peer.turn(|_| Ok(())) {
                assert_eq!(op, OP_READ);
                // First one that is beyond itself, which is refused and changes nothing.
                peer.send(from, OP_READ_DATA, &answer(&request, 0, LEN, 1, &byte));
                peer.send(from, OP_READ_DATA, &answer(&request, key, total, offset, bytes));
            }
            found = a.cq.poll_one();
            found.is_some()
        });
        assert_eq!(found.expect("until it is there").status, status);
        let placed = if status == Status::Ok { 9 } else { 1 };
        assert!(a.bytes(LEN as usize, LEN as usize).iter().all(|byte| *byte == placed));
        let around = [a.bytes(0, LEN as usize), a.bytes(2 * LEN as usize, LEN as usize)].concat();
        assert!(around.iter().all(|byte| *byte == 1), "written beside the entry");
    }
}

#[test]
fn requests_that_make_no_sense_are_refused_and_change_nothing() {
    let (mut a, _ah, mut peer) = start();
    a.fill(0, &[1; 1000]);
    let target = remote(&a, 0);
    let block = |total: u32, offset: u32| {
        let fields = [target.rkey, total, offset, 5].map(u32::to_be_bytes).concat();
        [&target.addr.to_be_bytes()[..], &fields].concat()
    };
    let to = Address { host: u64::from(u32::from(a.device.addr())), qpn: a.qp.qpn() };
    // Each says more than the operation has; shorter than its block none passes the check.
    let beyond = |total, offset| [block(total, offset), vec![2; 8]].concat();
    let requests: [(u8, Vec<u8>); 7] = [
        (99, block(8, 0)),
        (OP_WRITE, beyond(8, 1)),
        (OP_WRITE, beyond(8, u32::MAX)),
        (OP_WRITE, beyond(0, 0)),
        (OP_READ, beyond(8, 1)),
        (OP_READ_DATA, beyond(8, 1)),
        (OP_PROBE, beyond(8, 1)),
    ];
    for (op, body) in requests {
        let id = peer.send(to, op, &body);
        until(&mut peer, |peer| {
            assert!(a.cq.poll_one().is_none(), "operation {op} completed something");
            peer.turn(|_| Ok(()));
            peer.ended.contains_key(&id)
        });
        assert_eq!(peer.ended[&id], srd::Status::BadStatus, "operation {op} with {body:?}");
    }
    assert!(a.bytes(0, 1000).iter().all(|byte| *byte == 1), "something was written");
}
