//! Records, several to a message.

use super::about::CALLS;
use super::{About, Figures, WorkSpec, numbers};
use crate::names::{ONE_SIZE, Preset};
use crate::spec::Benchmark;

/// The usual numbers of records of a message.
const RECORDS: &str = "1..128";
/// The most records of a message; more are a mistake.
const RECORDS_MAX: usize = 1 << 16;
/// The longest time that a record waits, in µs.
const FLUSH_US_MAX: u64 = 1_000_000;

pub(super) const ABOUT: About = About {
    name: "piggyback",
    names: &[Preset {
        sizes: ONE_SIZE,
        // The depth is that of messages that wait for their answer.
        depth: "16",
        ..Preset::of(
            Benchmark::Piggyback,
            "piggyback",
            "Records that come by the clock (--rate) or without end, several to a message; --sizes is the \
               record",
        )
    }],
    figures: Figures::Records,
    parameter: Some("records/msg"),
    words: |work| Some(format!("a record waits up to {} µs for others", work.flush_us)),
    reads: &[CALLS, &["endpoints", "rx_depth", "records", "flush_us"]],
    parameters: |args| {
        let text = args.piggyback.records.as_deref().unwrap_or(RECORDS);
        let hint = format!("{RECORDS_MAX} at most");
        numbers("--records", text, |count| count <= RECORDS_MAX, &hint)
    },
    spec: |args, _| {
        let flush_us = args.piggyback.flush_us.unwrap_or(0);
        match flush_us > FLUSH_US_MAX {
            true => Err(format!("--flush-us {flush_us}: give {FLUSH_US_MAX} at most")),
            false => Ok(WorkSpec { flush_us, ..WorkSpec::NONE }),
        }
    },
    ..About::CALLS
};

/// Options of `piggyback`.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Records that fill a message of piggyback, like --sizes. Default: 1..128.
    #[arg(long)]
    records: Option<String>,
    /// How long the first record of a message of piggyback waits for others, in µs. Default: 0, a
    /// message takes along what is there.
    #[arg(long, value_name = "US")]
    flush_us: Option<u64>,
}
