//! Measurements of every two nodes with each other.

use bench_record::{Matrix, NodePair, Point, Run};
use report::{Table, significant};

use super::aspect::{Aspect, GOODPUT, MEDIAN};
use super::cells::us;
use super::{Kind, Quantity};

pub(super) const KIND: Kind = Kind {
    table,
    quantities: &[SLOWEST, NARROWEST],
    aspects: &[SLOWEST_PAIR, MEDIAN_PAIR, NARROWEST_PAIR],
    notes: |run| run.points.iter().filter_map(worst).collect(),
    ..Kind::NOTHING
};

const SLOWEST: Quantity = Quantity {
    label: "half round trip of the slowest pair",
    unit: "µs",
    better: "lower",
    meaning: "Ping-pong of two nodes while all others are quiet, the median of each pair: that of the pair \
        where it is longest.",
    of: |point| point.latency.map(|found| found.middle_us()),
    has_blocks: true,
    tail: Some(|point| point.latency?.distribution.map(|times| times.p99_us)),
};
const NARROWEST: Quantity = Quantity {
    label: "goodput of the narrowest pair",
    unit: "Gbit/s",
    better: "higher",
    meaning: "A stream between two nodes while all others are quiet: that of the pair where it is least.",
    of: |point| point.bandwidth.map(|found| found.gbit_per_s),
    has_blocks: false,
    tail: None,
};
const MEDIAN_PAIR: Aspect = Aspect {
    at: "for the median pair",
    of: |point| point.matrix.as_ref()?.median(NodePair::p50_us),
    ..MEDIAN
};
const SLOWEST_PAIR: Aspect = Aspect { at: "for the slowest pair", ..MEDIAN };
const NARROWEST_PAIR: Aspect = Aspect { at: "for the narrowest pair", ..GOODPUT };

/// The sign of the slowest pair, and of the narrowest.
const WORST: &str = "▼";

/// Returns a table with a row for each node that sent, and a column for each that answered.
fn table(run: &Run) -> Table {
    let found = || run.points.iter().filter_map(|point| Some((point, point.matrix.as_ref()?)));
    let caption = format!(
        "{}: each node with each other one alone, half round trip p50 µs | goodput Gbit/s",
        run.name
    );
    let nodes = found().map(|(_, matrix)| &matrix.nodes).max_by_key(|nodes| nodes.len());
    let nodes: Vec<&str> = nodes.into_iter().flatten().map(String::as_str).collect();
    let to: Vec<String> = nodes.iter().map(|node| format!("to {node}")).collect();
    let mut titles = vec!["size B", "depth", "from"];
    titles.extend(to.iter().map(String::as_str));
    let mut table = Table::new(&caption, &titles, 0);
    for (point, matrix) in found() {
        for (from, node) in nodes.iter().enumerate() {
            let mut row =
                vec![point.size_bytes.to_string(), point.depth.to_string(), (*node).to_owned()];
            row.extend((0..nodes.len()).map(|to| cell(matrix, from, to)));
            table.push(row);
        }
    }
    table
}

fn cell(matrix: &Matrix, from: usize, to: usize) -> String {
    let Some(pair) = matrix.pair(from, to) else { return "-".to_owned() };
    let mark = |worst: Option<&NodePair>| if worst == Some(pair) { WORST } else { "" };
    format!(
        "{}{} | {}{}",
        mark(matrix.slowest()),
        us(pair.p50_us()),
        mark(matrix.narrowest()),
        significant(pair.gbit_per_s())
    )
}

/// Describes how far the worst pairs are from the one in the middle.
fn worst(point: &Point) -> Option<String> {
    let matrix = point.matrix.as_ref()?;
    let (slow, narrow) = matrix.slowest().zip(matrix.narrowest())?;
    let name = |node: usize| matrix.nodes.get(node).map_or("?", String::as_str);
    let words = |pair: &NodePair, of: fn(&NodePair) -> f64| {
        let times = of(pair) / matrix.median(of).filter(|median| *median > 0.0)?;
        let (from, to) = (name(pair.from), name(pair.to));
        Some(format!("{from} to {to}, {} times the median pair", significant(times)))
    };
    Some(format!(
        "{WORST} {} B: slowest {}; narrowest {}",
        point.size_bytes,
        words(slow, NodePair::p50_us)?,
        words(narrow, NodePair::gbit_per_s)?
    ))
}

#[cfg(test)]
mod tests {
    use bench_record::spec::Benchmark;
    use bench_record::{Bandwidth, Latency};

    use super::*;

    #[test]
    fn rows_send_columns_answer_and_the_worst_are_marked() {
        let pair = |from, to, mean_us, mmsg_per_s| NodePair {
            from,
            to,
            latency: Latency { mean_us, ..Latency::default() },
            bandwidth: Bandwidth::of_rate(mmsg_per_s, 1000),
        };
        let pairs = vec![pair(0, 1, 5.0, 2.0), pair(1, 0, 9.0, 1.0)];
        let matrix = Matrix { nodes: vec!["db1".to_owned(), "db2".to_owned()], pairs };
        let point = Point { matrix: Some(matrix), ..Point::new(64, 16) };
        let run = Run::new("mine", Benchmark::Matrix, vec![point]);
        let table = table(&run);
        let titles: Vec<&str> = table.columns.iter().map(|column| &*column.title).collect();
        assert_eq!(titles, ["size B", "depth", "from", "to db1", "to db2"]);
        assert_eq!(table.rows[0], ["64", "16", "db1", "-", "5.00 | 16.00"]);
        assert_eq!(table.rows[1], ["64", "16", "db2", "▼9.00 | ▼8.000", "-"]);
        let words = "▼ 64 B: slowest db2 to db1, 1.000 times the median pair; narrowest db2 to db1, 0.5000 \
             times the median pair";
        assert_eq!((KIND.notes)(&run), [words]);
    }
}
