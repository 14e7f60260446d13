//! READs or WRITEs of the peer's memory.

pub(super) use super::NoArgs as Args;
use super::about::{About, SLEEPS, STREAM, stream};
use crate::names::{COMPLETE_EVERY, MEMORY_BYTES, Preset, STREAM_DEPTH};
use crate::spec::{Benchmark, Operation};

const RMA: Preset = Preset {
    operation: Operation::Write,
    ..Preset::of(
        Benchmark::Rma,
        "rma",
        "WRITEs (--op read: READs) of the peer's memory, one at a time",
    )
};
const BATCH: Preset =
    Preset { depth: STREAM_DEPTH, ..RMA.named("rma_batch", "rma with many in flight") };
const INJECT: Preset = BATCH.named("rma_inject", "Injected WRITEs");
const SEL_COMP: Preset =
    BATCH.named("rma_sel_comp", "`rma_batch`, with a completion for one of 16");
const LARGE_BUFFER: Preset =
    BATCH.named("rma_large_buffer", "`rma_batch` between 256 MiB at random offsets on both sides");

pub(super) const ABOUT: About = About {
    name: RMA.name,
    names: &[
        RMA,
        Preset { aliases: &["rma-batch"], ..BATCH },
        Preset {
            aliases: &["rma-inject"],
            operation: Operation::InjectWrite,
            sizes: "1..32",
            ..INJECT
        },
        Preset { aliases: &["rma-sel-comp"], complete_every: COMPLETE_EVERY, ..SEL_COMP },
        Preset { aliases: &["rma-large-buffer"], memory_bytes: MEMORY_BYTES, ..LARGE_BUFFER },
    ],
    reads: &[STREAM, &["no_histogram"], SLEEPS],
    check: |asked| match asked.job.operation {
        operation if operation.is_one_sided() && !operation.is_atomic() => stream(asked),
        operation => Err(format!("--op {} is not for this benchmark", operation.name())),
    },
    ..About::MESSAGES
};
