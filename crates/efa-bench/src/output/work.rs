//! The table of a workwork.

use report::{Table, significant};

use super::{doubt, spread, us};
use crate::record::Run;
use crate::spec::Benchmark;

/// One row for each kind of call of each point.
pub(super) fn table(run: &Run) -> Table {
    let titles = [
        "size B",
        "depth",
        "due/s per thread",
        "call",
        "M calls/s",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
        "max µs",
        "calls",
        "msg/call",
        "B/call",
        "client CPU ns/call",
        "server CPU ns/call",
        "late ms",
        "spread %",
        "± %",
    ];
    let mut table = Table::new(&caption(run), &titles, 0);
    for point in &run.points {
        let Some(work) = &point.work else { continue };
        for action in &work.actions {
            let (calls, d) = (action.calls, action.distribution);
            let rate = work.mcalls_per_s * calls as f64 / work.calls.max(1) as f64;
            table.push(vec![
                point.size_bytes.to_string(),
                point.depth.to_string(),
                rate_text(point.rate_per_s),
                action.name.clone(),
                significant(rate),
                us(d.p50_us),
                us(d.p99_us),
                d.p999_us.map_or_else(|| "-".to_owned(), us),
                us(d.max_us),
                calls.to_string(),
                significant(work.messages_per_call),
                significant(work.bytes_per_call),
                significant(work.client_cpu_ns),
                significant(work.server_cpu_ns),
                work.behind_ms.map_or_else(|| "-".to_owned(), significant),
                spread(point),
                doubt(point),
            ]);
        }
    }
    table
}

/// Calls due in a second, where that was given.
fn rate_text(rate_per_s: u64) -> String {
    if rate_per_s == 0 { "-".to_owned() } else { rate_per_s.to_string() }
}

/// What was asked for, in words.
fn caption(run: &Run) -> String {
    let method = &run.method;
    let mut words = Vec::new();
    if let Some(work) = method.work {
        words.push(match run.points.iter().find_map(|point| point.work.as_ref()?.arrivals) {
            None => "closed loop".to_owned(),
            Some(arrivals) => format!("open loop ({})", format!("{arrivals:?}").to_lowercase()),
        });
        match run.benchmark {
            Benchmark::Kv => words.push(format!("{} % gets", work.gets_percent)),
            _ => words.push(format!("request {} B", work.request_bytes)),
        }
        words.push(match work.zipf_hundredths {
            0 => format!("{} keys alike", work.keys),
            theta => format!("{} keys, Zipf {}", work.keys, f64::from(theta) / 100.0),
        });
    }
    let counts = [
        (method.flow.post_list, "in lists of"),
        (method.threads, "threads:"),
        (method.endpoints, "sessions per thread:"),
    ];
    words.extend(counts.iter().filter(|(n, _)| *n > 1).map(|(n, what)| format!("{what} {n}")));
    format!("{}: {}, {}", run.name, run.benchmark.name(), words.join(", "))
}
