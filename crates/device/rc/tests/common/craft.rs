//! Hand-made packets, and one endpoint that receives them.

use rc::wire::{
    Aeth, AtomicEth, Bth, DEFAULT_PKEY, Headers, Kind, NakCode, Opcode, Packet, Reth, Syndrome,
    Transport, pad_of,
};
use rc::{Access, Config, DropReason, Endpoint, Instant, Mtu, Psn, ReceiveAttr, SendAttr, Service};

use super::host::{BASE, Host, KEY};

/// The queue pair under test, and its peer.
pub const HERE: u32 = 0x11;
pub const THERE: u32 = 0x22;
/// The first numbers of both directions: the peer's requests, and ours.
pub const THEIR_PSN: u32 = 100;
pub const OUR_PSN: u32 = 0xFF_FFFE;

/// A packet to the endpoint under test.
#[derive(Clone, Debug)]
pub struct Craft {
    pub headers: Headers,
    pub payload: Vec<u8>,
}

impl Craft {
    pub fn new(kind: Kind, psn: u32) -> Self {
        Self::of(Transport::Rc, kind, psn)
    }

    pub fn of(transport: Transport, kind: Kind, psn: u32) -> Self {
        let headers = Headers::new(Bth {
            opcode: Opcode { transport, kind },
            is_solicited: false,
            is_migrated: false,
            pad: 0,
            pkey: DEFAULT_PKEY,
            has_fecn: false,
            has_becn: false,
            joined: 0,
            dest_qpn: HERE,
            wants_ack: false,
            psn: Psn::new(psn),
        });
        Self { headers, payload: Vec::new() }
    }

    pub fn asks(mut self) -> Self {
        self.headers.bth.wants_ack = true;
        self
    }

    /// `len` bytes that depend on their position.
    pub fn with(mut self, len: usize) -> Self {
        self.payload = (0..len).map(|i| i as u8).collect();
        self
    }

    pub fn imm(mut self, imm: u32) -> Self {
        self.headers.imm = imm;
        self
    }

    pub fn about(mut self, offset: u64, dma_len: u32) -> Self {
        self.headers.reth = Reth { va: BASE + offset, rkey: KEY, dma_len };
        self
    }

    pub fn keyed(mut self, rkey: u32) -> Self {
        self.headers.reth.rkey = rkey;
        self.headers.atomic.rkey = rkey;
        self
    }

    pub fn atomic(mut self, offset: u64, swap_or_add: u64, compare: u64) -> Self {
        self.headers.atomic = AtomicEth { va: BASE + offset, rkey: KEY, swap_or_add, compare };
        self
    }

    pub fn says(mut self, syndrome: Syndrome) -> Self {
        self.headers.aeth = Aeth { syndrome, msn: 0 };
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut headers = self.headers;
        headers.bth.pad = pad_of(self.payload.len() as u32);
        let mut bytes = vec![0; 64];
        let len = headers.emit(&mut bytes);
        bytes.truncate(len);
        bytes.extend_from_slice(&self.payload);
        bytes.resize(bytes.len() + usize::from(headers.bth.pad) + 4, 0);
        bytes
    }
}

pub fn ack(psn: u32) -> Craft {
    Craft::new(Kind::Acknowledge, psn).says(Syndrome::ACK)
}

pub fn nak(psn: u32, code: NakCode) -> Craft {
    Craft::new(Kind::Acknowledge, psn).says(Syndrome::Nak(code))
}

pub fn rnr(psn: u32, timer: u8) -> Craft {
    Craft::new(Kind::Acknowledge, psn).says(Syndrome::RnrNak(timer))
}

/// A short form of a packet that was sent: kind, number, payload, and the syndrome of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub kind: Kind,
    pub psn: u32,
    pub len: u32,
    pub headers: Headers,
}

/// One endpoint under test, connected to a peer that the test plays.
pub struct Solo {
    pub host: Host,
    pub now: Instant,
}

pub fn receive_attr() -> ReceiveAttr {
    ReceiveAttr {
        dest_qpn: THERE,
        path_mtu: Mtu::B256,
        rq_psn: Psn::new(THEIR_PSN),
        max_dest_rd_atomic: 2,
        min_rnr_timer: 12,
        access: Access::ALL,
    }
}

pub fn send_attr() -> SendAttr {
    SendAttr {
        sq_psn: Psn::new(OUR_PSN),
        max_rd_atomic: 2,
        timeout: 14,
        retry_cnt: 3,
        rnr_retry: 2,
    }
}

impl Solo {
    pub fn new() -> Self {
        Self::with(Config::strict(), Service::Rc, receive_attr(), send_attr())
    }

    pub fn with(config: Config, service: Service, receive: ReceiveAttr, send: SendAttr) -> Self {
        let mut engine = Endpoint::new(config, service, HERE);
        engine.ready_to_receive(receive);
        engine.ready_to_send(send);
        let mut host = Host::new(engine, 4096);
        host.is_slow = true;
        Self { host, now: Instant::from_ns(1_000_000) }
    }

    pub fn give(&mut self, packet: &Craft) -> Result<(), DropReason> {
        let result = self.host.take(self.now, &packet.bytes());
        self.host.poll_events();
        result
    }

    pub fn pass_ns(&mut self, ns: u64) {
        self.now = self.now.plus_ns(ns);
        self.host.engine.handle_timeout(self.now);
        self.host.poll_events();
    }

    /// Returns every packet that is to be sent.
    pub fn sent(&mut self) -> Vec<Seen> {
        let mut sent = Vec::new();
        while let Some(packet) = self.host.next_packet(self.now) {
            let read = Packet::parse(&packet, packet.len()).expect("a packet of ours");
            let headers = read.headers;
            assert_eq!(headers.bth.dest_qpn, THERE);
            assert!(headers.bth.is_migrated, "RC-1.3");
            let (kind, psn) = (headers.bth.opcode.kind, headers.bth.psn.get());
            sent.push(Seen { kind, psn, len: read.payload_len, headers });
        }
        self.host.poll_events();
        sent
    }

    /// Returns kinds and numbers of every packet that is to be sent.
    pub fn sent_short(&mut self) -> Vec<(Kind, u32)> {
        self.sent().iter().map(|seen| (seen.kind, seen.psn)).collect()
    }

    /// Returns the syndromes and numbers of the acknowledgements that are to be sent.
    pub fn said(&mut self) -> Vec<(Syndrome, u32)> {
        let sent = self.sent().into_iter().filter(|seen| seen.kind == Kind::Acknowledge);
        sent.map(|seen| (seen.headers.aeth.syndrome, seen.psn)).collect()
    }
}
