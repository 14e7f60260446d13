//! Soft-EFA beside bare UDP, and beside libfabric's `tcp`.

use std::time::Duration;

use anyhow::Result;

use crate::block::Block;
use crate::floor;
use crate::table::{Row, Wanted};
use crate::tool::{self, Tools};

const SMALL_BYTES: usize = 64;
const LARGE_BYTES: usize = 8192;
const DEPTH: usize = 256;
const READ_BYTES: usize = 1 << 20;
/// READs under way in `read_bw`, and messages over `tcp` beside it.
const READ_DEPTH: usize = 16;
const PING_PONGS: usize = 200_000;
const ROUND_TRIPS: u32 = 100_000;
const FI_ROUND_TRIPS: u32 = 50_000;
const STREAM_TIME: Duration = Duration::from_secs(1);
const SMALL_MESSAGES: u32 = 4_000_000;
const LARGE_MESSAGES: u32 = 500_000;

/// Rounds of all floors and, with `tools`, of all programs; up to as many again while something was measured
/// with the cores in other places than what it is compared with.
///
/// # Errors
/// A floor cannot be measured.
pub(crate) fn measure(tools: Option<&Tools>, rounds: u32) -> Result<Vec<Row>> {
    let mut rows = rows();
    for round in 1..=2 * rounds {
        if round > rounds {
            if !rows.iter().any(Row::is_apart) {
                break;
            }
            eprintln!("the cores were moved between what is compared: one round more");
        }
        eprintln!("round {round} of {rounds}: floors");
        measure_floors(&mut rows)?;
        if let Some(tools) = tools {
            eprintln!("round {round} of {rounds}: programs");
            measure_programs(tools, &mut rows);
        }
    }
    Ok(rows.into())
}

/// What is compared. The order is that of [`measure_floors`] and [`measure_programs`].
fn rows() -> [Row; 8] {
    let row = Row::new;
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
    let half = || Ok(floor::half_round_trip_ns(PING_PONGS)? / 1e3);
    latency.reference.push(Block::of(half)?);
    let stream = || Ok(floor::stream(LARGE_BYTES, STREAM_TIME)?.gbit_per_s);
    large.reference.push(Block::of(stream)?);
    let stream = || Ok(floor::stream(SMALL_BYTES, STREAM_TIME)?.segments_per_s / 1e6);
    small.reference.push(Block::of(stream)?);
    Ok(())
}

/// A program that fails leaves its cell empty: the others are still worth knowing.
fn measure_programs(tools: &Tools, rows: &mut [Row; 8]) {
    let [latency, ping_pong, large, large_tcp, small, read, read_wire, mpi] = rows;
    let pinged = |provider| tool::half_round_trip_us(tools, provider, SMALL_BYTES, FI_ROUND_TRIPS);
    add(&mut latency.ours, || tool::latency_us(tools, SMALL_BYTES, ROUND_TRIPS));
    add(&mut ping_pong.ours, || pinged("efa"));
    add(&mut ping_pong.reference, || pinged("tcp"));
    add(
        &mut large.ours,
        || Ok(tool::stream(tools, LARGE_BYTES, DEPTH, LARGE_MESSAGES)?.gbit_per_s),
    );
    large_tcp.ours.clone_from(&large.ours);
    add(&mut large_tcp.reference, || tool::tcp_gbit_per_s(tools, LARGE_BYTES, DEPTH));
    add(&mut small.ours, || {
        Ok(tool::stream(tools, SMALL_BYTES, DEPTH, SMALL_MESSAGES)?.segments_per_s / 1e6)
    });
    add(&mut read.ours, || tool::read_gbit_per_s(tools, READ_BYTES, false));
    add(&mut read_wire.ours, || tool::read_gbit_per_s(tools, READ_BYTES, true));
    add(&mut read.reference, || tool::tcp_gbit_per_s(tools, READ_BYTES, READ_DEPTH));
    read_wire.reference.clone_from(&read.reference);
    add(&mut mpi.ours, || tool::mpi_half_round_trip_us(tools, "efa", SMALL_BYTES));
    add(&mut mpi.reference, || tool::mpi_half_round_trip_us(tools, "tcp", SMALL_BYTES));
}

fn add(blocks: &mut Vec<Block>, measure: impl FnOnce() -> Result<f64>) {
    match Block::of(measure) {
        Ok(block) => blocks.push(block),
        Err(error) => eprintln!("bench: {error:#}"),
    }
}
