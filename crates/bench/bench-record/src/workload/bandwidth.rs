//! A stream in one direction.

pub(super) use super::NoArgs as Args;
use super::about::{About, SLEEPS, STREAM, stream, two_sided};
use crate::names::{COMPLETE_EVERY, MEMORY_BYTES, Preset, STREAM_DEPTH};
use crate::spec::Benchmark;

const BANDWIDTH: Preset = Preset {
    depth: STREAM_DEPTH,
    ..Preset::of(
        Benchmark::Bandwidth,
        "bandwidth",
        "A stream with many messages in flight; goodput counted at the receiver",
    )
};
const BATCH: Preset =
    BANDWIDTH.named("batch", "The same; --window refill for the first suite's way");
const SEL_COMP: Preset =
    BATCH.named("batch_sel_comp", "batch, with a completion for one of 16 messages");
const LARGE_BUFFER: Preset =
    BATCH.named("batch_large_buffer", "batch, out of 256 MiB at random offsets");

pub(super) const ABOUT: About = About {
    name: BANDWIDTH.name,
    names: &[
        BANDWIDTH,
        BATCH,
        Preset { aliases: &["batch-sel-comp"], complete_every: COMPLETE_EVERY, ..SEL_COMP },
        Preset { aliases: &["batch-large-buffer"], memory_bytes: MEMORY_BYTES, ..LARGE_BUFFER },
    ],
    reads: &[STREAM, &["rx_depth", "order", "validate", "watch"], SLEEPS],
    check: |asked| two_sided(asked).and_then(|()| stream(asked)),
    ..About::MESSAGES
};
