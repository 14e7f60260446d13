//! Requests that come by the clock.

pub(super) use super::NoArgs as Args;
use super::about::{About, Figures};
use crate::names::{ONE_SIZE, Preset, STREAM_DEPTH};
use crate::spec::Benchmark;

pub(super) const ABOUT: About = About {
    name: "open_loop",
    names: &[Preset {
        aliases: &["open-loop"],
        sizes: ONE_SIZE,
        depth: STREAM_DEPTH,
        rates: "1000,2000,4000,8000,16000",
        ..Preset::of(
            Benchmark::OpenLoop,
            "open_loop",
            "Requests by the clock (--rate), not after answers; response and service times",
        )
    }],
    figures: Figures::Responses,
    reads: &[&["threads", "depth", "rate", "ramp", "arrivals", "no_histogram", "watch"]],
    ..About::MESSAGES
};
