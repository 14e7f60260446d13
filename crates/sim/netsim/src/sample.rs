//! Samples of a run: the history of flows, queues and uplinks, in bounded memory.
//!
//! Only what grows is kept (bytes that arrived, bytes a link carried) and the deepest queue. So
//! when the memory is full, every second sample can be dropped, and only resolution is lost.

use crate::flow::Flow;
use crate::id::{FlowId, LinkId};
use crate::link::Link;
use crate::percentile::rank;
use crate::time::Time;
use crate::topology::Fabric;
use serde::{Deserialize, Serialize};

/// Maximum number of samples; when it is reached, every second one is dropped and the interval
/// doubles.
const SAMPLES_MAX: usize = 1024;
/// Maximum number of flows that are sampled one by one, spread evenly over all.
const FLOWS_MAX: usize = 64;
/// Maximum number of queues that are reported, the busiest.
const QUEUES_MAX: usize = 16;
/// Maximum number of switches that are reported, the busiest.
const SWITCHES_MAX: usize = 16;
/// Logarithm of the depth in bytes from which on depths of a queue are told apart.
const FIRST_LOG2: u32 = 10;
/// Number of steps in which they are told apart, four per doubling, up to 64 MiB, with one
/// below and one beyond. (With pauses a queue may be many times as deep as a link's buffer.)
const STEPS: usize = 4 * 16 + 2;

/// The samples of a run over time. Times and bytes count from the start of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// Microseconds at which samples were taken, the last at the end of the run.
    pub at_us: Vec<f64>,
    /// Payload bytes of all flows that had arrived by then.
    pub delivered_bytes: Vec<u64>,
    /// Deepest queue of all switch ports, of the moments since the sample before that were looked
    /// at.
    pub deepest_queue_bytes: Vec<u32>,
    /// Up to 64 flows, spread evenly over all.
    pub flows: Vec<FlowSamples>,
    /// The queues that were deepest on average, at most 16.
    pub queues: Vec<QueueUse>,
    /// Uplinks of the switches that sent most upwards, at most 16 switches.
    pub uplinks: Vec<UplinkUse>,
}

/// One flow over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowSamples {
    /// Number of the flow in the outcome.
    pub flow: FlowId,
    /// Payload bytes that had arrived, one entry per sample.
    pub delivered_bytes: Vec<u64>,
}

/// The queue of a switch port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueUse {
    /// Name of the link it feeds, in its direction.
    pub link: String,
    /// Size of the port's buffer.
    pub buffer_bytes: u32,
    /// Greatest depth of the run.
    pub peak_bytes: u32,
    /// Depth that was not exceeded at 99 of 100 moments; up to a quarter too large.
    pub p99_bytes: u32,
    /// Mean depth over the run.
    pub mean_bytes: u32,
}

/// An uplink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UplinkUse {
    /// Name of the switch it leads away from.
    pub switch: String,
    /// Name of the link, in its direction.
    pub link: String,
    /// Bytes it carried, with all headers.
    pub carried_bytes: u64,
}

/// Distribution of the depths of a queue.
#[derive(Clone, Debug)]
struct Depths {
    /// Number of intervals spent in each step.
    steps: [u32; STEPS],
    sum_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Sampler {
    interval_ps: u64,
    /// Interval in units of the first one: the weight of a sample.
    weight: u32,
    /// Sum of weights.
    weights: u64,
    kept: Samples,
    /// First link that leaves a switch; `depths` has one entry for each from there on.
    first_queue: LinkId,
    depths: Vec<Depths>,
}

impl Sampler {
    /// Creates a sampler for a run of `flows` flows.
    pub(crate) fn new(interval_us: u32, flows: usize, fabric: &Fabric) -> Self {
        let looked_at = flows.min(FLOWS_MAX);
        let spread = |i: usize| FlowSamples {
            flow: FlowId::at(i * flows / looked_at),
            delivered_bytes: Vec::with_capacity(SAMPLES_MAX),
        };
        let first_queue = fabric.first_switch_link();
        Self {
            interval_ps: u64::from(interval_us.max(1)) * 1_000_000,
            weight: 1,
            weights: 0,
            kept: Samples { flows: (0..looked_at).map(spread).collect(), ..Samples::default() },
            first_queue,
            depths: vec![Depths::NONE; fabric.links.len() - first_queue.index()],
        }
    }

    /// Returns the time of the sample after one at `at`.
    pub(crate) fn next_at(&self, at: Time) -> Time {
        at.plus_ps(self.interval_ps)
    }

    /// Takes a sample.
    pub(crate) fn take(&mut self, now: Time, flows: &[Flow], fabric: &Fabric) {
        let mut deepest = 0;
        let weight = self.weight;
        self.weights += u64::from(weight);
        for (link, depths) in queues(fabric, self.first_queue).zip(&mut self.depths) {
            let bytes = link.queued_bytes(now);
            deepest = deepest.max(bytes);
            depths.sum_bytes += u64::from(bytes) * u64::from(weight);
            depths.steps[step_of(bytes)] += weight;
        }
        self.keep(now, deepest, flows);
        if self.kept.at_us.len() >= SAMPLES_MAX {
            self.halve();
        }
    }

    fn keep(&mut self, now: Time, deepest: u32, flows: &[Flow]) {
        self.kept.at_us.push(now.as_ps() as f64 / 1e6);
        self.kept.delivered_bytes.push(flows.iter().map(|flow| flow.delivered_bytes).sum());
        self.kept.deepest_queue_bytes.push(deepest);
        for entry in &mut self.kept.flows {
            entry.delivered_bytes.push(flows[entry.flow.index()].delivered_bytes);
        }
    }

    /// Forgets every second sample, and takes half as many from now on.
    fn halve(&mut self) {
        fn second<T: Copy>(values: &mut Vec<T>) {
            *values = values.chunks_exact(2).map(|pair| pair[1]).collect();
        }
        let kept = &mut self.kept;
        second(&mut kept.at_us);
        second(&mut kept.delivered_bytes);
        kept.flows.iter_mut().for_each(|entry| second(&mut entry.delivered_bytes));
        let deepest = &mut kept.deepest_queue_bytes;
        *deepest = deepest.chunks_exact(2).map(|pair| pair[0].max(pair[1])).collect();
        self.interval_ps *= 2;
        self.weight *= 2;
    }

    /// Returns all samples, with a last one of the end.
    pub(crate) fn finish(mut self, now: Time, flows: &[Flow], fabric: &Fabric) -> Samples {
        let end_us = now.as_ps() as f64 / 1e6;
        // A run without transfers ends as it begins: there is no interval to look at.
        if self.kept.at_us.last().copied().unwrap_or(0.0) < end_us {
            let ports = queues(fabric, self.first_queue);
            let deepest = ports.map(|link| link.queued_bytes(now)).max().unwrap_or(0);
            self.keep(now, deepest, flows);
        }
        self.kept.queues = self.busiest_queues(fabric);
        self.kept.uplinks = busiest_uplinks(fabric);
        self.kept
    }

    fn busiest_queues(&self, fabric: &Fabric) -> Vec<QueueUse> {
        let links = queues(fabric, self.first_queue);
        let mut all: Vec<(LinkId, &Link, &Depths)> = LinkId::all()
            .skip(self.first_queue.index())
            .zip(links.zip(&self.depths))
            .map(|(number, (link, depths))| (number, link, depths))
            .filter(|(_, link, _)| link.peak_bytes() > 0)
            .collect();
        all.sort_by_key(|(number, _, depths)| (u64::MAX - depths.sum_bytes, *number));
        let report = |&(number, link, depths): &(LinkId, &Link, &Depths)| QueueUse {
            link: fabric.link_name(number),
            buffer_bytes: link.buffer_bytes(),
            peak_bytes: link.peak_bytes(),
            p99_bytes: depths.p99_bytes(link, self.weights),
            mean_bytes: (depths.sum_bytes / self.weights.max(1)) as u32,
        };
        all.iter().take(QUEUES_MAX).map(report).collect()
    }
}

impl Depths {
    const NONE: Self = Self { steps: [0; STEPS], sum_bytes: 0 };

    fn p99_bytes(&self, link: &Link, weights: u64) -> u32 {
        // Nearest rank, as of all percentiles.
        let enough = rank(weights as usize, 99) as u64;
        let mut seen = 0;
        let step = self.steps.iter().position(|&count| {
            seen += u64::from(count);
            seen >= enough
        });
        link.peak_bytes().min(upper_bound(step.unwrap_or(0)))
    }
}

/// Returns the step of a depth. Step 0 is below `2^FIRST_LOG2` bytes, the last has no end.
fn step_of(bytes: u32) -> usize {
    let Some(octave) = bytes.checked_ilog2().and_then(|log2| log2.checked_sub(FIRST_LOG2)) else {
        return 0;
    };
    let quarter = (bytes >> (octave + FIRST_LOG2 - 2)) & 3;
    (4 * octave as usize + quarter as usize + 1).min(STEPS - 1)
}

/// Returns the largest number of bytes in a step.
fn upper_bound(step: usize) -> u32 {
    if step + 1 == STEPS {
        return u32::MAX;
    }
    let (octave, quarter) = (step as u32 / 4, step as u32 % 4);
    (((4 + quarter) << (octave + FIRST_LOG2)) >> 2) - 1
}

/// Returns the links that leave a switch.
fn queues(fabric: &Fabric, first: LinkId) -> impl Iterator<Item = &Link> {
    fabric.links[first.index()..].iter()
}

fn busiest_uplinks(fabric: &Fabric) -> Vec<UplinkUse> {
    let carried = |link: LinkId| fabric.links[link.index()].carried_bytes();
    let mut switches: Vec<_> = fabric
        .uplinks()
        .map(|(node, links)| (links.clone().map(carried).sum::<u64>(), node, links))
        .filter(|(bytes, ..)| *bytes > 0)
        .collect();
    switches.sort_by_key(|(bytes, node, _)| (u64::MAX - bytes, *node));
    switches.truncate(SWITCHES_MAX);
    let mut uses = Vec::new();
    for (_, node, links) in switches {
        uses.extend(links.map(|link| UplinkUse {
            switch: fabric.name(node),
            link: fabric.link_name(link),
            carried_bytes: carried(link),
        }));
    }
    uses
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;

    const SCENARIO: &str = "title = \"t\"\nseeds = [1]\nlimit_ms = 20
[topology.leaf_spine]\nracks = 2\nhosts_per_rack = 8\nspines = 8
[network]\ngbps = 100\nhop_ns = 500\nbuffer_bytes = 200_000
[[workload.incast]]\nservers = 8\nprocesses = 10\nbytes = 200_000\n";

    #[test]
    fn looking_changes_nothing_and_adds_up() {
        let scenario = Scenario::parse(SCENARIO).unwrap();
        let plain = scenario.run(7).unwrap();
        for interval_us in [1, 50, 100_000] {
            let (outcome, samples) = scenario.run_sampled(7, interval_us).unwrap();
            assert_eq!(outcome, plain, "every {interval_us} us");
            assert!(samples.at_us.len() <= SAMPLES_MAX && samples.at_us.is_sorted());
            assert_eq!(samples.delivered_bytes.last(), Some(&16_000_000));
            assert_eq!(samples.flows.len(), FLOWS_MAX, "of 80");
            for flow in &samples.flows {
                assert_eq!(flow.delivered_bytes.len(), samples.at_us.len());
                assert!(flow.delivered_bytes.is_sorted());
                assert_eq!(flow.delivered_bytes.last(), Some(&200_000));
            }
        }
    }

    #[test]
    fn steps_cover_all_depths_to_a_quarter() {
        for bytes in (0..70_000).chain((16..32).flat_map(|log2| [(1 << log2) - 1, 1 << log2])) {
            let step = step_of(bytes);
            assert!(bytes <= upper_bound(step), "{bytes}");
            if step > 0 {
                assert!(bytes > upper_bound(step - 1), "{bytes}");
            }
            if (1024..1 << 26).contains(&bytes) {
                assert!(upper_bound(step) <= bytes + bytes / 4, "{bytes}");
            }
        }
    }

    #[test]
    fn full_memory_halves_the_resolution() {
        let scenario = Scenario::parse(SCENARIO).unwrap();
        let (_, samples) = scenario.run_sampled(7, 1).unwrap();
        assert!(samples.at_us.len() > SAMPLES_MAX / 2, "{}", samples.at_us.len());
        assert_eq!(samples.at_us[..3], [2.0, 4.0, 6.0]);
        let (_, coarse) = scenario.run_sampled(7, 2).unwrap();
        assert_eq!(samples.delivered_bytes, coarse.delivered_bytes);
        assert_eq!(samples.flows, coarse.flows);
    }

    #[test]
    fn the_busiest_queue_is_the_last_hop_and_uplinks_are_those_of_the_senders() {
        let scenario = Scenario::parse(SCENARIO).unwrap();
        let (outcome, samples) = scenario.run_sampled(7, 1).unwrap();
        let queue = &samples.queues[0];
        assert_eq!(
            (queue.link.as_str(), queue.peak_bytes),
            ("leaf0-host0", outcome.peak_queue_bytes)
        );
        assert!(0 < queue.mean_bytes && queue.mean_bytes < queue.p99_bytes);
        assert!(queue.p99_bytes <= queue.peak_bytes && queue.peak_bytes <= queue.buffer_bytes);
        assert!(samples.deepest_queue_bytes.iter().max() <= Some(&queue.peak_bytes));
        let up: Vec<&UplinkUse> = samples.uplinks.iter().filter(|u| u.switch == "leaf1").collect();
        assert_eq!(up.len(), 8);
        assert!(up.iter().map(|u| u.carried_bytes).sum::<u64>() > 16_000_000);
    }
}
