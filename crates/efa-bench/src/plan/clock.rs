//! How far a plan is, for people: a bar with the present figure on a terminal, a line for each step
//! elsewhere.

use std::time::Instant;

use report::Progress;

use super::budget;
use super::outcome::Outcome;
use super::task::Task;

/// Estimated and passed time.
pub(super) struct Clock {
    progress: Progress,
    started: Instant,
    left_s: f64,
    /// Of what is done, by the estimate.
    passed_s: f64,
    /// Of the present step.
    step_s: f64,
    label: String,
}

impl Clock {
    pub(super) fn new(left_s: f64, quiet: bool) -> Self {
        let progress = Progress::timed(left_s, quiet);
        let started = Instant::now();
        Self { progress, started, left_s, passed_s: 0.0, step_s: 0.0, label: String::new() }
    }

    pub(super) fn begin(&mut self, step: usize, steps: usize, task: &Task) {
        self.step_s = 0.0;
        self.label = format!("[{}/{steps}] {}", step + 1, task.title);
        self.progress.starting(&self.label);
    }

    pub(super) fn measured(&mut self, seconds: f64, text: &str) {
        self.step_s += seconds;
        self.progress.advance(seconds, &format!("{}: {text}", self.label));
    }

    pub(super) fn end(&mut self, task: &Task, outcome: &Outcome) {
        self.progress.advance(task.estimate_s - self.step_s, &self.label);
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
        // As much slower as it has been so far.
        let pace = (self.started.elapsed().as_secs_f64() / self.passed_s.max(1.0)).max(0.1);
        let left_s = (self.left_s - self.passed_s).max(0.0) * pace;
        let line = format!("{}: {what}; left about {}", self.label, budget::time(left_s));
        match outcome {
            Outcome::Skipped(_) | Outcome::Failed(..) => self.progress.remark(&line),
            _ => self.progress.line(&line),
        }
    }
}
