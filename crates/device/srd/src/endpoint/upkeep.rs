//! Creation, timers and collection of peers.

use super::{Endpoint, make_ready};
use crate::peer::Peer;
use crate::{Address, Instant, Message};

/// The interval at which each peer is checked for idleness.
const SWEEP_NS: u64 = 1_000_000_000;
/// A sweep that is later than this means that the host stood still and read nothing meanwhile.
const STANDSTILL_NS: u64 = 2_000_000_000;
/// Peers checked in one step, so that thousands of them do not delay a message.
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

    /// Arms the timer for a peer's next deadline.
    pub(super) fn arm(&mut self, now: Instant, index: u32) {
        let Some(peer) = self.peers.by_index_mut(index) else { return };
        let (config, soon) = (&self.shared.config, now.plus_ns(1));
        // Most often the timer is already set to fire before anything can be due.
        if self.timers.is_armed(index, peer.earliest_deadline(config).max(soon)) {
            return;
        }
        if let Some(at) = peer.deadline(now, config) {
            self.timers.arm(index, at.max(soon));
        }
    }

    /// Collects peers that have been idle for long (SRD-3.6), a few at a time.
    pub(super) fn sweep(&mut self, now: Instant) {
        if now.ns_since(self.sweep_at) >= STANDSTILL_NS {
            self.awake_since = now;
        }
        let end = self.peers.end();
        let to = self.sweep_from.saturating_add(SWEEP_PEERS).min(end);
        for index in self.sweep_from..to {
            let Some(peer) = self.peers.by_index_mut(index) else { continue };
            let is_over = peer.expire(now, self.awake_since, &self.shared.config);
            if peer.recv.conn() == 0 {
                self.share.remove(&mut peer.share_mark);
            }
            self.count_ranges(index);
            if is_over {
                self.timers.remove(index);
                self.peers.remove(index);
            } else {
                self.release_forgotten(index);
            }
        }
        self.sweep_from = if to == end { 0 } else { to };
        let steps = end.div_ceil(SWEEP_PEERS).max(1);
        self.sweep_at = now.plus_ns(SWEEP_NS / u64::from(steps));
    }

    /// Releases an acknowledgement that is on no list of the endpoint, because the host left a
    /// message unanswered.
    fn release_forgotten(&mut self, index: u32) {
        let Some(peer) = self.peers.by_index_mut(index) else { return };
        if peer.recv.ack_wanted() && !peer.is_ready && !peer.is_held {
            peer.recv.release_ack();
            make_ready(&mut self.ready, peer);
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let peers = (0..self.peers.end()).filter_map(|index| self.peers.by_index(index));
        peers.map(Peer::memory_bytes).sum::<usize>()
            + self.peers.heap_bytes()
            + self.answers.heap_bytes()
            + self.guesses.heap_bytes()
            + self.timers.heap_bytes()
            + (self.ready.capacity() + self.held.capacity()) * size_of::<u32>()
            + self.shared.framed.capacity() * size_of::<Message>()
    }
}

#[cfg(test)]
mod tests {
    use crate::rng::Rng;
    use crate::{Address, Config, Endpoint, HEADER_MAX, Instant, Message, Reject, Seed};

    /// Delivers the datagrams of `from` to `to`, which loses some and refuses some.
    fn carry(from: &mut Endpoint, to: &mut Endpoint, now: Instant, rng: &mut Rng) {
        let mut header = [0; HEADER_MAX];
        while let Some(out) = from.poll_transmit(now, &mut header) {
            let (bytes, len) =
                (&header[..out.header_len], out.header_len + out.payload_len as usize);
            if rng.chance(0.1) {
                continue;
            }
            let from_host = u64::from(from.qpn());
            let received = to.handle_datagram(now, from_host, bytes, len);
            if let Some(arrival) = received.ok().and_then(|received| received.data) {
                match rng.below(8) {
                    0 => to.reject(now, arrival.peer, arrival.psn, Reject::Rnr),
                    1 => {}
                    _ => to.accept(now, arrival.peer, arrival.psn),
                }
            }
        }
    }

    fn check(endpoint: &mut Endpoint, now: Instant) {
        for index in 0..endpoint.peers.end() {
            let Some(peer) = endpoint.peers.by_index_mut(index) else { continue };
            let config = &endpoint.shared.config;
            let earliest = peer.earliest_deadline(config);
            let deadline = peer.deadline(now, config).unwrap_or(Instant::FAR);
            assert!(deadline >= earliest, "{deadline:?} is before {earliest:?} at {now:?}");
        }
    }

    #[test]
    fn no_deadline_is_before_the_earliest() {
        let seed = std::env::var("SRD_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        println!("SRD_SEED={seed}");
        for config in [Config::socket(), Config::simulated(12_500, 10_000, 4150)] {
            let mut rng = Rng::new(seed);
            let mut now = Instant::from_ns(1000);
            let make = |qpn| Endpoint::new(config.clone(), qpn, Seed::from_u64(u64::from(qpn)));
            let (mut a, mut b) = (make(1), make(2));
            for _ in 0..20_000 {
                for (end, to) in [(&mut a, 2), (&mut b, 1)] {
                    if rng.chance(0.3) {
                        let peer = end.peer(now, Address { host: u64::from(to), qpn: to });
                        let message = Message { len: 64, rnr_retry: 7, ..Message::default() };
                        let _ = end.send(now, peer, message);
                    }
                    if rng.chance(0.1) {
                        end.flush_acks(now);
                    }
                    end.handle_timeout(now);
                    while end.poll_event().is_some() {}
                }
                carry(&mut a, &mut b, now, &mut rng);
                carry(&mut b, &mut a, now, &mut rng);
                check(&mut a, now);
                check(&mut b, now);
                now = now.plus_ns([50, 2000, 100_000, 8_000_000][rng.below(4) as usize]);
            }
            assert!(a.stats().retrans_timeout_events > 0 && b.stats().completed_ok > 1000);
        }
    }
}
