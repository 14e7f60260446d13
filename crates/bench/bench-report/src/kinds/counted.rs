//! The counts of adapters, beside what was measured.

use bench_record::counted::Counted;
use bench_record::{Point, Run};
use report::significant;

use super::column::Column;

pub(super) const COLUMNS: [Column; 3] = [
    Column::new("wire B/msg", |p| each(p, Counted::wire_bytes)).of(has_counts),
    Column::new("packets/msg", |p| each(p, Counted::packets)).of(has_counts),
    Column::new("sent again", |p| Some(p.counted.as_ref()?.retransmitted()?.to_string()))
        .of(has_counts),
];

fn has_counts(run: &Run) -> bool {
    run.points.iter().any(|point| point.counted.is_some())
}

fn each(point: &Point, of: fn(&Counted) -> Option<u64>) -> Option<String> {
    let counted = point.counted.as_ref()?;
    counted.per_message(of(counted)).map(significant)
}

/// Names what counted, in a line; empty if nothing did.
pub(crate) fn source(run: &Run) -> String {
    let Some(counted) = run.points.iter().find_map(|point| point.counted.as_ref()) else {
        return String::new();
    };
    let Some(client) = counted.client() else { return String::new() };
    let whose = match counted.is_shared {
        true => "both sides and directions together",
        false => "the client's side",
    };
    format!("wire, packets, sent again: counted by {} ({whose}), first block\n", client.of)
}
