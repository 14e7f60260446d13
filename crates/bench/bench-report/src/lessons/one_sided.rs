//! READ compared with WRITE, and both with a message.

use bench_record::cores::{Phase, are_apart};
use bench_record::spec::{Benchmark, Operation};
use bench_record::{Point, Run};
use report::significant;

use super::streams::distinct;
use super::{Found, WORTH};
use crate::settings::{self, DEPTH, OPERATION, RX_DEPTH, SIZE};

/// Compares the times of one operation at a time, if READ and WRITE were measured at the same
/// sizes.
pub(super) fn compare(runs: &[&Run]) -> Option<Found> {
    let time_us = |operation: Operation, size: usize| {
        let own = runs.iter().filter(|r| r.benchmark == Benchmark::Rma && r.operation == operation);
        let mut points = own.flat_map(|run| run.points.iter().map(move |point| (*run, point)));
        let is_one = |run: &Run, point: &Point| {
            (point.size_bytes, point.depth) == (size, 1)
                && settings::is_usual_but(run, point, &[SIZE, DEPTH, OPERATION, RX_DEPTH])
        };
        let (_, point) = points.find(|(run, point)| is_one(run, point))?;
        let rate = point.bandwidth.map(|b| b.mmsg_per_s).filter(|rate| *rate > 0.0)?;
        Some((1.0 / rate, point.phase()))
    };
    let sizes = distinct(runs.iter().flat_map(|r| &r.points).map(|p| p.size_bytes));
    // A time in µs, and the place of the processors.
    type Timed = (f64, Option<Phase>);
    let both = |size: usize| {
        Some((size, time_us(Operation::Read, size)?, time_us(Operation::Write, size)?))
    };
    let all: Vec<(usize, Timed, Timed)> = sizes.into_iter().filter_map(both).collect();
    let alike = all.iter().filter(|(_, read, write)| !are_apart(read.1, write.1));
    let times: Vec<(usize, f64, f64)> =
        alike.map(|(size, read, write)| (*size, read.0, write.0)).collect();
    if times.is_empty() && !all.is_empty() {
        return Some(Found::apart());
    }
    let mut shown = vec![times.first()?];
    shown.extend(times.last().filter(|_| times.len() > 1));
    let words = shown.iter().map(|(size, read, write)| {
        let (read, write) = (significant(*read), significant(*write));
        format!("of {size} B READ {read} µs, WRITE {write} µs")
    });
    let measured = format!("One at a time: {}.", words.collect::<Vec<_>>().join("; "));
    let all =
        |is_so: fn(f64, f64) -> bool| times.iter().all(|(_, read, write)| is_so(*read, *write));
    let advice = if all(|read, write| write > read * WORTH) {
        "Fetch with READ rather than be sent WRITEs."
    } else if all(|read, write| read > write * WORTH) {
        "Push with WRITE rather than fetch with READ."
    } else {
        "Choose by whose processor is to be spared: neither is faster by a tenth at every size."
    };
    Some(Found::new(measured, advice))
}
