//! Cells and words that tables of several kinds have.

use bench_record::{Point, Run};

/// What is not as it usually is, in words.
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

/// Half of the 95 % interval.
pub(crate) fn doubt(point: &Point) -> String {
    let both = point.interval.zip(point.figure());
    let half = both.map(|(interval, figure)| interval.half_width_percent(figure));
    half.map_or_else(|| "-".to_owned(), |p| format!("{p:.1}"))
}

/// Distance of the best and the worst block.
pub(crate) fn spread(point: &Point) -> String {
    point.spread_percent().map_or_else(|| "-".to_owned(), |p| format!("{p:.0}"))
}

/// What is not known.
pub(crate) fn dash() -> String {
    "-".to_owned()
}

/// A number, where it is known.
pub(crate) fn count(number: Option<u64>) -> String {
    number.map_or_else(dash, |number| number.to_string())
}

/// Microseconds with two decimals.
pub(crate) fn us(value: f64) -> String {
    format!("{value:.2}")
}

/// A count; 0: it is not known.
pub(crate) fn above_0(count: u64) -> Option<String> {
    (count > 0).then(|| count.to_string())
}
