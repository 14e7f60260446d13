//! The contents of a log as tables.

use std::cmp::Reverse;

use report::Table;
use softefa::trace::TraceEvent;

use super::log::Log;
use super::messages::Message;
use super::queue_pair::QueuePair;

/// The most messages in the table of the longest.
const LONGEST_MAX: usize = 25;
/// The most rows of the other tables.
const ROWS_MAX: usize = 200;

/// Returns the longest messages, with the indices of their queue pairs.
pub(super) fn longest<'a>(queue_pairs: &'a [QueuePair], ends_ns: u64) -> Vec<(usize, &'a Message)> {
    let messages = |(place, queue_pair): (usize, &'a QueuePair)| {
        queue_pair.messages.iter().map(move |message| (place, message))
    };
    let mut all: Vec<_> = queue_pairs.iter().enumerate().flat_map(messages).collect();
    all.sort_by_key(|(_, message)| (Reverse(message.duration_ns(ends_ns)), message.start_ns));
    all.truncate(LONGEST_MAX);
    all
}

/// Returns the longest messages as a table.
pub(super) fn longest_table(queue_pairs: &[QueuePair], ends_ns: u64) -> Table {
    let titles = ["queue pair", "operation", "which", "bytes", "posted at s", "took ms"];
    let mut table = Table::new("The longest messages", &titles, 3);
    for (place, message) in longest(queue_pairs, ends_ns) {
        let Message { start_ns, end_ns, op, len, what, .. } = message;
        let open = if end_ns.is_none() { ", not ended" } else { "" };
        table.push(vec![
            queue_pairs[place].name.clone(),
            op.clone(),
            format!("{what}{open}"),
            len.to_string(),
            seconds(*start_ns),
            millis(message.duration_ns(ends_ns)),
        ]);
    }
    table
}

/// Returns the number of events of each kind.
pub(super) fn events(queue_pairs: &[QueuePair]) -> Table {
    let kinds = TraceEvent::ALL.iter().map(|kind| kind.name());
    let titles: Vec<&str> = ["queue pair"].into_iter().chain(kinds).chain(["not ready"]).collect();
    let mut table = Table::new("Events of each queue pair", &titles, 1);
    let row = |name: &str, of: &dyn Fn(usize) -> u64, not_ready: u64| {
        let counts = (0..TraceEvent::ALL.len()).map(|kind| of(kind).to_string());
        let name = [name.to_owned()].into_iter();
        name.chain(counts).chain([not_ready.to_string()]).collect::<Vec<String>>()
    };
    for queue_pair in queue_pairs.iter().take(ROWS_MAX) {
        let of = |kind: usize| queue_pair.counts[kind];
        table.push(row(&queue_pair.name, &of, queue_pair.not_ready));
    }
    let sum = |kind: usize| queue_pairs.iter().map(|queue_pair| queue_pair.counts[kind]).sum();
    let not_ready = queue_pairs.iter().map(|queue_pair| queue_pair.not_ready).sum();
    table.push(row(&format!("all {}", queue_pairs.len()), &sum, not_ready));
    table
}

/// Returns the traffic of each path.
pub(super) fn paths(queue_pairs: &[QueuePair]) -> Table {
    let titles = [
        "queue pair",
        "path",
        "sent",
        "share %",
        "lost",
        "answered",
        "least µs",
        "median µs",
        "99 % µs",
        "most µs",
    ];
    let mut table =
        Table::new("Paths: what was sent, and the time until it was acknowledged", &titles, 1);
    for queue_pair in queue_pairs {
        let all: usize = queue_pair.paths.iter().map(|(_, path)| path.sent_ns.len()).sum();
        for (id, path) in &queue_pair.paths {
            let mut times: Vec<u64> = path.answers.iter().map(|(_, time_ns)| *time_ns).collect();
            times.sort_unstable();
            let at = |share: f64| percentile(&times, share).map_or_else(String::new, micros);
            let share = 100.0 * path.sent_ns.len() as f64 / all.max(1) as f64;
            table.push(vec![
                queue_pair.name.clone(),
                id.to_string(),
                path.sent_ns.len().to_string(),
                format!("{share:.1}"),
                path.lost.to_string(),
                times.len().to_string(),
                at(0.0),
                at(0.5),
                at(0.99),
                at(1.0),
            ]);
        }
    }
    table.rows.truncate(ROWS_MAX);
    table
}

/// Returns the faults on purpose that were in force.
pub(super) fn faults(log: &Log, queue_pairs: &[QueuePair]) -> Table {
    let titles = ["queue pair", "fault", "asked for by", "from s", "to s"];
    let mut table = Table::new("Faults in force", &titles, 3);
    let [_, last_ns] = log.span_ns();
    for queue_pair in queue_pairs {
        for fault in &queue_pair.faults {
            let end = fault.to_ns.map_or_else(|| format!("{} (end)", seconds(last_ns)), seconds);
            let (spec, by) = (fault.spec.clone(), fault.by.clone());
            table.push(vec![queue_pair.name.clone(), spec, by, seconds(fault.from_ns), end]);
        }
    }
    table.rows.truncate(ROWS_MAX);
    table
}

/// Returns the value at or below which this share of the sorted values lies.
fn percentile(sorted: &[u64], share: f64) -> Option<u64> {
    let last = sorted.len().checked_sub(1)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most last")]
    let at = (last as f64 * share).round() as usize;
    sorted.get(at).copied()
}

/// Formats a time in seconds with microseconds.
pub(super) fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns / 1_000 % 1_000_000)
}

fn millis(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1_000 % 1_000)
}

fn micros(ns: u64) -> String {
    format!("{}.{}", ns / 1_000, ns / 100 % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_what_they_resolve() {
        let shown = [seconds(1_000_002_999), millis(12_345_678), micros(12_345)];
        assert_eq!(shown, ["1.000002", "12.345", "12.3"]);
    }

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let values: Vec<u64> = (1..=100).collect();
        let at = |share| percentile(&values, share);
        assert_eq!([at(0.0), at(0.5), at(0.99), at(1.0)], [1, 51, 99, 100].map(Some));
        assert_eq!((percentile(&[], 0.5), percentile(&[7], 0.99)), (None, Some(7)));
    }
}
