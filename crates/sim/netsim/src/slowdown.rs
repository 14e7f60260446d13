//! Slowdown by size: completion times over the best possible ones in classes of transfer sizes, as
//! published comparisons of transports show it for random arrivals (pFabric, SIGCOMM 2013; HPCC,
//! SIGCOMM 2019). Short transfers wait in queues, long ones share links: one figure for all hides
//! it.

use crate::outcome::{FlowOutcome, Outcome};
use crate::percentile::rank;
use crate::transport::Kind;
use report::Table;
use serde::{Deserialize, Serialize};

/// End of the first class; each power of ten is cut at its triple.
const FIRST_BYTES: u64 = 1000;
/// Minimum number of classes that make a distribution of sizes.
const CLASSES_MIN: usize = 3;
const TITLES: [&str; 7] =
    ["transport", "sizes", "flows", "done", "p50/ideal", "p99/ideal", "max/ideal"];

/// Transfers of a class of sizes. Those that did not end well count as slower than all others; a
/// figure that is one of theirs is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeClass {
    /// The transport that they use.
    pub transport: Kind,
    /// Exclusive lower bound of their sizes.
    pub above_bytes: u64,
    /// Inclusive upper bound of their sizes.
    pub up_to_bytes: u64,
    /// Number of transfers.
    pub flows: usize,
    /// Number of transfers that ended well.
    pub done: usize,
    /// Median of completion time over the best possible one.
    pub p50_to_ideal: Option<f64>,
    /// The 99th percentile of that ratio (nearest rank).
    pub p99_to_ideal: Option<f64>,
    /// Maximum of that ratio.
    pub max_to_ideal: Option<f64>,
}

impl SizeClass {
    /// Summarizes the flows of a class, at least one.
    fn of(flows: &[&FlowOutcome]) -> Self {
        let slowdown =
            |flow: &&FlowOutcome| Some(flow.completion_ps? as f64 / flow.ideal_ps as f64);
        let mut done: Vec<f64> = flows.iter().filter_map(slowdown).collect();
        done.sort_by(f64::total_cmp);
        let at = |percent| done.get(rank(flows.len(), percent) - 1).copied();
        let (above_bytes, up_to_bytes) = class_of(flows[0].bytes);
        Self {
            transport: flows[0].transport,
            above_bytes,
            up_to_bytes,
            flows: flows.len(),
            done: done.len(),
            p50_to_ideal: at(50),
            p99_to_ideal: at(99),
            max_to_ideal: at(100),
        }
    }
}

/// Classifies the transfers of some runs together, by transport and size; empty when their sizes
/// are too few for a distribution.
#[must_use]
pub fn by_size(outcomes: &[Outcome]) -> Vec<SizeClass> {
    let mut flows: Vec<&FlowOutcome> = outcomes.iter().flat_map(|run| &run.flows).collect();
    let key = |flow: &&FlowOutcome| {
        let kind = Kind::ALL.iter().position(|kind| *kind == flow.transport);
        (kind, class_of(flow.bytes))
    };
    flows.sort_by_key(key);
    let groups = flows.chunk_by(|a, b| key(a) == key(b));
    let classes: Vec<SizeClass> = groups.map(SizeClass::of).collect();
    let mut sizes: Vec<u64> = classes.iter().map(|class| class.up_to_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() < CLASSES_MIN { Vec::new() } else { classes }
}

/// Returns a row per transport and class of sizes, of all runs together; `None` when there are no
/// classes.
#[must_use]
pub fn slowdown_table(title: &str, outcomes: &[Outcome]) -> Option<Table> {
    let classes = by_size(outcomes);
    let mut table = Table::new(title, &TITLES, 2);
    let ratio = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.3}"));
    for class in &classes {
        table.push(vec![
            class.transport.name().to_owned(),
            format!("{} to {}", size(class.above_bytes), size(class.up_to_bytes)),
            class.flows.to_string(),
            class.done.to_string(),
            ratio(class.p50_to_ideal),
            ratio(class.p99_to_ideal),
            ratio(class.max_to_ideal),
        ]);
    }
    (!classes.is_empty()).then_some(table)
}

/// Returns the bounds of the class that a size belongs to: above the first, up to the second.
fn class_of(bytes: u64) -> (u64, u64) {
    let mut edges = (0, FIRST_BYTES);
    while bytes > edges.1 {
        let is_triple = edges.1 / 3 * 3 == edges.1;
        edges = (edges.1, if is_triple { edges.1 / 3 * 10 } else { edges.1 * 3 });
    }
    edges
}

/// Returns an edge of a class in words.
fn size(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{} KB", bytes / 1000),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(transport: Kind, bytes: u64, slowdown: Option<u64>) -> FlowOutcome {
        let completion_ps = slowdown.map(|slowdown| slowdown * 100);
        FlowOutcome { transport, bytes, completion_ps, ideal_ps: 100, ..FlowOutcome::default() }
    }

    fn run(flows: Vec<FlowOutcome>) -> Outcome {
        Outcome { flows, ..Outcome::default() }
    }

    #[test]
    fn classes_are_three_and_ten_times_powers_of_ten() {
        assert_eq!((class_of(1), class_of(1000)), ((0, 1000), (0, 1000)));
        assert_eq!((class_of(1001), class_of(3001)), ((1000, 3000), (3000, 10_000)));
        assert_eq!(class_of(4_000_000_000), (3_000_000_000, 10_000_000_000));
        assert_eq!(
            [999, 3000, 30_000_000, 1_000_000_000].map(size),
            ["999 B", "3 KB", "30 MB", "1 GB"]
        );
    }

    #[test]
    fn runs_are_pooled_and_percentiles_are_of_each_class() {
        let long = (1..=60).map(|slowdown| flow(Kind::Srd, 200_000, Some(slowdown)));
        let short = [flow(Kind::Srd, 500, Some(7)), flow(Kind::Srd, 5000, Some(3))];
        let rest = (61..=100).map(|slowdown| flow(Kind::Srd, 200_000, Some(slowdown)));
        let tcp = flow(Kind::Tcp, 200_000, Some(9));
        let outcomes = [run(long.chain(short).collect()), run(rest.chain([tcp]).collect())];
        let classes = by_size(&outcomes);
        let shown: Vec<(Kind, u64, usize, Option<f64>)> = classes
            .iter()
            .map(|class| (class.transport, class.up_to_bytes, class.flows, class.p99_to_ideal))
            .collect();
        assert_eq!(
            shown,
            [
                (Kind::Srd, 1000, 1, Some(7.0)),
                (Kind::Srd, 10_000, 1, Some(3.0)),
                (Kind::Srd, 300_000, 100, Some(99.0)),
                (Kind::Tcp, 300_000, 1, Some(9.0)),
            ]
        );
        assert_eq!((classes[2].p50_to_ideal, classes[2].max_to_ideal), (Some(50.0), Some(100.0)));
        assert_eq!(by_size(&outcomes[1..]), [], "one size is no distribution");
    }

    #[test]
    fn flows_that_did_not_end_are_the_slowest() {
        let open = [None, Some(2), Some(1), Some(3)].map(|s| flow(Kind::Srd, 50_000, s));
        let others = [flow(Kind::Srd, 500, Some(1)), flow(Kind::Srd, 5000, Some(1))];
        let outcome = run(open.into_iter().chain(others).collect());
        let class = by_size(std::slice::from_ref(&outcome))[2];
        assert_eq!((class.flows, class.done, class.p50_to_ideal), (4, 3, Some(2.0)));
        assert_eq!((class.p99_to_ideal, class.max_to_ideal), (None, None));
        let text = slowdown_table("t", &[outcome]).unwrap().text();
        assert!(text.lines().last().unwrap().starts_with("srd        30 KB to 100 KB"), "{text}");
    }
}
