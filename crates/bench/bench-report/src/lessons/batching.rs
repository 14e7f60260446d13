//! The gain of sending small records together.

use bench_record::cores::{Phase, are_apart};
use bench_record::spec::{Benchmark, Operation};
use bench_record::{Point, Run};
use report::significant;

use super::streams::{Stream, best};
use super::{Found, WORTH, times};
use crate::settings::{self, ENDPOINT, SIZE};

const RECORD_BYTES: usize = 64;
const PACKED_BYTES: usize = 4096;

/// Compares several records in one message with one record each, by latency and by rate, and
/// requests in lists with single requests.
pub(super) fn gain(runs: &[&Run], streams: &[Stream]) -> Option<Found> {
    let (ones, packed) = (latencies(runs, RECORD_BYTES), latencies(runs, PACKED_BYTES));
    let is_measured = !ones.is_empty() && !packed.is_empty();
    let pairs = ones.iter().flat_map(|one| packed.iter().map(move |packed| (one, packed)));
    let mut alike = pairs.filter(|(one, packed)| !are_apart(one.1, packed.1));
    let Some((&(one_us, _), &(packed_us, _))) = alike.next() else {
        return is_measured.then(Found::apart);
    };
    let records = (PACKED_BYTES / RECORD_BYTES) as f64;
    let mut measured = format!(
        "A message of {PACKED_BYTES} B takes {} µs, one of {RECORD_BYTES} B {} µs: {records} records of \
         {RECORD_BYTES} B together are there {} times as late as one alone.",
        significant(packed_us),
        significant(one_us),
        times(packed_us / one_us)
    );
    let mut advice = match records * one_us / packed_us {
        worth if worth >= WORTH => format!(
            "Gather small records into one message: one after the other they take {} times as long.",
            times(worth)
        ),
        _ => "Send records as they come.".to_owned(),
    };
    if let Some((depth, alone, together)) = rates(streams) {
        measured += &format!(
            " At depth {depth} they travel {} M/s one by one and {} M/s together.",
            significant(alone),
            significant(records * together)
        );
        advice = match records * together / alone {
            worth if worth >= WORTH => {
                format!(
                    "Gather small records into one message: {} times as many arrive.",
                    times(worth)
                )
            }
            _ => "Send records as they come.".to_owned(),
        };
    }
    if let Some((list, ratio)) = lists(streams) {
        measured +=
            &format!(" Lists of {list} requests multiply the message rate by {}.", times(ratio));
        advice += match ratio >= WORTH {
            true => " Hand requests over in lists.",
            false => " Lists of requests are not worth their trouble.",
        };
    }
    Some(Found { measured, advice })
}

/// Returns the usual latencies of a size in µs, and the places of the processors.
fn latencies(runs: &[&Run], size_bytes: usize) -> Vec<(f64, Option<Phase>)> {
    let is_one = |r: &&&Run| (r.benchmark, r.operation) == (Benchmark::Latency, Operation::Send);
    let own = runs.iter().filter(is_one);
    let points = own.flat_map(|run| run.points.iter().map(move |point| (*run, point)));
    let is_usual = |(run, point): &(&Run, &Point)| {
        point.size_bytes == size_bytes && settings::is_usual_but(run, point, &[SIZE, ENDPOINT])
    };
    let latency = |(_, point): (&Run, &Point)| {
        let us = point.latency.map(|found| found.middle_us()).filter(|us| *us > 0.0)?;
        Some((us, point.phase()))
    };
    points.filter(is_usual).filter_map(latency).collect()
}

/// Returns the depth and the message rates of single records and of packed ones, in the deepest
/// window with which both were measured.
fn rates(streams: &[Stream]) -> Option<(usize, f64, f64)> {
    let at = |size: usize, depth: usize| {
        let own = move |s: &&Stream| {
            s.is_single() && s.post_list == 1 && (s.size_bytes, s.depth) == (size, depth)
        };
        best(streams.iter().filter(own))
    };
    let mut depths: Vec<usize> = streams.iter().map(|s| s.depth).collect();
    depths.sort_unstable();
    let both = |depth: usize| {
        let (one, packed) = (at(RECORD_BYTES, depth)?, at(PACKED_BYTES, depth)?);
        (!one.is_apart(packed)).then_some((depth, one.mmsg_per_s, packed.mmsg_per_s))
    };
    depths.into_iter().rev().find_map(both)
}

/// Returns the number of requests in a list, and the factor by which lists raise the rate.
fn lists(streams: &[Stream]) -> Option<(usize, f64)> {
    streams.iter().filter(|s| s.post_list > 1 && s.is_single()).find_map(|listed| {
        let place = (listed.size_bytes, listed.depth);
        let is_same =
            |s: &&Stream| s.is_single() && s.post_list == 1 && (s.size_bytes, s.depth) == place;
        let alike = streams.iter().filter(is_same).filter(|s| !s.is_apart(listed));
        let plain = best(alike)?;
        Some((listed.post_list, listed.mmsg_per_s / plain.mmsg_per_s))
    })
}
