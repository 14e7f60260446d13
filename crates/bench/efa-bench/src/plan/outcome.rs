//! The findings of a plan: read from the events of its journal, and put together as a result file.

use std::collections::BTreeMap;

use bench_record::{DeviceCounters, LeftOut, PlanRecord, Run};

use super::comparisons::{self, Planned};
use super::journal::Event;
use super::task::Task;

/// The outcome of a step so far.
#[derive(Debug, Clone, Default)]
pub(super) enum Outcome {
    /// Not begun, or without any result yet.
    #[default]
    Open,
    /// Part of it was measured before an interruption.
    Part(Vec<Run>),
    Done(Vec<Run>),
    Skipped(String),
    Failed(String, Vec<Run>),
}

impl Outcome {
    /// Returns whether there is nothing left to do. A step that failed or could not be done may
    /// work next time.
    pub(super) const fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    fn runs(&self) -> &[Run] {
        match self {
            Self::Part(runs) | Self::Done(runs) | Self::Failed(_, runs) => runs,
            Self::Open | Self::Skipped(_) => &[],
        }
    }
}

/// All findings of a plan.
#[derive(Debug)]
pub(super) struct Findings {
    pub(super) outcomes: Vec<Outcome>,
    /// The runs of each round of a step that did not fail, with the number of the round.
    pub(super) rounds: BTreeMap<usize, Vec<(usize, Vec<Run>)>>,
    /// The counters of servers' devices, by the first step that they served.
    devices: Vec<(usize, DeviceCounters)>,
    pub(super) warnings: Vec<String>,
}

impl Findings {
    pub(super) fn new(steps: usize) -> Self {
        let outcomes = vec![Outcome::default(); steps];
        let rounds = BTreeMap::new();
        Self { outcomes, rounds, devices: Vec::new(), warnings: Vec::new() }
    }

    /// Takes in one event.
    pub(super) fn note(&mut self, event: Event) {
        let (step, outcome) = match event {
            Event::StepDone { step, runs } => (step, Outcome::Done(runs)),
            Event::StepSkipped { step, reason } => (step, Outcome::Skipped(reason)),
            Event::Failure { step, reason, runs } => (step, Outcome::Failed(reason, runs)),
            Event::StepInterrupted { step, runs } => (step, Outcome::Part(runs)),
            Event::RoundDone { step, round, runs } => {
                return self.rounds.entry(step).or_default().push((round, runs));
            }
            Event::Device { step, counters } => return self.devices.push((step, counters)),
            Event::Warning { text } => {
                if !self.warnings.contains(&text) {
                    self.warnings.push(text);
                }
                return;
            }
            Event::PlanStarted { .. }
            | Event::PlanResumed { .. }
            | Event::StepStarted { .. }
            | Event::Point { .. }
            | Event::PlanInterrupted { .. }
            | Event::PlanDone { .. } => return,
        };
        // An interrupted step goes on with its next round, and one that is done may be compared.
        if !matches!(outcome, Outcome::Part(_) | Outcome::Done(_)) {
            self.rounds.remove(&step);
        }
        if let Some(place) = self.outcomes.get_mut(step) {
            *place = outcome;
        }
    }

    pub(super) fn done(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.is_done()).count()
    }

    /// Returns the number of steps that have not come to an end.
    pub(super) fn open(&self) -> usize {
        let is_open = |outcome: &&Outcome| matches!(outcome, Outcome::Open | Outcome::Part(_));
        self.outcomes.iter().filter(is_open).count()
    }

    /// Returns everything measured, in the order of the plan.
    pub(super) fn runs(&self) -> Vec<Run> {
        let mut all = Vec::new();
        for (step, outcome) in self.outcomes.iter().enumerate() {
            let first = all.len();
            all.extend(outcome.runs().iter().cloned());
            let own = self.devices.iter().rfind(|(first_step, _)| *first_step == step);
            if let (Some(run), Some((_, counters))) = (all.get_mut(first), own) {
                let run: &mut Run = run;
                run.counters.insert("server, all runs".to_owned(), counters.clone());
            }
        }
        all
    }

    pub(super) fn failures(&self, tasks: &[Task]) -> Vec<LeftOut> {
        self.left_out(tasks, |outcome| match outcome {
            Outcome::Failed(reason, _) => Some(reason),
            _ => None,
        })
    }

    pub(super) fn record(
        &self,
        name: &str,
        scale: f64,
        tasks: &[Task],
        comparisons: &[Planned],
    ) -> PlanRecord {
        let skipped = self.left_out(tasks, |outcome| match outcome {
            Outcome::Skipped(reason) => Some(reason),
            _ => None,
        });
        let failed = self.failures(tasks);
        PlanRecord {
            name: name.to_owned(),
            scale,
            steps: tasks.len(),
            steps_done: self.done(),
            complete: failed.is_empty() && self.open() == 0,
            skipped,
            failed,
            comparisons: comparisons::found(comparisons, self),
        }
    }

    fn left_out(
        &self,
        tasks: &[Task],
        reason: impl Fn(&Outcome) -> Option<&String>,
    ) -> Vec<LeftOut> {
        let own = tasks.iter().zip(&self.outcomes).filter_map(|(task, outcome)| {
            Some(LeftOut { step: task.title.clone(), reason: reason(outcome)?.clone() })
        });
        own.collect()
    }
}
