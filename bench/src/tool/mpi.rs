//! Open MPI: two ranks that `mpirun` starts.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{Tools, c_program, pair};

const LIMIT: Duration = Duration::from_secs(60);
const MPIRUN: &str = "mpirun --allow-run-as-root --mca pml cm --mca mtl ofi -np 2";

/// Mean of half a round trip between two ranks in microseconds over libfabric's `provider`; over
/// the software device when that is `efa`.
///
/// # Errors
/// Open MPI is missing, fails or prints something unknown.
pub(crate) fn mpi_half_round_trip_us(
    tools: &Tools,
    provider: &str,
    bytes: usize,
    round_trips: u32,
) -> Result<f64> {
    run(tools, provider, "mpi_pingpong", &[bytes.to_string(), round_trips.to_string()])
}

/// Goodput from one rank to the other in Gbit/s, likewise.
///
/// # Errors
/// As [`mpi_half_round_trip_us`].
pub(crate) fn mpi_gbit_per_s(
    tools: &Tools,
    provider: &str,
    bytes: usize,
    messages: u32,
) -> Result<f64> {
    run(tools, provider, "mpi_stream", &[bytes.to_string(), messages.to_string()])
}

fn run(tools: &Tools, provider: &str, name: &str, arguments: &[String]) -> Result<f64> {
    let program = c_program::compile(tools, name, "mpicc", &[], "libopenmpi-dev")?;
    let line = format!("{MPIRUN} --mca mtl_ofi_provider_include {provider}");
    let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    words.push(program.to_string_lossy().into_owned());
    words.extend_from_slice(arguments);
    let output = pair::run_alone(&tools.command(provider == "efa", &words), LIMIT)?;
    output.trim().parse().with_context(|| format!("{name} printed no figure: {output}"))
}
