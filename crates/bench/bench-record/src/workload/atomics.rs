//! Atomic operations on 8 bytes of the peer's memory.

use serde::{Deserialize, Serialize};

pub(super) use super::NoArgs as Args;
use super::about::{About, Figures, SLEEPS};
use crate::names::Preset;
use crate::spec::{Benchmark, Operation};

const ATOMICS: Preset = Preset {
    aliases: &["atomic"],
    operation: Operation::FetchAdd,
    // Every device has atomics of this length.
    sizes: "8",
    ignores: &["sizes"],
    ..Preset::of(
        Benchmark::Atomics,
        "atomics",
        "FETCH_ADDs (--op compare_swap, add) on 8 bytes of the peer's memory, one at a time or --depth",
    )
};

pub(super) const ABOUT: About = About {
    name: ATOMICS.name,
    names: &[ATOMICS],
    figures: Figures::Atomics,
    reads: &[&["threads", "endpoints", "depth", "iterations", "no_histogram"], SLEEPS],
    check: |asked| match asked.job.operation {
        operation if operation.is_atomic() => Ok(()),
        operation => Err(format!("--op {} is not for this benchmark", operation.name())),
    },
    ..About::MESSAGES
};

/// The results of atomics, apart from their rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Atomics {
    /// The number of operations of the block, warm-up included, that the peer's memory shows,
    /// neither more nor fewer. The values that they fetched were right, too.
    pub checked: u64,
}
