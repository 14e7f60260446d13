//! Results as CSV: one row per point, with the figures of the JSON file.

use std::collections::{BTreeMap, BTreeSet};

use bench_record::counted::Counted;
use bench_record::{NodePair, Point, Run};
use serde::Serialize;
use serde_json::Value;

/// The columns that say what was measured; they come first.
const MEASURED: [&str; 9] = [
    "name",
    "source",
    "benchmark",
    "test",
    "provider",
    "endpoint",
    "operation",
    "size_bytes",
    "depth",
];

/// The heads of columns that are shorter than their path in the JSON file. The first line counts
/// that begins the path.
const HEADS: [(&str, &str); 29] = [
    ("fabric.provider", "provider"),
    ("method.flow.", ""),
    ("method.work.", "work_"),
    ("method.", ""),
    ("latency.", ""),
    ("bandwidth.", ""),
    ("both_ways.", ""),
    ("operation_time.", "operation_"),
    ("open_loop.", ""),
    ("disorder.messages", "disorder_messages"),
    ("disorder.", ""),
    ("work.actions.", ""),
    ("work.parts.", ""),
    ("work.client_cpu_ns", "client_cpu_ns_per_call"),
    ("work.server_cpu_ns", "server_cpu_ns_per_call"),
    ("work.client_process_cpu_ns", "client_process_cpu_ns_per_call"),
    ("work.server_process_cpu_ns", "server_process_cpu_ns_per_call"),
    ("work.seconds", "work_seconds"),
    ("work.", ""),
    ("connections.count", "connections"),
    ("connections.parts.", ""),
    ("collective.mean_us", "collective_mean_us"),
    ("collective.", ""),
    ("incast.bursts.mean_us", "burst_mean_us"),
    ("incast.bursts.", ""),
    ("incast.shares.", ""),
    ("incast.", ""),
    ("shuffle.gb_per_s", "node_gb_per_s"),
    ("shuffle.", ""),
];

/// What the JSON file alone has: texts, the counters of devices, and times one by one.
const LEFT_OUT: [&str; 7] =
    ["citation", "command", "counted", "counters", "fabric.", "points", "times"];

/// The cells of a point by the heads of their columns.
type Cells = BTreeMap<String, String>;

/// Renders tidy CSV: one row per point, and empty cells for what a point does not have. The columns
/// of figures are those that any point has, by name.
pub fn csv(runs: &[Run]) -> String {
    let rows: Vec<Cells> = runs.iter().flat_map(rows).collect();
    let all: BTreeSet<&str> = rows.iter().flat_map(BTreeMap::keys).map(String::as_str).collect();
    let figures = all.into_iter().filter(|head| !MEASURED.contains(head));
    let heads: Vec<&str> = MEASURED.into_iter().chain(figures).collect();
    let lines = rows.iter().map(|row| {
        let cells = heads.iter().map(|head| row.get(*head).map_or("", String::as_str));
        report::csv_line(&cells.collect::<Vec<_>>())
    });
    report::csv_line(&heads) + &lines.collect::<String>()
}

/// Returns a row for each point of a run.
fn rows(run: &Run) -> Vec<Cells> {
    let mut of_run = Cells::new();
    add("", &to_value(run), &mut of_run);
    // The file says `two_phase` where people say `2pc`.
    of_run.insert("benchmark".to_owned(), run.benchmark.name().to_owned());
    let rows = run.points.iter().map(|point| {
        let mut row = of_run.clone();
        add("", &to_value(point), &mut row);
        for (head, figure) in computed(point) {
            row.extend(figure.map(|figure| (head.to_owned(), figure.to_string())));
        }
        row
    });
    rows.collect()
}

fn to_value(record: &impl Serialize) -> Value {
    serde_json::to_value(record).expect("a record has names for keys, and no other reason to fail")
}

/// Returns the figures that the JSON file has only in parts.
fn computed(point: &Point) -> [(&'static str, Option<f64>); 7] {
    let counted = |what: fn(&Counted) -> Option<u64>| {
        let counted = point.counted.as_ref()?;
        counted.per_message(what(counted))
    };
    let pair = |of| point.matrix.as_ref()?.median(of);
    let by_the_clock = point.work.as_ref().filter(|work| work.arrivals.is_some());
    let unended = by_the_clock.map(|work| work.actions.iter().map(|own| own.unended).sum::<u64>());
    let retransmitted = point.counted.as_ref().and_then(Counted::retransmitted);
    [
        ("spread_percent", point.spread_percent()),
        ("wire_bytes_per_message", counted(Counted::wire_bytes)),
        ("packets_per_message", counted(Counted::packets)),
        ("retransmitted_packets", retransmitted.map(|packets| packets as f64)),
        ("unended", unended.map(|operations| operations as f64)),
        ("pair_p50_us", pair(NodePair::p50_us)),
        ("pair_gbit_per_s", pair(NodePair::gbit_per_s)),
    ]
}

/// Adds the cells of a value at `path` in the JSON file. What has a name in a list stands below
/// that name; other lists have no cells.
fn add(path: &str, value: &Value, row: &mut Cells) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        _ if path != "fabric.provider" && LEFT_OUT.iter().any(|own| path.starts_with(own)) => (),
        Value::Null => (),
        Value::Object(fields) => {
            let is_named = fields.contains_key("distribution");
            let fields = fields.iter().filter(|(key, _)| !is_named || *key != "name");
            for (key, value) in fields {
                let is_transparent = key == "distribution";
                add(&if is_transparent { path.to_owned() } else { below(key) }, value, row);
            }
        }
        Value::Array(items) => {
            for item in items {
                if let Some(name) = item["name"].as_str() {
                    add(&below(&name.replace(' ', "_")), item, row);
                }
            }
        }
        figure => {
            let cell = figure.as_str().map_or_else(|| figure.to_string(), str::to_owned);
            let other = row.insert(head(path), cell);
            debug_assert!(other.is_none(), "{path} has the head of another figure: {}", head(path));
        }
    }
}

/// Returns the head of the column for a value at `path` in the JSON file.
fn head(path: &str) -> String {
    let found = HEADS.iter().find_map(|(long, short)| Some((*short, path.strip_prefix(long)?)));
    let (short, rest) = found.unwrap_or(("", path));
    format!("{short}{rest}").replace('.', "_")
}

#[cfg(test)]
mod tests {
    use bench_record::spec::Benchmark;

    use super::*;

    /// CSV has everything that the tables show.
    #[test]
    fn what_tables_of_calls_show_has_columns() {
        let work = serde_json::json!({"calls": 9, "seconds": 1.0, "mcalls_per_s": 2.0,
            "messages_per_call": 2.5, "bytes_per_call": 88.0, "client_cpu_ns": 1.0,
            "server_cpu_ns": 1.0, "arrivals": "fixed", "actions": [{"name": "get", "calls": 8,
            "unended": 3, "distribution": {"min_us": 1.0, "p50_us": 5.5, "p99_us": 9.0,
            "max_us": 10.0}}]});
        let times = bench_record::Distribution { max_us: 77.5, ..Default::default() };
        let point = Point {
            work: serde_json::from_value(work).expect("calls"),
            operation_time: Some(times),
            ..Point::new(64, 8)
        };
        let text = csv(&[Run::new("mine", Benchmark::Kv, vec![point])]);
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let (heads, row) = (lines.next().expect("heads"), lines.next().expect("a row"));
        for (head, cell) in [
            ("calls", "9"),
            ("messages_per_call", "2.5"),
            ("unended", "3"),
            ("get_calls", "8"),
            ("get_p50_us", "5.5"),
            ("operation_max_us", "77.5"),
        ] {
            let place = heads.iter().position(|own| *own == head).expect(head);
            assert_eq!(row[place], cell, "{head}");
        }
    }

    #[test]
    fn csv_has_one_row_per_point_and_equal_columns() {
        let runs = crate::paper::runs();
        let text = csv(&runs);
        let points: usize = runs.iter().map(|r| r.points.len()).sum();
        assert_eq!(text.lines().count(), points + 1);
        let columns = text.lines().next().expect("heads").split(',').count();
        assert!(text.lines().all(|l| l.matches(',').count() == columns - 1));
    }
}
