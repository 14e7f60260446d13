//! OSU micro-benchmarks. Latency is half a round trip, MB = 10^6 bytes; the window (64 unless told
//! otherwise) is printed by the message rate test only.

use crate::record::{Bandwidth, Distribution, Latency, Point};
use crate::spec::Benchmark;

use super::{Found, numbers, whole};

pub(super) fn is_here(text: &str) -> bool {
    title(text).is_some()
}

fn title(text: &str) -> Option<&str> {
    text.lines().map(str::trim).find_map(|line| line.strip_prefix("# OSU "))
}

pub(super) fn read(text: &str) -> Result<Found, String> {
    let title = title(text).ok_or("it has no title like `# OSU MPI Latency Test`")?;
    let is_latency = title.contains("Latency");
    if !is_latency && !title.contains("Bandwidth") {
        return Err(format!("`{title}`: only latency and bandwidth tests can be read"));
    }
    let head = text.lines().find(|line| line.starts_with("# Size"));
    let titles = split_titles(head.ok_or("it has no line that begins with `# Size`")?);
    let column = |name: &str| titles.iter().position(|title| title.contains(name));
    let depth = window(text).unwrap_or(0);
    let mut points = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let row = numbers(number, line)?;
        let [size, figure, ..] = row[..] else {
            return Err(format!("line {}: a size and a figure were expected", number + 1));
        };
        let size_bytes = whole(size);
        let at = |name: &str| column(name).and_then(|at| row.get(at)).copied();
        points.push(if is_latency {
            let distribution = || {
                let p50_us = at("P50")?;
                let p99_us = at("P99")?;
                let (min_us, max_us) = (at("Min Lat")?, at("Max Lat")?);
                Some(Distribution {
                    min_us,
                    p50_us,
                    p90_us: at("P90"),
                    p99_us,
                    p999_us: None,
                    p9999_us: None,
                    max_us,
                })
            };
            let latency = Latency { round_trips: 0, mean_us: figure, distribution: distribution() };
            Point { latency: Some(latency), ..Point::new(size_bytes, 1) }
        } else {
            let mmsg_per_s = at("Messages/s").map_or(figure / size, |rate| rate / 1e6);
            let bandwidth = Bandwidth {
                messages: 0,
                seconds: 0.0,
                mb_per_s: figure,
                gbit_per_s: figure * 8.0 / 1e3,
                mmsg_per_s,
            };
            Point { bandwidth: Some(bandwidth), ..Point::new(size_bytes, depth) }
        });
    }
    let benchmark = if is_latency { Benchmark::Latency } else { Benchmark::Bandwidth };
    Ok(Found::new(benchmark, format!("OSU {title}"), points))
}

/// `# Size       Avg Latency(us)  P50 Tail Lat(us)`: titles are two blanks or more apart.
fn split_titles(line: &str) -> Vec<&str> {
    line.trim_start_matches("# ").split("  ").map(str::trim).filter(|t| !t.is_empty()).collect()
}

/// `# [ pairs: 1 ] [ window size: 64 ]`
fn window(text: &str) -> Option<usize> {
    let rest = text.split_once("window size:")?.1;
    rest.split(']').next()?.trim().parse().ok()
}
