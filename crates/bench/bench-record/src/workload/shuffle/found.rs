//! The figures of a shuffle.

use serde::{Deserialize, Serialize};

use crate::spec::Limit;
use crate::{Bandwidth, ReceiverCount, Span};

/// The counts of one thread of a node within its window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShuffleCount {
    /// The number of tuples that the thread made.
    pub made: u64,
    /// The number of tuples of its partition that the thread took.
    pub taken: u64,
    /// The number of buffers that the thread sent.
    pub buffers_sent: u64,
    /// The number of bytes of tuples in these buffers.
    pub bytes_sent: u64,
    /// The time from the beginning of the block until all tuples of the thread's partition had
    /// come, in ns.
    pub partition_ns: u64,
}

/// The tuples of all nodes, each sent to the node that owns its key's partition; a GB has 10^9
/// bytes. The point's `bandwidth` is the mean of what a node gets from others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shuffle {
    pub partitions: usize,
    /// The number of tuples that were made within the window, those that stayed at their node
    /// included.
    pub tuples: u64,
    /// The rate of tuples of all nodes, in millions a second.
    pub mtuples_per_s: f64,
    /// The rate of tuples that a node gets from others, as a mean over nodes.
    pub gb_per_s: f64,
    /// The rate of the slowest node.
    pub gb_per_s_min: f64,
    /// The rate of the busiest node.
    pub gb_per_s_max: f64,
    /// The rate of the busiest node, in percent of the rate that its link takes (`--link-gbit`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_percent: Option<f64>,
    /// The processor time of the measuring threads of all nodes for a tuple, to make it and to take
    /// it, polling included.
    pub cpu_ns_per_tuple: f64,
    /// The same of whole processes, threads of the fabric included.
    pub process_cpu_ns_per_tuple: f64,
    /// The share of the room in the sent buffers that tuples filled.
    pub fill: f64,
    /// The tuples of the largest partition over those of the mean partition.
    pub load_max_to_mean: f64,
    /// The longest time until a partition was complete over the mean time.
    pub time_max_to_mean: f64,
}

/// The part of a shuffle's specification that its figures need.
#[derive(Debug, Clone, Copy)]
pub struct ShuffleOf {
    pub buffer_bytes: usize,
    /// The rate that a node's link takes; 0: it was not given.
    pub link_mbit_per_s: u64,
    /// The condition that ended the windows.
    pub limit: Limit,
}

impl Shuffle {
    /// Joins the counts of all nodes, thread by thread. Returns the mean of what a node gets, too;
    /// `None` if a node has counted nothing.
    pub fn of(nodes: &[Vec<ReceiverCount>], asked: ShuffleOf) -> Option<(Self, Bandwidth)> {
        let threads: Vec<&ReceiverCount> = nodes.iter().flatten().collect();
        let own: Vec<ShuffleCount> =
            threads.iter().map(|count| count.shuffle).collect::<Option<_>>()?;
        let got: Vec<Bandwidth> =
            nodes.iter().map(|node| Bandwidth::of(node, asked.limit)).collect();
        let gb_per_s: Vec<f64> = got.iter().map(|node| node.mb_per_s / 1e3).collect();
        let gb_per_s_max = gb_per_s.iter().copied().fold(0.0, f64::max);
        let tuples: u64 = own.iter().map(|count| count.made).sum();
        let per_tuple = |ns: u64| ns as f64 / tuples.max(1) as f64;
        // Each node has its own clock.
        let made_per_s = |node: &Vec<ReceiverCount>| {
            let made = |count: &ReceiverCount| count.shuffle.map_or(0, |own| own.made) as f64;
            let threads: Vec<_> = node.iter().map(|count| (made(count), count.span())).collect();
            Span::rate_of(asked.limit, &threads)
        };
        // Each thread reads the time of the same process.
        let process_ns =
            |node: &Vec<_>| node.iter().map(|c: &ReceiverCount| c.process_cpu_ns).max();
        let buffers: u64 = own.iter().map(|count| count.buffers_sent).sum();
        let bytes: u64 = own.iter().map(|count| count.bytes_sent).sum();
        let of_nodes = |of: fn(&[ShuffleCount]) -> u64| {
            // All nodes have the same number of threads.
            let threads = own.len() / nodes.len().max(1);
            max_to_mean(own.chunks(threads.max(1)).map(of))
        };
        let link_gb_per_s = asked.link_mbit_per_s as f64 / 8e3;
        let shuffle = Self {
            partitions: nodes.len(),
            tuples,
            mtuples_per_s: nodes.iter().map(made_per_s).sum::<f64>() / 1e6,
            gb_per_s: gb_per_s.iter().sum::<f64>() / nodes.len() as f64,
            gb_per_s_min: gb_per_s.iter().copied().fold(f64::INFINITY, f64::min),
            gb_per_s_max,
            link_percent: (link_gb_per_s > 0.0).then(|| gb_per_s_max * 100.0 / link_gb_per_s),
            cpu_ns_per_tuple: per_tuple(threads.iter().map(|count| count.cpu_ns).sum()),
            process_cpu_ns_per_tuple: per_tuple(nodes.iter().filter_map(process_ns).sum()),
            fill: bytes as f64 / (buffers * asked.buffer_bytes as u64).max(1) as f64,
            load_max_to_mean: of_nodes(|node| node.iter().map(|count| count.taken).sum()),
            time_max_to_mean: of_nodes(|node| {
                node.iter().map(|count| count.partition_ns).max().unwrap_or(0)
            }),
        };
        let all = got.into_iter().fold(Bandwidth::default(), Bandwidth::and);
        Some((shuffle, all.divided(nodes.len() as u64)))
    }
}

/// Returns the largest value over the mean; 1 if there is nothing.
fn max_to_mean(values: impl Iterator<Item = u64> + Clone) -> f64 {
    let (count, sum) = (values.clone().count() as f64, values.clone().sum::<u64>() as f64);
    let most = values.max().unwrap_or(0) as f64;
    if sum > 0.0 { most * count / sum } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(bytes: u64, taken: u64, partition_ns: u64) -> ReceiverCount {
        let shuffle =
            ShuffleCount { made: 100, taken, buffers_sent: 4, bytes_sent: 3000, partition_ns };
        ReceiverCount {
            bytes,
            messages: 4,
            seconds: 0.5,
            cpu_ns: 1000,
            process_cpu_ns: 5000,
            shuffle: Some(shuffle),
            ..ReceiverCount::default()
        }
    }

    #[test]
    fn nodes_are_the_sums_of_their_threads() {
        // The first node gets 3 GB/s with its two threads, the other one 1 GB/s.
        let first = vec![thread(1_000_000_000, 200, 8), thread(500_000_000, 100, 9)];
        let second = vec![thread(250_000_000, 50, 1), thread(250_000_000, 50, 3)];
        let limit = Limit::DurationMs(500);
        let asked = ShuffleOf { buffer_bytes: 1000, link_mbit_per_s: 48_000, limit };
        let (found, mean) = Shuffle::of(&[first, second], asked).expect("all have counted");
        assert_eq!((found.partitions, found.tuples), (2, 400));
        assert_eq!((found.gb_per_s, found.gb_per_s_min, found.gb_per_s_max), (2.0, 1.0, 3.0));
        assert_eq!(found.link_percent, Some(50.0));
        assert_eq!((found.cpu_ns_per_tuple, found.process_cpu_ns_per_tuple), (10.0, 25.0));
        assert_eq!((found.fill, found.load_max_to_mean), (0.75, 1.5));
        assert_eq!(found.time_max_to_mean, 1.5);
        assert!((found.mtuples_per_s - 0.0008).abs() < 1e-12);
        assert_eq!((mean.gbit_per_s, mean.messages), (16.0, Some(8)));
    }

    #[test]
    fn what_did_not_count_is_no_shuffle() {
        let limit = Limit::DurationMs(500);
        let asked = ShuffleOf { buffer_bytes: 1000, link_mbit_per_s: 0, limit };
        let one = vec![thread(1, 1, 1)];
        assert!(Shuffle::of(&[one, vec![ReceiverCount::default()]], asked).is_none());
    }
}
