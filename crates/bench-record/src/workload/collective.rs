//! Which operation of all ranks, and by which algorithm.

use serde::{Deserialize, Serialize};

/// An operation of all ranks, whoever does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Every rank gets what each has.
    Allgather,
    /// Every rank gets the sum of what all have (32-bit integers).
    Allreduce,
    /// Every rank waits for all.
    Barrier,
    /// Every rank gets what rank 0 has.
    Bcast,
}

impl Pattern {
    /// Gbit/s that every link carries at least when `ranks` ranks with `bytes` each need
    /// `seconds`: the bus bandwidth of nccl-tests (doc/PERFORMANCE.md), where the size of an
    /// allgather is that of all parts. `None` for barriers.
    pub fn bus_gbit_per_s(self, bytes: usize, ranks: usize, seconds: f64) -> Option<f64> {
        let share = (ranks as f64 - 1.0) / ranks as f64;
        let factor = match self {
            Self::Allreduce => 2.0 * share,
            Self::Allgather => ranks as f64 * share,
            Self::Bcast => 1.0,
            Self::Barrier => return None,
        };
        (seconds > 0.0).then(|| bytes as f64 * 8.0 / 1e9 / seconds * factor)
    }
}

/// How an allreduce is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// 2 (n - 1) steps of a part of the data each: every link carries the least there is.
    #[default]
    Ring,
    /// log2 n steps of all data: the fewest.
    Doubling,
}

/// What the ranks do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectiveSpec {
    pub pattern: Pattern,
    /// Of an allreduce.
    pub algorithm: Algorithm,
}

impl CollectiveSpec {
    /// The algorithm in words.
    pub const fn algorithm_name(self) -> &'static str {
        match (self.pattern, self.algorithm) {
            (Pattern::Allgather, _) | (Pattern::Allreduce, Algorithm::Ring) => "ring",
            (Pattern::Allreduce, Algorithm::Doubling) => "recursive doubling",
            (Pattern::Barrier, _) => "dissemination",
            (Pattern::Bcast, _) => "binomial tree",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_bandwidth_is_that_of_nccl_tests() {
        let about = |pattern: Pattern, wanted: f64| {
            let found = pattern.bus_gbit_per_s(1_000_000, 4, 1e-3);
            assert!(found.is_some_and(|found| (found - wanted).abs() < 1e-9), "{found:?}");
        };
        // 1 MB in 1 ms are 8 Gbit/s.
        about(Pattern::Allreduce, 12.0);
        about(Pattern::Bcast, 8.0);
        // Four parts of 1 MB: S = 4 MB, of which three quarters come from others.
        about(Pattern::Allgather, 24.0);
        assert_eq!(Pattern::Barrier.bus_gbit_per_s(0, 4, 1e-3), None);
    }
}
