//! Gets and puts of a key-value store.

use super::about::{CALLS, SLEEPS};
use super::rpc::RPC;
use super::{About, WorkSpec};
use crate::names::Preset;
use crate::spec::{Benchmark, within};

pub(super) const ABOUT: About = About {
    name: "kv",
    names: &[Preset {
        benchmark: Benchmark::Kv,
        ..RPC.named("kv", "Gets and puts of a key-value store; --sizes is the value")
    }],
    words: |work| Some(format!("{} % gets", work.gets_percent)),
    reads: &[CALLS, SLEEPS, &["endpoints", "rx_depth", "post_list", "keys", "gets", "zipf"]],
    spec: |args, _| {
        let gets_percent = within("--gets", args.kv.gets.unwrap_or(95), 0..=100)?;
        Ok(WorkSpec { gets_percent, ..args.shared.by_key()? })
    },
    is_for_groups: true,
    ..About::CALLS
};

/// Options of `kv`.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Gets of kv in percent of all calls, 0 to 100; the others are puts. Default: 95.
    #[arg(long, value_name = "PERCENT")]
    gets: Option<u32>,
}
