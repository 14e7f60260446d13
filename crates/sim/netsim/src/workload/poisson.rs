//! Transfers that begin at random times.

use super::{Plan, Wrong, first_processes};
use crate::flow::FlowSpec;
use crate::id::HostId;
use crate::rng::Rng;
use crate::scenario::{Poisson, TransferBytes};
use crate::time::Time;

impl Plan<'_> {
    /// Returns the expected number of transfers of a workload; 0 for one that is refused.
    pub(super) fn poisson_count(&self, spec: &Poisson) -> f64 {
        Sizes::new(&spec.sizes).map_or(0.0, |sizes| {
            f64::from(self.fabric.hosts()) * end(spec).as_ps() as f64 / self.gap_ps(spec, &sizes)
        })
    }

    /// Returns the mean time between two transfers of a host, in picoseconds.
    fn gap_ps(&self, spec: &Poisson, sizes: &Sizes) -> f64 {
        let transport = spec.transport.unwrap_or(self.transport);
        let share = f64::from(spec.load_percent.get()) / 100.0;
        self.transfer_ps(transport, sizes.mean() as u64) as f64 / share
    }

    pub(super) fn poisson(&self, spec: &Poisson, rng: &mut Rng) -> Result<Vec<FlowSpec>, Wrong> {
        let sizes = Sizes::new(&spec.sizes)?;
        let gap_ps = self.gap_ps(spec, &sizes);
        if self.poisson_count(spec) < 1.0 {
            let problem = "so short a time that less than one transfer is expected".to_owned();
            return Err(("workload.poisson.until_us", problem));
        }
        let hosts = self.fabric.hosts();
        let mut flows = Vec::new();
        for src in 0..hosts {
            let mut at = Time::ZERO;
            loop {
                at = at.plus_ps((rng.exponential() * gap_ps) as u64);
                if at >= end(spec) {
                    break;
                }
                let dst = (src + 1 + rng.below(u64::from(hosts) - 1) as u32) % hosts;
                let ends = first_processes(HostId(src), HostId(dst));
                let flow = self.flow_of(ends, sizes.draw(rng));
                flows.push(FlowSpec { start: at, ideal_ps: self.alone_ps(&flow), ..flow });
            }
        }
        flows.sort_by_key(|flow| flow.start);
        Ok(flows)
    }
}

fn end(spec: &Poisson) -> Time {
    Time::from_us(u64::from(spec.until_us.get()))
}

/// A distribution of sizes, linear between its points.
#[derive(Debug)]
struct Sizes(Vec<(f64, f64)>);

impl Sizes {
    fn new(points: &[(TransferBytes, f64)]) -> Result<Self, Wrong> {
        let points: Vec<(f64, f64)> =
            points.iter().map(|&(bytes, percent)| (f64::from(bytes.get()), percent)).collect();
        let rises = points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1);
        let ends = points.first().is_some_and(|first| first.1 >= 0.0)
            && points.last().is_some_and(|last| last.1 == 100.0);
        if rises && ends {
            return Ok(Self(points));
        }
        let problem = "sizes and percentages must both rise, and the last must be 100.0";
        Err(("workload.poisson.sizes", problem.to_owned()))
    }

    fn mean(&self) -> f64 {
        let first = self.0[0].0 * self.0[0].1;
        let rest = self.0.windows(2).map(|p| (p[0].0 + p[1].0) / 2.0 * (p[1].1 - p[0].1));
        (first + rest.sum::<f64>()) / 100.0
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        let percent = rng.unit() * 100.0;
        let above = self.0.iter().position(|point| point.1 >= percent).unwrap_or(0);
        if above == 0 {
            return self.0[0].0 as u64;
        }
        let ((from, low), (to, high)) = (self.0[above - 1], self.0[above]);
        (from + (to - from) * (percent - low) / (high - low)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{parse, with_plan};
    use super::*;
    use crate::transport::Kind;

    #[test]
    fn poisson_reaches_its_load_on_the_wire() {
        with_plan(|plan| {
            // 500 bytes are one packet with 90 more, which a load of payload would leave out.
            let spec = "load_percent = 40\nuntil_us = 2000\nsizes = [[500, 100.0]]";
            let spec: Poisson = parse(spec);
            let flows = plan.poisson(&spec, &mut Rng::new(3)).unwrap();
            let load = |bytes: u64| bytes as f64 * 80.0 / (32.0 * 2e9);
            let wire_bytes = flows.len() as u64 * (500 + u64::from(Kind::Srd.overhead_bytes()));
            assert!((0.38..0.42).contains(&load(wire_bytes)), "{}", load(wire_bytes));
            let expected = plan.poisson_count(&spec);
            assert!((flows.len() as f64 / expected - 1.0).abs() < 0.05, "{expected}");
            let spec =
                "load_percent = 40\nuntil_us = 20000\nsizes = [[1000, 50.0], [200000, 100.0]]";
            let flows = plan.poisson(&parse(spec), &mut Rng::new(3)).unwrap();
            let bytes: u64 = flows.iter().map(|flow| flow.bytes).sum();
            let load = bytes as f64 * 80.0 / (32.0 * 20e9);
            assert!((0.37..0.43).contains(&load), "{load}");
            assert!(flows.is_sorted_by_key(|flow| flow.start));
        });
    }

    #[test]
    fn sizes_that_fall_and_times_that_are_too_short_are_refused() {
        with_plan(|plan| {
            let refused = |spec: &str| plan.poisson(&parse(spec), &mut Rng::new(3)).is_err();
            let falls = "load_percent = 40\nuntil_us = 1000\nsizes = [[1000, 50.0], [900, 100.0]]";
            assert!(refused(falls));
            assert!(refused("load_percent = 1\nuntil_us = 1\nsizes = [[4000000000, 100.0]]"));
        });
    }
}
