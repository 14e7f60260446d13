//! Cells and words that several kinds of tables share.

use bench_record::{Point, Run};

/// Lists the settings that are not as usual.
pub(crate) fn unusual(run: &Run) -> Vec<String> {
    let method = &run.method;
    let counts = [
        (method.flow.complete_every, "a completion of every"),
        (method.flow.post_list, "in lists of"),
        (method.threads, "threads:"),
        (method.endpoints, "endpoints per thread:"),
    ];
    let counts = counts.iter().filter(|(n, _)| *n > 1);
    let mut words: Vec<String> = counts.map(|(n, what)| format!("{what} {n}")).collect();
    if method.flow.events {
        words.push("completions slept for".to_owned());
    }
    if method.directions > 1 {
        words.push("both directions together".to_owned());
    }
    words
}

/// Renders half of the 95 % interval.
pub(super) fn doubt(point: &Point) -> Option<String> {
    let half = point.interval?.half_width_percent(point.figure()?);
    Some(format!("{half:.1}"))
}

/// Renders the distance of the best and the worst block.
pub(super) fn spread(point: &Point) -> Option<String> {
    Some(format!("{:.0}", point.spread_percent()?))
}

/// Renders microseconds with two decimals.
pub(crate) fn us(value: f64) -> String {
    format!("{value:.2}")
}

/// Renders a count; `None` for 0, which means that it is not known.
pub(crate) fn above_0(count: u64) -> Option<String> {
    (count > 0).then(|| count.to_string())
}

/// Renders a number of receives or sends; `None` for 0, which means that it is not known.
pub(super) fn known(depth: usize) -> Option<String> {
    above_0(depth as u64)
}
