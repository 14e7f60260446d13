//! DCTCP (RFC 8257): the window shrinks by as much as was marked.

use super::Flight;

/// Weight of the newest window in the average (`g`).
const GAIN: f64 = 1.0 / 16.0;

#[derive(Debug)]
pub(super) struct Dctcp {
    /// Average share of bytes that were marked (`DCTCP.Alpha`).
    alpha: f64,
    acked_bytes: u64,
    marked_bytes: u64,
    /// Segment at which the window that is observed ends.
    observed_end: u32,
    /// Segment that has to be acknowledged before the next reduction.
    reduced_end: u32,
}

impl Default for Dctcp {
    fn default() -> Self {
        // All of it at first: the first mark halves (4.2).
        Self { alpha: 1.0, acked_bytes: 0, marked_bytes: 0, observed_end: 0, reduced_end: 0 }
    }
}

impl Dctcp {
    /// Takes note of an acknowledgement of `bytes` of new data, for segments that were marked or
    /// not. Returns the factor by which to reduce the window, if marks are what limits it (`open`),
    /// at most once per window.
    pub(super) fn note(
        &mut self,
        bytes: u64,
        marked: bool,
        flight: Flight,
        open: bool,
    ) -> Option<f64> {
        let Flight { una, next } = flight;
        self.acked_bytes += bytes;
        self.marked_bytes += if marked { bytes } else { 0 };
        if una > self.observed_end {
            let share = self.marked_bytes as f64 / self.acked_bytes.max(1) as f64;
            self.alpha += GAIN * (share - self.alpha);
            (self.acked_bytes, self.marked_bytes, self.observed_end) = (0, 0, next);
        }
        if !open || !marked || una < self.reduced_end {
            return None;
        }
        self.reduced_end = next;
        Some(1.0 - self.alpha / 2.0)
    }

    /// Takes note that the window shrank because of a loss: marks of the same window change nothing
    /// more.
    pub(super) fn reduced_for_loss(&mut self, next: u32) {
        self.reduced_end = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Acknowledges windows of ten segments, the first `marked` of each marked. Returns the
    /// reductions.
    fn windows(dctcp: &mut Dctcp, count: u32, marked: u32) -> Vec<f64> {
        let from = dctcp.observed_end / 10;
        let segments = (from * 10..(from + count) * 10).map(|seq| (seq, seq % 10 < marked));
        let flight = |seq: u32| Flight { una: seq + 1, next: seq + 11 };
        let notes = segments.map(|(seq, marked)| dctcp.note(1000, marked, flight(seq), true));
        notes.collect::<Vec<_>>().into_iter().flatten().collect()
    }

    #[test]
    fn alpha_follows_the_share_of_marks() {
        let mut dctcp = Dctcp::default();
        windows(&mut dctcp, 200, 0);
        assert!(dctcp.alpha < 0.001, "{}", dctcp.alpha);
        windows(&mut dctcp, 400, 3);
        assert!((dctcp.alpha - 0.3).abs() < 0.01, "{}", dctcp.alpha);
        let before = dctcp.alpha;
        windows(&mut dctcp, 11, 10);
        let halfway = 1.0 - (1.0 - before) * (15.0f64 / 16.0).powi(10);
        assert!((dctcp.alpha - halfway).abs() < 0.05, "{} not {halfway}", dctcp.alpha);
    }

    #[test]
    fn the_window_shrinks_once_per_window_by_half_of_alpha() {
        let mut dctcp = Dctcp::default();
        assert_eq!(windows(&mut dctcp, 1, 10), [0.5], "the first mark halves");
        windows(&mut dctcp, 400, 2);
        let reductions = windows(&mut dctcp, 20, 2);
        assert!((9..=21).contains(&reductions.len()), "{}", reductions.len());
        assert!(reductions.iter().all(|factor| (factor - 0.9).abs() < 0.02), "{reductions:?}");
        assert_eq!(windows(&mut dctcp, 20, 0), []);
    }
}
