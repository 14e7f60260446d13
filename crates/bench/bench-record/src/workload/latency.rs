//! Ping-pong.

pub(super) use super::NoArgs as Args;
use super::about::{About, Figures, SLEEPS};
use crate::names::Preset;
use crate::spec::{Benchmark, Operation};

const LATENCY: Preset =
    Preset::of(Benchmark::Latency, "latency", "Ping-pong; half of each round trip");
const INJECT: Preset = LATENCY.named("inject", "latency with injected messages");
const TAGGED: Preset = LATENCY.named("tagged", "latency with tagged messages");
const OF_PAIRS: Preset = LATENCY.named(
    "multi_latency",
    "latency of several pairs at once, one for each of --threads; all round trips together",
);
const AROUND_MTU: Preset =
    LATENCY.named("segmentation", "latency around the MTU, in steps of 100 bytes");

pub(super) const ABOUT: About = About {
    name: LATENCY.name,
    names: &[
        LATENCY,
        Preset { operation: Operation::Inject, sizes: "1..32", ..INJECT },
        Preset { operation: Operation::Tagged, ..TAGGED },
        Preset { aliases: &["multi-latency"], threads: 2, ..OF_PAIRS },
        Preset { sizes: "7000..11900+100", ..AROUND_MTU },
    ],
    figures: Figures::RoundTrips,
    reads: &[&["threads", "validate", "iterations", "no_histogram", "watch"], SLEEPS],
    ..About::MESSAGES
};
