//! NCCL tests (and RCCL's, which are the same). The mean time of an operation, out of place; the
//! bus bandwidth is computed from it, since two decimals of GB/s are nothing for small sizes.
//! Releases before 2.17 do not print which operation it is, but logs often hold the command.

use bench_record::spec::Benchmark;
use bench_record::workload::Pattern;
use bench_record::{Collective, Point};

use super::{Found, unsupported};

const SUPPORTED: &str = "all_reduce_perf, all_gather_perf, alltoall_perf, broadcast_perf, \
                         gather_perf and reduce_scatter_perf";
const STARTING: &str = "# Collective test starting:";

pub(super) fn is_here(text: &str) -> bool {
    head(text).is_some()
}

/// `#  size  count  type  redop  root  time  algbw  busbw #wrong  time ...`, word by word.
fn head(text: &str) -> Option<Vec<&str>> {
    text.lines().find_map(|line| {
        let words: Vec<&str> = plain(line).strip_prefix('#')?.split_whitespace().collect();
        (words.starts_with(&["size", "count", "type"]) && words.contains(&"busbw")).then_some(words)
    })
}

/// A line without what mpirun puts in front of it: `[1,0]<stdout>:`.
fn plain(line: &str) -> &str {
    match line.split_once("<stdout>:") {
        Some((rank, rest)) if rank.starts_with('[') => rest.trim(),
        _ => line.trim(),
    }
}

pub(super) fn read(text: &str) -> Result<Found, String> {
    let head = head(text).ok_or("it has no line with `size`, `count`, `type` and `busbw`")?;
    let name = test_name(text).ok_or_else(|| {
        format!(
            "it does not say which operation it is: write the first line that newer releases have, \
             `{STARTING} all_reduce_perf`"
        )
    })?;
    let (pattern, test) = match name {
        "all_reduce_perf" => (Pattern::Allreduce, "allreduce"),
        "all_gather_perf" => (Pattern::Allgather, "allgather"),
        "alltoall_perf" => (Pattern::Alltoall, "alltoall"),
        "broadcast_perf" => (Pattern::Bcast, "bcast"),
        "gather_perf" => (Pattern::Gather, "gather"),
        "reduce_scatter_perf" => (Pattern::ReduceScatter, "reduce_scatter"),
        other => return Err(unsupported(other, SUPPORTED)),
    };
    let column = |name: &str| head.iter().position(|title| *title == name);
    let (Some(time), wrong) = (column("time"), column("#wrong").or_else(|| column("error"))) else {
        return Err("its table has no column `time`".to_owned());
    };
    let ranks = ranks(text);
    let mut points = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = plain(line).split_whitespace().collect();
        let Some(bytes) = words.first().and_then(|word| word.parse::<usize>().ok()) else {
            continue;
        };
        if words.len() < head.len() || bytes == 0 {
            continue;
        }
        let wrong_values = wrong.and_then(|at| words[at].parse::<f64>().ok()).unwrap_or(0.0);
        if column("#wrong").is_some() && wrong_values > 0.0 {
            return Err(format!(
                "line {}: {wrong_values} values of {bytes} B are wrong",
                number + 1
            ));
        }
        let mean_us: f64 = words[time].parse().map_err(|_| {
            format!("line {}: `{}` is not a number (time)", number + 1, words[time])
        })?;
        points.push(point(pattern, bytes, ranks, mean_us)?);
    }
    let title = format!("{name}, out of place");
    Ok(Found { test, ..Found::new(Benchmark::Collective, title, points) })
}

fn point(pattern: Pattern, bytes: usize, ranks: usize, mean_us: f64) -> Result<Point, String> {
    let size_bytes = match pattern {
        // Theirs are the parts of all ranks together, ours that of each.
        pattern if pattern.is_in_parts() && ranks == 0 => {
            return Err("it does not list its ranks, whose parts a size is made of".to_owned());
        }
        pattern if pattern.is_in_parts() => bytes / ranks,
        _ => bytes,
    };
    let bus = || pattern.bus_gbit_per_s(size_bytes, ranks, mean_us / 1e6);
    let bus_gbit_per_s = if ranks > 0 { bus() } else { None };
    let collective = Collective {
        ranks,
        operations: None,
        mean_us,
        bus_gbit_per_s,
        overlap_percent: None,
        alone_us: None,
    };
    Ok(Point { collective: Some(collective), ..Point::new(size_bytes, 1) })
}

/// The test by its own line, or by the first word of the log that ends as one:
/// `./build/all_reduce_perf`.
fn test_name(text: &str) -> Option<&str> {
    let said = text.lines().find_map(|line| plain(line).strip_prefix(STARTING)).map(str::trim);
    let word = || text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    said.or_else(|| word().find(|word| word.ends_with("_perf")))
}

/// Ranks that are listed, `#  Rank  0 Group  0 Pid ...`; 0: none.
fn ranks(text: &str) -> usize {
    let numbers = text.lines().filter_map(|line| {
        let mut words = plain(line).strip_prefix('#')?.split_whitespace();
        (words.next() == Some("Rank")).then(|| words.next()?.parse::<usize>().ok()).flatten()
    });
    numbers.max().map_or(0, |last| last + 1)
}
