//! The point of an operation of all ranks, which the client (rank 0) puts together.

use bench_record::{Collective, Distribution, TimesOf};

use crate::bench::RoundTrips;
use crate::workload::prelude::*;

/// Waits until all operations are done, then ends the servers' part.
pub(super) fn conclude(session: &mut BenchSession, point: PointSpec) -> Result<Point, Failure> {
    let mut times: Option<Box<RoundTrips>> = None;
    for measured in session.slow_results()? {
        if let Measured::RoundTrips(own) = measured {
            times = Some(own);
        }
    }
    let times = times.filter(|times| times.count > 0);
    let times = times.ok_or_else(|| Failure::Check("no operation was measured".to_owned()))?;
    session.counts(vec![times.count])?;
    let mean_us = times.sum_ns as f64 / times.count as f64 / 1e3;
    let ranks = session.job().nodes;
    let spec = session.job().work.collective();
    let bus = |mean_us| spec?.pattern.bus_gbit_per_s(point.size_bytes, ranks, mean_us / 1e6);
    Ok(Point {
        validated: times.validated,
        operation_time: Distribution::of(&times.histogram, 1),
        times: session.packed(TimesOf::Operations, &times.histogram),
        collective: Some(Collective {
            ranks,
            operations: Some(times.count),
            mean_us,
            bus_gbit_per_s: bus(mean_us),
            overlap_percent: None,
            alone_us: None,
        }),
        ..session.new_point(point)
    })
}
