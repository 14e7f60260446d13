//! The findings of the EFA paper's section 5, computed again from what was measured on a fabric. Nothing is said
//! without figures: what is missing is named with the command that measures it.

#[cfg(test)]
mod tests;

use report::{Section, significant};

use crate::record::{Point, Run};
use crate::spec::{Benchmark, EndpointKind, Operation, Window};

/// As good as the best.
const NEAR: f64 = 0.95;
/// What more queue pairs or threads must gain to be worth their trouble.
const WORTH: f64 = 1.10;
const RECORD_BYTES: usize = 64;
const PACKED_BYTES: usize = 4096;

const ORDER: &str = "Not measured: efa-bench does not count yet how many messages overtake others";

/// A point of a stream.
#[derive(Debug, Clone, Copy)]
struct Stream {
    size_bytes: usize,
    depth: usize,
    endpoints: usize,
    threads: usize,
    post_list: usize,
    gbit_per_s: f64,
    mmsg_per_s: f64,
}

impl Stream {
    const fn is_single(&self) -> bool {
        self.endpoints == 1 && self.threads == 1 && self.post_list == 1
    }
}

/// A section for each fabric that was measured.
pub(crate) fn sections(runs: &[Run]) -> Vec<Section> {
    let mut names: Vec<&str> = Vec::new();
    for run in runs.iter().filter(|run| run.source == "measured") {
        if !names.contains(&run.name.as_str()) {
            names.push(&run.name);
        }
    }
    names.into_iter().map(|name| section(name, runs)).collect()
}

fn section(name: &str, runs: &[Run]) -> Section {
    let own: Vec<&Run> = runs.iter().filter(|r| r.name == name && r.source == "measured").collect();
    let streams = streams(&own);
    let missing = |command: &str| format!("Not measured: run efa-bench local {command}");
    let lessons = [
        ("Depth", depth(&streams), missing("bandwidth --sizes 16,8192 --depth 1..1024")),
        (
            "Size",
            parallel_until(&streams),
            missing("bandwidth --sizes 1..8192, with --endpoints 1 and 4"),
        ),
        (
            "Queue pairs and threads",
            to_peak(&streams),
            missing("bandwidth --sizes 16, with --endpoints 1, 2, 4, 8 and --threads 1, 2, 4"),
        ),
        ("Order", None, ORDER.to_owned()),
        ("READ and WRITE", read_and_write(&own), missing("rma, with --op read and --op write")),
        (
            "Interface",
            interface(runs),
            missing("bandwidth --sizes 64 --depth 256, with --fabric verbs:srd and -p efa"),
        ),
        ("Batching", batching(&own, &streams), missing("latency --sizes 64,4096")),
    ];
    let text =
        lessons.map(|(title, found, missing)| format!("{title}. {}.", found.unwrap_or(missing)));
    Section { title: format!("Lessons: {name}"), text: text.into(), ..Section::default() }
}

fn streams(runs: &[&Run]) -> Vec<Stream> {
    let is_plain = |run: &&&Run| {
        let flow = run.method.flow;
        (run.benchmark, run.operation) == (Benchmark::Bandwidth, Operation::Send)
            && run.endpoint == EndpointKind::Rdm
            && (flow.window, flow.complete_every) == (Window::Sliding, 1)
            && run.method.memory_bytes == 0
    };
    let points =
        runs.iter().filter(is_plain).flat_map(|run| run.points.iter().map(move |p| (run, p)));
    let stream = |(run, point): (&&Run, &Point)| {
        let bandwidth = point.bandwidth.filter(|b| b.gbit_per_s > 0.0)?;
        Some(Stream {
            size_bytes: point.size_bytes,
            depth: point.depth,
            endpoints: run.method.endpoints,
            threads: run.method.threads,
            post_list: run.method.flow.post_list,
            gbit_per_s: bandwidth.gbit_per_s,
            mmsg_per_s: bandwidth.mmsg_per_s,
        })
    };
    points.filter_map(stream).collect()
}

/// Sorted, each once.
fn distinct(values: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut values: Vec<usize> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// The best of `streams` by message rate.
fn best<'a>(streams: impl Iterator<Item = &'a Stream>) -> Option<&'a Stream> {
    streams.max_by(|a, b| a.mmsg_per_s.total_cmp(&b.mmsg_per_s))
}

/// The least `what` that is as good as the best, the best, and the largest that was tried.
fn least_near_best<'a>(
    streams: &[&'a Stream],
    what: fn(&Stream) -> usize,
) -> Option<(&'a Stream, &'a Stream, usize)> {
    let best = best(streams.iter().copied())?;
    let near = streams.iter().filter(|s| s.mmsg_per_s >= NEAR * best.mmsg_per_s);
    let least = near.min_by_key(|s| what(s))?;
    Some((least, best, streams.iter().map(|s| what(s)).max()?))
}

fn depth(streams: &[Stream]) -> Option<String> {
    let of = |size: usize| -> Vec<&Stream> {
        streams.iter().filter(|s| s.is_single() && s.size_bytes == size).collect()
    };
    let has_depths = |size: &usize| distinct(of(*size).iter().map(|s| s.depth)).len() > 2;
    let sizes = distinct(streams.iter().map(|s| s.size_bytes));
    let size = sizes.into_iter().rev().find(has_depths)?;
    let (least, best, largest) = least_near_best(&of(size), |s| s.depth)?;
    let open = match least.depth == largest {
        true => "; deeper windows, which were not tried, may carry more",
        false => "",
    };
    Some(format!(
        "One endpoint carries {} Gbit/s of {size} B messages at best, and 95 % of that from {} in flight on{open}. \
         Recommendation: keep at least {} such messages under way per endpoint",
        significant(best.gbit_per_s),
        least.depth,
        least.depth
    ))
}

/// From which size on one queue pair of one thread is enough.
fn parallel_until(streams: &[Stream]) -> Option<String> {
    let gain = |size: usize| {
        let of = |is_single: bool| {
            let streams = streams.iter().filter(|s| s.post_list == 1);
            best(streams.filter(move |s| s.size_bytes == size && s.is_single() == is_single))
        };
        Some((size, of(false)?.mmsg_per_s / of(true)?.mmsg_per_s))
    };
    let gains: Vec<(usize, f64)> =
        distinct(streams.iter().map(|s| s.size_bytes)).into_iter().filter_map(gain).collect();
    let (first, last) = (gains.first()?, gains.last()?);
    if gains.len() < 2 {
        return None;
    }
    let enough = gains.iter().rev().take_while(|(_, gain)| *gain < WORTH).last();
    let range = format!(
        "More endpoints or threads multiply the rate by {} at {} B and by {} at {} B",
        significant(first.1),
        first.0,
        significant(last.1),
        last.0
    );
    Some(match enough {
        Some((size, _)) => format!(
            "{range}. Recommendation: from {size} B on use one endpoint; below, spread messages over several"
        ),
        None => {
            format!("{range}. Recommendation: spread messages of every measured size over several")
        }
    })
}

fn to_peak(streams: &[Stream]) -> Option<String> {
    let size = streams.iter().filter(|s| !s.is_single()).map(|s| s.size_bytes).min()?;
    let of = |is_it: fn(&Stream) -> bool| -> Vec<&Stream> {
        streams.iter().filter(|s| s.size_bytes == size && s.post_list == 1 && is_it(s)).collect()
    };
    let (pairs, threads) = (of(|s| s.threads == 1), of(|s| s.endpoints == 1));
    let mut found = Vec::new();
    for (streams, what, name) in [
        (pairs, (|s: &Stream| s.endpoints) as fn(&Stream) -> usize, "queue pairs of one thread"),
        (threads, |s: &Stream| s.threads, "threads"),
    ] {
        if distinct(streams.iter().map(|s| what(s))).len() > 1 {
            let (least, best, _) = least_near_best(&streams, what)?;
            found.push((what(least), name, best.mmsg_per_s));
        }
    }
    let words = found.iter().map(|(count, name, rate)| {
        format!("{count} {name} come within 5 % of their peak of {} M msg/s", significant(*rate))
    });
    let words = words.collect::<Vec<_>>().join(", ");
    let (count, name, _) = found.iter().max_by(|a, b| a.2.total_cmp(&b.2))?;
    Some(format!("At {size} B {words}. Recommendation: use {count} {name}"))
}

fn read_and_write(runs: &[&Run]) -> Option<String> {
    let rate = |operation: Operation, size: usize| {
        let own = runs.iter().filter(|r| r.benchmark == Benchmark::Rma && r.operation == operation);
        let mut points = own.flat_map(|r| &r.points);
        let point = points.find(|p| p.depth == 1 && p.size_bytes == size)?;
        point.bandwidth.map(|b| b.mmsg_per_s).filter(|rate| *rate > 0.0)
    };
    let sizes = distinct(runs.iter().flat_map(|r| &r.points).map(|p| p.size_bytes));
    let both =
        |size: usize| Some((size, rate(Operation::Read, size)?, rate(Operation::Write, size)?));
    let (size, read, write) = sizes.into_iter().find_map(both)?;
    let advice = match (read / write > WORTH, write / read > WORTH) {
        (true, _) => "fetch with READ rather than be sent WRITEs",
        (_, true) => "push with WRITE rather than fetch with READ",
        _ => "choose by whose processor is to be spared",
    };
    Some(format!(
        "One at a time a READ of {size} B takes {} µs and a WRITE {} µs. Recommendation: {advice}",
        significant(1.0 / read),
        significant(1.0 / write)
    ))
}

/// Verbs, libfabric and MPI on the same adapter, by rates at one size and depth.
fn interface(runs: &[Run]) -> Option<String> {
    let kind = |run: &Run| -> Option<&'static str> {
        match run.fabric.as_ref().map(|f| f.provider.as_str()) {
            Some("verbs srd") => Some("verbs"),
            Some(provider) if provider.starts_with("efa") => Some("libfabric"),
            // Of those that `efa-bench mpi` made, those on this adapter.
            Some("mpi") => {
                run.fabric.as_ref().filter(|f| f.domain == "libfabric:efa").map(|_| "MPI")
            }
            _ => run.citation.as_ref().filter(|title| title.contains("MPI")).map(|_| "MPI"),
        }
    };
    let rate = |wanted: &str, size: usize, depth: usize| {
        let own: Vec<&Run> = runs.iter().filter(|run| kind(run) == Some(wanted)).collect();
        let at = |s: &&Stream| s.is_single() && (s.size_bytes, s.depth) == (size, depth);
        streams(&own).iter().rev().find(at).map(|s| s.mmsg_per_s)
    };
    let all: Vec<&Run> = runs.iter().filter(|run| kind(run).is_some()).collect();
    let place = |s: &Stream| {
        Some((
            s.size_bytes,
            s.depth,
            rate("verbs", s.size_bytes, s.depth)?,
            rate("libfabric", s.size_bytes, s.depth)?,
        ))
    };
    let mut places: Vec<_> = streams(&all).iter().filter_map(place).collect();
    // Small messages, deep windows: there calls cost most.
    places.sort_by_key(|(size, depth, ..)| (*size, std::cmp::Reverse(*depth)));
    let (size, depth, verbs, libfabric) = *places.first()?;
    let mpi = rate("MPI", size, depth)
        .map_or_else(String::new, |rate| format!(", MPI {}", significant(rate)));
    let advice = match verbs / libfabric > WORTH {
        true => "use verbs where the message rate counts",
        false => "choose libfabric for its interface: it costs nothing here",
    };
    Some(format!(
        "At {size} B, depth {depth}, verbs moves {} M msg/s and libfabric {}{mpi}: a ratio of {}. Recommendation: {advice}",
        significant(verbs),
        significant(libfabric),
        significant(verbs / libfabric)
    ))
}

/// Records in one message instead of one each; and requests handed over in lists.
fn batching(runs: &[&Run], streams: &[Stream]) -> Option<String> {
    let latency_us = |size: usize| {
        let own = runs
            .iter()
            .filter(|r| (r.benchmark, r.operation) == (Benchmark::Latency, Operation::Send));
        let point = own.flat_map(|r| &r.points).find(|p| p.size_bytes == size)?;
        crate::compare::latency_us(point).filter(|us| *us > 0.0)
    };
    let (one, packed) = (latency_us(RECORD_BYTES)?, latency_us(PACKED_BYTES)?);
    let records = PACKED_BYTES / RECORD_BYTES;
    let gain = records as f64 * one / packed;
    let listed = streams.iter().filter(|s| s.post_list > 1).find_map(|listed| {
        let same = |s: &&Stream| {
            s.is_single() && (s.size_bytes, s.depth) == (listed.size_bytes, listed.depth)
        };
        let ratio = listed.mmsg_per_s / streams.iter().find(same)?.mmsg_per_s;
        Some(format!(
            "; lists of {} requests multiply the rate by {}",
            listed.post_list,
            significant(ratio)
        ))
    });
    let advice = match gain > WORTH * 2.0 {
        true => "gather small records into one message",
        false => "send records as they come",
    };
    Some(format!(
        "{records} records of {RECORD_BYTES} B take {} µs in one message and {} µs one after the other, {} times as long{}. \
         Recommendation: {advice}",
        significant(packed),
        significant(one * records as f64),
        significant(gain),
        listed.unwrap_or_default()
    ))
}
