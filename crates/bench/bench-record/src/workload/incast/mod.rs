//! Flows of several servers into the client.

mod found;

use serde::{Deserialize, Serialize};

pub use self::found::{Bursts, IdealFrom, Incast, Shares};
use super::{About, Figures, OwnSpec, PART, WorkSpec};
use crate::names::Preset;
use crate::spec::{Benchmark, within};

/// The usual length of an interval in ms.
const INTERVAL_MS: u64 = 100;
/// The longest interval in ms; longer ones are a mistake, as in netsim.
const INTERVAL_MS_MAX: u64 = 60_000;

pub(super) const ABOUT: About = About {
    name: "incast",
    names: &[Preset {
        sizes: "64K,256K,1M,2M",
        depth: "64",
        endpoints: 4,
        nodes: 3,
        ..Preset::of(
            Benchmark::Incast,
            "incast",
            "Flows of every server (--endpoints each) into the client, all at once (--persistent: all the \
               time); --sizes is the transfer, --depth the messages (--chunk) on their way in a flow",
        )
    }],
    figures: Figures::Incast,
    parameter: Some("chunk B"),
    reads: &[
        &["endpoints", "depth", "rx_depth", "validate", "iterations", "no_histogram", "chunk"],
        &["link_gbit", "persistent", "interval_ms"],
    ],
    parameters: |args| args.shared.chunks(PART, 1, ""),
    spec: |args, _| {
        let link_mbit_per_s = args.shared.link_mbit_per_s()?;
        Ok(WorkSpec {
            own: OwnSpec::Incast(args.incast.spec()?),
            link_mbit_per_s,
            ..WorkSpec::NONE
        })
    },
    ..About::GROUP
};

/// The specification of an incast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncastSpec {
    /// The length of the intervals in ms, if flows send all the time and their throughput is
    /// measured in each interval; `None`: they send in bursts.
    pub interval_ms: Option<u64>,
}

/// Options of `incast`.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// The flows of incast send all the time, not in bursts.
    #[arg(long)]
    persistent: bool,
    /// Throughput of each flow is told for each interval of so many ms (incast --persistent).
    /// Default: 100.
    #[arg(long, value_name = "MS", requires = "persistent")]
    interval_ms: Option<u64>,
}

impl Args {
    fn spec(&self) -> Result<IncastSpec, String> {
        let interval_ms = self.interval_ms.unwrap_or(INTERVAL_MS);
        let interval_ms = within("--interval-ms", interval_ms, 1..=INTERVAL_MS_MAX)?;
        Ok(IncastSpec { interval_ms: self.persistent.then_some(interval_ms) })
    }
}
