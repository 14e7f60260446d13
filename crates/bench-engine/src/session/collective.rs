//! A point of an operation of all ranks, as the client, which is rank 0, puts it together.

use bench_record::failure::Failure;
use bench_record::spec::PointSpec;
use bench_record::{Collective, Distribution, Point, TimesOf};

use super::Session;
use crate::bench::{Measured, RoundTrips};

impl Session {
    /// Waits until all operations are done, then ends the servers' part.
    pub(super) fn collective(&mut self, point: PointSpec) -> Result<Point, Failure> {
        let mut times: Option<Box<RoundTrips>> = None;
        for measured in self.slow_results()? {
            if let Measured::RoundTrips(own) = measured {
                times = Some(own);
            }
        }
        let times = times.filter(|times| times.count > 0);
        let times = times.ok_or_else(|| Failure::Check("no operation was measured".to_owned()))?;
        self.counts(vec![times.count])?;
        let mean_us = times.sum_ns as f64 / times.count as f64 / 1e3;
        let ranks = self.job.nodes;
        let spec = self.job.work.collective;
        let bus = |mean_us| spec?.pattern.bus_gbit_per_s(point.size_bytes, ranks, mean_us / 1e6);
        Ok(Point {
            validated: times.validated,
            operation_time: Distribution::of(&times.histogram, 1),
            times: self.packed(TimesOf::Operations, &times.histogram),
            collective: Some(Collective {
                ranks,
                operations: Some(times.count),
                mean_us,
                bus_gbit_per_s: bus(mean_us),
            }),
            ..self.new_point(point)
        })
    }
}
