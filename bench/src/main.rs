//! What bare UDP reaches on this machine, and what Soft-EFA makes of it.
//!
//! Everything is measured in one go: rounds of all floors and all programs, so that a machine that
//! slows down slows everything down. Medians over the rounds are compared.
#![deny(unsafe_code)]

mod floor;
mod table;
mod tool;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;

use table::{Row, Wanted};
use tool::Tools;

const SMALL_BYTES: usize = 64;
const LARGE_BYTES: usize = 8192;
const DEPTH: usize = 256;
const READ_BYTES: usize = 1 << 20;
/// READs under way in `read_bw`, and messages over `tcp` beside it.
const READ_DEPTH: usize = 16;
const PING_PONGS: usize = 200_000;
const STREAM_TIME: Duration = Duration::from_secs(1);
const SMALL_MESSAGES: u32 = 4_000_000;
const LARGE_MESSAGES: u32 = 500_000;

/// Ratios of Soft-EFA to the floors of this machine.
#[derive(Debug, Parser)]
struct Args {
    /// The softefa command; efa-bench is expected beside it.
    #[arg(long, default_value = "target/release/softefa")]
    softefa: PathBuf,
    /// Rounds; medians over them are compared.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Also write all rounds as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only the floors, without Soft-EFA.
    #[arg(long)]
    floor: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let tools = Tools { softefa: args.softefa.clone() };
    let mut rows = rows();
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}: floors", args.rounds);
        measure_floors(&mut rows)?;
        if !args.floor {
            eprintln!("round {round} of {}: programs", args.rounds);
            measure_programs(&tools, &mut rows);
        }
    }
    print!("{}", table::to_text(&rows));
    if let Some(path) = &args.json {
        write_json(path, &rows)?;
    }
    Ok(())
}

/// What is compared. The order is that of [`measure_floors`] and [`measure_programs`].
fn rows() -> [Row; 8] {
    let row = |what, unit, reference_name, wanted| Row {
        what,
        unit,
        ours: Vec::new(),
        reference_name,
        reference: Vec::new(),
        wanted,
    };
    [
        row("ib_send_lat SRD 64 B", "us", "UDP ping-pong", Wanted::RatioAtMost(1.6)),
        row("fi_pingpong efa 64 B", "us", "libfabric tcp", Wanted::RatioAtMost(1.0)),
        row("ib_send_bw SRD 8 KiB", "Gbit/s", "UDP GSO/GRO", Wanted::RatioAtLeast(0.4)),
        row("ib_send_bw SRD 8 KiB", "Gbit/s", "libfabric tcp", Wanted::RatioAtLeast(3.0)),
        row("ib_send_bw SRD 64 B", "M msg/s", "UDP GSO/GRO", Wanted::AtLeast(3.0)),
        row("RDMA READ 1 MiB", "Gbit/s", "libfabric tcp", Wanted::RatioAtLeast(2.0)),
        row("the same over UDP only", "Gbit/s", "libfabric tcp", Wanted::RatioAtLeast(1.0)),
        row("mpirun ping-pong efa 64 B", "us", "libfabric tcp", Wanted::RatioAtMost(1.0)),
    ]
}

fn measure_floors(rows: &mut [Row; 8]) -> Result<()> {
    let [latency, _, large, _, small, ..] = rows;
    latency.reference.push(floor::half_round_trip_ns(PING_PONGS)? / 1e3);
    large.reference.push(floor::stream(LARGE_BYTES, STREAM_TIME)?.gbit_per_s);
    small.reference.push(floor::stream(SMALL_BYTES, STREAM_TIME)?.segments_per_s / 1e6);
    Ok(())
}

/// A program that fails leaves its cell empty: the others are still worth knowing.
fn measure_programs(tools: &Tools, rows: &mut [Row; 8]) {
    let [latency, ping_pong, large, large_tcp, small, read, read_wire, mpi] = rows;
    add(&mut latency.ours, tool::latency_us(tools, SMALL_BYTES));
    add(&mut ping_pong.ours, tool::half_round_trip_us(tools, "efa", SMALL_BYTES));
    add(&mut ping_pong.reference, tool::half_round_trip_us(tools, "tcp", SMALL_BYTES));
    let stream = tool::stream(tools, LARGE_BYTES, DEPTH, LARGE_MESSAGES);
    if let Ok(rate) = &stream {
        large_tcp.ours.push(rate.gbit_per_s);
    }
    add(&mut large.ours, stream.map(|rate| rate.gbit_per_s));
    add(&mut large_tcp.reference, tool::tcp_gbit_per_s(tools, LARGE_BYTES, DEPTH));
    let stream = tool::stream(tools, SMALL_BYTES, DEPTH, SMALL_MESSAGES);
    add(&mut small.ours, stream.map(|rate| rate.segments_per_s / 1e6));
    add(&mut read.ours, tool::read_gbit_per_s(tools, READ_BYTES, false));
    add(&mut read_wire.ours, tool::read_gbit_per_s(tools, READ_BYTES, true));
    add(&mut read.reference, tool::tcp_gbit_per_s(tools, READ_BYTES, READ_DEPTH));
    read_wire.reference.clone_from(&read.reference);
    add(&mut mpi.ours, tool::mpi_half_round_trip_us(tools, "efa", SMALL_BYTES));
    add(&mut mpi.reference, tool::mpi_half_round_trip_us(tools, "tcp", SMALL_BYTES));
}

fn add(values: &mut Vec<f64>, result: Result<f64>) {
    match result {
        Ok(value) => values.push(value),
        Err(error) => eprintln!("bench: {error:#}"),
    }
}

fn write_json(path: &Path, rows: &[Row]) -> Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let text = format!("{:#}\n", table::to_json(rows));
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("all rounds: {}", path.display());
    Ok(())
}
