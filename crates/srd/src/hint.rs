//! The receiver's fair-share hint: line rate over the number of senders with a backlog (SRD-8.6).

use crate::wire::data::encode_log;
use crate::{Config, Instant};

#[derive(Debug, Default)]
pub(crate) struct FairShare {
    period: u32,
    period_start: Instant,
    active_now: u32,
    active_before: u32,
}

impl FairShare {
    /// Counts a packet of a sender that has more to send. `seen` is that sender's mark, kept
    /// with its peer.
    pub(crate) fn note(&mut self, now: Instant, seen: &mut u32, config: &Config) {
        let length_ns = 2 * config.rtt_guess_ns;
        let age_ns = now.ns_since(self.period_start);
        if self.period == 0 || age_ns > length_ns {
            self.active_before = if age_ns > 2 * length_ns { 0 } else { self.active_now };
            self.active_now = 0;
            self.period_start = now;
            self.period = self.period.wrapping_add(1).max(1);
        }
        if *seen != self.period {
            *seen = self.period;
            self.active_now += 1;
        }
    }

    /// The hint to send, 0 when the line rate is unknown or nobody competes.
    pub(crate) fn code(&self, config: &Config) -> u16 {
        let senders = self.active_now.max(self.active_before);
        if config.line_rate_bytes_per_us == 0 || senders < 2 {
            return 0;
        }
        encode_log(u64::from(config.line_rate_bytes_per_us / senders).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_each_sender_once_per_period() {
        let config = Config::simulated(12_500, 10_000, 4150);
        let mut share = FairShare::default();
        let mut marks = [0; 5];
        for i in 0..50 {
            share.note(Instant::from_ns(1000 + i * 100), &mut marks[i as usize % 5], &config);
        }
        assert_eq!(share.code(&config), encode_log(2500));
        share.note(Instant::from_ns(1_000_000), &mut marks[0], &config);
        assert_eq!(share.code(&config), 0);
    }
}
