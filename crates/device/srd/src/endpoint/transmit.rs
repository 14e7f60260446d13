//! Scheduling of transmissions: the peers take turns.

use super::Endpoint;
use crate::{HEADER_MAX, Instant, Transmit};

impl Endpoint {
    #[inline]
    pub(super) fn next_datagram(
        &mut self,
        now: Instant,
        header: &mut [u8; HEADER_MAX],
    ) -> Option<Transmit> {
        if !self.answers.is_empty() {
            return self.next_answer(header);
        }
        while let Some(&index) = self.ready.front() {
            let Some(peer) = self.peers.by_index_mut(index) else {
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
}
