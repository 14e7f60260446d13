//! A peer that consists of the engine alone.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use softefa::Status;
use softefa::seal::{ENVELOPE_BYTES, Opener, SealKey, Sealer, TAG_BYTES};
use srd::wire::{DataRepr, Flags, Header};
use srd::{Address, Arrival, Config, Endpoint, Event, Message, MsgId, Reject, Seed};

use super::{QKEY, Side, remote};

pub const OP_SEND: u8 = 0;
pub const OP_WRITE: u8 = 1;
pub const OP_READ: u8 = 2;
pub const OP_READ_DATA: u8 = 3;
pub const OP_READ_FAIL: u8 = 4;
pub const OP_PROBE: u8 = 5;
pub const OP_WRITE_LOCAL: u8 = 16;
pub const OP_READ_GRANT: u8 = 17;
pub const OP_READ_CONFIRM: u8 = 18;
pub const OP_GONE: u8 = 19;
pub const BLOCK_LEN: usize = 24;

pub struct Scripted {
    socket: UdpSocket,
    engine: Endpoint,
    start: Instant,
    /// The incarnation of the peer.
    life: u64,
    /// The bytes of messages that have not ended.
    pub bodies: HashMap<MsgId, Vec<u8>>,
    pub ended: HashMap<MsgId, srd::Status>,
    /// How often messages may be tried again after "not ready".
    pub rnr_retry: u8,
    /// The peer loses the datagrams that it sends.
    pub is_mute: bool,
    /// The peer loses the datagrams that it receives.
    pub is_deaf: bool,
    /// The peer has lost the bytes of messages that it repeats, and asks what became of them
    /// instead (SRD-6.7).
    pub is_forgetful: bool,
    /// How often the peer asked.
    pub questions: u32,
    /// The state of sealing, if the peer has a key.
    seal: Option<(Sealer, Opener)>,
    /// The datagrams that were sent, as they were sent.
    pub sent: Vec<Vec<u8>>,
}

impl Scripted {
    pub fn new() -> Self {
        let socket = UdpSocket::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).expect("a socket");
        socket.set_nonblocking(true).expect("a socket that does not block");
        let (bodies, ended) = Default::default();
        Self {
            engine: engine(&socket, 1),
            socket,
            start: Instant::now(),
            life: 1,
            bodies,
            ended,
            rnr_retry: 7,
            is_mute: false,
            is_deaf: false,
            is_forgetful: false,
            questions: 0,
            seal: None,
            sent: Vec::new(),
        }
    }

    /// Makes a peer that has a key.
    pub fn with_key(key: &SealKey) -> Self {
        let peer = Self::new();
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), peer.qpn());
        let seal = Some((Sealer::new(key, local, 77), Opener::new(key, local)));
        Self { seal, ..peer }
    }

    /// Sends these bytes unchanged to the queue pair of `to`.
    pub fn send_raw(&self, to: &Side, bytes: &[u8]) {
        self.socket.send_to(bytes, (IpAddr::V4(Ipv4Addr::LOCALHOST), to.qp.port())).expect("sent");
    }

    /// Sends datagrams of this length as one train.
    pub fn send_train(&self, to: &Side, bytes: &[u8], len: u16) {
        let set = |len: libc::c_int| {
            let (level, size) = (libc::SOL_UDP, size_of_val(&len) as libc::socklen_t);
            let fd = self.socket.as_raw_fd();
            // SAFETY: the value lives through the call and has the length given.
            let result = unsafe {
                libc::setsockopt(fd, level, libc::UDP_SEGMENT, (&raw const len).cast(), size)
            };
            assert_eq!(result, 0, "UDP_SEGMENT");
        };
        set(len.into());
        self.send_raw(to, bytes);
        set(0);
    }

    /// Returns a datagram that has arrived, unchanged.
    pub fn take_raw(&self) -> Option<Vec<u8>> {
        let mut buffer = [0; 1 << 16];
        self.socket.recv(&mut buffer).ok().map(|len| buffer[..len].to_vec())
    }

    /// Returns the datagram as it is sent.
    pub fn finish(&mut self, to: SocketAddr, datagram: Vec<u8>) -> Vec<u8> {
        let Some((sealer, _)) = &mut self.seal else { return sealed(datagram) };
        let mut bytes = [&[0; ENVELOPE_BYTES][..], &datagram, &[0; TAG_BYTES]].concat();
        sealer.seal(to, &mut bytes).expect("sealed");
        bytes
    }

    /// Forgets everything but its address.
    pub fn restart(&mut self) {
        self.life += 1;
        self.engine = engine(&self.socket, self.life);
    }

    pub fn qpn(&self) -> u16 {
        self.socket.local_addr().expect("an address").port()
    }

    pub fn now(&self) -> srd::Instant {
        let ns = u64::try_from(self.start.elapsed().as_nanos()).expect("less than 500 years");
        srd::Instant::from_ns(ns)
    }

    pub fn send(&mut self, to: Address, op: u8, body: &[u8]) -> MsgId {
        self.send_with(to, op, 0, body)
    }

    pub fn send_with(&mut self, to: Address, op: u8, flags: u8, body: &[u8]) -> MsgId {
        let id = MsgId((self.bodies.len() + self.ended.len()) as u64);
        let peer = self.engine.peer(self.now(), to);
        let len = u32::try_from(body.len()).expect("short");
        let (qkey, imm) = (QKEY, QKEY);
        let rnr_retry = self.rnr_retry;
        let (is_one_sided, may_share) = (false, false);
        let message = Message { id, len, op, flags, qkey, imm, rnr_retry, is_one_sided, may_share };
        self.engine.send(self.now(), peer, message).expect("there is room");
        self.bodies.insert(id, body.to_vec());
        id
    }

    /// Loses the datagrams that have arrived and were not taken.
    pub fn forget_arrivals(&self) {
        let mut buffer = [0; 1 << 16];
        while self.socket.recv_from(&mut buffer).is_ok() {}
    }

    /// Takes the datagrams that have arrived, answers them, and sends. Returns the messages that
    /// were taken.
    pub fn turn(
        &mut self,
        answer: impl Fn(u8) -> Result<(), Reject>,
    ) -> Vec<(Address, u8, Vec<u8>)> {
        let (now, mut buffer, mut taken) = (self.now(), [0; 1 << 16], Vec::new());
        while let Ok((len, from)) = self.socket.recv_from(&mut buffer) {
            if self.is_deaf {
                continue;
            }
            let inner = match &mut self.seal {
                Some((_, opener)) => opener.open(from.ip(), &mut buffer[..len]),
                None => Ok(0..len),
            };
            let Ok(inner) = inner else { continue };
            let (host, datagram) = (host_at(from.ip()), &buffer[inner]);
            let result = self.engine.handle_datagram(now, host, datagram, datagram.len());
            let Ok(received) = result else {
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

    pub fn transmit(&mut self, now: srd::Instant) {
        let mut header = [0; srd::HEADER_MAX];
        while let Some(out) = self.engine.poll_transmit(now, &mut header) {
            let mut body = out.msg.map_or(Vec::new(), |msg| self.bodies[&msg].clone());
            if self.is_forgetful && out.retransmission && out.msg.is_some() {
                DataRepr::replace_op(&mut header[..out.header_len], OP_GONE);
                body.fill(0);
                self.questions += 1;
            }
            if self.is_mute {
                continue;
            }
            let to = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), out.addr.qpn);
            let datagram = self.finish(to, [&header[..out.header_len], &body].concat());
            self.socket.send_to(&datagram, to).expect("sent");
            self.sent.push(datagram);
        }
    }
}

/// Returns the datagram with its check (SRD-2.10), of all of its bytes.
pub fn sealed(mut datagram: Vec<u8>) -> Vec<u8> {
    datagram[Header::FLAGS_AT] |= Flags::SEALED.0;
    let before = crc32c::crc32c(&datagram[..Header::CHECK.start]);
    let check = crc32c::crc32c_append(before, &datagram[Header::CHECK.end..]);
    datagram[Header::CHECK].copy_from_slice(&check.to_be_bytes());
    datagram
}

pub fn engine(socket: &UdpSocket, life: u64) -> Endpoint {
    let qpn = socket.local_addr().expect("an address").port();
    Endpoint::new(Config { paths: 1, ..Config::socket() }, qpn, Seed::from_u64(life))
}

pub fn address(of: &Side) -> Address {
    Address { host: host_at(of.device.addr()), qpn: of.qp.port() }
}

/// Returns the engine's name of a host.
fn host_at(addr: IpAddr) -> u64 {
    let IpAddr::V4(addr) = addr else { panic!("{addr} is no address of an EFA") };
    addr.to_bits().into()
}

/// Returns the block of an operation on all of the first `total` bytes of a side.
pub fn block(of: &Side, total: u32, offset: u32) -> Vec<u8> {
    let target = remote(of, 0);
    let fields = [target.rkey, total, offset, 5].map(u32::to_be_bytes).concat();
    [&target.addr.to_be_bytes()[..], &fields].concat()
}

/// Runs turns of both until `done` returns true.
pub fn until(peer: &mut Scripted, mut done: impl FnMut(&mut Scripted) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !done(peer) {
        assert!(Instant::now() < deadline, "nothing happened for ten seconds");
    }
}

/// Returns the result of the one work request of `a`, while its peer refuses or accepts.
pub fn outcome(a: &Side, peer: &mut Scripted, answer: impl Fn(u8) -> Result<(), Reject>) -> Status {
    let mut status = None;
    until(peer, |peer| {
        peer.turn(&answer);
        status = a.cq.poll_one().map(|done| done.status);
        status.is_some()
    });
    status.expect("until it is there")
}

/// Returns the block of a READ as it came, with the fields that an answer sets.
pub fn answer(request: &[u8], key: u32, total: u32, offset: u32, bytes: &[u8]) -> Vec<u8> {
    let tag = &request[20..24];
    let fields = [key.to_be_bytes(), total.to_be_bytes(), offset.to_be_bytes()].concat();
    [&[0; 8][..], &fields, tag, bytes].concat()
}
