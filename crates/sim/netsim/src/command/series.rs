//! Conversion of outcomes and samples to the lines of charts.

use netsim::{Outcome, Samples, SizeClass};

/// Maximum number of points of a line: more cannot be seen.
const POINTS_MAX: usize = 160;

/// Points of a line, by x.
pub(crate) type Line = Vec<(f64, f64)>;

/// Returns for each completion time in microseconds the percentage of all flows that had ended by
/// then.
pub(crate) fn completion_cdf(outcome: &Outcome) -> Line {
    let done = outcome.flows.iter().filter_map(|flow| flow.completion_ps);
    cdf(done.map(|ps| ps as f64 / 1e6), outcome.flows.len())
}

/// Returns the same distribution for the best possible completion times.
pub(crate) fn ideal_cdf(outcome: &Outcome) -> Line {
    let ideal = outcome.flows.iter().map(|flow| flow.ideal_ps as f64 / 1e6);
    cdf(ideal, outcome.flows.len())
}

fn cdf(values: impl Iterator<Item = f64>, of: usize) -> Line {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let Some(&first) = sorted.first() else { return Vec::new() };
    let steps = thinned(sorted.len()).map(|i| (sorted[i], 100.0 * (i + 1) as f64 / of as f64));
    [(first, 0.0)].into_iter().chain(steps).collect()
}

/// Returns median and 99th percentile of the slowdown, by the largest size of each class.
pub(crate) fn slowdown(classes: &[SizeClass]) -> [Line; 2] {
    let line = |value: fn(&SizeClass) -> Option<f64>| -> Line {
        let known = classes.iter().filter_map(|c| Some((c.up_to_bytes as f64, value(c)?)));
        known.collect()
    };
    [line(|class| class.p50_to_ideal), line(|class| class.p99_to_ideal)]
}

/// Returns the Gbit/s of payload that arrived, of all flows together.
pub(crate) fn throughput(samples: &Samples) -> Line {
    rates(&samples.at_us, &samples.delivered_bytes)
}

/// Returns the Gbit/s of the slowest flow, the mean and the fastest, of the flows that were active
/// during an interval and were sampled.
pub(crate) fn spread(outcome: &Outcome, samples: &Samples) -> [Line; 3] {
    let mut lines = [Vec::new(), Vec::new(), Vec::new()];
    let picks: Vec<usize> = thinned(samples.at_us.len()).collect();
    let mut from = None;
    for to in picks {
        let rates = active_rates(outcome, samples, from, to);
        if !rates.is_empty() {
            let at = samples.at_us[to];
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            lines[0].push((at, rates.iter().copied().fold(f64::INFINITY, f64::min)));
            lines[1].push((at, mean));
            lines[2].push((at, rates.iter().copied().fold(0.0, f64::max)));
        }
        from = Some(to);
    }
    lines
}

/// Returns the Gbit/s between two samples (from the start when `from` is missing) of each flow that
/// had begun before and had not ended after.
fn active_rates(outcome: &Outcome, samples: &Samples, from: Option<usize>, to: usize) -> Vec<f64> {
    let start_us = from.map_or(0.0, |from| samples.at_us[from]);
    let us = samples.at_us[to] - start_us;
    let rate = |entry: &netsim::FlowSamples| {
        let flow = &outcome.flows[entry.flow.index()];
        let before = from.map_or(0, |from| entry.delivered_bytes[from]);
        let after = entry.delivered_bytes[to];
        let begun = !flow.not_begun && flow.start_ps as f64 / 1e6 <= start_us;
        let active = begun && after < flow.bytes;
        active.then(|| gbps(after - before, us))
    };
    samples.flows.iter().filter_map(rate).collect()
}

/// Returns the bytes in the deepest queue.
pub(crate) fn deepest_queue(samples: &Samples) -> Line {
    let mut line = Vec::new();
    let mut from = 0;
    for to in thinned(samples.at_us.len()) {
        let deepest = samples.deepest_queue_bytes[from..=to].iter().max();
        line.push((samples.at_us[to], f64::from(deepest.copied().unwrap_or(0))));
        from = to + 1;
    }
    line
}

/// Returns the mean Gbit/s of the uplinks of the switch that sent most upwards, by number.
pub(crate) fn uplinks(samples: &Samples) -> Option<(String, Line)> {
    let switch = &samples.uplinks.first()?.switch;
    let us = samples.at_us.last().copied().filter(|&us| us > 0.0)?;
    let links = samples.uplinks.iter().filter(|link| link.switch == *switch);
    let line = (0..).zip(links).map(|(i, link)| (f64::from(i), gbps(link.carried_bytes, us)));
    Some((switch.clone(), line.collect()))
}

/// Returns the rate at which a sum grows, by the ends of the intervals.
fn rates(at_us: &[f64], bytes: &[u64]) -> Line {
    let mut before = (0.0, 0);
    let mut line = Vec::new();
    for i in thinned(at_us.len()) {
        line.push((at_us[i], gbps(bytes[i] - before.1, at_us[i] - before.0)));
        before = (at_us[i], bytes[i]);
    }
    line
}

fn gbps(bytes: u64, us: f64) -> f64 {
    bytes as f64 * 8.0 / (us * 1000.0)
}

/// Returns indices of at most [`POINTS_MAX`] of `len` values, spread evenly, the last among them.
fn thinned(len: usize) -> impl Iterator<Item = usize> {
    let step = len.div_ceil(POINTS_MAX).max(1);
    (0..len).rev().step_by(step).collect::<Vec<_>>().into_iter().rev()
}

#[cfg(test)]
mod tests {
    use super::*;
    use netsim::{FlowId, FlowOutcome, FlowSamples, UplinkUse};

    fn outcome(flows: &[(u64, Option<u64>)]) -> Outcome {
        let flow = |&(bytes, completion_us): &(u64, Option<u64>)| FlowOutcome {
            bytes,
            completion_ps: completion_us.map(|us| us * 1_000_000),
            ideal_ps: 1_000_000,
            ..FlowOutcome::default()
        };
        Outcome { flows: flows.iter().map(flow).collect(), ..Outcome::default() }
    }

    #[test]
    fn the_cdf_ends_at_the_share_of_flows_that_ended() {
        let line = completion_cdf(&outcome(&[(1, Some(4)), (1, None), (1, Some(2)), (1, Some(3))]));
        assert_eq!(line, [(2.0, 0.0), (2.0, 25.0), (3.0, 50.0), (4.0, 75.0)]);
        assert_eq!(completion_cdf(&outcome(&[(1, None)])), []);
    }

    #[test]
    fn rates_are_differences_over_intervals() {
        let samples = Samples {
            at_us: vec![1.0, 3.0],
            delivered_bytes: vec![1000, 5000],
            ..Samples::default()
        };
        assert_eq!(throughput(&samples), [(1.0, 8.0), (3.0, 16.0)]);
        let many = Samples {
            at_us: (1..=1000).map(f64::from).collect(),
            delivered_bytes: (1..=1000).map(|n| n * 500).collect(),
            ..Samples::default()
        };
        let line = throughput(&many);
        assert!(line.len() <= POINTS_MAX && line.iter().all(|&(_, rate)| rate == 4.0));
        assert_eq!(line.last().map(|point| point.0), Some(1000.0));
    }

    #[test]
    fn the_spread_is_that_of_active_flows() {
        let flow = |place: usize, bytes: [u64; 2]| FlowSamples {
            flow: FlowId::at(place),
            delivered_bytes: bytes.into(),
        };
        let samples = Samples {
            at_us: vec![1.0, 2.0],
            delivered_bytes: vec![0, 0],
            flows: vec![flow(0, [125, 250]), flow(1, [375, 1125]), flow(2, [9, 9])],
            ..Samples::default()
        };
        let outcome = outcome(&[(9999, None), (9999, None), (9, Some(1))]);
        let [slowest, mean, fastest] = spread(&outcome, &samples);
        assert_eq!(slowest, [(1.0, 1.0), (2.0, 1.0)]);
        assert_eq!(mean, [(1.0, 2.0), (2.0, 3.5)]);
        assert_eq!(fastest, [(1.0, 3.0), (2.0, 6.0)]);
    }

    #[test]
    fn uplinks_are_those_of_the_first_switch() {
        let link = |switch: &str, carried_bytes: u64| UplinkUse {
            switch: switch.to_owned(),
            link: String::new(),
            carried_bytes,
        };
        let samples = Samples {
            at_us: vec![10.0],
            uplinks: vec![link("leaf3", 1250), link("leaf3", 2500), link("leaf0", 9)],
            ..Samples::default()
        };
        let (switch, line) = uplinks(&samples).unwrap();
        assert_eq!((switch.as_str(), line), ("leaf3", vec![(0.0, 1.0), (1.0, 2.0)]));
        assert_eq!(uplinks(&Samples::default()), None);
    }
}
