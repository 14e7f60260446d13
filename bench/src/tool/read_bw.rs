//! `read_bw` of this folder's `c/`: RDMA READ through the verbs, which no packaged program measures
//! on SRD.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{Tools, c_program, pair};

const LIMIT: Duration = Duration::from_secs(60);
const MILLISECONDS: u32 = 1000;

/// Goodput of READs of `bytes` in Gbit/s; the target's program sleeps. With `wire_only` all bytes
/// go over UDP.
///
/// # Errors
/// It does not compile, fails or prints something unknown.
pub(crate) fn read_gbit_per_s(tools: &Tools, bytes: usize, wire_only: bool) -> Result<f64> {
    let libraries = ["-lefa", "-libverbs"];
    let program = c_program::compile(tools, "read_bw", "cc", &libraries, "gcc, libibverbs-dev")?;
    let program = program.to_string_lossy().into_owned();
    let port = pair::free_port()?;
    let options: &[&str] = if wire_only { &["--wire-only"] } else { &[] };
    let mut words = vec![program, port.to_string()];
    let server = tools.command_with(options, &words);
    words.extend(["127.0.0.1".to_owned(), bytes.to_string(), MILLISECONDS.to_string()]);
    let client = tools.command_with(options, &words);
    let output = pair::run(&server, &client, port, LIMIT)?;
    output.trim().parse().with_context(|| format!("read_bw printed no figure: {output}"))
}
