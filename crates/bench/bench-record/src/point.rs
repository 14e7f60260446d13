//! One measurement: its parameters, and all its figures.

use report::{Interval, middle_interval};
use serde::{Deserialize, Serialize};

use super::{
    Atomics, Bandwidth, BothWays, Collective, Connections, Disorder, Distribution, Incast, Latency,
    Matrix, OpenLoop, PackedTimes, Shuffle, Timeline, Work,
};
use crate::cores::{self, Cores, Phase};
use crate::counted::Counted;
use crate::spec::Order;

/// One measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Point {
    pub size_bytes: usize,
    /// The most sends in flight; 1 for latency; 0: unknown.
    #[serde(default, skip_serializing_if = "is_none")]
    pub depth: usize,
    /// The number of receives posted at the receiver; 0: unknown.
    #[serde(default, skip_serializing_if = "is_none")]
    pub rx_depth: usize,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warmup_ms: u64,
    /// The number of messages lost (datagram endpoints); absent if a tool does not print it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// The number of messages whose content was checked; 0: contents were not checked.
    pub validated: u64,
    /// The 95 % interval of the middle of the blocks, in their unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// The figure of each block ([`Point::figure`]) in the order measured, such as the median half
    /// round trip in µs or the goodput in Gbit/s. The point itself is the middle block.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<f64>,
    /// The p99 of each block in µs, if each has one: shows how far tails differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub p99_blocks: Vec<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// The processor time of the client's process for each round trip in µs, threads of the fabric
    /// included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cpu_us: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// The figures of streams in both directions; then `bandwidth` is their sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub both_ways: Option<BothWays>,
    /// The times from posting to completion of one-sided operations that come one at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_time: Option<Distribution>,
    /// The figures of atomics that this tool did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub atomics: Option<Atomics>,
    /// The mean of the times of `operation_time`, if a tool prints the mean only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_mean_us: Option<f64>,
    /// The number of messages per second that each thread was asked for; 0: as fast as it can.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rate_per_s: u64,
    /// The workload's own parameter: records in a message (piggyback), levels of the tree that the
    /// client keeps (index), bytes of a chunk (fileget, incast, collective) or of a buffer
    /// (shuffle).
    #[serde(default, skip_serializing_if = "is_none")]
    pub parameter: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_loop: Option<OpenLoop>,
    /// The treatment of the order of messages.
    #[serde(default, skip_serializing_if = "Order::is_any")]
    pub order: Order,
    /// The distance by which messages came out of order; known if numbers are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disorder: Option<Disorder>,
    /// The bandwidth of the streams beside a latency, measured at their receivers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Bandwidth>,
    /// The counts of adapters beside the first block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
    /// The number of messages that the client sent in the block, warm-up and tail included; 0: not
    /// known.
    #[serde(skip)]
    pub sent: u64,
    /// The distance of the processors beside the blocks; absent: not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<Cores>,
    /// All times of the block that counts, for readers who need more than percentiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<PackedTimes>,
    /// The course of a block: that of the block with the longest slump, if there was a slump or the
    /// window was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// The figures of a data system's calls; then `operation_time` is that of all calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// The figures of connections; then `operation_time` is that of a connection until its first
    /// answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
    /// The figures of an operation of all ranks; then `operation_time` is that of its slowest rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collective: Option<Collective>,
    /// The figures of each pair of nodes; then `latency` is that of the slowest pair, and
    /// `bandwidth` that of the narrowest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Matrix>,
    /// The figures of flows that meet at one node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incast: Option<Incast>,
    /// The figures of tuples that went to the owners of their partitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<Shuffle>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_none(number: &usize) -> bool {
    *number == 0
}

impl Point {
    /// Makes a point without figures.
    pub const fn new(size_bytes: usize, depth: usize) -> Self {
        Self {
            size_bytes,
            depth,
            rx_depth: 0,
            warmup_ms: 0,
            lost: None,
            validated: 0,
            blocks: Vec::new(),
            p99_blocks: Vec::new(),
            interval: None,
            latency: None,
            client_cpu_us: None,
            bandwidth: None,
            both_ways: None,
            operation_time: None,
            atomics: None,
            operation_mean_us: None,
            rate_per_s: 0,
            parameter: 0,
            open_loop: None,
            order: Order::Any,
            disorder: None,
            load: None,
            counted: None,
            sent: 0,
            cores: None,
            times: None,
            timeline: None,
            work: None,
            connections: None,
            collective: None,
            matrix: None,
            incast: None,
            shuffle: None,
        }
    }

    /// Returns the distance of the processors beside the point; `None`: it was not measured.
    pub fn phase(&self) -> Option<Phase> {
        self.cores.as_ref().map(|cores| cores.phase)
    }

    /// Returns the figure by which blocks are compared, in µs, Gbit/s or million calls a second.
    /// `None` if nothing was measured.
    pub fn figure(&self) -> Option<f64> {
        if let Some(found) = self.open_loop {
            return found.response.map(|times| times.p50_us);
        }
        let latency = self.latency.map(|latency| latency.middle_us());
        let median = || self.operation_time.map(|times| times.p50_us);
        let whole = || self.collective.and_then(|own| median().or(Some(own.mean_us)));
        let goodput = || self.bandwidth.map(|b| b.gbit_per_s);
        let calls = || self.work.as_ref().map(|w| w.mcalls_per_s);
        let found = latency.or_else(whole).or_else(goodput).or_else(calls);
        found.or_else(median).or(self.operation_mean_us)
    }

    /// Returns the p99 of the point's times in µs; for open loops the times run from the moment for
    /// which a request was due.
    pub fn p99_us(&self) -> Option<f64> {
        let latency = self.latency.and_then(|latency| latency.distribution);
        let responses = self.open_loop.and_then(|found| found.response);
        latency.or(responses).or(self.operation_time).map(|times| times.p99_us)
    }

    /// Returns the tail of operations that came by the clock, each timed from the moment for which
    /// it was due, in µs; `None` in a closed loop, and if nothing was answered.
    pub fn p99_from_due_us(&self) -> Option<f64> {
        if let Some(found) = self.open_loop {
            return found.response.map(|times| times.p99_us);
        }
        let connections = self.connections.as_ref().and_then(|own| own.arrivals);
        self.work.as_ref().and_then(|work| work.arrivals).or(connections)?;
        self.operation_time.map(|times| times.p99_us)
    }

    /// Returns the distance of the best block from the worst one, in percent of the middle one.
    pub fn spread_percent(&self) -> Option<f64> {
        let low = self.blocks.iter().copied().reduce(f64::min)?;
        let high = self.blocks.iter().copied().reduce(f64::max)?;
        let middle = self.figure()?;
        (self.blocks.len() > 1 && middle > 0.0).then(|| (high - low) * 100.0 / middle)
    }

    /// Makes one point of the blocks of the same point: the middle block, with the losses and
    /// checks of all blocks. If operations come by the clock, their rate is given, and the middle
    /// block is the middle one by its tail. Blocks whose processors had another distance do not
    /// count. A block without a figure is worse than any that has one, and leaves the middle
    /// uncertain. `None` without blocks.
    pub fn middle(blocks: Vec<Self>) -> Option<Self> {
        let has_tails = blocks.iter().any(|block| block.p99_from_due_us().is_some());
        Self::middle_by(blocks, if has_tails { Self::p99_from_due_us } else { Self::figure })
    }

    /// Makes one point like `middle`, with the block that is the middle one by another figure.
    pub fn middle_by(mut blocks: Vec<Self>, by: fn(&Self) -> Option<f64>) -> Option<Self> {
        let lost = blocks.iter().map(|b| b.lost).sum();
        let validated = blocks.iter().map(|b| b.validated).sum();
        let counted = blocks.iter_mut().find_map(|block| block.counted.take());
        let left_out = Self::leave_out(&mut blocks);
        // The middle block is the one in which nothing special happened.
        let timelines = blocks.iter_mut().filter_map(|block| block.timeline.take());
        let timeline = timelines.max_by(|a, b| a.lost_ms().total_cmp(&b.lost_ms()));
        let figures: Vec<f64> = blocks.iter().filter_map(Self::figure).collect();
        let tails: Option<Vec<f64>> = blocks.iter().map(Self::p99_us).collect();
        let p99_blocks = tails.unwrap_or_default();
        let is_whole = figures.len() == blocks.len();
        let interval = if is_whole { middle_interval(&figures) } else { None };
        let looks = blocks.iter().filter_map(|block| Some(block.cores.as_ref()?.round_trip_ns));
        let round_trip_ns = looks.reduce(f64::min);
        let phases = blocks.iter().filter_map(|block| Some(block.cores.as_ref()?.phase));
        let phase = cores::common(phases);
        let rank = |block: &Self| by(block).unwrap_or(f64::INFINITY);
        blocks.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
        let middle = blocks.len() / 2;
        let mut point = blocks.into_iter().nth(middle)?;
        let known = phase.zip(round_trip_ns);
        point.cores = known.map(|(phase, round_trip_ns)| Cores { phase, round_trip_ns, left_out });
        let blocks = figures;
        Some(Self { blocks, p99_blocks, interval, lost, validated, counted, timeline, ..point })
    }

    /// Takes out the blocks that do not count. Returns their figures.
    fn leave_out(blocks: &mut Vec<Self>) -> Vec<f64> {
        let Some(phase) = cores::counting(blocks.iter().map(|block| &block.cores)) else {
            return Vec::new();
        };
        let counts = |block: &Self| block.cores.as_ref().is_some_and(|own| own.phase == phase);
        let (counting, others): (Vec<_>, Vec<_>) =
            std::mem::take(blocks).into_iter().partition(counts);
        *blocks = counting;
        others.iter().filter_map(Self::figure).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Arrivals;

    fn block(mb_per_s: u64, lost: u64) -> Point {
        Point {
            lost: Some(lost),
            validated: 2,
            bandwidth: Some(Bandwidth::new(1, mb_per_s * 1_000_000, 1.0)),
            ..Point::new(8, 1)
        }
    }

    #[test]
    fn the_middle_block_counts_and_losses_add_up() {
        let point = Point::middle(vec![block(500, 1), block(1, 0), block(400, 2)]).expect("blocks");
        assert_eq!(point.bandwidth.map(|b| b.mb_per_s), Some(400.0));
        assert_eq!((point.lost, point.validated), (Some(3), 6));
        assert_eq!(point.blocks, [4.0, 0.008, 3.2]);
        assert!(point.spread_percent().is_some_and(|p| (p - 124.75).abs() < 1e-9));
        assert!(Point::middle(Vec::new()).is_none());
        let alone = Point::middle(vec![block(5, 0)]).expect("one block");
        assert_eq!(alone.spread_percent(), None);
    }

    /// The tail of the middle block decides whether a rate is held.
    #[test]
    fn the_middle_of_a_named_rate_is_that_of_its_tails() {
        let block = |p50_us: f64, p99_us: f64| {
            let response = Some(Distribution { p50_us, p99_us, ..Distribution::default() });
            let open_loop = OpenLoop {
                arrivals: Arrivals::Poisson,
                offered_per_s: 1.0,
                answered_per_s: 1.0,
                unposted: 0,
                response,
                service: response,
            };
            Point { open_loop: Some(open_loop), ..Point::new(64, 1) }
        };
        let blocks = vec![block(1.0, 20.0), block(2.0, 900.0), block(3.0, 30.0)];
        let point = Point::middle(blocks).expect("blocks");
        assert_eq!(point.p99_from_due_us(), Some(30.0));
        assert_eq!(point.blocks, [1.0, 2.0, 3.0], "figures stay what they were");
        assert_eq!(point.p99_blocks, [20.0, 900.0, 30.0]);
    }

    #[test]
    fn blocks_without_a_figure_are_the_worst_and_no_zero() {
        let times = |p50_us| Distribution { p50_us, p99_us: p50_us, ..Distribution::default() };
        let block = |response: Option<Distribution>| Point {
            open_loop: Some(OpenLoop {
                arrivals: Arrivals::Poisson,
                offered_per_s: 1.0,
                answered_per_s: 1.0,
                unposted: 0,
                response,
                service: response,
            }),
            ..Point::new(64, 1)
        };
        let answered = |p50_us| block(Some(times(p50_us)));
        let point = Point::middle(vec![block(None), answered(7.0), answered(5.0)]).expect("blocks");
        assert_eq!((point.figure(), point.blocks.as_slice()), (Some(7.0), &[7.0, 5.0][..]));
        assert!(point.interval.is_none() && point.p99_blocks.is_empty(), "one has no tail");
        let point = Point::middle(vec![block(None), answered(7.0), block(None)]).expect("blocks");
        assert_eq!((point.figure(), point.spread_percent()), (None, None));
    }
}
