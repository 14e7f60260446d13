//! Streams, by their bytes and by their messages.

use bench_record::spec::Window;
use bench_record::{CountedAt, Run};
use report::{Table, significant};

use super::cells::{known, unusual};
use super::column::{Column, DOUBT, KNOWN_DEPTH, LOST, MEAN, P50, P99, SIZE, SPREAD, has_means};
use super::{Kind, Quantity, aspect, column, counted};
use crate::import;

pub(super) const KIND: Kind = Kind {
    table,
    quantities: &[GOODPUT],
    aspects: &[aspect::GOODPUT],
    of_small: Some((&[MESSAGE_RATE], &[aspect::RATE])),
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

const COLUMNS: [Column; 16] = [
    SIZE,
    KNOWN_DEPTH,
    Column::new("rx depth", |p| known(p.rx_depth)).least(6),
    Column::new("MB/s", |p| Some(significant(p.bandwidth?.mb_per_s))),
    Column::new("Gbit/s", |p| Some(significant(p.bandwidth?.gbit_per_s))),
    Column::new("M msg/s", |p| Some(significant(p.bandwidth?.mmsg_per_s))),
    Column::new("messages", |p| Some(p.bandwidth?.messages?.to_string())).least(7),
    Column::new("seconds", |p| Some(format!("{:.2}", p.bandwidth?.seconds?))).least(9),
    LOST,
    SPREAD,
    DOUBT,
    P50.of(has_times),
    P99.of(has_times),
    MEAN.of(has_means),
    Column::new("to server Gbit/s", |p| Some(significant(p.both_ways?.to_server.gbit_per_s)))
        .of(has_ways),
    Column::new("to client Gbit/s", |p| Some(significant(p.both_ways?.to_client.gbit_per_s)))
        .of(has_ways),
];

fn has_times(run: &Run) -> bool {
    run.points.iter().any(|point| point.operation_time.is_some())
}

fn has_ways(run: &Run) -> bool {
    run.points.iter().any(|point| point.both_ways.is_some())
}

fn table(run: &Run) -> Table {
    let counted = match run.method.counted_at {
        _ if run.source == "imported" => "as the tool counts it",
        CountedAt::Receiver => "goodput at the receiver",
        CountedAt::Initiator => "completed at the initiator",
    };
    let manner: String = manner(run).iter().map(|words| format!(", {words}")).collect();
    let caption = format!("{}: {counted}{manner} ({})", run.name, run.operation.name());
    let order = Column::new("order", |p| Some(p.order.name().to_owned()))
        .of(|run| run.points.iter().any(|point| !point.order.is_any()));
    let columns = COLUMNS.into_iter().chain(counted::COLUMNS).chain([order]);
    column::of_points(&caption, run, columns, |_| true)
}

/// Describes how a stream was kept up. Of other tools, only perftest's window is known: OSU waits
/// for each 64 messages, and a stream of bytes has no window.
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
