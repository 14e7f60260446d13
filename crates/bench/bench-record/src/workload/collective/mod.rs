//! Operations of all ranks.

mod found;

use serde::{Deserialize, Serialize};

pub use self::found::Collective;
use super::{About, Figures, OwnSpec, PART, WorkSpec};
use crate::names::Preset;
use crate::spec::Benchmark;
use crate::topology::Topology;

const ALLREDUCE: Preset = Preset {
    sizes: "4..1048576",
    nodes: 3,
    pattern: Some(Pattern::Allreduce),
    ..Preset::of(
        Benchmark::Collective,
        "allreduce",
        "Every node gets the sum of what all have (32-bit integers), by --algorithm",
    )
};

pub(super) const ABOUT: About = About {
    name: "collective",
    names: &[
        Preset {
            pattern: Some(Pattern::Allgather),
            ignores: &["algorithm"],
            ..ALLREDUCE.named(
                "allgather",
                "Every node gets what each has, round a ring; --sizes is the part of each",
            )
        },
        ALLREDUCE,
        Preset {
            pattern: Some(Pattern::Alltoall),
            ignores: &["algorithm"],
            ..ALLREDUCE.named(
                "alltoall",
                "Every node gets a part of each, in pairs; --sizes is the part for each",
            )
        },
        Preset {
            pattern: Some(Pattern::Barrier),
            // A barrier has no bytes.
            sizes: "",
            ignores: &["algorithm", "chunk", "sizes"],
            ..ALLREDUCE.named("barrier", "Every node waits for all, by dissemination")
        },
        Preset {
            pattern: Some(Pattern::Bcast),
            ignores: &["algorithm"],
            ..ALLREDUCE.named("bcast", "Every node gets what the client has, down a binomial tree")
        },
        Preset {
            pattern: Some(Pattern::Gather),
            ignores: &["algorithm"],
            ..ALLREDUCE.named(
                "gather",
                "The client gets what each has, up a binomial tree; --sizes is the part of each",
            )
        },
        Preset {
            pattern: Some(Pattern::ReduceScatter),
            ignores: &["algorithm"],
            ..ALLREDUCE.named(
                "reduce_scatter",
                "Every node gets its part of the sum of what all have, round a ring; --sizes is the part",
            )
        },
    ],
    figures: Figures::Collective,
    topology: Topology::Mesh,
    parameter: Some("chunk B"),
    reads: &[&["validate", "iterations", "no_histogram", "chunk", "algorithm"]],
    parameters: |args| match args.shared.chunks(PART, 8, "one multiple of 8, ")?[..] {
        [part_bytes] => Ok(vec![part_bytes]),
        _ => Err("--chunk: give one multiple of 8".to_owned()),
    },
    spec: |args, preset| {
        let algorithm = args.collective.algorithm.unwrap_or_default();
        let of = |pattern| OwnSpec::Collective(CollectiveSpec { pattern, algorithm });
        Ok(WorkSpec { own: preset.pattern.map_or(OwnSpec::Nothing, of), ..WorkSpec::NONE })
    },
    check: |asked| {
        let spec = asked.job.work.collective();
        let is_sum = spec.is_some_and(|spec| spec.pattern.is_sum());
        match asked.sizes.iter().find(|&&size| is_sum && size % 4 != 0) {
            Some(size) => Err(format!("--sizes {size}: integers have 4 bytes, give a multiple")),
            None => Ok(()),
        }
    },
    ..About::GROUP
};

/// Options of operations of all ranks.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// The algorithm of an allreduce. Default: ring.
    #[arg(long)]
    algorithm: Option<Algorithm>,
}

/// An operation of all ranks, of a session's nodes or of an MPI program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Every rank gets the data of all ranks.
    Allgather,
    /// Every rank gets the sum of the data of all ranks (32-bit integers).
    Allreduce,
    /// Every rank gets another part from each rank.
    Alltoall,
    /// Every rank waits for all.
    Barrier,
    /// Every rank gets the data of rank 0.
    Bcast,
    /// Rank 0 gets the data of all ranks.
    Gather,
    /// Every rank gets its part of the sum of the data of all ranks (32-bit integers).
    ReduceScatter,
}

impl Pattern {
    /// Returns true if integers are added up.
    pub const fn is_sum(self) -> bool {
        matches!(self, Self::Allreduce | Self::ReduceScatter)
    }

    /// Returns true if the data has as many parts as there are ranks, so that a size is that of one
    /// part.
    pub const fn is_in_parts(self) -> bool {
        match self {
            Self::Allgather | Self::Alltoall | Self::Gather | Self::ReduceScatter => true,
            Self::Allreduce | Self::Barrier | Self::Bcast => false,
        }
    }

    /// Returns the rate in Gbit/s that every link carries at least when `ranks` ranks with `bytes`
    /// each need `seconds`: the bus bandwidth of nccl-tests (doc/PERFORMANCE.md), where the size of
    /// data in parts is that of all parts. `None` for barriers.
    pub fn bus_gbit_per_s(self, bytes: usize, ranks: usize, seconds: f64) -> Option<f64> {
        let share = (ranks as f64 - 1.0) / ranks as f64;
        let factor = match self {
            Self::Allreduce => 2.0 * share,
            Self::Allgather | Self::Alltoall | Self::Gather | Self::ReduceScatter => {
                ranks as f64 * share
            }
            Self::Bcast => 1.0,
            Self::Barrier => return None,
        };
        (seconds > 0.0).then(|| bytes as f64 * 8.0 / 1e9 / seconds * factor)
    }
}

/// The algorithm of an allreduce.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// 2 (n - 1) steps of a part of the data each: every link carries the least there is.
    #[default]
    Ring,
    /// The fewest steps: log2 n of all data.
    Doubling,
}

/// The operation that the ranks do together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectiveSpec {
    pub pattern: Pattern,
    /// The algorithm of an allreduce.
    pub algorithm: Algorithm,
}

impl CollectiveSpec {
    /// Returns the name of the algorithm.
    pub const fn algorithm_name(self) -> &'static str {
        match (self.pattern, self.algorithm) {
            (Pattern::Allgather | Pattern::ReduceScatter, _)
            | (Pattern::Allreduce, Algorithm::Ring) => "ring",
            (Pattern::Alltoall, _) => "pairwise exchange",
            (Pattern::Allreduce, Algorithm::Doubling) => "recursive doubling",
            (Pattern::Barrier, _) => "dissemination",
            (Pattern::Bcast | Pattern::Gather, _) => "binomial tree",
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
        about(Pattern::Alltoall, 24.0);
        about(Pattern::Gather, 24.0);
        about(Pattern::ReduceScatter, 24.0);
        assert_eq!(Pattern::Barrier.bus_gbit_per_s(0, 4, 1e-3), None);
    }
}
