//! The processing of datagrams from a ring: check, engine, and the copy for a program.

use std::net::{IpAddr, Ipv4Addr};

use srd::wire::ud::UdRepr;
use srd::wire::{Header, Kind};
use srd::{Config, Endpoint, HEADER_MAX, Instant, Received, Seed};

use crate::datagram::Datagram;
use crate::framing::{Framing, RDMA_BLOCK_BYTES};
use crate::memory::Piece;

/// The time between datagrams, so that timers expire now and then.
const STEP_NS: u64 = 3_000_000;
const HOST: u64 = 1;
const QPN: u16 = 2;

/// The engine of the queue pair that reads the rings.
pub(super) struct FarEngine {
    engine: Endpoint,
    now: Instant,
    memory: Vec<u8>,
}

impl FarEngine {
    pub(super) fn new() -> Self {
        let engine = Endpoint::new(Config::socket(), QPN, Seed::from_u64(1));
        Self { engine, now: Instant::from_ns(1_000_000_000), memory: Vec::new() }
    }

    /// Takes a datagram whose first bytes are in our memory and whose others lie at `rest`.
    pub(super) fn take(&mut self, headers: &[u8], rest: Piece) {
        if !Framing::Headers.is_plain(IpAddr::V4(Ipv4Addr::LOCALHOST), headers, Piece::default()) {
            return;
        }
        let datagram = Datagram::new(headers, rest);
        if let Ok(Header { kind: Kind::Ud, .. }) = Header::parse(headers) {
            if UdRepr::parse(headers, datagram.len()).is_ok() {
                self.copy(&datagram, UdRepr::LEN);
            }
            return;
        }
        self.now = self.now.plus_ns(STEP_NS);
        let taken = self.engine.handle_datagram(self.now, HOST, headers, datagram.len());
        if let Ok(Received { data: Some(arrival), header_len, .. }) = taken {
            assert_eq!(header_len + arrival.len as usize, datagram.len());
            self.copy(&datagram, header_len);
            self.engine.accept(self.now, arrival.peer, arrival.psn);
        }
        self.turn();
    }

    /// Copies the datagram for a program, whole and in pieces.
    fn copy(&mut self, datagram: &Datagram<'_>, header_len: usize) {
        let payload = datagram.payload(header_len);
        let own_len = datagram.head.len() - header_len;
        let block = payload.split_header::<RDMA_BLOCK_BYTES>();
        assert_eq!(
            block.is_some(),
            own_len >= RDMA_BLOCK_BYTES,
            "a header is read where it is lent"
        );
        let (first, second) = payload.split_at(RDMA_BLOCK_BYTES);
        assert_eq!(first.len() + second.len(), payload.len());
        self.memory.resize(payload.len(), 0);
        let to = self.memory.as_mut_ptr() as usize as u64;
        payload.copy_to(to).expect("what is lent is there");
    }

    fn turn(&mut self) {
        if self.engine.poll_timeout().is_some_and(|at| at <= self.now) {
            self.engine.handle_timeout(self.now);
        }
        self.engine.flush_acks(self.now);
        let mut header = [0; HEADER_MAX];
        while self.engine.poll_transmit(self.now, &mut header).is_some() {}
        while self.engine.poll_event().is_some() {}
    }
}
