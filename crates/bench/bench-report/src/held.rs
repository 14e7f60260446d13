//! The highest rate that a fabric holds, found among the measured rates from the lowest up.

use bench_record::cores::are_apart;
use bench_record::{Point, Run};
use report::significant;

use crate::settings::{self, ENDPOINT, RATE, RX_DEPTH};

/// The bound on the 99th percentile in µs, if no ramp asked for another one.
pub(crate) const P99_BOUND_US: f64 = 1_000.0;

/// A requested rate, and the tail of its times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step<'a> {
    /// Operations a second of all threads.
    pub(crate) per_s: f64,
    pub(crate) p99_us: f64,
    pub(crate) point: &'a Point,
}

/// The results of a fabric's rates at one place.
#[derive(Debug, Clone)]
pub(crate) struct KeptRate<'a> {
    pub(crate) name: &'a str,
    /// The highest rate that kept the bound, with all lower ones.
    pub(crate) best: Option<Step<'a>>,
    /// The lowest rate that did not keep the bound.
    pub(crate) beyond: Option<Step<'a>>,
}

/// A place where several rates were measured.
#[derive(Debug, Clone)]
pub(crate) struct Ladder<'a> {
    pub(crate) label: String,
    /// The bound on the 99th percentile, in µs.
    pub(crate) bound_us: f64,
    /// One entry for each fabric.
    pub(crate) entries: Vec<KeptRate<'a>>,
}

fn step<'a>(run: &Run, point: &'a Point) -> Option<Step<'a>> {
    let is_due = point.work.as_ref().is_some_and(|work| work.arrivals.is_some());
    let is_open = point.open_loop.is_some() || is_due;
    let per_s = point.rate_per_s as f64 * run.method.threads as f64;
    // Without an answer, no time is long enough.
    let p99_us = point.p99_from_due_us().unwrap_or(f64::INFINITY);
    (is_open && per_s > 0.0).then_some(Step { per_s, p99_us, point })
}

fn bound_us(run: &Run) -> f64 {
    run.method.ramp.map_or(P99_BOUND_US, |ramp| ramp.p99_us)
}

/// Describes what was measured, except for its rate.
fn place(run: &Run, point: &Point) -> String {
    let mut settings = settings::of(run, point);
    settings.retain(|own| ![RATE, ENDPOINT, RX_DEPTH].contains(&own.name));
    let bound_us = bound_us(run);
    let bound = if bound_us == P99_BOUND_US {
        String::new()
    } else {
        format!(", p99 below {bound_us} µs")
    };
    format!("{} {}{bound}", run.kind(), settings::words(&settings))
}

/// Returns the best of these rates, and the first that is too high.
fn held<'a>(name: &'a str, bound_us: f64, mut steps: Vec<Step<'a>>) -> KeptRate<'a> {
    steps.sort_by(|a, b| a.per_s.total_cmp(&b.per_s));
    let count = steps.iter().take_while(|step| step.p99_us < bound_us).count();
    let best = count.checked_sub(1).and_then(|last| steps.get(last)).copied();
    KeptRate { name, best, beyond: steps.get(count).copied() }
}

/// A place while ladders are collected: its label, its bound, and the steps of each fabric.
type Rung<'a> = (String, f64, Vec<(&'a str, Vec<Step<'a>>)>);

/// Returns every place of `kind` with requested rates, those that most fabrics have first.
pub(crate) fn ladders<'a>(runs: &'a [Run], names: &[&'a str], kind: &str) -> Vec<Ladder<'a>> {
    let mut places: Vec<Rung<'a>> = Vec::new();
    for name in names {
        for run in runs.iter().filter(|run| run.name == *name && run.kind() == kind) {
            for point in &run.points {
                let Some(step) = step(run, point) else { continue };
                let label = place(run, point);
                let index = places.iter().position(|(own, ..)| *own == label);
                let index = index.unwrap_or_else(|| {
                    places.push((label, bound_us(run), Vec::new()));
                    places.len() - 1
                });
                let fabrics = &mut places[index].2;
                match fabrics.iter_mut().find(|(own, _)| own == name) {
                    Some((_, steps)) => steps.push(step),
                    None => fabrics.push((*name, vec![step])),
                }
            }
        }
    }
    let ladder = |(label, bound_us, all): Rung<'a>| Ladder {
        label,
        bound_us,
        entries: all.into_iter().map(|(name, steps)| held(name, bound_us, steps)).collect(),
    };
    let mut ladders: Vec<Ladder<'a>> = places.into_iter().map(ladder).collect();
    // Of places with equally many fabrics, the one with the highest rate comes first.
    let reached = |own: &KeptRate<'_>| own.best.map_or(0.0, |step| step.per_s);
    let highest = |own: &Ladder<'_>| own.entries.iter().map(reached).fold(0.0, f64::max);
    ladders.sort_by(|a, b| {
        b.entries.len().cmp(&a.entries.len()).then(highest(b).total_cmp(&highest(a)))
    });
    ladders
}

/// Renders the results of the ramps of a run, a line for each; empty if the rates were named.
pub(crate) fn lines(run: &Run) -> String {
    if run.method.ramp.is_none() {
        return String::new();
    }
    let ladders = ladders(std::slice::from_ref(run), &[run.name.as_str()], run.kind());
    let line = |ladder: &Ladder<'_>| {
        let own = ladder.entries.first()?;
        let (label, bound_us) = (&ladder.label, ladder.bound_us);
        let beyond = match own.beyond {
            Some(_) => format!("; not held: {}", own.beyond_words()),
            None => String::new(),
        };
        Some(format!("{label}: held with p99 below {bound_us} µs: {}{beyond}\n", own.words()))
    };
    ladders.iter().filter_map(line).collect()
}

/// Renders a rate for people: "40,000/s".
pub(crate) fn rate(per_s: f64) -> String {
    let digits = format!("{per_s:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text + "/s"
}

impl Step<'_> {
    /// Renders a step: "40,000/s, p99 31 µs".
    fn words(&self) -> String {
        if self.p99_us.is_infinite() {
            return format!("{}, nothing was answered", rate(self.per_s));
        }
        format!("{}, p99 {} µs", rate(self.per_s), significant(self.p99_us))
    }
}

impl KeptRate<'_> {
    /// Describes what is known of the highest rate.
    pub(crate) fn words(&self) -> String {
        match (&self.best, &self.beyond) {
            (Some(best), Some(_)) => best.words(),
            (Some(best), None) => format!("{}: no higher rate was measured", best.words()),
            (None, Some(beyond)) => {
                format!("less than {}, the lowest measured", rate(beyond.per_s))
            }
            (None, None) => "-".to_owned(),
        }
    }

    /// Renders the first rate that is too high.
    pub(crate) fn beyond_words(&self) -> String {
        self.beyond.as_ref().map_or_else(|| "not reached".to_owned(), Step::words)
    }

    /// Returns true if this fabric holds a rate that the other one was shown not to hold, with the
    /// cores in the same place.
    pub(crate) fn is_above(&self, other: &Self) -> bool {
        let both = self.best.zip(other.beyond);
        both.is_some_and(|(own, theirs)| {
            let is_apart = are_apart(own.point.phase(), theirs.point.phase());
            !is_apart && own.per_s >= theirs.per_s
        })
    }
}
