//! The result schema, `efa-bench/2`. Fields are only ever added; files of `efa-bench/1` can be read.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::counters::Counted;
use crate::measure::{Interval, median_interval};
use crate::spec::{Arrivals, Benchmark, EndpointKind, Flow, Operation};
use crate::workload::WorkSpec;

mod collective;
mod histogram;
mod plan;
mod work;

pub(crate) use self::collective::Collective;
pub(crate) use self::histogram::{PackedTimes, TimesOf};
pub(crate) use self::plan::{DeviceCounters, LeftOut, PlanRecord};
pub(crate) use self::work::{ActionTimes, Work};

/// Schema name and version in every JSON file.
pub(crate) const SCHEMA: &str = "efa-bench/2";
/// An older one, whose files lack fields but hold nothing else.
pub(crate) const SCHEMA_BEFORE: &str = "efa-bench/1";

/// A whole result file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) schema: String,
    pub(crate) tool: String,
    pub(crate) libfabric: String,
    /// UTC, ISO 8601.
    pub(crate) date: String,
    /// The command that made this file.
    pub(crate) command: String,
    pub(crate) host: Host,
    /// What limits the meaning of the figures.
    pub(crate) warnings: Vec<String>,
    /// Of files that a plan made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<PlanRecord>,
    pub(crate) runs: Vec<Run>,
}

/// The machine.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) kernel: String,
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    #[serde(default)]
    pub(crate) numa_nodes: usize,
    /// Cost of one clock read in ns, measured.
    pub(crate) clock_read_ns: f64,
    /// FI_* and SOFTEFA_* variables.
    pub(crate) environment: BTreeMap<String, String>,
}

/// The fabric in use, as libfabric describes it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct FabricRecord {
    pub(crate) provider: String,
    pub(crate) fabric: String,
    pub(crate) domain: String,
    pub(crate) mtu_bytes: Option<usize>,
    pub(crate) max_message_bytes: usize,
    pub(crate) inject_bytes: usize,
    pub(crate) tx_depth: usize,
    pub(crate) rx_depth: usize,
    /// NUMA node of the adapter, where it is at one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) numa_node: Option<usize>,
    /// The text of `fi_info -v`.
    pub(crate) text: String,
}

/// One benchmark on one fabric.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Run {
    /// What the reader sees: "Soft-EFA", "libfabric tcp", "EFA c5n.18xlarge (published)".
    pub(crate) name: String,
    /// "measured", "imported" (from the output of another tool) or "published".
    pub(crate) source: String,
    /// Where published numbers are from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) citation: Option<String>,
    pub(crate) benchmark: Benchmark,
    pub(crate) endpoint: EndpointKind,
    pub(crate) operation: Operation,
    /// The name by which it was asked for; empty in older files and for published figures.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) test: String,
    #[serde(default)]
    pub(crate) method: Method,
    /// The command to measure it again.
    pub(crate) command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fabric: Option<FabricRecord>,
    /// Set-up phases of the client in µs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) setup_us: Vec<(String, f64)>,
    /// First round trip of the session in µs, whole, connection set-up of the provider included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cold_start_us: Option<f64>,
    /// Processors the measuring threads were kept on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_cpu: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) server_cpu: Option<usize>,
    /// The software device's counters after the run, by side, where there is such a device.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) counters: BTreeMap<String, DeviceCounters>,
    /// False when the run ended early; then `error` says why and `points` are those that were done.
    pub(crate) complete: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    pub(crate) points: Vec<Point>,
}

/// Who counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CountedAt {
    /// Messages that arrived, at their receiver.
    #[default]
    Receiver,
    /// Operations that completed, at their initiator.
    Initiator,
}

/// How a run was measured, beyond the sizes and depths of its points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Method {
    pub(crate) flow: Flow,
    /// Nodes that took part, the client included.
    pub(crate) nodes: usize,
    /// Measuring threads of each node, and endpoints of each to each peer.
    pub(crate) threads: usize,
    pub(crate) endpoints: usize,
    /// Memory in use at random offsets; 0: as much as the depth needs.
    pub(crate) memory_bytes: usize,
    /// Messages of the streams beside a latency in bytes; 0: there were none.
    pub(crate) load_size_bytes: usize,
    pub(crate) counted_at: CountedAt,
    /// What the calls of a workload were about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) work: Option<WorkSpec>,
    /// Of the order of blocks and everything else random.
    pub(crate) seed: u64,
}

impl Default for Method {
    fn default() -> Self {
        Self {
            flow: Flow::default(),
            nodes: 2,
            threads: 1,
            endpoints: 1,
            memory_bytes: 0,
            load_size_bytes: 0,
            counted_at: CountedAt::Receiver,
            work: None,
            seed: 0,
        }
    }
}

/// Requests that came by the clock, whole round trips in µs.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct OpenLoop {
    pub(crate) arrivals: Arrivals,
    /// Requests per second that were intended, and those whose answer came within the window.
    pub(crate) offered_per_s: f64,
    pub(crate) answered_per_s: f64,
    /// Requests that were given up, because the fabric was too far behind.
    pub(crate) unposted: u64,
    /// From the moment for which a request was intended.
    pub(crate) response: Distribution,
    /// From the moment in which it was posted.
    pub(crate) service: Distribution,
}

/// One measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) size_bytes: usize,
    /// Sends in flight at most; 1 for latency.
    pub(crate) depth: usize,
    /// Receives posted at the receiver; 0: unknown.
    pub(crate) rx_depth: usize,
    pub(crate) warmup_ms: u64,
    /// Messages lost (datagram endpoints).
    pub(crate) lost: u64,
    /// Messages whose content was checked; 0: not asked for.
    pub(crate) validated: u64,
    /// 95 % interval of the middle of the blocks, in their unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) interval: Option<Interval>,
    /// The figure of each block in the order measured: median half round trip in µs, or goodput
    /// in Gbit/s. The point itself is the middle block.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) blocks: Vec<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) latency: Option<Latency>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bandwidth: Option<Bandwidth>,
    /// From posting to completion, of one-sided operations that come one at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) operation_time: Option<Distribution>,
    /// Messages per second that each thread was asked for; 0: as fast as it can.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) rate_per_s: u64,
    /// The workload's own parameter: records in a message (piggyback), levels of the tree that the
    /// client keeps (index), bytes of a chunk (fileget).
    #[serde(default, skip_serializing_if = "is_none")]
    pub(crate) parameter: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) open_loop: Option<OpenLoop>,
    /// How far messages came out of order; known where contents are checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) disorder: Option<Disorder>,
    /// What streams moved beside a latency, measured at their receivers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) load: Option<Bandwidth>,
    /// What adapters counted beside the first block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) counted: Option<Counted>,
    /// Messages that the client sent in the block, warm-up and tail included; 0: not known.
    #[serde(skip)]
    pub(crate) sent: u64,
    /// All times of the block that counts, for those who want more than percentiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) times: Option<PackedTimes>,
    /// Of a data system's calls; then `operation_time` is that of all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) work: Option<Work>,
    /// Of an operation of all ranks; then `operation_time` is that of its slowest rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) collective: Option<Collective>,
}

/// How far messages of a stream came out of the order in which they were posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Disorder {
    /// Messages that came after a later one of their thread.
    pub(crate) overtaken: u64,
    /// Of so many.
    pub(crate) messages: u64,
    /// The largest distance of a message to a later one that came before, in messages.
    pub(crate) farthest: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_none(parameter: &usize) -> bool {
    *parameter == 0
}

impl Run {
    /// A complete run of reliable messages, of which nothing but its points is known.
    pub(crate) fn new(name: &str, benchmark: Benchmark, points: Vec<Point>) -> Self {
        Self {
            name: name.to_owned(),
            source: "measured".to_owned(),
            citation: None,
            benchmark,
            endpoint: EndpointKind::Rdm,
            operation: Operation::Send,
            test: String::new(),
            method: Method::default(),
            command: String::new(),
            fabric: None,
            setup_us: Vec::new(),
            cold_start_us: None,
            client_cpu: None,
            server_cpu: None,
            counters: BTreeMap::new(),
            complete: true,
            error: None,
            points,
        }
    }
}

impl Run {
    /// What was measured, in one word: the benchmark, or which operation of all ranks.
    pub(crate) fn kind(&self) -> &str {
        match self.benchmark {
            Benchmark::Collective if !self.test.is_empty() => &self.test,
            benchmark => benchmark.name(),
        }
    }
}

impl Point {
    /// Whether `other` was measured with the same settings.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let ranks = |point: &Self| point.collective.map(|collective| collective.ranks);
        (self.size_bytes, self.depth) == (other.size_bytes, other.depth)
            && ranks(self) == ranks(other)
    }

    /// A point without figures.
    pub(crate) const fn new(size_bytes: usize, depth: usize) -> Self {
        Self {
            size_bytes,
            depth,
            rx_depth: 0,
            warmup_ms: 0,
            lost: 0,
            validated: 0,
            blocks: Vec::new(),
            interval: None,
            latency: None,
            bandwidth: None,
            operation_time: None,
            rate_per_s: 0,
            parameter: 0,
            open_loop: None,
            disorder: None,
            load: None,
            counted: None,
            sent: 0,
            times: None,
            work: None,
            collective: None,
        }
    }

    /// The figure by which blocks are compared: µs, Gbit/s or million calls a second.
    pub(crate) fn figure(&self) -> f64 {
        let latency = self.latency.map(|l| l.distribution.map_or(l.mean_us, |d| d.p50_us));
        let latency = latency.or_else(|| self.open_loop.map(|o| o.response.p50_us));
        let whole = || self.collective.and(self.operation_time).map(|times| times.p50_us);
        let goodput = || self.bandwidth.map(|b| b.gbit_per_s);
        let calls = || self.work.as_ref().map(|w| w.mcalls_per_s);
        latency.or_else(whole).or_else(goodput).or_else(calls).unwrap_or_default()
    }

    /// Distance of the best and the worst block, in percent of the middle one.
    pub(crate) fn spread_percent(&self) -> Option<f64> {
        let low = self.blocks.iter().copied().reduce(f64::min)?;
        let high = self.blocks.iter().copied().reduce(f64::max)?;
        let middle = self.figure();
        (self.blocks.len() > 1 && middle > 0.0).then(|| (high - low) * 100.0 / middle)
    }

    /// Makes one point of the blocks of the same point: the middle one, with losses and checks of
    /// all of them. `None` without blocks.
    pub(crate) fn middle(mut blocks: Vec<Self>, seed: u64) -> Option<Self> {
        let figures: Vec<f64> = blocks.iter().map(Self::figure).collect();
        let interval = median_interval(&figures, seed);
        let lost = blocks.iter().map(|b| b.lost).sum();
        let validated = blocks.iter().map(|b| b.validated).sum();
        let counted = blocks.iter_mut().find_map(|block| block.counted.take());
        blocks.sort_by(|a, b| a.figure().total_cmp(&b.figure()));
        let middle = blocks.len() / 2;
        let point = blocks.into_iter().nth(middle)?;
        Some(Self { blocks: figures, interval, lost, validated, counted, ..point })
    }
}

/// Half round trips in µs; closed loop, one message in flight.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) round_trips: u64,
    pub(crate) mean_us: f64,
    /// Published figures have a mean only: then the other fields are absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) distribution: Option<Distribution>,
}

impl Latency {
    /// Half of each of these round trips.
    pub(crate) fn half(round_ns: &Histogram<u64>, sum_ns: u64, count: u64) -> Self {
        Self {
            round_trips: count,
            mean_us: sum_ns as f64 / count.max(1) as f64 / 2_000.0,
            distribution: (!round_ns.is_empty()).then(|| Distribution::of(round_ns, 2)),
        }
    }
}

/// Percentiles in µs.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Distribution {
    pub(crate) min_us: f64,
    pub(crate) p50_us: f64,
    /// perftest does not print it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) p90_us: Option<f64>,
    pub(crate) p99_us: f64,
    /// OSU does not print it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) p999_us: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) p9999_us: Option<f64>,
    pub(crate) max_us: f64,
}

impl Distribution {
    /// Of times in ns, each divided by `ways`.
    pub(crate) fn of(times_ns: &Histogram<u64>, ways: u32) -> Self {
        let us = |time_ns: u64| time_ns as f64 / 1_000.0 / f64::from(ways);
        let at = |quantile: f64| us(times_ns.value_at_quantile(quantile));
        Self {
            min_us: us(times_ns.min()),
            p50_us: at(0.5),
            p90_us: Some(at(0.9)),
            p99_us: at(0.99),
            p999_us: Some(at(0.999)),
            p9999_us: Some(at(0.9999)),
            max_us: us(times_ns.max()),
        }
    }

    /// One of so many equal parts of each time.
    pub(crate) fn divided(self, parts: f64) -> Self {
        let part = |us: Option<f64>| us.map(|us| us / parts);
        Self {
            min_us: self.min_us / parts,
            p50_us: self.p50_us / parts,
            p90_us: part(self.p90_us),
            p99_us: self.p99_us / parts,
            p999_us: part(self.p999_us),
            p9999_us: part(self.p9999_us),
            max_us: self.max_us / parts,
        }
    }
}

/// Goodput at the receiver within the measured window; MB = 10^6 bytes.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Bandwidth {
    pub(crate) messages: u64,
    pub(crate) seconds: f64,
    pub(crate) mb_per_s: f64,
    pub(crate) gbit_per_s: f64,
    pub(crate) mmsg_per_s: f64,
}

impl Bandwidth {
    /// What several receiving threads counted: their rates add up, since their windows are of one
    /// length and lie within each other's streams.
    pub(crate) fn of(threads: &[ReceiverCount]) -> Self {
        let each = threads.iter().map(|c| Self::new(c.messages, c.bytes, c.seconds));
        each.fold(Self::default(), |sum, one| Self {
            messages: sum.messages + one.messages,
            seconds: sum.seconds.max(one.seconds),
            mb_per_s: sum.mb_per_s + one.mb_per_s,
            gbit_per_s: sum.gbit_per_s + one.gbit_per_s,
            mmsg_per_s: sum.mmsg_per_s + one.mmsg_per_s,
        })
    }

    pub(crate) fn new(messages: u64, bytes: u64, seconds: f64) -> Self {
        let rate = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        Self {
            messages,
            seconds,
            mb_per_s: rate(bytes as f64) / 1e6,
            gbit_per_s: rate(bytes as f64) * 8.0 / 1e9,
            mmsg_per_s: rate(messages as f64) / 1e6,
        }
    }
}

/// What the receiver of a bandwidth point saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReceiverCount {
    /// Messages and bytes within the window, and its length.
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    /// Messages of the whole point, warm-up and tail included.
    pub(crate) total: u64,
    /// Messages whose content was checked, and how many of them were wrong or came twice.
    pub(crate) validated: u64,
    pub(crate) wrong: u64,
    pub(crate) duplicates: u64,
    /// Messages with a sequence number, where that is not those that were checked.
    pub(crate) numbered: u64,
    /// Of those with a sequence number: how many came after a later one of their thread, and by how
    /// many numbers at most.
    pub(crate) overtaken: u64,
    pub(crate) farthest: u64,
    /// Transactions that were committed.
    pub(crate) committed: u64,
    /// Processor time of the thread for `messages` in ns, where it was read (workloads), and of the
    /// whole process.
    pub(crate) cpu_ns: u64,
    pub(crate) process_cpu_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(mb_per_s: u64, lost: u64) -> Point {
        Point {
            lost,
            validated: 2,
            bandwidth: Some(Bandwidth::new(1, mb_per_s * 1_000_000, 1.0)),
            ..Point::new(8, 1)
        }
    }

    #[test]
    fn the_middle_block_counts_and_losses_add_up() {
        let point =
            Point::middle(vec![block(500, 1), block(1, 0), block(400, 2)], 1).expect("blocks");
        assert_eq!(point.bandwidth.map(|b| b.mb_per_s), Some(400.0));
        assert_eq!((point.lost, point.validated), (3, 6));
        assert_eq!(point.blocks, [4.0, 0.008, 3.2]);
        assert!(point.spread_percent().is_some_and(|p| (p - 124.75).abs() < 1e-9));
        assert!(Point::middle(Vec::new(), 1).is_none());
        let alone = Point::middle(vec![block(5, 0)], 1).expect("one block");
        assert_eq!(alone.spread_percent(), None);
    }
}
