//! The results of a run.

use crate::link::LossCause;
use crate::network::Tally;
use crate::percentile::nearest_rank;
use crate::pfc::PausedLink;
use crate::share::Shares;
use crate::sim::Sim;
use crate::transport::{Counts, Kind, Machine};
use report::jain;
use serde::{Deserialize, Serialize};

/// The result of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowOutcome {
    /// The transport that it uses.
    #[serde(default)]
    pub transport: Kind,
    /// Sending host.
    pub src_host: u32,
    /// Receiving host.
    pub dst_host: u32,
    /// Bytes to move.
    pub bytes: u64,
    /// Start in picoseconds of the run.
    pub start_ps: u64,
    /// Whether the run ended before its start, which for a later round of a workload is not known
    /// then.
    #[serde(default, skip_serializing_if = "is_false")]
    pub not_begun: bool,
    /// Completion time in picoseconds; `None` when it did not end, or not well.
    pub completion_ps: Option<u64>,
    /// Best possible completion time, in picoseconds.
    pub ideal_ps: u64,
    /// Messages that ended with an error.
    pub failed_messages: u32,
}

/// The result of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Seed of the run.
    pub seed: u64,
    /// All flows, in the order of the workloads.
    pub flows: Vec<FlowOutcome>,
    /// Data packets sent, first transmissions and repetitions.
    pub data_packets: u64,
    /// Data packets sent again.
    pub repeated_packets: u64,
    /// Repetitions that were not needed.
    pub needless_repeats: u64,
    /// Packets of all kinds that hosts sent.
    pub packets: u64,
    /// Packets lost in a full queue.
    pub lost_queue_full: u64,
    /// Packets lost in a cut cable.
    pub lost_cut: u64,
    /// Packets lost in a cable that loses some.
    pub lost_grey: u64,
    /// Packets that routing knew no way for.
    pub lost_no_route: u64,
    /// Longest queue of any switch port in bytes.
    pub peak_queue_bytes: u32,
    /// Links that were paused, the longest first.
    pub paused_links: Vec<PausedLink>,
    /// End of the run in picoseconds.
    pub end_ps: u64,
    /// The shares that flows which send all the time had of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
    /// Events handled.
    pub events: u64,
    /// Fingerprint of everything that happened: equal for equal runs. Hexadecimal in files.
    #[serde(with = "hexadecimal")]
    pub digest: u64,
}

impl Outcome {
    pub(crate) fn of(sim: &Sim, seed: u64) -> Self {
        let count = |field: fn(Counts) -> u64| {
            sim.sockets.iter().map(|socket| field(socket.transport.counts())).sum::<u64>()
        };
        let Tally { sent, lost, .. } = sim.network.tally;
        let lost = |cause: LossCause| lost[cause as usize];
        let flows = sim.flows.iter().map(|flow| FlowOutcome {
            transport: flow.spec.transport,
            src_host: flow.spec.src.host.0,
            dst_host: flow.spec.dst.host.0,
            bytes: flow.spec.bytes,
            start_ps: flow.spec.start.as_ps(),
            not_begun: flow.posted == 0,
            completion_ps: flow.completion_ps(),
            ideal_ps: flow.spec.ideal_ps,
            failed_messages: flow.ended_badly,
        });
        let pfc = sim.network.pfc.as_deref();
        let paused_links = pfc.map(|pfc| pfc.paused_links(sim.now, &sim.network.fabric));
        let links = &sim.network.fabric.links[sim.network.fabric.first_switch_link().index()..];
        Self {
            seed,
            flows: flows.collect(),
            data_packets: count(|counts| counts.data_packets),
            repeated_packets: count(|counts| counts.repeated_packets),
            needless_repeats: count(|counts| counts.needless_repeats),
            packets: sent,
            lost_queue_full: lost(LossCause::QueueFull),
            lost_cut: lost(LossCause::Cut),
            lost_grey: lost(LossCause::GreyLoss),
            lost_no_route: lost(LossCause::NoRoute),
            peak_queue_bytes: links.iter().map(|link| link.peak_bytes()).max().unwrap_or(0),
            paused_links: paused_links.unwrap_or_default(),
            end_ps: sim.now.as_ps(),
            shares: sim.meter.as_ref().map(|meter| meter.shares().clone()),
            events: sim.events,
            digest: sim.digest,
        }
    }

    /// Returns the transports that its flows use.
    #[must_use]
    pub fn transports(&self) -> Vec<Kind> {
        let uses = |kind: &Kind| self.flows.iter().any(|flow| flow.transport == *kind);
        Kind::ALL.into_iter().filter(uses).collect()
    }

    /// Returns the number of flows that ended well.
    #[must_use]
    pub fn done(&self) -> usize {
        self.flows.iter().filter(|flow| flow.completion_ps.is_some()).count()
    }

    /// Returns whether every flow ended well, and there was one.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.flows.is_empty() && self.done() == self.flows.len()
    }

    /// Returns the number of packets lost for any cause.
    #[must_use]
    pub fn lost_packets(&self) -> u64 {
        self.lost_queue_full + self.lost_cut + self.lost_grey + self.lost_no_route
    }

    /// Returns statistics of the flows that ended well; `None` when none did.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        self.summary_of(|_| true)
    }

    /// Returns statistics of some flows; repetitions are those of all.
    #[must_use]
    pub fn summary_of(&self, wanted: impl Fn(&FlowOutcome) -> bool) -> Option<Summary> {
        let flows = || self.flows.iter().filter(|flow| wanted(flow));
        let done = || flows().filter_map(|flow| Some((flow, flow.completion_ps?)));
        let mut us: Vec<f64> = done().map(|(_, ps)| ps as f64 / 1e6).collect();
        let mut slowdown: Vec<f64> =
            done().map(|(flow, ps)| ps as f64 / flow.ideal_ps as f64).collect();
        if us.is_empty() {
            return None;
        }
        us.sort_by(f64::total_cmp);
        slowdown.sort_by(f64::total_cmp);
        let rates = done().map(|(flow, ps)| flow.bytes as f64 / ps as f64);
        let ideal_ps: f64 = done().map(|(flow, _)| flow.ideal_ps as f64).sum();
        let taken_ps: f64 = done().map(|(_, ps)| ps as f64).sum();
        Some(Summary {
            done: us.len(),
            min_us: us[0],
            mean_us: mean(&us),
            p50_us: nearest_rank(&us, 50),
            p99_us: nearest_rank(&us, 99),
            max_us: us[us.len() - 1],
            min_to_ideal: slowdown[0],
            mean_to_ideal: mean(&slowdown),
            max_to_ideal: slowdown[slowdown.len() - 1],
            p50_to_ideal: nearest_rank(&slowdown, 50),
            p99_to_ideal: nearest_rank(&slowdown, 99),
            goodput_percent: 100.0 * ideal_ps / taken_ps,
            repeated_percent: 100.0 * self.repeated_packets as f64
                / (self.data_packets - self.repeated_packets).max(1) as f64,
            jain: jain(rates),
        })
    }
}

/// Statistics of one run. "To ideal" is completion time over the best possible one; percentiles are
/// by nearest rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it all, with the units")]
pub struct Summary {
    pub done: usize,
    pub min_us: f64,
    pub mean_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
    pub min_to_ideal: f64,
    pub mean_to_ideal: f64,
    pub max_to_ideal: f64,
    #[serde(default)]
    pub p50_to_ideal: f64,
    #[serde(default)]
    pub p99_to_ideal: f64,
    /// Ideal time of all transfers over their actual time: what a sender gets that makes such
    /// transfers one after the other.
    #[serde(default)]
    pub goodput_percent: f64,
    /// Repeated packets per hundred first transmissions.
    pub repeated_percent: f64,
    /// Jain's fairness index of the flows' mean rates: 1 when all are equal, 1/n when one has all.
    pub jain: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !*value
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// A fingerprint as text: many readers of JSON take numbers for floating-point ones.
mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer, de};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(value: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{value:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        u64::from_str_radix(&String::deserialize(from)?, 16).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run whose random arrivals drew none once passed for a good one.
    #[test]
    fn a_run_without_flows_is_not_complete() {
        assert!(!Outcome::default().is_complete());
        let ended = FlowOutcome { completion_ps: Some(1), ..FlowOutcome::default() };
        assert!(Outcome { flows: vec![ended], ..Outcome::default() }.is_complete());
    }

    #[test]
    fn statistics_are_the_textbook_ones() {
        assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
    }
}
