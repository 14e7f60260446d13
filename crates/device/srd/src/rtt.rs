//! Round-trip times toward one peer: the base, the recent maximum and the retransmission timeout.

use crate::{Config, Instant};

/// The base is the minimum over one to two of these periods.
const BASE_PERIOD_NS: u64 = 5_000_000_000;
const RECENT: usize = 16;
/// The timeout is at most this part of the time after which a silent peer counts as dead, so that
/// it is probed several times before.
const RTO_SHARE: u64 = 16;

#[derive(Debug)]
pub(crate) struct Rtt {
    base_ns: [u32; 2],
    period_start: Instant,
    smoothed_ns: u32,
    recent_ns: [u32; RECENT],
    recent_max_ns: u32,
    next: u8,
    measured: bool,
}

impl Rtt {
    pub(crate) fn new(guess_ns: u64) -> Self {
        let guess_ns = clamp_ns(guess_ns);
        Self {
            base_ns: [guess_ns, u32::MAX],
            period_start: Instant::ZERO,
            smoothed_ns: guess_ns,
            recent_ns: [0; RECENT],
            recent_max_ns: 0,
            next: 0,
            measured: false,
        }
    }

    pub(crate) fn sample(&mut self, now: Instant, rtt_ns: u64) {
        let rtt = clamp_ns(rtt_ns);
        if !self.measured {
            self.measured = true;
            self.base_ns = [rtt, u32::MAX];
            self.smoothed_ns = rtt;
            self.period_start = now;
        }
        if now.ns_since(self.period_start) > BASE_PERIOD_NS {
            self.base_ns = [rtt, self.base_ns[0]];
            self.period_start = now;
        }
        self.base_ns[0] = self.base_ns[0].min(rtt);
        let smoothed = i64::from(self.smoothed_ns);
        self.smoothed_ns = (smoothed + (i64::from(rtt) - smoothed) / 8) as u32;
        let slot = &mut self.recent_ns[usize::from(self.next) % RECENT];
        let left = core::mem::replace(slot, rtt);
        self.next = self.next.wrapping_add(1);
        if rtt >= self.recent_max_ns {
            self.recent_max_ns = rtt;
        } else if left == self.recent_max_ns {
            self.recent_max_ns = self.recent_ns.iter().copied().max().unwrap_or(rtt);
        }
    }

    /// Returns the round-trip time of an empty network, as far as it was seen in the last ten
    /// seconds.
    pub(crate) fn base_ns(&self) -> u64 {
        u64::from(self.base_ns[0].min(self.base_ns[1]))
    }

    pub(crate) fn smoothed_ns(&self) -> u64 {
        u64::from(self.smoothed_ns)
    }

    /// Returns the largest of the latest samples.
    pub(crate) fn max_ns(&self) -> u64 {
        u64::from(self.recent_max_ns)
    }

    /// Returns how old a packet must be to count as lost (SRD-7.1).
    pub(crate) fn rto_ns(&self, config: &Config) -> u64 {
        let rto_ns = if self.measured {
            self.max_ns() + self.max_ns() / 2 + self.base_ns()
        } else {
            7 * self.base_ns()
        };
        // An answer that a stopped program reads late does not measure the network.
        rto_ns.min(config.dead_after_ns / RTO_SHARE).max(config.rto_floor_ns)
    }
}

fn clamp_ns(ns: u64) -> u32 {
    u32::try_from(ns).unwrap_or(u32::MAX - 1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_is_forgotten_after_ten_seconds() {
        let mut rtt = Rtt::new(1000);
        rtt.sample(Instant::from_ns(0), 100);
        rtt.sample(Instant::from_ns(6_000_000_000), 500);
        assert_eq!(rtt.base_ns(), 100);
        rtt.sample(Instant::from_ns(12_000_000_000), 500);
        assert_eq!(rtt.base_ns(), 500);
    }

    #[test]
    fn time_out_follows_the_recent_maximum() {
        let with_floor = |rto_floor_ns| Config { rto_floor_ns, ..Config::socket() };
        let (config, floored) = (with_floor(0), with_floor(9000));
        let mut rtt = Rtt::new(1000);
        assert_eq!(rtt.rto_ns(&config), 7000);
        rtt.sample(Instant::ZERO, 100);
        rtt.sample(Instant::ZERO, 1000);
        assert_eq!(rtt.rto_ns(&config), 1600);
        for _ in 0..RECENT {
            rtt.sample(Instant::ZERO, 200);
        }
        assert_eq!((rtt.max_ns(), rtt.rto_ns(&config), rtt.rto_ns(&floored)), (200, 400, 9000));
        rtt.sample(Instant::ZERO, 4_000_000_000);
        assert_eq!(rtt.rto_ns(&config), 500_000_000);
    }
}
