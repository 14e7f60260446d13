//! What a workload's client asks for, and the options that say so.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::store::KEY_BYTES;
use crate::failure::Failure;
use crate::spec::{Benchmark, EndpointKind, Flow, JobSpec, Operation, parse_bytes};

/// Keys where nothing else is said: their values do not fit into any cache near a core.
const KEYS: usize = 1 << 20;
/// Request of an RPC in bytes, as in the measurements of HERD, FaSST and eRPC.
const REQUEST_BYTES: usize = 32;
/// More keys than this are a mistake; their numbers have 40 bits.
const KEYS_MAX: usize = 1 << 32;

/// What the client of a workload asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkSpec {
    /// Body of a get in bytes: the key and what comes with it.
    pub(crate) request_bytes: usize,
    /// Keys of all server threads together.
    pub(crate) keys: usize,
    /// Gets of 100 calls; the others are puts.
    pub(crate) gets_percent: u32,
    /// Exponent of Zipf's law times 100; 0: all keys alike.
    pub(crate) zipf_hundredths: u32,
}

impl WorkSpec {
    /// Of benchmarks that are no workload.
    pub(crate) const NONE: Self =
        Self { request_bytes: 0, keys: 0, gets_percent: 0, zipf_hundredths: 0 };
}

/// Options of the workloads.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of rpc and kv")]
pub(crate) struct WorkArgs {
    /// rpc: bytes of a request, key included; the response has --sizes. Default: 32.
    #[arg(long, value_parser = parse_bytes)]
    request: Option<usize>,
    /// Keys of the server: 1000, 64K, 64M (powers of two). Default: 1M.
    #[arg(long, value_parser = parse_bytes)]
    keys: Option<usize>,
    /// kv: gets in percent of all calls, 0 to 100; the others are puts. Default: 95.
    #[arg(long, value_name = "PERCENT")]
    gets: Option<u32>,
    /// Ask for keys by Zipf's law with this exponent, 0.01 to 0.99. Default: all keys alike.
    #[arg(long, value_name = "EXPONENT")]
    zipf: Option<f64>,
}

impl WorkArgs {
    /// What they mean for a benchmark; refuses those that are not for it.
    pub(crate) fn spec(&self, benchmark: Benchmark) -> Result<WorkSpec, Failure> {
        let wrong = |text: String| Err(Failure::Usage(format!("{}: {text}", benchmark.name())));
        let is_kv = benchmark == Benchmark::Kv;
        let given = [
            ("--request", self.request.is_some(), benchmark == Benchmark::Rpc),
            ("--gets", self.gets.is_some(), is_kv),
            ("--keys", self.keys.is_some(), benchmark.is_workload()),
            ("--zipf", self.zipf.is_some(), benchmark.is_workload()),
        ];
        if let Some((option, ..)) = given.iter().find(|(_, given, fits)| *given && !fits) {
            return wrong(format!("{option} is not for this benchmark"));
        }
        if !benchmark.is_workload() {
            return Ok(WorkSpec::NONE);
        }
        let request_bytes = if is_kv { KEY_BYTES } else { self.request.unwrap_or(REQUEST_BYTES) };
        if request_bytes < KEY_BYTES {
            return wrong(format!(
                "--request {request_bytes}: its key alone has {KEY_BYTES} bytes"
            ));
        }
        let keys = self.keys.unwrap_or(KEYS);
        if keys > KEYS_MAX {
            return wrong(format!("--keys {keys}: give {KEYS_MAX} at most"));
        }
        let gets_percent = if is_kv { self.gets.unwrap_or(95) } else { 100 };
        if gets_percent > 100 {
            return wrong(format!("--gets {gets_percent}: give 0 to 100"));
        }
        let zipf = self.zipf.unwrap_or(0.0);
        if self.zipf.is_some() && !(0.01..=0.99).contains(&zipf) {
            return wrong(format!("--zipf {zipf}: give 0.01 to 0.99"));
        }
        Ok(WorkSpec {
            request_bytes,
            keys,
            gets_percent,
            zipf_hundredths: (zipf * 100.0).round() as u32,
        })
    }
}

/// Refuses what a workload cannot do; the words belong after the benchmark's name.
pub(crate) fn sound(job: &JobSpec) -> Result<(), String> {
    let Flow { complete_every, window, .. } = job.flow;
    if job.endpoint == EndpointKind::Dgram {
        return Err("calls need a reliable fabric: datagrams are not asked for again".to_owned());
    }
    if !matches!(job.operation, Operation::Send | Operation::Tagged) {
        return Err(format!("--op {} is not for calls", job.operation.name()));
    }
    if complete_every > 1 || job.memory_bytes > 0 || window != Flow::default().window {
        return Err("--window, --complete-every and --memory are for streams".to_owned());
    }
    Ok(())
}
