//! Shares of flows that send all the time: throughput of each, interval by interval.

use crate::flow::Flow;
use crate::id::FlowId;
use crate::time::Time;
use crate::transport::Kind;
use report::jain;
use serde::{Deserialize, Serialize};

/// Throughput of the flows of `workload.persistent_incast`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// Length of an interval in milliseconds.
    pub interval_ms: u32,
    /// One entry per flow.
    pub flows: Vec<FlowShares>,
}

/// One flow that sends all the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowShares {
    /// Number of the flow in the outcome.
    pub flow: FlowId,
    /// The transport that it uses.
    pub transport: Kind,
    /// Payload bytes that arrived, one entry per interval that ended while it was sending.
    pub bytes: Vec<u64>,
}

/// The equality of the shares that some flows had. The first interval, in which they begin, does
/// not count when there are others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShareSummary {
    /// Number of flows.
    pub flows: usize,
    /// Mean throughput of a flow in Gbit/s: the fair share of what they all got.
    pub fair_gbps: f64,
    /// Jain's index of the flows' throughput over all intervals.
    pub jain: f64,
    /// The lowest of the intervals' indices.
    pub jain_worst: f64,
    /// The flow with the lowest mean throughput, over the fair share.
    pub flow_min_to_fair: f64,
    /// The lowest throughput of any flow in any interval, over the fair share.
    pub min_to_fair: f64,
    /// The highest throughput of any flow in any interval, over the fair share.
    pub max_to_fair: f64,
}

impl Shares {
    /// Returns how the flows of some transports shared, all of them with each other; `None` when
    /// there were none. If none got anything, all figures but their number are 0.
    #[must_use]
    pub fn summary(&self, wanted: impl Fn(Kind) -> bool) -> Option<ShareSummary> {
        let flows: Vec<&[u64]> = self
            .flows
            .iter()
            .filter(|flow| wanted(flow.transport))
            .map(|flow| flow.bytes.get(1..).filter(|rest| !rest.is_empty()).unwrap_or(&flow.bytes))
            .filter(|bytes| !bytes.is_empty())
            .collect();
        let intervals = flows.iter().map(|bytes| bytes.len()).max()?;
        let means =
            || flows.iter().map(|bytes| bytes.iter().sum::<u64>() as f64 / bytes.len() as f64);
        let fair = means().sum::<f64>() / flows.len() as f64;
        if fair == 0.0 {
            return Some(ShareSummary { flows: flows.len(), ..ShareSummary::default() });
        }
        let at = |interval: usize| {
            flows.iter().filter_map(move |bytes| bytes.get(interval).map(|&bytes| bytes as f64))
        };
        let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
        let all = || flows.iter().flat_map(|bytes| bytes.iter().map(|&bytes| bytes as f64));
        Some(ShareSummary {
            flows: flows.len(),
            fair_gbps: fair * 8.0 / (f64::from(self.interval_ms) * 1e6),
            jain: jain(means()),
            jain_worst: least(&mut (0..intervals).map(|interval| jain(at(interval)))),
            flow_min_to_fair: least(&mut means()) / fair,
            min_to_fair: least(&mut all()) / fair,
            max_to_fair: all().fold(0.0, f64::max) / fair,
        })
    }
}

/// Measures a run's shares.
#[derive(Debug)]
pub(crate) struct Meter {
    shares: Shares,
    /// Bytes of each flow that had arrived at the end of the interval before.
    before: Vec<u64>,
}

impl Meter {
    /// Creates a meter for those of `flows` that send until a given time; `None` when there are
    /// none.
    pub(crate) fn new(interval_ms: u32, flows: &[Flow]) -> Option<Self> {
        let flows: Vec<FlowShares> = FlowId::all()
            .zip(flows)
            .filter(|(_, flow)| flow.spec.until.is_some())
            .map(|(number, flow)| {
                let transport = flow.spec.transport;
                FlowShares { flow: number, transport, bytes: Vec::new() }
            })
            .collect();
        let before = vec![0; flows.len()];
        (!flows.is_empty()).then_some(Self { shares: Shares { interval_ms, flows }, before })
    }

    /// Returns the end of the interval after the one that ends at `at`.
    pub(crate) fn next_at(&self, at: Time) -> Time {
        at.plus_ps(u64::from(self.shares.interval_ms) * 1_000_000_000)
    }

    /// Ends an interval; it counts for flows that sent all through it. Returns false when the next
    /// one counts for none.
    pub(crate) fn take(&mut self, now: Time, flows: &[Flow]) -> bool {
        let next = self.next_at(now);
        let mut some_send = false;
        for (entry, before) in self.shares.flows.iter_mut().zip(&mut self.before) {
            let flow = &flows[entry.flow.index()];
            let sends_at = |at: Time| flow.spec.until.is_some_and(|until| until >= at);
            if sends_at(now) {
                entry.bytes.push(flow.delivered_bytes - *before);
            }
            *before = flow.delivered_bytes;
            some_send |= sends_at(next);
        }
        some_send
    }

    pub(crate) fn shares(&self) -> &Shares {
        &self.shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(flows: &[&[u64]]) -> Shares {
        let flow = |(flow, bytes): (FlowId, &&[u64])| FlowShares {
            flow,
            transport: Kind::Tcp,
            bytes: bytes.to_vec(),
        };
        Shares { interval_ms: 10, flows: FlowId::all().zip(flows).map(flow).collect() }
    }

    fn tcp(shares: &Shares) -> Option<ShareSummary> {
        shares.summary(|kind| kind == Kind::Tcp)
    }

    #[test]
    fn equal_flows_are_fair_and_the_first_interval_does_not_count() {
        let summary = tcp(&shares(&[&[9, 1250, 1250], &[0, 1250, 1250]])).unwrap();
        assert_eq!((summary.jain, summary.jain_worst, summary.min_to_fair), (1.0, 1.0, 1.0));
        assert_eq!((summary.flows, summary.max_to_fair), (2, 1.0));
        assert_eq!(summary.fair_gbps, 1250.0 * 8.0 / 10e6);
        assert_eq!(shares(&[&[1, 1]]).summary(|kind| kind == Kind::Srd), None);
    }

    /// Flows that got nothing were once taken for flows that do not exist.
    #[test]
    fn flows_that_got_nothing_have_no_share() {
        let starved = ShareSummary { flows: 1, ..ShareSummary::default() };
        assert_eq!(tcp(&shares(&[&[1, 0]])), Some(starved));
    }

    #[test]
    fn transports_are_compared_with_each_other() {
        let mut shares = shares(&[&[9, 100, 100], &[9, 0, 0]]);
        shares.flows[0].transport = Kind::Srd;
        let all = shares.summary(|_| true).unwrap();
        assert_eq!((all.flows, all.jain), (2, 0.5));
        assert_eq!((all.flow_min_to_fair, all.min_to_fair, all.max_to_fair), (0.0, 0.0, 2.0));
        let srd = shares.summary(|kind| kind == Kind::Srd).unwrap();
        assert_eq!((srd.flows, srd.jain, srd.min_to_fair), (1, 1.0, 1.0));
    }

    #[test]
    fn flows_that_stop_earlier_count_while_they_send() {
        let summary = tcp(&shares(&[&[9, 100, 100, 100], &[9, 100]])).unwrap();
        assert_eq!((summary.jain, summary.jain_worst, summary.flow_min_to_fair), (1.0, 1.0, 1.0));
        assert_eq!((summary.min_to_fair, summary.max_to_fair), (1.0, 1.0));
        assert_eq!(tcp(&shares(&[&[]])), None);
    }

    #[test]
    fn turns_are_unfair_in_each_interval_and_fair_over_all() {
        let summary = tcp(&shares(&[&[5, 100, 0], &[5, 0, 100]])).unwrap();
        assert_eq!((summary.jain, summary.jain_worst), (1.0, 0.5));
        assert_eq!((summary.min_to_fair, summary.max_to_fair), (0.0, 2.0));
        assert_eq!(summary.flow_min_to_fair, 1.0);
    }
}
