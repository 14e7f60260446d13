//! Judgement of a point: its runs, and what its scenario expects of them. The one rule of `run`,
//! `sweep` and `check`.

use crate::command::record::{Expected, Point, Run};
use netsim::{Bound, Figures, Scenario};

/// Word for a bound that is kept.
const HELD: &str = "held";
/// Word for a bound that is missed; it cannot be overlooked.
const MISSED: &str = "MISSED";

/// Returns the figures of some runs, each with its bounds. Runs that failed show none.
pub(crate) fn bounds(scenario: &Scenario, runs: &[Run]) -> Vec<Bound> {
    let figures: Vec<Option<Figures>> = runs.iter().map(|run| run.figures.clone()).collect();
    scenario.bounds(&figures)
}

/// Returns a word for a table; empty when nothing is expected.
pub(crate) fn word(bound: &Bound) -> &'static str {
    match (bound.is_bounded(), bound.missed().is_none()) {
        (false, _) => "",
        (true, true) => HELD,
        (true, false) => MISSED,
    }
}

/// Counts the points that are as their scenarios expect; `None` when nothing is expected of any.
pub(crate) fn tally<'a>(points: impl Iterator<Item = &'a Point>) -> Option<String> {
    let (mut held, mut missed, mut free) = (0, 0, 0);
    for point in points {
        match point.verdict() {
            HELD => held += 1,
            MISSED => missed += 1,
            _ => free += 1,
        }
    }
    let others = if free > 0 { format!(", {free} expect nothing") } else { String::new() };
    (held + missed > 0).then(|| format!("expectations: {held} held, {missed} MISSED{others}"))
}

impl Point {
    /// Judges the runs by what their scenario expects of them.
    pub(crate) fn judge(&mut self, scenario: &Scenario) {
        let bounds = bounds(scenario, &self.runs);
        self.expected = bounds.iter().filter(|b| b.is_bounded()).map(Expected::of).collect();
    }

    /// Returns a word for a table; empty when it was not judged.
    pub(crate) fn verdict(&self) -> &'static str {
        match (self.expected.is_empty(), self.is_good()) {
            (true, _) => "",
            (false, true) => HELD,
            (false, false) => MISSED,
        }
    }

    /// Returns the bounds that the runs miss.
    pub(crate) fn missed(&self) -> impl Iterator<Item = &str> {
        self.expected.iter().filter_map(|expected| expected.missed.as_deref())
    }

    /// Returns the runs that broke, and why, with the command that repeats each.
    pub(crate) fn errors(&self) -> impl Iterator<Item = String> {
        self.runs.iter().filter_map(|run| {
            let error = run.error.as_ref()?;
            Some(format!("{error}; repeat it with: {}", self.command(Some(run.seed))))
        })
    }

    /// Returns the runs that broke, and those in which not all flows ended well.
    pub(crate) fn failures(&self) -> impl Iterator<Item = String> {
        let open = self.runs.iter().filter(|run| run.error.is_none() && !run.is_complete());
        let open = open.map(|run| {
            let (done, flows, again) = (run.done, run.flows, self.command(Some(run.seed)));
            let what = match flows {
                0 => "no transfer was drawn".to_owned(),
                _ => format!("{done} of {flows} flows ended well"),
            };
            format!("{what}; repeat it with: {again}")
        });
        self.errors().chain(open)
    }

    /// Returns all that went wrong: failed runs, and the bounds that are missed, which `again`
    /// repeats.
    pub(crate) fn problems(&self, again: &str) -> Vec<String> {
        let missed = self.missed().map(|missed| format!("{missed}; repeat it with: {again}"));
        self.failures().chain(missed).collect()
    }

    /// Returns whether all flows of all runs ended well, and there was a run.
    pub(crate) fn is_complete(&self) -> bool {
        !self.runs.is_empty() && self.runs.iter().all(Run::is_complete)
    }

    /// Returns whether all flows of all runs ended well, and no bound is missed.
    pub(crate) fn is_good(&self) -> bool {
        self.is_complete() && self.missed().next().is_none()
    }
}
