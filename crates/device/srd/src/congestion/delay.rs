//! A window controlled by queueing delay and cross-checked against the delivery rate (SRD-8.3 to
//! SRD-8.6). The window is fractional: a value below one packet stands for a rate.

use super::{AckSample, Controller, LossSample};
use crate::wire::data::decode_log;
use crate::{Config, Instant};

/// Packets added per round trip while the delay is below its target.
const INCREASE_PACKETS: f64 = 1.0;
/// Share of the acknowledged bytes by which the window grows until the first sign of a queue.
const INCREASE_STARTUP: f64 = 0.5;
/// The delay that counts as the first sign of a queue, as a share of the target.
const STARTUP_UNTIL: f64 = 0.5;
/// Share of the acknowledged bytes by which the window grows after a long time without queues.
const INCREASE_IDLE_NETWORK: f64 = 0.25;
const DECREASE_GAIN: f64 = 0.8;
const DECREASE_MAX: f64 = 0.5;
/// The smallest windows may cause this much more delay, as a share of the base round-trip time.
const SMALL_WINDOW_SHARE: f64 = 0.5;
const SILENCE_DIVISOR: f64 = 8.0;
/// A cut can be undone for this many round trips.
const LOSS_MEMORY_RTTS: u64 = 16;

#[derive(Debug)]
pub(super) struct Delay {
    window: f64,
    min: f64,
    max: f64,
    mtu: f64,
    target_share: f64,
    target_floor_ns: f64,
    use_hint: bool,
    /// Neither a queue nor a loss has been seen yet.
    startup: bool,
    last_delay_ns: f64,
    last_cut: Instant,
    last_collapse: Instant,
    /// The time from which on there has been next to no queue.
    quiet_since: Option<Instant>,
    /// The window before the latest cut for a loss.
    before_loss: Option<f64>,
    last_loss: Instant,
    epoch: Epoch,
}

/// An interval over which the delivery rate is measured.
#[derive(Debug, Default)]
struct Epoch {
    start: Instant,
    rcvd_bytes: u64,
    lossy: bool,
}

impl Delay {
    pub(super) fn new(config: &Config) -> Self {
        let max = f64::from(config.window_max_bytes.max(config.mtu_bytes));
        let min = f64::from(config.window_min_bytes.max(1)).min(max);
        Self {
            window: f64::from(config.window_initial_bytes).clamp(min, max),
            min,
            max,
            mtu: f64::from(config.mtu_bytes.max(1)),
            target_share: f64::from(config.target_rtt_share),
            target_floor_ns: config.target_floor_ns as f64,
            use_hint: config.use_hint,
            startup: true,
            last_delay_ns: 0.0,
            last_cut: Instant::ZERO,
            last_collapse: Instant::ZERO,
            quiet_since: None,
            before_loss: None,
            last_loss: Instant::ZERO,
            epoch: Epoch::default(),
        }
    }

    /// Returns the queueing delay that the window aims at.
    fn target_ns(&self, base_ns: f64) -> f64 {
        let packets = self.window / self.mtu;
        let small = ((1.0 / packets.sqrt() - 0.125) / (2.0 - 0.125)).clamp(0.0, 1.0);
        let target_ns = self.target_share * base_ns + SMALL_WINDOW_SHARE * base_ns * small;
        target_ns.max(self.target_floor_ns)
    }

    fn grow(&mut self, sample: &AckSample, delay_ns: f64, target_ns: f64) {
        let acked = sample.acked_bytes as f64;
        self.startup &= delay_ns < STARTUP_UNTIL * target_ns;
        if delay_ns >= target_ns / 8.0 {
            self.quiet_since = None;
        }
        if sample.app_limited {
            return;
        }
        if self.startup {
            self.window += INCREASE_STARTUP * acked;
        }
        self.window += INCREASE_PACKETS * self.mtu * acked / self.window.max(self.mtu);
        if delay_ns < target_ns / 8.0 {
            let since = *self.quiet_since.get_or_insert(sample.now);
            if sample.now.ns_since(since) > 2 * sample.base_ns {
                self.window += INCREASE_IDLE_NETWORK * acked;
            }
        }
    }

    fn shrink(&mut self, sample: &AckSample, delay_ns: f64, target_ns: f64) {
        self.startup = false;
        self.quiet_since = None;
        let gap_ns = sample.smoothed_ns.max(sample.base_ns);
        if sample.now.ns_since(self.last_cut) < gap_ns {
            return;
        }
        let base_ns = sample.base_ns as f64;
        let factor = 1.0 - DECREASE_GAIN * (delay_ns - target_ns) / (delay_ns + base_ns);
        self.window *= factor.max(DECREASE_MAX);
        self.last_cut = sample.now;
    }

    /// Compares the bytes delivered in an epoch with the window (SRD-8.4).
    fn check_rate(&mut self, sample: &AckSample, delay_ns: f64, target_ns: f64) {
        let Some(rcvd_bytes) = sample.rcvd_bytes else { return };
        let epoch_ns = sample.base_ns + target_ns as u64;
        if sample.now.ns_since(self.epoch.start) < epoch_ns {
            return;
        }
        let delivered = rcvd_bytes.saturating_sub(self.epoch.rcvd_bytes) as f64;
        let fresh = self.epoch.start > Instant::ZERO
            && sample.now.ns_since(self.epoch.start) < 2 * epoch_ns;
        let congested =
            delay_ns > 2.0 * target_ns && (self.epoch.lossy || delay_ns > 4.0 * target_ns);
        let rested = sample.now.ns_since(self.last_collapse) >= sample.smoothed_ns;
        if fresh && congested && rested && delivered < 0.5 * self.window {
            self.window = delivered.max(self.mtu / 2.0);
            self.last_collapse = sample.now;
        }
        self.epoch = Epoch { start: sample.now, rcvd_bytes, lossy: false };
    }

    /// Caps the window by the receiver's fair share. A share below one packet is used as the rate,
    /// whatever the queueing delay: among hundreds of senders AIMD cannot find it (SRD-8.6).
    fn apply_hint(&mut self, sample: &AckSample) {
        if !self.use_hint || sample.hint == 0 {
            return;
        }
        let share_per_ns = decode_log(sample.hint) as f64 / 1000.0;
        let cap = (1.0 + self.target_share) * share_per_ns * sample.base_ns as f64;
        if cap >= self.mtu {
            self.window = self.window.min(cap);
        } else {
            self.window = (share_per_ns * sample.smoothed_ns as f64).min(self.mtu - 1.0);
        }
    }

    fn clamp(&mut self) {
        assert!(self.window.is_finite(), "the window is a number");
        self.window = self.window.clamp(self.min, self.max);
    }
}

impl Controller for Delay {
    fn window_bytes(&self) -> u64 {
        self.window as u64
    }

    fn on_ack(&mut self, sample: &AckSample) {
        if let Some(delay_ns) = sample.delay_ns {
            self.last_delay_ns = delay_ns as f64;
        }
        if sample.now.ns_since(self.last_loss) > LOSS_MEMORY_RTTS * sample.smoothed_ns {
            self.before_loss = None;
        }
        let delay_ns = self.last_delay_ns;
        let target_ns = self.target_ns(sample.base_ns as f64);
        if delay_ns < target_ns {
            self.grow(sample, delay_ns, target_ns);
        } else if sample.delay_ns.is_some() {
            self.shrink(sample, delay_ns, target_ns);
        }
        self.check_rate(sample, delay_ns, target_ns);
        self.apply_hint(sample);
        self.clamp();
    }

    fn on_loss(&mut self, sample: &LossSample) {
        self.epoch.lossy = true;
        self.startup = false;
        let before = self.window;
        if sample.silent || sample.connection_wide {
            let rested = sample.now.ns_since(self.last_collapse) >= sample.min_gap_ns;
            if sample.silent && rested {
                self.window /= SILENCE_DIVISOR;
                self.last_collapse = sample.now;
            } else if sample.connection_wide {
                self.window -= (sample.lost_bytes as f64).max(self.mtu);
            }
            self.window = self.window.max(self.mtu.min(before));
            self.last_loss = sample.now;
            self.before_loss = Some(before.max(self.before_loss.unwrap_or(0.0)));
        }
        self.clamp();
    }

    fn on_spurious(&mut self) {
        if let Some(before) = self.before_loss.take() {
            self.window = self.window.max(before);
        }
        self.clamp();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::data::encode_log;

    fn sample(at_ns: u64, delay_ns: u64) -> AckSample {
        AckSample {
            now: Instant::from_ns(at_ns),
            acked_bytes: 4150,
            delay_ns: Some(delay_ns),
            base_ns: 10_000,
            smoothed_ns: 10_000 + delay_ns,
            rcvd_bytes: Some(at_ns * 12),
            app_limited: false,
            hint: 0,
        }
    }

    fn simulated() -> Delay {
        Delay::new(&Config::simulated(12_500, 10_000, 4150))
    }

    #[test]
    fn delay_moves_the_window_both_ways_within_its_bounds() {
        let mut cc = simulated();
        let start = cc.window_bytes();
        (0..2000).for_each(|i| cc.on_ack(&sample(i * 1000, 100)));
        assert_eq!(cc.window_bytes(), 225_000);
        (2000..9000).for_each(|i| cc.on_ack(&sample(i * 1000, 60_000)));
        assert!(cc.window_bytes() < start / 4);
        assert!(cc.window_bytes() >= 4150 / 8);
    }

    #[test]
    fn a_share_below_a_packet_is_a_rate_whatever_the_queue() {
        let mut cc = simulated();
        let hint = |bytes_per_us| AckSample {
            hint: encode_log(bytes_per_us),
            smoothed_ns: 40_000,
            ..sample(1000, 30_000)
        };
        cc.on_ack(&hint(1248));
        assert_eq!(cc.window_bytes(), 24_960);
        cc.on_ack(&hint(50));
        assert_eq!(cc.window_bytes(), 2000);
        cc.on_ack(&hint(100));
        assert_eq!(cc.window_bytes(), 4000);
        cc.on_ack(&hint(200));
        assert_eq!(cc.window_bytes(), 4149);
    }

    #[test]
    fn an_unused_window_does_not_grow() {
        let mut cc = simulated();
        let start = cc.window_bytes();
        (0..100).for_each(|i| cc.on_ack(&AckSample { app_limited: true, ..sample(i * 1000, 0) }));
        assert_eq!(cc.window_bytes(), start);
    }

    #[test]
    fn a_window_opens_fast_until_the_first_queue() {
        let grown = |delay_ns: u64| {
            let mut cc = simulated();
            (0..10).for_each(|i| cc.on_ack(&sample(1000 + i, delay_ns)));
            cc.window_bytes() - simulated().window_bytes()
        };
        assert!(grown(4000) > 10 * 4150 / 2);
        assert!(grown(6000) < 4150);
    }

    #[test]
    fn silence_collapses_the_window_once_and_a_late_answer_restores_it() {
        let mut cc = simulated();
        let start = cc.window_bytes();
        let loss = LossSample {
            now: Instant::from_ns(1_000_000),
            lost_bytes: 4150,
            connection_wide: false,
            silent: true,
            min_gap_ns: 50_000,
        };
        cc.on_loss(&loss);
        cc.on_loss(&loss);
        assert_eq!(cc.window_bytes(), start / 8);
        cc.on_spurious();
        assert_eq!(cc.window_bytes(), start);
    }

    #[test]
    fn a_loss_on_one_path_costs_no_window() {
        let mut cc = simulated();
        let start = cc.window_bytes();
        cc.on_loss(&LossSample {
            now: Instant::from_ns(1_000_000),
            lost_bytes: 4150,
            connection_wide: false,
            silent: false,
            min_gap_ns: 0,
        });
        assert_eq!(cc.window_bytes(), start);
    }

    #[test]
    fn descheduling_does_not_collapse_a_socket_window() {
        let mut cc = Delay::new(&Config::socket());
        for i in 1..1000 {
            cc.on_ack(&AckSample { base_ns: 5000, ..sample(i * 4_000_000, 4_000_000) });
        }
        assert_eq!(cc.window_bytes(), 64 << 10);
        let quiet = |i: u64| AckSample { base_ns: 5000, acked_bytes: 65_536, ..sample(i, 1000) };
        (0..100).for_each(|i| cc.on_ack(&quiet(5_000_000_000 + i * 20_000)));
        assert!(cc.window_bytes() > 1 << 20);
    }
}
