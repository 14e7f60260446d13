//! `read_bw` of this folder's `c/`: RDMA READ through the verbs, which no packaged program measures
//! on SRD.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{Tools, c_program, pair};

const LIMIT: Duration = Duration::from_secs(60);

/// Goodput of READs of `bytes` in Gbit/s over `time`; the target's program sleeps.
///
/// # Errors
/// It does not compile, fails or prints something unknown.
pub(crate) fn read_gbit_per_s(tools: &Tools, bytes: usize, time: Duration) -> Result<f64> {
    let libraries = ["-lefa", "-libverbs"];
    let program = c_program::compile(tools, "read_bw", "cc", &libraries, "gcc, libibverbs-dev")?;
    let program = program.to_string_lossy().into_owned();
    let port = pair::free_port()?;
    let mut words = vec![program, port.to_string()];
    let server = tools.server(true, &words);
    let milliseconds = time.as_millis().to_string();
    words.extend(["127.0.0.1".to_owned(), bytes.to_string(), milliseconds]);
    let client = tools.client(true, &words);
    let output = pair::run(&server, &client, port, LIMIT)?;
    output.trim().parse().with_context(|| format!("read_bw printed no figure: {output}"))
}
