//! The table of a collective operation.

use report::{Table, significant};

use super::{doubt, spread, us};
use crate::record::Run;

/// One row for each point.
pub(super) fn table(run: &Run) -> Table {
    let ours = run.method.work.and_then(|work| work.collective);
    let how = ours.map_or_else(String::new, |own| format!(" by {}", own.algorithm_name()));
    let caption = format!("{}: {}{how}, times of the slowest rank", run.name, run.test);
    let titles = [
        "size B",
        "ranks",
        "min µs",
        "p50 µs",
        "p90 µs",
        "p99 µs",
        "p99.9 µs",
        "max µs",
        "mean µs",
        "bus Gbit/s",
        "operations",
        "spread %",
        "± %",
    ];
    let mut table = Table::new(&caption, &titles, 0);
    for point in &run.points {
        let (Some(found), Some(d)) = (point.collective, point.operation_time) else { continue };
        let or_dash = |value: Option<f64>, text: fn(f64) -> String| {
            value.map_or_else(|| "-".to_owned(), text)
        };
        table.push(vec![
            point.size_bytes.to_string(),
            found.ranks.to_string(),
            us(d.min_us),
            us(d.p50_us),
            or_dash(d.p90_us, us),
            us(d.p99_us),
            or_dash(d.p999_us, us),
            us(d.max_us),
            us(found.mean_us),
            or_dash(found.bus_gbit_per_s, significant),
            found.operations.to_string(),
            spread(point),
            doubt(point),
        ]);
    }
    table
}
