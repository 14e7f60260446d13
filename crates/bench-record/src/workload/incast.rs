//! What an incast asks for, and the options that say so.

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// An interval where nothing else is said, in ms.
const INTERVAL_MS: u64 = 100;
/// Longer intervals are a mistake, as in netsim.
const INTERVAL_MS_MAX: u64 = 60_000;

/// What an incast asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncastSpec {
    /// Flows send all the time, and their throughput is told for each interval of so many ms; `None`:
    /// they send in bursts.
    pub interval_ms: Option<u64>,
}

/// Options of `incast`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of incast")]
pub struct IncastArgs {
    /// incast: the flows send all the time, not in bursts.
    #[arg(long)]
    persistent: bool,
    /// incast --persistent: throughput of each flow is told for each interval of so many ms. Default: 100.
    #[arg(long, value_name = "MS", requires = "persistent")]
    interval_ms: Option<u64>,
}

impl IncastArgs {
    pub fn spec(&self) -> Result<IncastSpec, Failure> {
        let interval_ms = self.interval_ms.unwrap_or(INTERVAL_MS);
        if !(1..=INTERVAL_MS_MAX).contains(&interval_ms) {
            return Err(Failure::Usage(format!(
                "incast: --interval-ms {interval_ms}: give 1 to {INTERVAL_MS_MAX}"
            )));
        }
        Ok(IncastSpec { interval_ms: self.persistent.then_some(interval_ms) })
    }
}
