//! Spaces packets out, and turns a window below one packet into a rate (SRD-8.7).

use crate::{Config, Instant};

/// Packets are spaced out to at most this multiple of the window per round trip.
const GAIN_NUM: u64 = 5;
const GAIN_DEN: u64 = 4;

/// Longest gap between two packets: an outlier of the round-trip time must not stop a sender.
const GAP_MAX_NS: u64 = 100_000_000;

#[derive(Debug, Default)]
pub(crate) struct Pacer {
    next: Instant,
    /// The time at which the latest packet left, and its bytes.
    last: (Instant, u64),
}

impl Pacer {
    #[inline]
    pub(crate) fn is_ready(&self, now: Instant) -> bool {
        self.next <= now
    }

    /// Returns when the next packet may leave; `None` when it may leave now.
    pub(crate) fn next_send(&self, now: Instant) -> Option<Instant> {
        (self.next > now).then_some(self.next)
    }

    /// Lets a waiting packet leave earlier if the window has grown since.
    #[inline]
    pub(crate) fn reschedule(&mut self, window_bytes: u64, rtt_ns: u64, config: &Config) {
        let (left_at, bytes) = self.last;
        if self.next > left_at {
            let gap_ns = gap_ns(bytes, window_bytes, rtt_ns, config).unwrap_or(0);
            self.next = self.next.min(left_at.plus_ns(gap_ns));
        }
    }

    /// Accounts for a packet of `bytes` that leaves now.
    #[inline]
    pub(crate) fn spend(
        &mut self,
        now: Instant,
        bytes: u64,
        window_bytes: u64,
        rtt_ns: u64,
        config: &Config,
    ) {
        self.last = (now, bytes);
        // Probes leave early: they must not delay the next packet further and further.
        let gap_ns = gap_ns(bytes, window_bytes, rtt_ns, config);
        self.next = gap_ns.map_or(Instant::ZERO, |gap_ns| now.plus_ns(gap_ns));
    }
}

/// Returns the gap after a packet of `bytes`; `None` when packets are not spaced out.
#[inline]
fn gap_ns(bytes: u64, window_bytes: u64, rtt_ns: u64, config: &Config) -> Option<u64> {
    let whole = window_bytes >= u64::from(config.mtu_bytes);
    if whole && !config.pacing {
        return None;
    }
    let window_bytes = window_bytes.max(1);
    let gap_ns = if whole {
        bytes * rtt_ns * GAIN_DEN / (window_bytes * GAIN_NUM)
    } else {
        bytes * rtt_ns / window_bytes
    };
    Some(gap_ns.min(GAP_MAX_NS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_packets_only_where_it_must() {
        let mut pacer = Pacer::default();
        let t = Instant::from_ns(1_000_000);
        pacer.spend(t, 9000, 90_000, 100_000, &Config::socket());
        assert!(pacer.is_ready(t) && pacer.next_send(t).is_none());
        let config = Config::simulated(12_500, 10_000, 4150);
        pacer.spend(t, 4000, 40_000, 10_000, &config);
        assert_eq!(pacer.next_send(t), Some(t.plus_ns(800)));
        pacer.spend(t, 4000, 2000, 10_000, &config);
        assert_eq!(pacer.next_send(t), Some(t.plus_ns(20_000)));
        pacer.reschedule(1000, 10_000, &config);
        assert_eq!(pacer.next_send(t), Some(t.plus_ns(20_000)));
        pacer.reschedule(4000, 10_000, &config);
        assert_eq!(pacer.next_send(t), Some(t.plus_ns(10_000)));
        pacer.spend(t, 4000, 10, 4_000_000_000, &config);
        assert_eq!(pacer.next_send(t), Some(t.plus_ns(GAP_MAX_NS)));
    }
}
