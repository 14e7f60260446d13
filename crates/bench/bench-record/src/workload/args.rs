//! The options of all workloads.

use super::{CHUNK_MAX, KEY_BYTES, WorkSpec, numbers};
use crate::failure::Failure;
use crate::names::Preset;
use crate::spec::{Benchmark, Operation, parse_bytes, within};

/// The usual number of keys, whose values do not fit into any cache near a core.
pub(super) const KEYS: usize = 1 << 20;
/// The most keys; more are a mistake.
const KEYS_MAX: usize = 1 << 32;
/// The rate of the fastest link in Gbit/s; faster ones are a mistake.
const LINK_GBIT_MAX: f64 = 100_000.0;

macro_rules! args {
    ($($(#[$about:meta])* $folder:ident::$name:ident,)*) => {
        /// Options of the workloads.
        #[derive(Debug, Clone, clap::Args)]
        #[command(next_help_heading = "Options of workloads")]
        pub struct WorkArgs {
            #[command(flatten)]
            pub(super) shared: Shared,
            $(#[command(flatten)] pub(super) $folder: super::$folder::Args,)*
        }
    };
}

workloads!(args);

/// What has no options of its own.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(super) struct NoArgs {}

/// Options that several workloads read.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(super) struct Shared {
    /// Keys of the server (shuffle: keys of the tuples; 2pc: rows of each participant): 1000, 64K,
    /// 64M (powers of two). Default: 1M, for 2pc 64K.
    #[arg(long, value_parser = parse_bytes)]
    keys: Option<usize>,
    /// Request keys (shuffle: make tuples) by Zipf's law with this exponent, 0.01 to 0.99. Default:
    /// all keys equally often.
    #[arg(long, value_name = "EXPONENT")]
    zipf: Option<f64>,
    /// Bytes of a chunk, like --sizes: fileget (multiples of 8; default: 64K), incast and
    /// operations of all ranks (one, a multiple of 8; default: 8K).
    #[arg(long)]
    chunk: Option<String>,
    /// Rate of a link in Gbit/s: for incast that of the receiver (default: the rate of one flow
    /// alone), for shuffle that of each node.
    #[arg(long, value_name = "GBIT")]
    link_gbit: Option<f64>,
}

impl WorkArgs {
    /// Returns the values of the workload's parameter, one after the other.
    pub fn parameters(&self, preset: &Preset) -> Result<Vec<usize>, Failure> {
        (preset.benchmark.about().parameters)(self).map_err(|text| wrong(preset, &text))
    }

    /// Returns the operation that moves bytes, if the workload decides that.
    pub fn operation(&self, benchmark: Benchmark) -> Option<Operation> {
        (benchmark.about().operation)(self)
    }

    /// Returns the specification of a test with this name that the options ask for.
    pub fn spec(&self, preset: &Preset) -> Result<WorkSpec, Failure> {
        let spec = (preset.benchmark.about().spec)(self, preset);
        let spec = spec.map_err(|text| wrong(preset, &text))?;
        let parameter_max = self.parameters(preset)?.into_iter().max().unwrap_or(0);
        Ok(WorkSpec { parameter_max, ..spec })
    }
}

fn wrong(preset: &Preset, text: &str) -> Failure {
    Failure::Usage(format!("{}: {text}", preset.name))
}

impl Shared {
    /// Returns the specification of gets by key, of the usual number of keys.
    pub(super) fn by_key(&self) -> Result<WorkSpec, String> {
        self.by_key_of(KEYS)
    }

    /// Returns the specification of gets by key, of `usual` keys by default.
    pub(super) fn by_key_of(&self, usual: usize) -> Result<WorkSpec, String> {
        let keys = self.keys.unwrap_or(usual);
        if keys > KEYS_MAX {
            return Err(format!("--keys {keys}: give {KEYS_MAX} at most"));
        }
        let zipf = self.zipf.map(|zipf| within("--zipf", zipf, 0.01..=0.99)).transpose()?;
        let zipf = zipf.unwrap_or(0.0);
        let zipf_hundredths = (zipf * 100.0).round() as u32;
        let (request_bytes, gets_percent) = (KEY_BYTES, 100);
        Ok(WorkSpec { request_bytes, keys, gets_percent, zipf_hundredths, ..WorkSpec::NONE })
    }

    /// Returns the lengths of chunks, which must be multiples of `unit`; an error names `what` is
    /// allowed.
    pub(super) fn chunks(
        &self,
        usual: &str,
        unit: usize,
        what: &str,
    ) -> Result<Vec<usize>, String> {
        let text = self.chunk.as_deref().unwrap_or(usual);
        let is_right = |bytes: usize| bytes % unit == 0 && bytes <= CHUNK_MAX;
        numbers("--chunk", text, is_right, &format!("{what}{CHUNK_MAX} at most"))
    }

    /// Returns the rate that the link takes; 0: it was not given.
    pub(super) fn link_mbit_per_s(&self) -> Result<u64, String> {
        let Some(gbit) = self.link_gbit else { return Ok(0) };
        let gbit = within("--link-gbit", gbit, 0.001..=LINK_GBIT_MAX)?;
        Ok((gbit * 1e3).round() as u64)
    }
}
