//! Peers that come and go, and what they take.

use super::Endpoint;
use crate::peer::Peer;
use crate::{Address, Instant};

/// How often each peer is looked at, whether it is idle.
const SWEEP_NS: u64 = 1_000_000_000;
/// Peers looked at in one step, so that thousands of them do not hold up a message.
const SWEEP_PEERS: u32 = 256;

impl Endpoint {
    pub(super) fn find_or_make(&mut self, now: Instant, addr: Address) -> u32 {
        if let Some(index) = self.peers.find(addr) {
            return index;
        }
        if self.peers.len() == 0 {
            self.sweep_at = now.plus_ns(SWEEP_NS);
        }
        let first = self.shared.secret.first_psn(&mut self.shared.rng);
        let config = &self.shared.config;
        self.peers.insert(addr, |id| Peer::new(id, addr, now, config, first))
    }

    /// Asks a peer for its deadline and sees to it that the timer fires then.
    pub(super) fn arm(&mut self, now: Instant, index: u32) {
        let Some(peer) = self.peers.at(index) else { return };
        if let Some(at) = peer.deadline(now, &self.shared.config) {
            self.timers.arm(index, at.max(now.plus_ns(1)));
        }
    }

    /// Collects what has been idle for long (SRD-3.6), a few at a time.
    pub(super) fn sweep(&mut self, now: Instant) {
        let end = self.peers.end();
        let to = self.sweep_from.saturating_add(SWEEP_PEERS).min(end);
        for index in self.sweep_from..to {
            let Some(peer) = self.peers.at(index) else { continue };
            let is_over = peer.expire(now, &self.shared.config);
            if peer.recv.conn() == 0 {
                self.share.leave(&mut peer.share_mark);
            }
            self.count_ranges(index);
            if is_over {
                self.timers.remove(index);
                self.peers.remove(index);
            }
        }
        self.sweep_from = if to == end { 0 } else { to };
        let steps = end.div_ceil(SWEEP_PEERS).max(1);
        self.sweep_at = now.plus_ns(SWEEP_NS / u64::from(steps));
    }
    pub(super) fn heap_bytes(&self) -> usize {
        let peers = (0..self.peers.end()).filter_map(|index| self.peers.look(index));
        peers.map(Peer::memory_bytes).sum::<usize>()
            + self.peers.heap_bytes()
            + self.answers.heap_bytes()
            + self.guesses.heap_bytes()
            + self.timers.heap_bytes()
            + (self.ready.capacity() + self.held.capacity()) * size_of::<u32>()
    }
}
