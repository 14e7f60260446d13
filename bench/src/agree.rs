//! `efa-bench` beside the tools that measure the same: same device, same message size, depth,
//! receive depth, number of messages, no inline data, a completion for each; one right after the
//! other, the first of them in turn.

use anyhow::{Result, ensure};
use clap::Args;

use crate::block::Block;
use crate::comparison::{Bound, Comparison};
use crate::effort::Effort;
use crate::pick::Pick;
use crate::tool::{self, EfaBench, Perftest, Places, Tools};

const SMALL_BYTES: usize = 64;
const LARGE_BYTES: usize = 8192;
const SMALL_DEPTH: usize = 256;
/// Few enough that the buffers of both sides stay in their caches: perftest has only one.
const LARGE_DEPTH: usize = 32;
const ROUND_TRIPS: u32 = 100_000;
/// Rounds of a row for each that was asked for, at most, until its rounds decide.
const LONGEST: u32 = 4;
const SMALL_MESSAGES: u32 = 4_000_000;
const LARGE_MESSAGES: u32 = 300_000;
/// How far two tools may be apart.
const TOLERANCE: f64 = 0.05;

#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// With agree, every program has real-time priority (chrt -r 10; needs root), so that others on
    /// this machine wait.
    #[arg(long)]
    realtime: bool,
    /// With agree, the processors of server and client; default: the first two there are.
    #[arg(long, value_delimiter = ',', value_name = "SERVER,CLIENT")]
    cpus: Option<Vec<usize>>,
}

/// One figure that two tools measure.
struct Pair {
    row: Comparison,
    ours: fn(&Tools, u32) -> Result<f64>,
    theirs: fn(&Tools, u32) -> Result<f64>,
    messages: u32,
}

/// Rounds of all pairs; more of those that the rounds so far do not decide, because the machine is
/// not quiet or the cores were in other places for one tool than for the other.
///
/// # Errors
/// A program is missing, fails or prints something unknown: without it there is no agreement.
pub(crate) fn measure(
    tools: &Tools,
    rounds: u32,
    effort: Effort,
    pick: &Pick,
    options: &Options,
) -> Result<Vec<Comparison>> {
    let cpus = options.cpus.clone().or_else(tool::two_cpus);
    ensure!(
        cpus.as_ref().is_none_or(|cpus| cpus.len() == 2),
        "--cpus: give two, for server and client"
    );
    let tools = tools.at(&Places::new(cpus.as_deref(), options.realtime));
    let mut pairs = pick.choose(pairs().into(), name)?;
    let longest = if effort == Effort::Whole { LONGEST } else { 1 };
    for round in 1..=longest * rounds {
        for pair in pairs.iter_mut().filter(|pair| round <= rounds || pair.row.is_undecided()) {
            eprintln!("{}: {}", heading(round, rounds), pair.row.what);
            let messages = effort.messages(pair.messages);
            let ours = || Block::of(|| (pair.ours)(&tools, messages));
            let first = if round % 2 == 1 { Some(ours()?) } else { None };
            let theirs = Block::of(|| (pair.theirs)(&tools, messages))?;
            let ours = match first {
                Some(block) => block,
                None => ours()?,
            };
            pair.row.reference.push(theirs);
            pair.row.ours.push(ours);
        }
    }
    Ok(pairs.into_iter().map(|pair| pair.row).collect())
}

fn heading(round: u32, rounds: u32) -> String {
    match round.checked_sub(rounds) {
        None | Some(0) => format!("round {round} of {rounds}"),
        Some(more) => {
            format!("not decided yet: round {more} of up to {} more", (LONGEST - 1) * rounds)
        }
    }
}

/// What of a row patterns are looked for in.
fn name(pair: &Pair) -> String {
    format!("{}, {}", pair.row.what, pair.row.reference_name)
}

fn pairs() -> [Pair; 5] {
    let row = |what, unit, tool| Comparison::new(what, unit, tool, Bound::RatioWithin(TOLERANCE));
    [
        Pair {
            row: row("median, SRD 64 B", "us", "ib_send_lat"),
            ours: |tools, count| srd("latency", SMALL_BYTES, count).median_us(tools),
            theirs: |tools, count| Perftest::Srd.latency_us(tools, SMALL_BYTES, count),
            messages: ROUND_TRIPS,
        },
        Pair {
            row: row("median, SRD 8 KiB", "us", "ib_send_lat"),
            ours: |tools, count| srd("latency", LARGE_BYTES, count).median_us(tools),
            theirs: |tools, count| Perftest::Srd.latency_us(tools, LARGE_BYTES, count),
            messages: ROUND_TRIPS,
        },
        Pair {
            row: row("SRD 8 KiB, depth 32", "Gbit/s", "ib_send_bw"),
            ours: |tools, count| {
                Ok(stream(LARGE_BYTES, LARGE_DEPTH, count).rate(tools)?.gbit_per_s)
            },
            theirs: |tools, count| {
                Ok(Perftest::Srd.stream(tools, LARGE_BYTES, LARGE_DEPTH, count)?.gbit_per_s)
            },
            messages: LARGE_MESSAGES,
        },
        Pair {
            row: row("SRD 64 B, depth 256", "M/s", "ib_send_bw"),
            ours: |tools, count| {
                Ok(stream(SMALL_BYTES, SMALL_DEPTH, count).rate(tools)?.segments_per_s / 1e6)
            },
            theirs: |tools, count| {
                Ok(Perftest::Srd.stream(tools, SMALL_BYTES, SMALL_DEPTH, count)?.segments_per_s
                    / 1e6)
            },
            messages: SMALL_MESSAGES,
        },
        Pair {
            row: row("mean, efa 64 B", "us", "fi_pingpong"),
            ours: |tools, count| {
                let fabric = "libfabric:efa";
                let operation = Some("inject");
                EfaBench { fabric, operation, ..srd("ping_pong", SMALL_BYTES, count) }
                    .mean_us(tools)
            },
            theirs: |tools, count| tool::half_round_trip_us(tools, "efa", SMALL_BYTES, count),
            messages: ROUND_TRIPS,
        },
    ]
}

fn srd(benchmark: &'static str, bytes: usize, messages: u32) -> EfaBench {
    EfaBench { benchmark, fabric: "verbs:srd", operation: None, bytes, depth: None, messages }
}

fn stream(bytes: usize, depth: usize, messages: u32) -> EfaBench {
    EfaBench { depth: Some(depth), ..srd("bandwidth", bytes, messages) }
}
