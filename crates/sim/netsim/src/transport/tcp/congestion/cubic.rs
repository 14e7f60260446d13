//! CUBIC (RFC 9438): a window that returns to where it was reduced along a cubic function of time,
//! and grows no slower than `NewReno`'s would. Windows are in segments, time in seconds.

use super::Acked;
use crate::time::Time;

/// Slope of the function, in segments per cubic second.
const C: f64 = 0.4;
/// Factor of the window after a loss.
pub(super) const BETA: f64 = 0.7;
/// Growth per window of a `NewReno` that reduces by [`BETA`] and is as fast as one that halves.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
const PS_PER_S: f64 = 1e12;

/// A stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Time,
    /// Seconds until the function is back at `window_max`.
    k: f64,
    /// Window that `NewReno` would have.
    reno: f64,
}

#[derive(Debug, Default)]
pub(super) struct Cubic {
    /// Window at which the function is flat: the one before the last reduction, or less.
    window_max: f64,
    /// The window before the last reduction.
    window_prior: f64,
    epoch: Option<Epoch>,
}

impl Cubic {
    /// Returns the window after `segments` of new data were acknowledged in congestion avoidance.
    pub(super) fn grow(&mut self, window: f64, segments: f64, acked: &Acked) -> f64 {
        let epoch = match &mut self.epoch {
            Some(epoch) => epoch,
            none => {
                // After a timeout, or when the window is past it, the function starts flat (4.8).
                self.window_max = self.window_max.max(window);
                let k = cube_root((self.window_max - window) / C);
                none.insert(Epoch { began: acked.now, k, reno: window })
            }
        };
        let elapsed = acked.now.ps_since(epoch.began) as f64 / PS_PER_S;
        let at = |t: f64| C * (t - epoch.k) * (t - epoch.k) * (t - epoch.k) + self.window_max;
        let alpha = if epoch.reno < self.window_prior { ALPHA } else { 1.0 };
        let reno = epoch.reno + alpha * segments / window;
        let target = at(elapsed + acked.rtt_ps as f64 / PS_PER_S).clamp(window, 1.5 * window);
        let cubic_now = at(elapsed);
        epoch.reno = reno;
        if cubic_now < reno {
            return reno.max(window);
        }
        window + (target - window) * segments / window
    }

    /// Takes note that the window is about to be reduced because of a loss.
    pub(super) fn reduce(&mut self, window: f64) {
        // Fast convergence (4.7): a flow that did not get back leaves room to newer ones.
        let shrinks = window < self.window_max;
        self.window_max = if shrinks { window * (1.0 + BETA) / 2.0 } else { window };
        self.window_prior = window;
        self.epoch = None;
    }

    /// Forgets the function, after a timeout.
    pub(super) fn forget(&mut self) {
        self.window_max = 0.0;
    }

    /// Excludes time without data from the function's time.
    pub(super) fn pause(&mut self) {
        self.epoch = None;
    }
}

/// Computes the cube root by Newton's method: the mathematics library's last bit differs among
/// systems, and runs are the same everywhere.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let mut root = x.max(1.0);
    loop {
        let better = (2.0 * root + x / (root * root)) / 3.0;
        if better >= root {
            return root;
        }
        root = better;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::tcp::congestion::Flight;

    fn acked(ms: u64, rtt_ms: u64) -> Acked {
        Acked {
            now: Time::from_us(ms * 1000),
            bytes: 1000,
            rtt_ps: rtt_ms * 1_000_000_000,
            sample_ps: rtt_ms * 1_000_000_000,
            flight: Flight::default(),
            pipe_before: u64::MAX,
            slow_start_limit_packets: 2,
        }
    }

    #[test]
    fn cube_roots_are_right() {
        for x in [0.0, 1e-9, 0.001, 1.0, 8.0, 27.0, 1e3, 123.456, 1e9] {
            let root = cube_root(x);
            assert!((root * root * root - x).abs() <= 1e-12 * x.max(1e-9), "{x}: {root}");
        }
    }

    /// RFC 9438, figures 1 and 2: W(t) = C (t - K)^3 + W_max with K = cbrt(W_max (1 - beta) / C),
    /// which is 9.09 s after a loss at 1,000 segments.
    #[test]
    fn the_window_follows_the_function_of_time() {
        let function = |t: f64| 0.4 * (t - 750f64.cbrt()).powi(3) + 1000.0;
        let mut cubic = Cubic::default();
        cubic.reduce(1000.0);
        let mut window = 700.0;
        for ms in (0..12_000).step_by(100) {
            // A round trip of 100 ms: the whole window is acknowledged.
            for _ in 0..10 {
                window = cubic.grow(window, window / 10.0, &acked(ms, 100));
            }
            // It is on its way to where the function will be in a round trip.
            let t = f64::from(ms as u32) / 1000.0;
            let between = function(t - 0.1) - 1.0..=function(t + 0.1).max(701.0);
            assert!(between.contains(&window), "at {t} s: {window}, not {between:?}");
        }
        assert!(window > 1005.0, "past the old window after K: {window}");
    }

    #[test]
    fn on_short_round_trips_it_grows_as_newreno_would() {
        let mut cubic = Cubic::default();
        cubic.reduce(20.0);
        let mut window = 14.0;
        for round in 0..10 {
            let before = window;
            for _ in 0..14 {
                window = cubic.grow(window, before / 14.0, &acked(round, 1));
            }
            assert!((0.9 * ALPHA..=ALPHA).contains(&(window - before)), "{before} to {window}");
        }
    }

    #[test]
    fn a_flow_that_did_not_get_back_makes_room() {
        let mut cubic = Cubic::default();
        cubic.reduce(100.0);
        assert_eq!(cubic.window_max, 100.0);
        cubic.reduce(80.0);
        assert_eq!(cubic.window_max, 80.0 * 0.85);
        cubic.forget();
        cubic.grow(10.0, 1.0, &acked(0, 1));
        assert_eq!((cubic.window_max, cubic.epoch.map(|epoch| epoch.k)), (10.0, Some(0.0)));
    }
}
