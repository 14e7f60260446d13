//! The window of a measurement.

use std::time::Duration;

use bench_record::spec::{Limit, PointSpec};

/// The part of the time, or of the messages, that counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    warmup: Duration,
    warmup_count: u64,
    limit: Limit,
}

impl Window {
    pub(crate) const fn of(spec: PointSpec) -> Self {
        Self {
            warmup: Duration::from_millis(spec.warmup_ms),
            warmup_count: spec.warmup_iterations(),
            limit: spec.limit,
        }
    }

    /// Returns true if the warm-up is over, `after` the start and after `count` messages.
    pub(crate) fn begins(&self, after: Duration, count: u64) -> bool {
        after >= self.warmup && count >= self.warmup_count
    }

    /// Returns true if the measurement is over, `after` the warm-up and `count` messages since
    /// then.
    pub(crate) fn ends(&self, after: Duration, count: u64) -> bool {
        // A side that was scheduled away all the time lengthens the measurement.
        match self.limit {
            Limit::DurationMs(ms) => count > 0 && after >= Duration::from_millis(ms),
            Limit::Iterations(wanted) => count >= wanted,
        }
    }
}
