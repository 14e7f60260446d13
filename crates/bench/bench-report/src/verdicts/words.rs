//! Comparisons in words: how many times as fast, where, and how certain that is.

use bench_record::Point;
use bench_record::cores::are_apart;
use report::{Better, Change, Interval, are_enough, ratio_interval};

use crate::kinds::aspect::Aspect;

/// The outcome of a comparison in words, and a sign before them for readers who see no colours.
pub(super) struct Verdict {
    pub(super) words: String,
    pub(super) certainty: String,
}

const BETTER: &str = "▲";
const WORSE: &str = "▼";
const BOTH: &str = "◆";
const ALIKE: &str = "=";
const OPEN: &str = "?";

/// Compares `ours` with `theirs`.
pub(super) fn verdict(aspects: &[Aspect], ours: &Point, theirs: &Point) -> Verdict {
    if let Some(words) = apart(ours, theirs) {
        return Verdict { words, certainty: "-".to_owned() };
    }
    let (mut words, mut changes) = (Vec::new(), Vec::new());
    for (index, aspect) in aspects.iter().enumerate() {
        let Some((new, base)) = (aspect.of)(ours).zip((aspect.of)(theirs)) else { continue };
        if !(new > 0.0 && base > 0.0 && new.is_finite() && base.is_finite()) {
            continue;
        }
        let has_blocks = index == 0 || aspect.is_tail;
        let ratio = if has_blocks { ratio(aspect, ours, theirs) } else { None };
        let change = Change::of(base, new, aspect.better, aspect.noise_percent, ratio);
        let is_of_few = has_blocks && are_few(aspect, ours, theirs);
        let change = if is_of_few { undecided(change) } else { change };
        words.push(in_words(aspect, change, new, base));
        changes.push(change);
    }
    if words.is_empty() {
        return Verdict { words: "nothing to compare".to_owned(), certainty: "-".to_owned() };
    }
    let has = |change| changes.contains(&change);
    // The tail of one block each says little: if the main figure is undecided, all is.
    let is_open = changes.first() == Some(&Change::Inconclusive);
    let sign = match (has(Change::Improved), has(Change::Regressed)) {
        _ if is_open => OPEN,
        (true, false) => BETTER,
        (false, true) => WORSE,
        (true, true) => BOTH,
        (false, false) => ALIKE,
    };
    let certainty =
        aspects.first().map_or_else(String::new, |first| certainty(first, ours, theirs));
    Verdict { words: format!("{sign} {}", words.join(", ")), certainty }
}

/// The standing of a point beside the best one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// The difference is noise.
    Tie,
    /// The blocks do not tell the points apart: the difference may be great or nothing.
    Open,
    Behind,
    /// The points cannot be compared, because they were not measured under the same conditions.
    Apart,
}

/// Returns the standing of `other` beside `best`.
pub(super) fn standing(aspect: &Aspect, best: &Point, other: &Point) -> Standing {
    if apart(best, other).is_some() {
        return Standing::Apart;
    }
    let values = (aspect.of)(best).zip((aspect.of)(other));
    let Some((new, base)) = values.filter(|(new, base)| *new > 0.0 && *base > 0.0) else {
        return Standing::Apart;
    };
    match standing_of(base, new, aspect, ratio(aspect, best, other)) {
        Standing::Behind if are_few(aspect, best, other) => Standing::Open,
        standing => standing,
    }
}

/// Returns the standing of figures.
fn standing_of(base: f64, new: f64, aspect: &Aspect, ratio: Option<Interval>) -> Standing {
    match Change::of(base, new, aspect.better, aspect.noise_percent, ratio) {
        Change::Improved => Standing::Behind,
        Change::Same => Standing::Tie,
        Change::Inconclusive | Change::Regressed => Standing::Open,
    }
}

/// Describes why two points are not of one machine.
fn apart(ours: &Point, theirs: &Point) -> Option<String> {
    let (one, other) = ours.phase().zip(theirs.phase())?;
    are_apart(Some(one), Some(other)).then(|| {
        format!("not to be compared: cores {} for one, {} for the other", one.name(), other.name())
    })
}

/// Returns whether both points have blocks, but too few to tell a change.
fn are_few(aspect: &Aspect, ours: &Point, theirs: &Point) -> bool {
    let (own, other) = (aspect.blocks(ours), aspect.blocks(theirs));
    own.len().min(other.len()) > 1 && !are_enough(&own, &other)
}

/// Returns what few blocks say of a change.
const fn undecided(change: Change) -> Change {
    match change {
        Change::Improved | Change::Regressed => Change::Inconclusive,
        other => other,
    }
}

/// Returns the interval of the ratio of ours to theirs.
fn ratio(aspect: &Aspect, ours: &Point, theirs: &Point) -> Option<Interval> {
    ratio_interval(&aspect.blocks(theirs), &aspect.blocks(ours))
}

fn in_words(aspect: &Aspect, change: Change, new: f64, base: f64) -> String {
    let better = match aspect.better {
        Better::Less => base / new,
        Better::More => new / base,
    };
    let at = if aspect.at.is_empty() { String::new() } else { format!(" {}", aspect.at) };
    if aspect.is_cost {
        return match change {
            Change::Same | Change::Inconclusive => "as much CPU time".to_owned(),
            Change::Improved | Change::Regressed => {
                format!("{} times the CPU time", times(new / base))
            }
        };
    }
    match change {
        Change::Same => format!("as fast{at}"),
        Change::Inconclusive => format!("undecided{at}"),
        Change::Improved => format!("{} times as fast{at}", times(better)),
        Change::Regressed => format!("{} times as slow{at}", times(1.0 / better)),
    }
}

/// Renders the certainty, in the direction of the words: "1.9 to 2.3 times as fast (95 %, 5 and 5
/// blocks)".
fn certainty(aspect: &Aspect, ours: &Point, theirs: &Point) -> String {
    let (own, other) = (ours.blocks.len(), theirs.blocks.len());
    let Some(ratio) = ratio(aspect, ours, theirs) else {
        return format!("not known: {own} and {other} blocks");
    };
    let (low, high) = match aspect.better {
        Better::More => (ratio.low, ratio.high),
        Better::Less => (1.0 / ratio.high, 1.0 / ratio.low),
    };
    let range = match (low, high) {
        (low, high) if high < 1.0 => {
            format!("{} to {} times as slow", times(1.0 / high), times(1.0 / low))
        }
        (low, high) => format!("{} to {} times as fast", times(low), times(high)),
    };
    let at = if aspect.at.is_empty() { String::new() } else { format!(" {}", aspect.at) };
    if are_few(aspect, ours, theirs) {
        return format!("{range}{at} in {own} and {other} blocks: too few to tell");
    }
    format!("{range}{at} (95 %, {own} and {other} blocks)")
}

/// Renders a ratio for people.
fn times(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 9.95 => format!("{ratio:.0}"),
        ratio if ratio >= 1.195 => format!("{ratio:.1}"),
        ratio => format!("{ratio:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use bench_record::cores::Cores;
    use bench_record::spec::Benchmark;
    use bench_record::{Bandwidth, Distribution, Latency};

    use super::*;
    use crate::kinds;

    fn latency(p50_us: f64, p99_us: f64) -> Point {
        let distribution = Some(Distribution { p50_us, p99_us, ..Distribution::default() });
        let latency = Latency { round_trips: Some(9), mean_us: p50_us, distribution };
        let blocks = [0.98, 0.99, 1.0, 1.01, 1.02].map(|share| share * p50_us).into();
        Point { latency: Some(latency), blocks, ..Point::new(64, 1) }
    }

    fn said(ours: &Point, theirs: &Point) -> (String, String) {
        let verdict = verdict(kinds::of(Benchmark::Latency).aspects, ours, theirs);
        (verdict.words, verdict.certainty)
    }

    #[test]
    fn the_median_and_the_tail_are_both_said() {
        let (words, certainty) = said(&latency(10.0, 70.0), &latency(21.0, 50.0));
        assert_eq!(words, "◆ 2.1 times as fast at the median, 1.4 times as slow at p99");
        assert_eq!(certainty, "2.0 to 2.2 times as fast at the median (95 %, 5 and 5 blocks)");
        let (words, certainty) = said(&latency(21.0, 50.0), &latency(10.0, 20.0));
        assert_eq!(words, "▼ 2.1 times as slow at the median, 2.5 times as slow at p99");
        assert!(certainty.starts_with("2.0 to 2.2 times as slow"), "{certainty}");
    }

    #[test]
    fn noise_is_no_difference() {
        let (words, _) = said(&latency(10.0, 20.0), &latency(10.1, 21.0));
        assert_eq!(words, "= as fast at the median, as fast at p99");
        let wide = Point { blocks: vec![5.0, 8.0, 12.0, 14.0, 20.0], ..latency(12.0, 20.0) };
        let (words, _) = said(&wide, &latency(10.0, 20.0));
        assert_eq!(words, "? undecided at the median, as fast at p99");
        let (words, _) = said(&wide, &latency(10.0, 50.0));
        assert_eq!(words, "? undecided at the median, 2.5 times as fast at p99");
    }

    /// Three blocks have no interval of 95 % that could be named.
    #[test]
    fn few_blocks_are_said_to_be_too_few() {
        let few = Point { blocks: vec![9.0, 10.0, 11.0], ..latency(10.0, 20.0) };
        let (words, certainty) = said(&few, &latency(20.0, 20.0));
        assert!(words.starts_with("? undecided at the median"), "{words}");
        let range = "1.8 to 2.2 times as fast at the median";
        assert_eq!(certainty, format!("{range} in 3 and 5 blocks: too few to tell"));
    }

    #[test]
    fn one_block_says_that_nobody_knows_how_certain() {
        let one = Point { blocks: vec![10.0], ..latency(10.0, 20.0) };
        let (words, certainty) = said(&one, &latency(20.0, 20.0));
        assert_eq!(words, "▲ 2.0 times as fast at the median, as fast at p99");
        assert_eq!(certainty, "not known: 1 and 5 blocks");
    }

    #[test]
    fn near_cores_are_not_held_against_far_ones() {
        let at = |ns| Some(Cores::between(ns, ns));
        let near = Point { cores: at(110.0), ..latency(5.0, 9.0) };
        let far = Point { cores: at(530.0), ..latency(15.0, 19.0) };
        let (words, certainty) = said(&near, &far);
        assert_eq!((words.contains("near for one, far for the other"), &*certainty), (true, "-"));
    }

    #[test]
    fn what_has_no_figure_is_not_compared() {
        let nothing = Point::new(64, 1);
        assert_eq!(said(&nothing, &latency(1.0, 2.0)).0, "nothing to compare");
        let zero = Point { bandwidth: Some(Bandwidth::new(0, 0, 1.0)), ..Point::new(64, 1) };
        let verdict = verdict(kinds::of(Benchmark::Bandwidth).aspects, &zero, &zero);
        assert_eq!(verdict.words, "nothing to compare");
    }
}
