//! The point of an incast, which the client puts together.

use bench_record::{Bandwidth, Distribution, ReceiverCount, TimesOf};

use crate::session::work;
use crate::workload::Calls;
use crate::workload::prelude::*;

/// Waits until the flows have ended, and for their cost at the senders.
pub(super) fn conclude(session: &mut BenchSession, point: PointSpec) -> Result<Point, Failure> {
    let mut calls = session.own_calls()?;
    let made: Vec<u64> = calls.iter().map(|thread| thread.total).collect();
    let served = session.counts(made.clone())?;
    // Each server has other flows.
    let asked = made.iter().sum::<u64>();
    let sent = served.iter().flatten().map(|count: &ReceiverCount| count.total).sum::<u64>();
    if asked != sent {
        return Err(Failure::Data(format!("{sent} transfers were sent of {asked} asked for")));
    }
    let found = calls.iter_mut().find_map(|thread| thread.incast.take());
    let (work, times) = work::of(&calls, &served, None, point.limit)?;
    let streams: Vec<_> = calls.iter().filter_map(Calls::stream).collect();
    Ok(Point {
        validated: calls.iter().map(|thread| thread.validated).sum(),
        bandwidth: Some(Bandwidth::of(&streams, point.limit)),
        operation_time: times.as_ref().and_then(|all| Distribution::of(&all.histogram, 1)),
        times: times.and_then(|all| session.packed(TimesOf::Operations, &all.histogram)),
        work: Some(work),
        disorder: found.as_ref().map(|found| found.disorder),
        incast: found.map(|found| found.incast),
        ..session.new_point(point)
    })
}
