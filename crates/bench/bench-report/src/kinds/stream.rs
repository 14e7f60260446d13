//! Streams, by their bytes and by their messages.

use bench_record::spec::Window;
use bench_record::{Bandwidth, CountedAt, Run};
use report::{Table, significant};

use super::cells::{count, dash, doubt, spread, unusual, us};
use super::{CsvColumn, Kind, Quantity, aspect, counted};
use crate::import;

pub(super) const KIND: Kind = Kind {
    table,
    quantities: &[GOODPUT],
    aspects: &[aspect::GOODPUT],
    of_small: Some((&[MESSAGE_RATE], &[aspect::RATE])),
    csv: CSV,
    ..Kind::NOTHING
};

const GOODPUT: Quantity = Quantity {
    label: "goodput",
    unit: "Gbit/s",
    better: "higher",
    meaning: "Application bytes that arrived within the measured window, counted at the receiver (of \
        one-sided operations: completed at the initiator); 1 Gbit = 10^9 bits. A line that stops rising \
        has reached what is possible.",
    of: |point| point.bandwidth.map(|found| found.gbit_per_s),
    has_blocks: true,
    tail: None,
};
const MESSAGE_RATE: Quantity = Quantity {
    label: "message rate",
    unit: "M msg/s",
    better: "higher",
    meaning: "Messages that arrived within the measured window, counted at the receiver (one-sided \
        operations: completed at the initiator). A line that stops rising has reached what is possible.",
    of: |point| point.bandwidth.map(|found| found.mmsg_per_s),
    has_blocks: true,
    tail: None,
};
const CSV: &[CsvColumn] = &[
    ("to_server_gbit_per_s", |_, p| Some(p.both_ways?.to_server.gbit_per_s.to_string())),
    ("to_client_gbit_per_s", |_, p| Some(p.both_ways?.to_client.gbit_per_s.to_string())),
];

fn table(run: &Run) -> Table {
    let counted = match run.method.counted_at {
        _ if run.source == "imported" => "as the tool counts it",
        CountedAt::Receiver => "goodput at the receiver",
        CountedAt::Initiator => "completed at the initiator",
    };
    let manner: String = manner(run).iter().map(|words| format!(", {words}")).collect();
    let caption = format!("{}: {counted}{manner} ({})", run.name, run.operation.name());
    let has_times = run.points.iter().any(|p| p.operation_time.is_some());
    let has_means = run.points.iter().any(|p| p.operation_mean_us.is_some());
    let mut titles = vec![
        "size B", "depth", "rx depth", "MB/s", "Gbit/s", "M msg/s", "messages", "seconds", "lost",
        "spread %", "± %",
    ];
    if has_times {
        titles.extend(["p50 µs", "p99 µs"]);
    }
    titles.extend(has_means.then_some("mean µs"));
    let has_ways = run.points.iter().any(|point| point.both_ways.is_some());
    if has_ways {
        titles.extend(["to server Gbit/s", "to client Gbit/s"]);
    }
    let has_counts = counted::titles(run, &mut titles);
    let has_order = run.points.iter().any(|point| !point.order.is_any());
    titles.extend(has_order.then_some("order"));
    let mut table = Table::new(&caption, &titles, 0);
    for point in &run.points {
        let found = point.bandwidth;
        let rate = |of: fn(Bandwidth) -> f64| found.map_or_else(dash, |b| significant(of(b)));
        let mut row = vec![
            point.size_bytes.to_string(),
            if point.depth == 0 { dash() } else { point.depth.to_string() },
            if point.rx_depth == 0 { dash() } else { point.rx_depth.to_string() },
            rate(|b| b.mb_per_s),
            rate(|b| b.gbit_per_s),
            rate(|b| b.mmsg_per_s),
            count(found.and_then(|b| b.messages)),
            found.and_then(|b| b.seconds).map_or_else(dash, |seconds| format!("{seconds:.2}")),
            count(point.lost),
            spread(point),
            doubt(point),
        ];
        if has_times {
            let time = point.operation_time;
            let text = |value: Option<f64>| value.map_or_else(dash, us);
            row.extend([text(time.map(|t| t.p50_us)), text(time.map(|t| t.p99_us))]);
        }
        row.extend(has_means.then(|| point.operation_mean_us.map_or_else(dash, us)));
        if has_ways {
            let ways = point.both_ways.map(|ways| [ways.to_server, ways.to_client]);
            let text = |own: Bandwidth| significant(own.gbit_per_s);
            row.extend(ways.map_or_else(|| [dash(), dash()], |ways| ways.map(text)));
        }
        if has_counts {
            row.extend(counted::cells(point));
        }
        row.extend(has_order.then(|| point.order.name().to_owned()));
        table.push(row);
    }
    table
}

/// How a stream was kept up, in words. Of other tools only perftest's window is known: OSU waits
/// for each 64 messages, and a stream of bytes has none.
fn manner(run: &Run) -> Vec<String> {
    let method = &run.method;
    let is_known = run.source != "imported" || import::is_of_perftest(run);
    let window = match method.flow.window {
        Window::Sliding => "sliding window".to_owned(),
        Window::Refill => "window refilled at 80 %".to_owned(),
    };
    let mut words: Vec<String> = is_known.then_some(window).into_iter().collect();
    words.extend(unusual(run));
    if method.memory_bytes > 0 {
        words.push(format!("{} MiB at random", method.memory_bytes >> 20));
    }
    words
}
