//! Whose turn it is to transmit.

use super::Endpoint;
use crate::wire::{Flags, Header, Kind, control};
use crate::{Address, HEADER_MAX, Instant, PathId, Transmit};
use std::collections::VecDeque;

/// RESETs waiting at once, and as many per interval (SRD-3.5).
const RESETS_MAX: usize = 16;
const RESET_INTERVAL_NS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
struct Reset {
    addr: Address,
    conn: u64,
    path: PathId,
}

/// Answers to strangers, limited in rate so that nobody can make us flood a third party.
#[derive(Debug, Default)]
pub(super) struct ResetQueue {
    queue: VecDeque<Reset>,
    interval_start: Instant,
    asked: usize,
}

impl ResetQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn ask(&mut self, now: Instant, addr: Address, conn: u64, path: PathId) {
        if now.ns_since(self.interval_start) >= RESET_INTERVAL_NS {
            self.interval_start = now;
            self.asked = 0;
        }
        let known = self.queue.iter().any(|reset| reset.conn == conn && reset.addr == addr);
        if known || self.asked >= RESETS_MAX || self.queue.len() >= RESETS_MAX {
            return;
        }
        self.asked += 1;
        self.queue.push_back(Reset { addr, conn, path });
    }
}

impl Endpoint {
    #[inline]
    pub(super) fn next_datagram(
        &mut self,
        now: Instant,
        header: &mut [u8; HEADER_MAX],
    ) -> Option<Transmit> {
        if !self.resets.is_empty() {
            return self.next_reset(header);
        }
        while let Some(&index) = self.ready.front() {
            let Some(peer) = self.peers.at(index) else {
                self.ready.pop_front();
                continue;
            };
            if self.turn_left == 0 {
                self.turn_left = self.shared.config.burst_packets_per_peer.max(1);
            }
            let mut cx = self.shared.context(now, peer.id);
            if let Some(transmit) = peer.poll(self.qpn, &self.share, header, &mut cx) {
                self.turn_left -= 1;
                if self.turn_left == 0 && self.ready.len() > 1 {
                    self.ready.rotate_left(1);
                }
                return Some(transmit);
            }
            peer.is_ready = false;
            self.turn_left = 0;
            self.ready.pop_front();
            self.arm(now, index);
        }
        None
    }

    fn next_reset(&mut self, header: &mut [u8; HEADER_MAX]) -> Option<Transmit> {
        let reset = self.resets.queue.pop_front()?;
        let path = PathId(reset.path.0 % self.shared.config.paths.max(1));
        let common = Header {
            kind: Kind::Reset,
            flags: Flags::default(),
            path,
            src_qpn: self.qpn,
            dst_qpn: reset.addr.qpn,
        };
        let out = header.first_chunk_mut::<{ control::RESET_LEN }>()?;
        let header_len = control::emit_reset(&common, reset.conn, out);
        self.shared.stats.tx_datagrams += 1;
        self.shared.stats.tx_resets += 1;
        Some(Transmit {
            peer: None,
            addr: reset.addr,
            path,
            header_len,
            msg: None,
            payload_len: 0,
            retransmission: false,
        })
    }
}
