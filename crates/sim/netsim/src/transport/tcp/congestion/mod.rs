//! The congestion window: slow start, `NewReno`'s congestion avoidance, and what all algorithms do
//! about losses (RFC 5681).

mod cubic;
mod dctcp;
mod hystart;

use crate::time::Time;
use cubic::Cubic;
use dctcp::Dctcp;
use hystart::{HyStart, Pace};

/// Factor of the window after a loss: half, as RFC 5681 has it.
const RENO_BETA: f64 = 0.5;

/// The rule by which the window grows and shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    NewReno,
    Cubic,
    Dctcp,
}

#[derive(Debug)]
enum State {
    NewReno,
    Cubic(Cubic),
    Dctcp(Dctcp),
}

/// The segments that may be in the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flight {
    /// First segment that is not acknowledged.
    pub(super) una: u32,
    /// First segment that was never sent.
    pub(super) next: u32,
}

/// The content of an acknowledgement of new data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acked {
    pub(super) now: Time,
    /// Number of bytes that are new.
    pub(super) bytes: u64,
    /// Smoothed round-trip time.
    pub(super) rtt_ps: u64,
    /// Round-trip time of this acknowledgement.
    pub(super) sample_ps: u64,
    pub(super) flight: Flight,
    /// Bytes in the network before it came.
    pub(super) pipe_before: u64,
    /// Maximum number of segments of it that slow start counts (`L` of RFC 3465).
    pub(super) slow_start_limit_packets: u32,
}

/// The congestion window. Bytes are fractional so that small steps add up.
#[derive(Debug)]
pub(super) struct Congestion {
    window_bytes: f64,
    /// Window below which slow start applies (`ssthresh`).
    threshold_bytes: f64,
    initial_bytes: f64,
    mss_bytes: u32,
    state: State,
    /// Early end of the first slow start, before it loses anything (RFC 9406).
    hystart: Option<HyStart>,
}

impl Congestion {
    pub(super) fn new(algorithm: Algorithm, mss_bytes: u32, initial_packets: u32) -> Self {
        let initial_bytes = f64::from(mss_bytes) * f64::from(initial_packets);
        let state = match algorithm {
            Algorithm::NewReno => State::NewReno,
            Algorithm::Cubic => State::Cubic(Cubic::default()),
            Algorithm::Dctcp => State::Dctcp(Dctcp::default()),
        };
        Self {
            window_bytes: initial_bytes,
            threshold_bytes: f64::INFINITY,
            initial_bytes,
            mss_bytes,
            state,
            hystart: None,
        }
    }

    /// Uses HyStart++ (RFC 9406) if it is `wanted`.
    pub(super) fn with_hystart(self, wanted: bool) -> Self {
        Self { hystart: wanted.then(HyStart::new), ..self }
    }

    pub(super) fn window_bytes(&self) -> u64 {
        self.window_bytes as u64
    }

    pub(super) fn mss_bytes(&self) -> u64 {
        u64::from(self.mss_bytes)
    }

    /// Returns whether it reacts to marks.
    pub(super) fn reacts_to_marks(&self) -> bool {
        matches!(self.state, State::Dctcp(_))
    }

    fn mss(&self) -> f64 {
        f64::from(self.mss_bytes)
    }

    /// Grows the window after new data was acknowledged, only when the window was what limited (RFC
    /// 7661).
    pub(super) fn grow(&mut self, acked: &Acked) {
        let (mss, bytes) = (self.mss(), acked.bytes as f64);
        let in_use = acked.pipe_before as f64;
        if self.window_bytes < self.threshold_bytes {
            let (limit_packets, divisor) = self.slow_start(acked);
            if self.window_bytes < 2.0 * in_use {
                self.window_bytes += bytes.min(f64::from(limit_packets) * mss) / divisor;
            }
        } else if in_use + mss > self.window_bytes {
            match &mut self.state {
                State::NewReno | State::Dctcp(_) => {
                    self.window_bytes += mss * bytes / self.window_bytes;
                }
                State::Cubic(cubic) => {
                    let window = self.window_bytes / mss;
                    self.window_bytes = mss * cubic.grow(window, bytes / mss, acked);
                }
            }
        }
    }

    /// Returns how many segments of an acknowledgement count, and what they are divided by.
    fn slow_start(&mut self, acked: &Acked) -> (u32, f64) {
        let Some(hystart) = &mut self.hystart else { return (acked.slow_start_limit_packets, 1.0) };
        match hystart.note(acked.sample_ps, acked.flight) {
            Pace::Full => (hystart::LIMIT_PACKETS, 1.0),
            Pace::Conservative => (hystart::LIMIT_PACKETS, hystart::GROWTH_DIVISOR),
            Pace::End => {
                self.threshold_bytes = self.window_bytes;
                self.hystart = None;
                (0, 1.0)
            }
        }
    }

    /// Returns the window that a recovery leads to (`ssthresh`).
    pub(super) fn threshold_bytes(&self) -> u64 {
        self.threshold_bytes as u64
    }

    /// Sets the window during a recovery that decides by itself what to send.
    pub(super) fn set_window_bytes(&mut self, bytes: u64) {
        self.window_bytes = bytes as f64;
    }

    /// Takes note of whether the acknowledged segments were marked; DCTCP reduces once per window,
    /// and not while losses are repaired (`open` is false).
    pub(super) fn note_marks(&mut self, bytes: u64, marked: bool, flight: Flight, open: bool) {
        let State::Dctcp(dctcp) = &mut self.state else { return };
        if let Some(factor) = dctcp.note(bytes, marked, flight, open) {
            let least = self.window_bytes.min(2.0 * f64::from(self.mss_bytes));
            self.window_bytes = (self.window_bytes * factor).max(least);
            self.threshold_bytes = self.window_bytes;
        }
    }

    /// Reduces the window because a segment was lost and is going to be repeated (fast retransmit).
    /// `flight_bytes` leaves out what limited transmit sent; `next` is the first segment never
    /// sent.
    pub(super) fn reduce_for_loss(&mut self, flight_bytes: u64, next: u32) {
        self.reduce(flight_bytes, next);
        self.window_bytes = self.threshold_bytes;
    }

    /// Reduces the window to one segment after a retransmission timeout.
    pub(super) fn reduce_for_timeout(&mut self, flight_bytes: u64, next: u32) {
        self.reduce(flight_bytes, next);
        if let State::Cubic(cubic) = &mut self.state {
            cubic.forget();
        }
        self.restart_from_one();
    }

    /// Reduces the window to one segment again after a further timeout, and leaves the threshold as
    /// it is.
    pub(super) fn restart_from_one(&mut self) {
        self.window_bytes = self.mss();
    }

    /// Restarts after nothing was sent for a timeout (RFC 5681, 4.1).
    pub(super) fn restart_after_idle(&mut self) {
        self.window_bytes = self.window_bytes.min(self.initial_bytes);
        if let State::Cubic(cubic) = &mut self.state {
            cubic.pause();
        }
    }

    fn reduce(&mut self, flight_bytes: u64, next: u32) {
        self.hystart = None;
        let mss = self.mss();
        let beta = match &mut self.state {
            State::NewReno => RENO_BETA,
            State::Dctcp(dctcp) => {
                dctcp.reduced_for_loss(next);
                RENO_BETA
            }
            State::Cubic(cubic) => {
                cubic.reduce(self.window_bytes / mss);
                cubic::BETA
            }
        };
        self.threshold_bytes = (flight_bytes as f64 * beta).max(2.0 * mss);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const MSS: u32 = 1000;

    fn acked(bytes: u64, pipe_before: u64) -> Acked {
        let now = Time::from_us(1000);
        let rtt_ps = 10_000_000;
        let slow_start_limit_packets = 2;
        Acked {
            now,
            bytes,
            rtt_ps,
            sample_ps: rtt_ps,
            flight: Flight::default(),
            pipe_before,
            slow_start_limit_packets,
        }
    }

    /// Acknowledges every segment of the window by itself, in one round trip.
    fn round(window: &mut Congestion) {
        let before = window.window_bytes();
        for _ in 0..before / 1000 {
            window.grow(&acked(1000, before));
        }
    }

    #[test]
    fn slow_start_doubles_each_round_trip() {
        for algorithm in [Algorithm::NewReno, Algorithm::Cubic, Algorithm::Dctcp] {
            let mut window = Congestion::new(algorithm, MSS, 10);
            for packets in [10, 20, 40, 80] {
                assert_eq!(window.window_bytes(), packets * 1000);
                round(&mut window);
            }
            let before = window.window_bytes();
            window.grow(&acked(50_000, before));
            assert_eq!(window.window_bytes(), before + 2000, "a jump counts as two segments");
        }
    }

    #[test]
    fn newreno_halves_what_was_in_flight_and_adds_a_segment_each_round_trip() {
        let mut window = Congestion::new(Algorithm::NewReno, MSS, 10);
        window.reduce_for_loss(60_000, 0);
        assert_eq!(window.window_bytes(), 30_000);
        round(&mut window);
        assert!((30_900..=31_000).contains(&window.window_bytes()), "{}", window.window_bytes());
        window.reduce_for_loss(1000, 0);
        assert_eq!(window.window_bytes(), 2000, "not below two segments");
    }

    #[test]
    fn a_timeout_leaves_one_segment_and_slow_start_to_half() {
        let mut window = Congestion::new(Algorithm::NewReno, MSS, 10);
        window.reduce_for_timeout(10_000, 0);
        assert_eq!((window.window_bytes(), window.threshold_bytes), (1000, 5000.0));
        (0..4).for_each(|_| window.grow(&acked(1000, 5000)));
        assert_eq!(window.window_bytes(), 5000);
        window.grow(&acked(1000, 5000));
        assert_eq!(window.window_bytes(), 5200, "congestion avoidance");
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow_and_idleness_ends_it() {
        let mut window = Congestion::new(Algorithm::Cubic, MSS, 10);
        window.grow(&acked(1000, 5000));
        assert_eq!(window.window_bytes(), 10_000, "half of it was not used");
        (0..5).for_each(|_| round(&mut window));
        window.restart_after_idle();
        assert_eq!(window.window_bytes(), 10_000);
    }
}
