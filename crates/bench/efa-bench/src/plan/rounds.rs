//! Steps that measure the same on several fabrics take turns: a block of each point on one, then on
//! the next, round after round (A B C, B C A, ...). A machine that changes its speed meanwhile
//! changes it for all of them, instead of making a difference between the first and the last.
//!
//! A plan may say that all its steps take turns, whatever they run: then each step has a block in
//! every round, and rounds go on until what is compared is decided.
//!
//! Each block is a session of its own, so that an interrupted group goes on with the round in which
//! it was interrupted.

use std::collections::BTreeMap;

use bench_engine::{host, interrupt};
use bench_record::failure::Failure;
use bench_record::{DeviceCounters, Point, Run};

use super::comparisons;
use super::execute::Executor;
use super::journal::Event;
use super::outcome::Outcome;
use super::task::Work;

/// The greatest number of additional rounds if fabrics were measured with the processors in
/// different places.
const EXTRA_ROUNDS: usize = 2;
/// The percentage of points that may be apart before additional rounds are measured.
const APART_PERCENT: usize = 25;

impl Executor<'_> {
    /// Runs the remaining rounds of these steps.
    pub(super) fn take_turns(&mut self, steps: &[usize]) -> Result<(), Failure> {
        let mut active = steps.to_vec();
        for &step in steps {
            self.note(Event::StepStarted { step, date: host::date() })?;
        }
        let mut round = 0;
        loop {
            let due = self.due(round, &active);
            if due.is_empty() {
                break;
            }
            self.announce(round, due.len());
            for step in due {
                if self.has_done(step, round) {
                    continue;
                }
                if interrupt::asked() {
                    return self.break_off(&active);
                }
                match self.round(step, round)? {
                    Outcome::Done(runs) => self.note(Event::RoundDone { step, round, runs })?,
                    Outcome::Part(_) | Outcome::Open => return self.break_off(&active),
                    // The rounds so far are kept.
                    Outcome::Failed(reason, part) => {
                        let whole = self.merged(step);
                        let runs = if whole.is_empty() { part } else { whole };
                        let runs = incomplete(runs, &reason);
                        active.retain(|own| *own != step);
                        self.end_step(step, Outcome::Failed(reason, runs))?;
                    }
                    Outcome::Skipped(reason) => {
                        active.retain(|own| *own != step);
                        self.end_step(step, Outcome::Skipped(reason))?;
                    }
                }
            }
            round += 1;
        }
        for step in active {
            let runs = self.merged(step);
            self.end_step(step, Outcome::Done(runs))?;
        }
        Ok(())
    }

    /// Says that a round of the whole plan begins.
    fn announce(&mut self, round: usize, steps: usize) {
        let Some(rounds) = self.rounds else { return };
        self.clock.round(&match (round + 1).checked_sub(rounds.least) {
            None | Some(0) => format!("round {} of {}", round + 1, rounds.least),
            Some(more) => format!(
                "{steps} steps are not decided yet: round {more} of up to {} more",
                rounds.most - rounds.least
            ),
        });
    }

    /// Measures a block of each point of a step.
    fn round(&mut self, step: usize, round: usize) -> Result<Outcome, Failure> {
        let task = &self.tasks[step];
        self.begin_step(step);
        if let Some(reason) = self.why_unusable(task.fabric) {
            return Ok(Outcome::Skipped(reason));
        }
        match &task.work {
            Work::Benchmark(work) => {
                self.benchmark(step, task, work, &one_block(&work.words, round))
            }
            Work::Mpi(work) => self.looking(|own| own.mpi(step, task, work)),
            Work::Tool(tool) => self.looking(|own| own.tool(step, task, tool)),
        }
    }

    /// Returns the steps of a round, in their order; empty if there is no such round.
    fn due(&self, round: usize, active: &[usize]) -> Vec<usize> {
        let least = active.iter().filter_map(|step| self.tasks[*step].rounds).max().unwrap_or(1);
        let most = self.rounds.map_or(least + EXTRA_ROUNDS, |rounds| rounds.most);
        let mut due = match (round < least, self.rounds) {
            (true, _) => active.to_vec(),
            (false, _) if round >= most => Vec::new(),
            (false, Some(_)) => {
                let open = comparisons::undecided(self.comparisons, &self.findings, active);
                active.iter().copied().filter(|step| open.contains(step)).collect()
            }
            (false, None) if self.are_apart(active) => active.to_vec(),
            (false, None) => Vec::new(),
        };
        if self.rounds.is_none() && !due.is_empty() {
            let first = round % due.len();
            due.rotate_left(first);
        } else if round % 2 == 1 {
            // Of two compared steps that stand beside each other, each comes first in turn.
            due.reverse();
        }
        due
    }

    /// Writes down what is known when an interruption comes.
    fn break_off(&mut self, steps: &[usize]) -> Result<(), Failure> {
        for &step in steps {
            let runs = incomplete(self.merged(step), &Failure::Interrupted.to_string());
            self.end_step(step, Outcome::Part(runs))?;
        }
        Ok(())
    }

    fn has_done(&self, step: usize, round: usize) -> bool {
        let rounds = self.findings.rounds.get(&step).map_or(&[][..], Vec::as_slice);
        rounds.iter().any(|(own, _)| *own == round)
    }

    fn merged(&self, step: usize) -> Vec<Run> {
        merge(self.findings.rounds.get(&step).map_or(&[], Vec::as_slice))
    }

    /// Returns whether these steps, or many of their points, were measured with the processors in
    /// different places.
    fn are_apart(&self, steps: &[usize]) -> bool {
        let all: Vec<Vec<Run>> = steps.iter().map(|step| self.merged(*step)).collect();
        let Some((first, others)) = all.split_first() else { return false };
        let points = |runs: &[Run]| runs.iter().flat_map(|run| run.points.clone()).collect();
        let first: Vec<Point> = points(first);
        others.iter().any(|other| apart_percent(&first, &points(other)) > APART_PERCENT)
    }
}

/// Returns the percentage of the points of both that were measured with the processors in different
/// places.
fn apart_percent(first: &[Point], second: &[Point]) -> usize {
    let phase = |point: &Point| point.cores.as_ref().map(|cores| cores.phase);
    let pairs =
        first.iter().filter_map(|own| Some((own, second.iter().find(|p| is_same(own, p))?)));
    let phases = pairs.filter_map(|(own, other)| phase(own).zip(phase(other)));
    let (all, apart) =
        phases.fold((0, 0), |(all, apart), (a, b)| (all + 1, apart + usize::from(a != b)));
    (apart * 100).checked_div(all).unwrap_or(0)
}

/// Returns the options of a step for one block. The counts of adapters are read beside the first
/// block only.
fn one_block(words: &[String], round: usize) -> Vec<String> {
    const BLOCKS: &str = "--blocks";
    const NO_COUNTERS: &str = "--no-counters";
    let is_value = |at: usize| at > 0 && words[at - 1] == BLOCKS;
    let kept = words.iter().enumerate().filter(|(at, word)| *word != BLOCKS && !is_value(*at));
    let mut own: Vec<String> = kept.map(|(_, word)| word.clone()).collect();
    own.extend([BLOCKS.to_owned(), "1".to_owned()]);
    if round > 0 && !own.iter().any(|word| word == NO_COUNTERS) {
        own.push(NO_COUNTERS.to_owned());
    }
    own
}

/// Merges the runs of several rounds into those of one: the result of each round at a point is a
/// block of the point.
fn merge(rounds: &[(usize, Vec<Run>)]) -> Vec<Run> {
    let Some((_, first)) = rounds.first() else { return Vec::new() };
    let one = |(index, run): (usize, &Run)| {
        let all = || rounds.iter().filter_map(|(_, runs)| runs.get(index));
        let point = |point: &Point| {
            let own = |run: &Run| run.points.iter().find(|other| is_same(point, other)).cloned();
            Point::middle(all().filter_map(own).collect())
        };
        let mut counters: BTreeMap<String, DeviceCounters> = BTreeMap::new();
        for (side, counted) in all().flat_map(|run| &run.counters) {
            let sums = counters.entry(side.clone()).or_default();
            for (name, value) in counted {
                *sums.entry(name.clone()).or_default() += value;
            }
        }
        let points = run.points.iter().filter_map(point).collect();
        Run { points, counters, ..run.clone() }
    };
    first.iter().enumerate().map(one).collect()
}

fn is_same(a: &Point, b: &Point) -> bool {
    let place = |p: &Point| (p.size_bytes, p.depth, p.rate_per_s, p.parameter, p.order);
    place(a) == place(b)
}

fn incomplete(mut runs: Vec<Run>, reason: &str) -> Vec<Run> {
    for run in &mut runs {
        run.complete = false;
        run.error = Some(reason.to_owned());
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_record::Bandwidth;
    use bench_record::cores::Cores;
    use bench_record::spec::Benchmark;

    fn round(number: usize, figures: &[(usize, f64)]) -> (usize, Vec<Run>) {
        let point = |&(depth, gbit): &(usize, f64)| Point {
            bandwidth: Some(Bandwidth::new(1, (gbit * 1e9 / 8.0) as u64, 1.0)),
            blocks: vec![gbit],
            lost: Some(1),
            ..Point::new(64, depth)
        };
        let mut run = Run::new("mine", Benchmark::Bandwidth, figures.iter().map(point).collect());
        run.counters.insert("client".to_owned(), [("tx_pkts".to_owned(), 5)].into());
        (number, vec![run])
    }

    #[test]
    fn rounds_are_the_blocks_of_a_run() {
        let rounds = [
            round(0, &[(1, 3.0), (8, 9.0)]),
            round(1, &[(8, 7.0), (1, 1.0)]),
            round(2, &[(1, 2.0)]),
        ];
        let [run] = merge(&rounds).try_into().expect("one run");
        let found: Vec<(usize, Option<f64>, &[f64])> =
            run.points.iter().map(|p| (p.depth, p.figure(), p.blocks.as_slice())).collect();
        assert_eq!(found, [(1, Some(2.0), &[3.0, 1.0, 2.0][..]), (8, Some(9.0), &[9.0, 7.0])]);
        assert_eq!((run.points[0].lost, run.counters["client"]["tx_pkts"]), (Some(3), 15));
        assert!(run.points[0].interval.is_some() && merge(&[]).is_empty());
    }

    #[test]
    fn a_round_is_one_block_and_counters_are_read_once() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let own = words("--blocks 5 --depth 8 --sizes 5");
        assert_eq!(one_block(&own, 0), words("--depth 8 --sizes 5 --blocks 1"));
        assert_eq!(one_block(&own, 1), words("--depth 8 --sizes 5 --blocks 1 --no-counters"));
        let quiet = words("--no-counters --sizes 5");
        assert_eq!(one_block(&quiet, 1), words("--no-counters --sizes 5 --blocks 1"));
    }

    #[test]
    fn fabrics_with_the_cores_elsewhere_are_apart() {
        let points = |places: &[f64]| -> Vec<Point> {
            let point = |(depth, ns): (usize, &f64)| Point {
                cores: Some(Cores::between(*ns, *ns)),
                ..Point::new(64, depth)
            };
            places.iter().enumerate().map(point).collect()
        };
        let near = points(&[112.0; 4]);
        assert_eq!(apart_percent(&near, &points(&[530.0, 115.0, 111.0, 530.0])), 50);
        assert_eq!(apart_percent(&near, &near), 0);
        assert_eq!(apart_percent(&near, &[Point::new(64, 0)]), 0, "nobody looked");
    }
}
