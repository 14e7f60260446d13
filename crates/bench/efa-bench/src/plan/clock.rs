//! The progress of a plan, for people: a bar with the present figure on a terminal, a line for each
//! step elsewhere.

use std::collections::BTreeMap;
use std::time::Instant;

use report::Progress;

use super::budget;
use super::outcome::Outcome;
use super::task::Task;

/// The estimated and the passed time.
pub(super) struct Clock {
    progress: Progress,
    started: Instant,
    left_s: f64,
    /// The estimated time of what is done.
    passed_s: f64,
    /// The passed time of each step that has begun.
    steps_s: BTreeMap<usize, f64>,
    /// The index of the present step.
    step: usize,
    label: String,
}

impl Clock {
    pub(super) fn new(left_s: f64, quiet: bool) -> Self {
        let progress = Progress::timed(left_s, quiet);
        let started = Instant::now();
        let (steps_s, label) = (BTreeMap::new(), String::new());
        Self { progress, started, left_s, passed_s: 0.0, steps_s, step: 0, label }
    }

    /// Notes that a step, or another round of it, begins.
    pub(super) fn begin(&mut self, step: usize, steps: usize, task: &Task) {
        self.step = step;
        self.label = label(step, steps, task);
        self.progress.starting(&self.label);
    }

    /// Notes that another round of the whole plan begins.
    pub(super) fn round(&mut self, text: &str) {
        self.progress.line(text);
    }

    pub(super) fn measured(&mut self, seconds: f64, text: &str) {
        *self.steps_s.entry(self.step).or_default() += seconds;
        self.progress.advance(seconds, &format!("{}: {text}", self.label));
    }

    pub(super) fn end(&mut self, step: usize, steps: usize, task: &Task, outcome: &Outcome) {
        self.label = label(step, steps, task);
        let known_s = self.steps_s.remove(&step).unwrap_or_default();
        self.progress.advance(task.estimate_s - known_s, &self.label);
        self.passed_s += task.estimate_s;
        let what = match outcome {
            Outcome::Done(runs) => {
                let points: usize = runs.iter().map(|run| run.points.len()).sum();
                format!("{points} points")
            }
            Outcome::Skipped(reason) => format!("skipped: {reason}"),
            Outcome::Failed(reason, _) => format!("FAILED: {reason}"),
            Outcome::Part(_) | Outcome::Open => "interrupted".to_owned(),
        };
        // The rest is assumed to be as much slower as the plan has been so far. Steps that take
        // turns have passed in part, too.
        let passed_s = self.passed_s + self.steps_s.values().sum::<f64>();
        let pace = (self.started.elapsed().as_secs_f64() / passed_s.max(1.0)).max(0.1);
        let left_s = (self.left_s - passed_s).max(0.0) * pace;
        let line = format!("{}: {what}; left about {}", self.label, budget::time(left_s));
        match outcome {
            Outcome::Skipped(_) | Outcome::Failed(..) => self.progress.remark(&line),
            _ => self.progress.line(&line),
        }
    }
}

/// Returns the label of a step: "[3/9] latency on Soft-EFA".
fn label(step: usize, steps: usize, task: &Task) -> String {
    format!("[{}/{steps}] {}", step + 1, task.title)
}
