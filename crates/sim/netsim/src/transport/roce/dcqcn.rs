//! DCQCN's reaction point: the rate of a queue pair (Zhu et al., Congestion Control for
//! Large-Scale RDMA Deployments, SIGCOMM 2015, section 3).
//!
//! A queue pair sends at the rate of its link until it is told of marks. Then its rate is cut by
//! half of alpha, the estimate of how congested the way is, and grows again each time that a timer
//! or a count of bytes runs out: half way back to where it was (fast recovery), then by a step
//! (additive increase), then by more and more (hyper increase).

use crate::time::Time;

/// Gain of alpha: g = 1/256.
const GAIN: f64 = 1.0 / 256.0;
/// Period after which alpha decays without a notification (K), and of the increase timer (T).
const TIMER_PS: u64 = 55_000_000;
/// Bytes sent between two increases (B).
const COUNTED_BYTES: u64 = 10_000_000;
/// Number of increases of one kind that are fast recovery (F).
const RECOVERIES: u32 = 5;
/// Number of decays after which nothing is left of alpha.
const DECAYS_MAX: u64 = 1 << 13;
/// Minimum rate of a queue pair.
const RATE_MIN_BPS: f64 = 10e6;
/// Fraction of its link's rate from which on a queue pair counts as not limited.
const FULL: f64 = 0.999;
const PS_PER_S: f64 = 1e12;

/// Parameters that depend on the network. All others are the paper's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DcqcnSetup {
    /// Minimum time between two notifications of a responder (N).
    pub(crate) cnp_interval_ps: u64,
    pub(crate) line_bps: f64,
    /// Step of the additive increase.
    pub(crate) additive_bps: f64,
    /// Step of the hyper increase.
    pub(crate) hyper_bps: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Limiter {
    setup: DcqcnSetup,
    current_bps: f64,
    target_bps: f64,
    alpha: f64,
    /// Time at which alpha has its value; it does not decay before the first notification.
    alpha_at: Option<Time>,
    /// Time at which the increase timer expires, while the rate is limited.
    increase_at: Option<Time>,
    /// Number of times that the timer has expired since the last cut.
    timers: u32,
    /// Number of times that the counter of bytes has expired since the last cut.
    counters: u32,
    /// Bytes sent since the counter expired, or since the last cut.
    counted_bytes: u64,
    /// Earliest time at which the next packet may leave.
    next_at: Time,
}

impl Limiter {
    pub(super) fn new(setup: DcqcnSetup) -> Self {
        Self {
            setup,
            current_bps: setup.line_bps,
            target_bps: setup.line_bps,
            alpha: 1.0,
            alpha_at: None,
            increase_at: None,
            timers: 0,
            counters: 0,
            counted_bytes: 0,
            next_at: Time::ZERO,
        }
    }

    /// Returns the time at which the next packet may leave.
    pub(super) fn next_at(&self) -> Time {
        self.next_at
    }

    /// Returns the time at which to call `handle_timeout`.
    pub(super) fn timeout(&self) -> Option<Time> {
        self.increase_at
    }

    /// Cuts the rate, because a notification came.
    pub(super) fn cut(&mut self, now: Time) {
        let silent_ps = self.alpha_at.map_or(0, |at| now.ps_since(at));
        let decays = (silent_ps / TIMER_PS).min(DECAYS_MAX);
        for _ in 0..decays {
            self.alpha *= 1.0 - GAIN;
        }
        self.target_bps = self.current_bps;
        self.set_rate(now, (self.current_bps * (1.0 - self.alpha / 2.0)).max(RATE_MIN_BPS));
        self.alpha = (1.0 - GAIN) * self.alpha + GAIN;
        self.alpha_at = Some(now);
        self.increase_at = Some(now.plus_ps(TIMER_PS));
        (self.timers, self.counters, self.counted_bytes) = (0, 0, 0);
    }

    /// Takes note of a packet of `bytes` that leaves.
    pub(super) fn sent(&mut self, now: Time, bytes: u32) {
        if self.increase_at.is_none() {
            return;
        }
        let gap_ps = f64::from(bytes) * 8.0 * PS_PER_S / self.current_bps;
        self.next_at = self.next_at.max(now).plus_ps(gap_ps as u64);
        self.counted_bytes += u64::from(bytes);
        if self.counted_bytes >= COUNTED_BYTES {
            self.counted_bytes -= COUNTED_BYTES;
            self.counters += 1;
            self.increase(now);
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        while let Some(at) = self.increase_at.filter(|&at| at <= now) {
            self.increase_at = Some(at.plus_ps(TIMER_PS));
            self.timers += 1;
            self.increase(at);
        }
    }

    /// Changes the rate, also for what the last packet has still to wait.
    fn set_rate(&mut self, now: Time, rate_bps: f64) {
        if self.next_at > now {
            let left_ps = self.next_at.ps_since(now) as f64 * self.current_bps / rate_bps;
            self.next_at = now.plus_ps(left_ps as u64);
        }
        self.current_bps = rate_bps;
    }

    fn increase(&mut self, now: Time) {
        let (most, least) = (self.timers.max(self.counters), self.timers.min(self.counters));
        if least > RECOVERIES {
            self.target_bps += f64::from(least - RECOVERIES) * self.setup.hyper_bps;
        } else if most > RECOVERIES {
            self.target_bps += self.setup.additive_bps;
        }
        self.target_bps = self.target_bps.min(self.setup.line_bps);
        let rate_bps = f64::midpoint(self.target_bps, self.current_bps);
        if rate_bps >= FULL * self.setup.line_bps {
            self.set_rate(now, self.setup.line_bps);
            self.increase_at = None;
        } else {
            self.set_rate(now, rate_bps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GBPS: f64 = 1e9;

    fn limiter() -> Limiter {
        Limiter::new(DcqcnSetup {
            cnp_interval_ps: 50_000_000,
            line_bps: 40.0 * GBPS,
            additive_bps: 0.04 * GBPS,
            hyper_bps: 0.4 * GBPS,
        })
    }

    /// Lets the timer expire, and returns the rate thereafter in Gbit/s.
    fn time_out(limiter: &mut Limiter) -> f64 {
        let at = limiter.timeout().unwrap();
        limiter.handle_timeout(at);
        limiter.current_bps / GBPS
    }

    #[test]
    fn nothing_is_limited_before_the_first_notification() {
        let mut limiter = limiter();
        (0..10_000).for_each(|_| limiter.sent(Time::ZERO, 4150));
        assert_eq!((limiter.next_at(), limiter.timeout()), (Time::ZERO, None));
    }

    #[test]
    fn a_cut_is_half_of_alpha_and_packets_keep_their_distance() {
        let mut limiter = limiter();
        limiter.cut(Time::ZERO);
        assert_eq!(limiter.current_bps, 20.0 * GBPS, "alpha is 1 at first");
        let now = Time::from_us(1);
        limiter.sent(now, 1000);
        limiter.sent(now, 1000);
        assert_eq!(limiter.next_at(), now.plus_ps(800_000), "2,000 bytes at 20 Gbit/s");
        limiter.cut(now);
        assert_eq!(limiter.current_bps, 10.0 * GBPS);
    }

    /// A packet that left at the least rate once kept its queue pair silent for milliseconds,
    /// whatever the rate had become since.
    #[test]
    fn who_waits_waits_at_the_rate_of_now() {
        let mut limiter = limiter();
        (0..40).for_each(|_| limiter.cut(Time::ZERO));
        assert_eq!(limiter.current_bps, RATE_MIN_BPS);
        limiter.sent(Time::ZERO, 1250);
        assert_eq!(limiter.next_at(), Time::from_us(1000));
        (0..8).for_each(|_| {
            time_out(&mut limiter);
        });
        assert!(limiter.next_at() < Time::from_us(600), "{:?}", limiter.next_at());
        let mut slower = self::limiter();
        slower.cut(Time::ZERO);
        slower.sent(Time::ZERO, 1000);
        slower.cut(Time::ZERO);
        assert_eq!(slower.next_at(), Time::ZERO.plus_ps(800_000), "1,000 bytes at 10 Gbit/s");
    }

    #[test]
    fn alpha_decays_in_silence_and_grows_with_notifications() {
        let mut limiter = limiter();
        limiter.cut(Time::ZERO);
        assert_eq!(limiter.alpha, 1.0);
        limiter.cut(Time::ZERO.plus_ps(100 * TIMER_PS + 1));
        let decayed = (1.0 - GAIN).powi(100);
        assert!((limiter.alpha - (decayed * (1.0 - GAIN) + GAIN)).abs() < 1e-12);
        assert!((limiter.current_bps / GBPS - 20.0 * (1.0 - decayed / 2.0)).abs() < 1e-9);
    }

    #[test]
    fn alpha_waits_for_the_first_notification_whenever_it_comes() {
        let mut late = limiter();
        late.cut(Time::from_us(50_000));
        assert_eq!((late.current_bps, late.alpha), (20.0 * GBPS, 1.0));
    }

    #[test]
    fn recovery_halves_the_way_back_then_steps_then_leaps() {
        let mut limiter = limiter();
        limiter.cut(Time::ZERO);
        limiter.cut(Time::ZERO);
        let recovery: Vec<f64> = (0..5).map(|_| time_out(&mut limiter)).collect();
        assert_eq!(recovery, [15.0, 17.5, 18.75, 19.375, 19.6875], "half way back to 20");
        time_out(&mut limiter);
        assert!((limiter.target_bps / GBPS - 20.04).abs() < 1e-9, "additive");
        // Six times the byte counter, too: hyper.
        let now = limiter.timeout().unwrap().plus_ps(0);
        let packets = 6 * COUNTED_BYTES / 1000;
        (0..packets).for_each(|_| limiter.sent(now, 1000));
        assert_eq!((limiter.timers, limiter.counters), (6, 6));
        assert!((limiter.target_bps / GBPS - 20.04 - 5.0 * 0.04 - 0.4).abs() < 1e-9);
        time_out(&mut limiter);
        assert!((limiter.target_bps / GBPS - 20.64 - 0.4).abs() < 1e-9, "the lesser count counts");
        limiter.cut(now);
        assert_eq!((limiter.timers, limiter.counters), (0, 0));
    }

    #[test]
    fn a_recovered_queue_pair_is_free_again() {
        let mut limiter = limiter();
        limiter.cut(Time::ZERO);
        let rounds = (1..).take_while(|_| {
            limiter.timeout().is_some_and(|at| {
                limiter.handle_timeout(at);
                true
            })
        });
        assert_eq!(rounds.count(), 9, "2^-9 of the half that was cut is less than 0.1 %");
        assert_eq!(limiter.current_bps, 40.0 * GBPS);
    }
}
