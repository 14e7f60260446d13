//! Results as CSV: one row per point.

use std::fmt::Debug;

use bench_record::counted::Counted;
use bench_record::spec::{Benchmark, Order};
use bench_record::{Disorder, Point, Run};

use crate::kinds::cells::above_0;
use crate::kinds::{self, CsvColumn};

/// The columns that figures of several kinds share.
const COMMON: [CsvColumn; 48] = [
    ("name", |r, _| Some(r.name.to_string())),
    ("source", |r, _| Some(r.source.to_string())),
    ("benchmark", |r, _| Some(r.benchmark.name().to_string())),
    ("provider", |r, _| Some(r.fabric.as_ref()?.provider.to_string())),
    ("endpoint", |r, _| Some(lower(&r.endpoint))),
    ("operation", |r, _| Some(r.operation.name().to_string())),
    ("size_bytes", |_, p| Some(p.size_bytes.to_string())),
    ("depth", |_, p| above_0(p.depth as u64)),
    ("rx_depth", |_, p| above_0(p.rx_depth as u64)),
    ("messages", |_, p| above_0(p.bandwidth?.messages?)),
    ("seconds", |_, p| Some(p.bandwidth?.seconds.filter(|s| *s > 0.0)?.to_string())),
    ("mb_per_s", |_, p| Some(p.bandwidth?.mb_per_s.to_string())),
    ("gbit_per_s", |_, p| Some(p.bandwidth?.gbit_per_s.to_string())),
    ("mmsg_per_s", |_, p| Some(p.bandwidth?.mmsg_per_s.to_string())),
    ("lost", |_, p| Some(p.lost?.to_string())),
    ("validated", |_, p| above_0(p.validated)),
    ("cold_start_us", |r, _| Some(r.cold_start_us?.to_string())),
    ("complete", |r, _| Some(r.complete.to_string())),
    ("warmup_ms", |_, p| Some(p.warmup_ms.to_string())),
    ("error", |r, _| Some(r.error.as_ref()?.to_string())),
    ("spread_percent", |_, p| Some(p.spread_percent()?.to_string())),
    ("test", |r, _| Some(r.test.to_string())),
    ("interval_low", |_, p| Some(p.interval?.low.to_string())),
    ("interval_high", |_, p| Some(p.interval?.high.to_string())),
    ("operation_p50_us", |_, p| Some(p.operation_time?.p50_us.to_string())),
    ("operation_p99_us", |_, p| Some(p.operation_time?.p99_us.to_string())),
    ("window", |r, _| Some(lower(&r.method.flow.window))),
    ("complete_every", |r, _| Some(r.method.flow.complete_every.to_string())),
    ("post_list", |r, _| Some(r.method.flow.post_list.to_string())),
    ("threads", |r, _| Some(r.method.threads.to_string())),
    ("endpoints", |r, _| Some(r.method.endpoints.to_string())),
    ("rate_per_s", |_, p| above_0(p.rate_per_s)),
    ("overtaken", |_, p| Some(p.disorder?.overtaken.to_string())),
    ("farthest", |_, p| Some(p.disorder?.farthest.to_string())),
    ("parameter", |_, p| above_0(p.parameter as u64)),
    ("operation_p9999_us", |_, p| Some(p.operation_time?.p9999_us?.to_string())),
    ("wire_bytes_per_message", |_, p| Some(counted(p, Counted::wire_bytes)?.to_string())),
    ("packets_per_message", |_, p| Some(counted(p, Counted::packets)?.to_string())),
    ("retransmitted_packets", |_, p| Some(p.counted.as_ref()?.retransmitted()?.to_string())),
    ("order", |_, p| Some(p.order.name().to_string())),
    ("held", |_, p| Some(kept(p)?.held.to_string())),
    ("held_most", |_, p| Some(kept(p)?.held_most.to_string())),
    ("events", |r, _| Some(r.method.flow.events.to_string())),
    ("operation_min_us", |_, p| Some(p.operation_time?.min_us.to_string())),
    ("operation_mean_us", |_, p| Some(p.operation_mean_us?.to_string())),
    ("operation_p90_us", |_, p| Some(p.operation_time?.p90_us?.to_string())),
    ("operation_p999_us", |_, p| Some(p.operation_time?.p999_us?.to_string())),
    ("operation_max_us", |_, p| Some(p.operation_time?.max_us.to_string())),
];

/// Renders tidy CSV: one row per point, and empty cells for what a point does not have.
pub fn csv(runs: &[Run]) -> String {
    let columns = columns();
    let mut out = columns.iter().map(|(head, _)| *head).collect::<Vec<_>>().join(",") + "\n";
    for run in runs {
        for point in &run.points {
            let cells = columns.iter().map(|(_, cell)| cell(run, point).unwrap_or_default());
            out.push_str(&report::csv_line(&cells.collect::<Vec<_>>()));
        }
    }
    out
}

/// Returns the common columns, followed by those of each kind.
fn columns() -> Vec<CsvColumn> {
    let mut columns = COMMON.to_vec();
    for own in Benchmark::ALL.iter().flat_map(|benchmark| kinds::of(*benchmark).csv) {
        if !columns.iter().any(|(head, _)| *head == own.0) {
            columns.push(*own);
        }
    }
    columns
}

/// Returns the name of a variant in small letters.
fn lower(variant: &impl Debug) -> String {
    format!("{variant:?}").to_lowercase()
}

fn counted(point: &Point, what: fn(&Counted) -> Option<u64>) -> Option<f64> {
    let counted = point.counted.as_ref()?;
    counted.per_message(what(counted))
}

/// Returns the disorder of a stream whose order was kept.
fn kept(point: &Point) -> Option<Disorder> {
    point.disorder.filter(|_| point.order == Order::Kept)
}

#[cfg(test)]
mod tests {
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
            ("put_calls", ""),
            ("operation_max_us", "77.5"),
        ] {
            let place = heads.iter().position(|own| *own == head).expect(head);
            assert_eq!(row[place], cell, "{head}");
        }
        assert!(heads.contains(&"unposted"));
    }

    #[test]
    fn csv_has_one_row_per_point_and_equal_columns() {
        let runs = crate::paper::runs();
        let text = csv(&runs);
        let points: usize = runs.iter().map(|r| r.points.len()).sum();
        assert_eq!(text.lines().count(), points + 1);
        assert!(text.lines().all(|l| l.matches(',').count() == columns().len() - 1));
    }
}
