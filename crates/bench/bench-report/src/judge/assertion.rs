//! `--assert 'latency/64B p99 < 30us'`: limits for CI.

use std::fmt;
use std::str::FromStr;

use bench_record::{Point, Run};

use super::figure::Figure;

/// A limit on one figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Assertion {
    text: String,
    benchmark: String,
    size_bytes: Option<usize>,
    depth: Option<usize>,
    figure: Figure,
    limit: Limit,
    /// The limit, in the figure's own unit.
    value: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Below,
    AtMost,
    Above,
    AtLeast,
}

const LIMITS: [(&str, Limit); 4] =
    [("<=", Limit::AtMost), (">=", Limit::AtLeast), ("<", Limit::Below), (">", Limit::Above)];

const FORM: &str = "write BENCHMARK[/SIZE[/DEPTH]] FIGURE < NUMBER UNIT, such as \
    'latency/64B p99 < 30us' or 'bandwidth/8KiB/256 goodput >= 20 Gbit/s'";

impl fmt::Display for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Assertion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: String| format!("{what}: {FORM}");
        let (at, (sign, limit)) = LIMITS
            .iter()
            .filter_map(|limit| Some((text.find(limit.0)?, *limit)))
            .min_by_key(|(at, (sign, _))| (*at, std::cmp::Reverse(sign.len())))
            .ok_or_else(|| wrong("it has no < or >".to_owned()))?;
        let (left, right) = (text[..at].trim(), text[at + sign.len()..].trim());
        let (place, name) = left
            .split_once(char::is_whitespace)
            .ok_or_else(|| wrong(format!("`{left}` names no figure")))?;
        let name = name.trim();
        let figure = Figure::parse(name).ok_or_else(|| {
            let all = Figure::ALL.map(|(name, _)| name).join(", ");
            wrong(format!("`{name}` is none of {all}"))
        })?;
        let mut parts = place.split('/');
        let benchmark = parts.next().unwrap_or_default().to_owned();
        let mut number = |what: &str, parse: fn(&str) -> Option<usize>| {
            let Some(part) = parts.next() else { return Ok(None) };
            parse(part).map(Some).ok_or_else(|| wrong(format!("`{part}` is no {what}")))
        };
        let size_bytes = number("size", bytes)?;
        let depth = number("depth", |part| part.parse().ok())?;
        let value = value(figure, right).map_err(wrong)?;
        Ok(Self { text: text.to_owned(), benchmark, size_bytes, depth, figure, limit, value })
    }
}

/// Parses a size such as `64`, `64B`, `8KiB` or `1MiB`.
fn bytes(text: &str) -> Option<usize> {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("B", 1), ("", 1)];
    let (digits, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
    digits.parse::<usize>().ok()?.checked_mul(factor)
}

fn value(figure: Figure, text: &str) -> Result<f64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = (&text[..end], text[end..].trim());
    let number: f64 = digits.parse().map_err(|_| format!("`{text}` is not a number"))?;
    let known = figure.units();
    let (_, factor) = known.iter().find(|(name, _)| *name == unit).ok_or_else(|| {
        let all: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("`{unit}` is no unit of {}, which are {}", figure.name(), all.join(", "))
    })?;
    Ok(number * factor)
}

/// The result of checking an assertion.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) holds: bool,
    /// The assertion, with the figure that was measured.
    pub(crate) text: String,
}

impl Assertion {
    /// Checks every point that the assertion is about; an assertion about nothing that was measured
    /// does not hold.
    pub(crate) fn check(&self, runs: &[Run]) -> Vec<Outcome> {
        let of_run = |run: &Run| run.kind() == self.benchmark && run.source != "published";
        let outcomes: Vec<Outcome> = runs
            .iter()
            .filter(|run| of_run(run))
            .flat_map(|run| run.points.iter().filter_map(|point| self.check_point(run, point)))
            .collect();
        if outcomes.is_empty() {
            let text = format!("{self}: no such point was measured");
            return vec![Outcome { holds: false, text }];
        }
        outcomes
    }

    /// Returns `None` for a point that the assertion is not about. A figure that a point does not
    /// have breaks the limit, whatever other points have.
    fn check_point(&self, run: &Run, point: &Point) -> Option<Outcome> {
        let is_meant = self.size_bytes.is_none_or(|size| size == point.size_bytes)
            && self.depth.is_none_or(|depth| depth == point.depth);
        if !is_meant {
            return None;
        }
        let Some(value) = self.figure.of(point) else {
            let (name, size) = (&run.name, point.size_bytes);
            let text = format!("{self} does NOT hold: {name}, {size} B: it was not measured");
            return Some(Outcome { holds: false, text });
        };
        let holds = match self.limit {
            Limit::Below => value < self.value,
            Limit::AtMost => value <= self.value,
            Limit::Above => value > self.value,
            Limit::AtLeast => value >= self.value,
        };
        let verdict = if holds { "holds" } else { "does NOT hold" };
        let (unit, _) = self.figure.units()[0];
        let measured = report::significant(value);
        let name = &run.name;
        let size = point.size_bytes;
        Some(Outcome {
            holds,
            text: format!("{self} {verdict}: {name}, {size} B: {measured} {unit}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper;
    use bench_record::Distribution;
    use bench_record::spec::Benchmark;

    fn parse(text: &str) -> Assertion {
        text.parse().expect(text)
    }

    #[test]
    fn places_figures_and_units_are_read() {
        let plain = parse("latency/64B p99 < 30us");
        assert_eq!((plain.size_bytes, plain.depth, plain.value), (Some(64), None, 30.0));
        let full = parse("bandwidth/8KiB/256 goodput >= 2500 MB/s");
        assert_eq!((full.size_bytes, full.depth, full.value), (Some(8192), Some(256), 20.0));
        assert_eq!((full.figure, full.limit), (Figure::Goodput, Limit::AtLeast));
        assert_eq!(parse("latency mean<=1ms").value, 1000.0);
        assert_eq!(parse("bandwidth lost <= 0").value, 0.0);
    }

    #[test]
    fn what_cannot_be_understood_is_named() {
        for (text, words) in [
            ("latency", "no < or >"),
            ("latency < 3us", "names no figure"),
            ("latency p98 < 3us", "`p98` is none of min, p50"),
            ("latency/x p99 < 3us", "`x` is no size"),
            ("latency/1/x p99 < 3us", "`x` is no depth"),
            ("latency p99 < us", "`us` is not a number"),
            ("latency p99 < 3", "`` is no unit of p99, which are us"),
            ("bandwidth goodput > 3 GB", "which are Gbit/s"),
        ] {
            let error = text.parse::<Assertion>().expect_err(text);
            assert!(error.contains(words), "{error} does not say {words}");
        }
    }

    #[test]
    fn every_point_that_is_meant_is_checked() {
        let mut runs = paper::runs();
        let holds = |text: &str, runs: &[Run]| {
            let outcomes = parse(text).check(runs);
            (outcomes.len(), outcomes.iter().all(|outcome| outcome.holds))
        };
        // Published figures are not what is tested.
        assert_eq!(holds("latency mean < 1000us", &runs), (1, false));
        runs.retain(|run| run.name == paper::EFA);
        for run in &mut runs {
            "measured".clone_into(&mut run.source);
        }
        assert_eq!(holds("latency mean < 1000us", &runs), (10, true));
        assert_eq!(holds("latency/64B mean < 20.6us", &runs), (1, false));
        assert_eq!(holds("latency/64B mean < 20.7us", &runs), (1, true));
        assert_eq!(holds("bandwidth/8KiB/256 goodput > 90 Gbit/s", &runs), (1, true));
        // Means are all that was published.
        assert_eq!(holds("latency/64B p99 < 1000us", &runs), (1, false));
    }

    #[test]
    fn a_point_without_the_figure_breaks_the_limit_whatever_others_have() {
        let times = Distribution { p99_us: 5.0, ..Distribution::default() };
        let measured = Point { operation_time: Some(times), ..Point::new(64, 1) };
        let runs = [Run::new("mine", Benchmark::Rpc, vec![measured, Point::new(64, 8)])];
        let outcomes = parse("rpc p99 < 30us").check(&runs);
        let holds: Vec<bool> = outcomes.iter().map(|outcome| outcome.holds).collect();
        assert_eq!(holds, [true, false]);
        assert!(outcomes[1].text.contains("not measured"), "{}", outcomes[1].text);
        // Nobody counted what was lost.
        assert!(!parse("rpc lost <= 0").check(&runs)[0].holds);
    }
}
