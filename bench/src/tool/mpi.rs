//! Open MPI: two ranks that `mpirun` starts.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{Tools, c_program, pair};

const LIMIT: Duration = Duration::from_secs(60);
const ROUND_TRIPS: &str = "50000";
const MPIRUN: &str = "mpirun --allow-run-as-root --mca pml cm --mca mtl ofi -np 2";

/// Mean of half a round trip between two ranks in microseconds over libfabric's `provider`; over
/// the software device when that is `efa`.
///
/// # Errors
/// Open MPI is missing, fails or prints something unknown.
pub(crate) fn mpi_half_round_trip_us(tools: &Tools, provider: &str, bytes: usize) -> Result<f64> {
    let program = c_program::compile(tools, "mpi_pingpong", "mpicc", &[], "libopenmpi-dev")?;
    let line = format!("{MPIRUN} --mca mtl_ofi_provider_include {provider}");
    let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let program = program.to_string_lossy().into_owned();
    words.extend([program, bytes.to_string(), ROUND_TRIPS.to_owned()]);
    let output = pair::run_alone(&tools.command(provider == "efa", &words), LIMIT)?;
    output.trim().parse().with_context(|| format!("mpi_pingpong printed no figure: {output}"))
}
