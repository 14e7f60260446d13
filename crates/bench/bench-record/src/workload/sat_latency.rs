//! A ping-pong beside streams.

pub(super) use super::NoArgs as Args;
use super::about::{About, Figures, two_sided};
use crate::names::{ONE_SIZE, Preset};
use crate::spec::Benchmark;

pub(super) const ABOUT: About = About {
    name: "sat_latency",
    names: &[Preset {
        aliases: &["sat-latency"],
        sizes: ONE_SIZE,
        // The first suite's generators had this depth.
        depth: "10",
        threads: 2,
        ..Preset::of(
            Benchmark::SatLatency,
            "sat_latency",
            "latency of one thread while the others stream (--rate, --load-size)",
        )
    }],
    figures: Figures::RoundTrips,
    // The number of messages cannot be given: each stream would end with its own number, before the
    // ping-pong.
    reads: &[
        &["threads", "depth", "rx_depth", "rate", "load_size"],
        &["validate", "no_histogram", "watch"],
    ],
    check: |asked| {
        two_sided(asked)?;
        match asked.job.threads < 2 || asked.job.endpoints > 1 {
            true => {
                Err("one thread measures, the others stream: give --threads 2 or more".to_owned())
            }
            false => Ok(()),
        }
    },
    ..About::MESSAGES
};
