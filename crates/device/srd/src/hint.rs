//! The receiver's fair-share hint: line rate over the number of senders with more to send
//! (SRD-8.6).

use crate::wire::data::encode_log;
use crate::{Config, Instant};

/// Counts the senders that still owe packets. The count is exact, and includes only senders from
/// which something arrived lately, so that a dead sender is not waited for.
#[derive(Debug, Default)]
pub(crate) struct FairShare {
    /// Senders that owe packets.
    active: u32,
    period: u32,
    period_start: Instant,
    seen_now: u32,
    seen_before: u32,
}

/// The state of one sender in the count, kept with its peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShareMark {
    is_active: bool,
    /// The period in which a packet of it arrived last.
    period: u32,
}

impl FairShare {
    /// Records a packet of a sender, and whether that owes more packets.
    #[inline]
    pub(crate) fn note(
        &mut self,
        now: Instant,
        mark: &mut ShareMark,
        owes_more: bool,
        config: &Config,
    ) {
        if config.line_rate_bytes_per_us == 0 {
            return;
        }
        if owes_more && !mark.is_active {
            mark.is_active = true;
            self.active += 1;
        } else if !owes_more {
            self.remove(mark);
            return;
        }
        self.roll_period(now, config);
        if mark.period != self.period {
            mark.period = self.period;
            self.seen_now += 1;
        }
    }

    /// Removes a sender that owes nothing or is being forgotten.
    pub(crate) fn remove(&mut self, mark: &mut ShareMark) {
        if core::mem::take(&mut mark.is_active) {
            assert!(self.active > 0, "a marked sender was counted");
            self.active -= 1;
        }
    }

    /// Begins a new period when the current one is over: after two round trips, or after the time
    /// that two packets of each sender take.
    fn roll_period(&mut self, now: Instant, config: &Config) {
        let round_bytes = u64::from(self.active) * u64::from(config.mtu_bytes);
        let round_ns = round_bytes * 1000 / u64::from(config.line_rate_bytes_per_us);
        let length_ns = 2 * config.rtt_guess_ns.max(round_ns);
        let age_ns = now.ns_since(self.period_start);
        if self.period > 0 && age_ns <= length_ns {
            return;
        }
        self.seen_before = if age_ns > 2 * length_ns { 0 } else { self.seen_now };
        self.seen_now = 0;
        self.period_start = now;
        self.period = self.period.wrapping_add(1).max(1);
    }

    /// Returns the hint to send; 0 when the line rate is unknown or there is only one sender.
    pub(crate) fn code(&self, config: &Config) -> u16 {
        let senders = self.active.min(self.seen_now.max(self.seen_before));
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
    fn counts_those_who_owe_something_and_were_heard_of() {
        let config = Config::simulated(12_500, 10_000, 4150);
        let mut share = FairShare::default();
        let mut marks = [ShareMark::default(); 5];
        for i in 0..50 {
            let mark = &mut marks[i as usize % 5];
            share.note(Instant::from_ns(1000 + i * 100), mark, true, &config);
        }
        assert_eq!(share.code(&config), encode_log(2500));
        share.note(Instant::from_ns(6000), &mut marks[4], false, &config);
        share.note(Instant::from_ns(6000), &mut marks[4], false, &config);
        assert_eq!(share.code(&config), encode_log(3125));
        share.remove(&mut marks[3]);
        assert_eq!(share.code(&config), encode_log(4166));
        // The other senders are silent for a long time.
        share.note(Instant::from_ns(1_000_000), &mut marks[0], true, &config);
        assert_eq!(share.code(&config), 0);
    }

    #[test]
    fn hundreds_of_senders_are_heard_of_once_in_a_while() {
        let config = Config::simulated(12_500, 10_000, 4150);
        let mut share = FairShare::default();
        let mut marks = vec![ShareMark::default(); 500];
        for i in 0..2000 {
            // A packet of 4,150 bytes takes 332 ns.
            share.note(
                Instant::from_ns(1000 + i * 332),
                &mut marks[i as usize % 500],
                true,
                &config,
            );
        }
        assert_eq!(share.code(&config), encode_log(25));
    }
}
