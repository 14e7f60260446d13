//! `Scene`: two endpoints whose hosts check the queue key, and forged datagrams.

use srd::wire::{AckRepr, DataRepr, DropRange, EchoRepr, Flags, Header, Kind, ack};
use srd::{
    Address, Config, Endpoint, Event, HEADER_MAX, Instant, Message, MsgId, PathId, Psn, Reject,
    Seed, Status,
};

pub const KEY: u32 = 0x1234_5678;
pub const WRONG_KEY: u32 = 0x0BAD_0BAD;
pub const SENDER: Address = Address { host: 100, qpn: 7 };
pub const VICTIM: Address = Address { host: 101, qpn: 8 };

/// An endpoint and the state of its host.
pub struct Host {
    pub engine: Endpoint,
    pub addr: Address,
    pub accepted: u64,
    /// The number of accepted messages that the other end did not send.
    pub strange: u64,
    pub ended: Vec<(MsgId, Status)>,
}

impl Host {
    pub fn new(config: &Config, addr: Address, seed: u64) -> Self {
        let mut engine = Endpoint::new(config.clone(), addr.qpn, Seed::from_u64(seed));
        engine.set_qkey(Some(KEY));
        Self { engine, addr, accepted: 0, strange: 0, ended: Vec::new() }
    }

    /// Handles a datagram like an adapter: messages with another key are refused.
    pub fn take(&mut self, now: Instant, from: Address, datagram: &[u8]) {
        let got = self.engine.handle_datagram(now, from.host, datagram, datagram.len());
        let Ok(Some(new)) = got.map(|received| received.data) else { return };
        if new.qkey == KEY {
            self.engine.accept(now, new.peer, new.psn);
            self.accepted += 1;
            // Messages of the other end have 64 bytes, forged ones none.
            self.strange += u64::from(new.len == 0);
        } else {
            self.engine.reject(now, new.peer, new.psn, Reject::BadDestQpn);
        }
    }

    /// Returns the datagrams that it sends now, with zeros for payload.
    pub fn sends(&mut self, now: Instant) -> Vec<(Address, Vec<u8>)> {
        let (mut header, mut sent) = ([0; HEADER_MAX], Vec::new());
        self.engine.handle_timeout(now);
        self.engine.flush_acks(now);
        while let Some(out) = self.engine.poll_transmit(now, &mut header) {
            let mut bytes = header[..out.header_len].to_vec();
            bytes.resize(out.header_len + out.payload_len as usize, 0);
            sent.push((out.addr, bytes));
        }
        while let Some(event) = self.engine.poll_event() {
            if let Event::Completed { msg, status, .. } = event {
                self.ended.push((msg, status));
            }
        }
        sent
    }

    pub fn send(&mut self, now: Instant, to: Address, id: u64, qkey: u32) {
        let peer = self.engine.peer(now, to);
        let msg = Message { id: MsgId(id), len: 64, qkey, rnr_retry: 7, ..Message::default() };
        self.engine.send(now, peer, msg).expect("there is room");
    }

    /// Restarts the endpoint under the same address.
    pub fn restart(&mut self, config: &Config, seed: u64) {
        *self = Self::new(config, self.addr, seed);
    }

    pub fn status_of(&self, id: u64) -> Option<Status> {
        self.ended.iter().find(|end| end.0 == MsgId(id)).map(|end| end.1)
    }
}

pub struct Scene {
    pub now: Instant,
    pub config: Config,
    pub sender: Host,
    pub victim: Host,
    /// The datagrams between the two.
    pub carried: u64,
}

impl Scene {
    pub fn new(config: Config) -> Self {
        let sender = Host::new(&config, SENDER, 1);
        let victim = Host::new(&config, VICTIM, 2);
        Self { now: Instant::from_ns(1_000_000_000), config, sender, victim, carried: 0 }
    }

    /// Creates a scene with a connection that has carried a message.
    pub fn connected(config: Config) -> Self {
        let mut scene = Self::new(config);
        scene.sender.send(scene.now, VICTIM, 0, KEY);
        scene.run_ms(1);
        assert_eq!(scene.sender.status_of(0), Some(Status::Ok), "a connection to attack");
        scene
    }

    /// Advances the time in steps of 10 us, each of which is a one-way delay.
    pub fn run_ms(&mut self, ms: u64) {
        for _ in 0..ms * 100 {
            self.step();
            self.now = self.now.plus_ns(10_000);
        }
    }

    pub fn step(&mut self) {
        for (to, datagram) in self.sender.sends(self.now) {
            if to == VICTIM {
                self.carried += 1;
                self.victim.take(self.now, SENDER, &datagram);
            }
        }
        for (to, datagram) in self.victim.sends(self.now) {
            if to == SENDER {
                self.carried += 1;
                self.sender.take(self.now, VICTIM, &datagram);
            }
        }
    }

    /// Asserts that the message ends well within a second.
    pub fn assert_served(&mut self, id: u64) {
        let before = self.victim.accepted;
        self.sender.send(self.now, VICTIM, id, KEY);
        self.run_ms(1000);
        assert_eq!(self.sender.status_of(id), Some(Status::Ok), "message {id}");
        assert_eq!(self.victim.accepted, before + 1);
    }

    /// Delivers a forged datagram to the victim, with source `from`.
    pub fn forge(&mut self, from: Address, datagram: &[u8]) {
        self.victim.take(self.now, from, datagram);
    }
}

fn common(kind: Kind, flags: Flags, from: Address, to: Address) -> [u8; Header::LEN] {
    let mut out = [0; Header::LEN];
    Header { kind, flags, path: PathId(0), src_qpn: from.qpn, dst_qpn: to.qpn }.emit(&mut out);
    out
}

/// The fields that an attacker may choose in a data block that opens a connection.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    pub conn: u64,
    pub psn: u32,
    pub oldest: u16,
    pub qkey: u32,
    /// The eight bytes that only INIT has.
    pub proof: u64,
}

/// A message of no bytes that opens a connection, with PROBE so that it is answered at once.
pub fn opening(from: Address, to: Address, what: Opening) -> Vec<u8> {
    let flags = Flags::HAS_DATA.with(Flags::INIT).with(Flags::PROBE);
    let mut out = common(Kind::Srd, flags, from, to).to_vec();
    let mut block = [0; DataRepr::LEN_INIT];
    data(what).emit(&mut block);
    out.extend_from_slice(&block);
    out
}

/// The same without INIT.
pub fn continuing(from: Address, to: Address, what: Opening) -> Vec<u8> {
    let mut out = common(Kind::Srd, Flags::HAS_DATA, from, to).to_vec();
    let mut block = [0; DataRepr::LEN];
    DataRepr { cookie: None, ..data(what) }.emit(&mut block);
    out.extend_from_slice(&block);
    out
}

fn data(what: Opening) -> DataRepr {
    DataRepr {
        conn: what.conn,
        psn: Psn(what.psn),
        tx_ts: 0,
        oldest: what.oldest,
        backlog: 0,
        op: 0,
        flags: 0,
        len: 0,
        qkey: what.qkey,
        imm: 0,
        cookie: Some(what.proof),
    }
}

/// An acknowledgement of all numbers below `cum`.
pub fn acknowledgement(from: Address, to: Address, conn: u64, cum: u32) -> Vec<u8> {
    let range = DropRange { psn: Psn(0), count: 1, status: Status::BadDestQpn, retry: false };
    let repr = AckRepr {
        conn,
        cum: Psn(cum),
        ref_psn: Psn(cum.wrapping_sub(1)),
        ref_path: PathId(0),
        echo_ts: 0,
        rx_ts: 0,
        rx_delay: ack::RX_DELAY_UNKNOWN,
        rcvd_bytes: 0,
        hint: 0,
        features: 0,
        sack_offset: 0,
        words: [0; ack::SACK_WORDS_MAX],
        words_len: 0,
        ranges: [range; ack::RANGES_MAX],
        ranges_len: 0,
        echoes: [EchoRepr::default(); ack::ECHOES_MAX],
        echoes_len: 0,
    };
    let mut out = common(Kind::Srd, Flags::HAS_ACK, from, to).to_vec();
    let mut block = [0; HEADER_MAX];
    let len = repr.emit(&mut block);
    out.extend_from_slice(&block[..len]);
    out
}

/// A RESET.
pub fn reset(from: Address, to: Address, conn: u64) -> Vec<u8> {
    let mut out = common(Kind::Reset, Flags::default(), from, to).to_vec();
    out.extend_from_slice(&conn.to_be_bytes());
    out
}

/// A CHALLENGE with this cookie.
pub fn challenge(from: Address, to: Address, conn: u64, cookie: u64) -> Vec<u8> {
    let mut out = common(Kind::Challenge, Flags::default(), from, to).to_vec();
    out.extend_from_slice(&conn.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out
}

/// A REFUSED for these messages.
pub fn refused(from: Address, to: Address, conn: u64, psn: u32, count: u16) -> Vec<u8> {
    let mut out = common(Kind::Refused, Flags::default(), from, to).to_vec();
    out.extend_from_slice(&conn.to_be_bytes());
    out.extend_from_slice(&psn.to_be_bytes());
    out.extend_from_slice(&count.to_be_bytes());
    out.extend_from_slice(&[Status::BadDestQpn.code(), 0]);
    out
}

/// Returns the data block of a datagram that has one and no acknowledgement.
pub fn data_of(datagram: &[u8]) -> DataRepr {
    let header = Header::parse(datagram).expect("a header");
    let init = header.flags.has(Flags::INIT);
    DataRepr::parse(&datagram[Header::LEN..], init).expect("a data block").0
}

pub fn kind_of(datagram: &[u8]) -> Kind {
    Header::parse(datagram).expect("a header").kind
}
