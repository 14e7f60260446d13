//! The point of a shuffle, which the client (one of the nodes) puts together.

use crate::workload::prelude::*;
use bench_record::{Disorder, ReceiverCount, Shuffle, ShuffleOf};

/// Waits until all tuples have come to all nodes, and for the counts of each node.
pub(super) fn conclude(session: &mut BenchSession, point: PointSpec) -> Result<Point, Failure> {
    let own = session.slow_results()?.into_iter().filter_map(|measured| match measured {
        Measured::Received(count) => Some(count),
        _ => None,
    });
    let own: Vec<ReceiverCount> = own.collect();
    let mut nodes = session.counts(own.iter().map(|count| count.total).collect())?;
    nodes.insert(0, own);
    let asked = ShuffleOf {
        buffer_bytes: point.parameter,
        link_mbit_per_s: session.job().work.link_mbit_per_s,
        limit: point.limit,
    };
    let nothing = || Failure::Check("a node has no window: nothing was measured".to_owned());
    let (shuffle, bandwidth) = Shuffle::of(&nodes, asked).ok_or_else(nothing)?;
    Ok(Point {
        validated: nodes.iter().flatten().map(|count| count.validated).sum(),
        disorder: Disorder::of(nodes.iter().flatten()),
        bandwidth: Some(bandwidth),
        shuffle: Some(shuffle),
        ..session.new_point(point)
    })
}
