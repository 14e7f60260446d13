//! What adapters counted, beside what was measured.

use bench_record::counted::Counted;
use bench_record::{Point, Run};
use report::significant;

/// Adds the columns where there is something for them.
pub(super) fn titles(run: &Run, titles: &mut Vec<&str>) -> bool {
    let has_counts = run.points.iter().any(|point| point.counted.is_some());
    if has_counts {
        titles.extend(["wire B/msg", "packets/msg", "sent again"]);
    }
    has_counts
}

/// The cells of a point in these columns.
pub(super) fn cells(point: &Point) -> [String; 3] {
    let counted = point.counted.as_ref();
    let each = |of: fn(&Counted) -> Option<u64>| {
        let share = counted.and_then(|c| c.per_message(of(c)));
        share.map_or_else(|| "-".to_owned(), significant)
    };
    let again = counted.and_then(Counted::retransmitted);
    [
        each(Counted::wire_bytes),
        each(Counted::packets),
        again.map_or_else(|| "-".to_owned(), |count| count.to_string()),
    ]
}

/// Who counted: a line, or nothing.
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
