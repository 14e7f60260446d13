//! The plan of a sweep: its points and runs.

use crate::command::record::{Point, Results, Run};
use crate::command::setting::{self, Setting};
use crate::command::source::Source;
use anyhow::{Context, Result, bail, ensure};
use netsim::Scenario;
use std::path::PathBuf;

/// Maximum number of runs; more are a mistake.
const RUNS_MAX: u64 = 1_000_000;

/// Seeds of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seeds(pub(crate) Vec<u64>);

impl Seeds {
    /// Reads `1,2,5` or `1..3`, the last one included.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let number = |word: &str| -> Result<u64> {
            word.trim().parse().with_context(|| format!("\"{word}\" is no number"))
        };
        let mut seeds = Vec::new();
        for word in text.split(',') {
            let (first, last) = match word.split_once("..") {
                Some((first, last)) => (number(first)?, number(last.trim_start_matches('='))?),
                None => (number(word)?, number(word)?),
            };
            ensure!(first <= last, "{word}: the first seed is above the last");
            ensure!(last - first < RUNS_MAX, "{word}: at most {RUNS_MAX} seeds");
            seeds.extend(first..=last);
        }
        let mut sorted = seeds.clone();
        sorted.sort_unstable();
        ensure!(sorted.windows(2).all(|pair| pair[0] != pair[1]), "{text}: a seed twice");
        Ok(Self(seeds))
    }
}

/// The K-th of N parts of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Number of the part, from 0.
    number: usize,
    of: usize,
}

impl Part {
    /// Reads `K/N`, K from 1 to N.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let parts =
            text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
        let (k, of): (usize, usize) = parts.context("two numbers are needed: 1/4")?;
        ensure!((1..=of).contains(&k), "{k} is not allowed, only 1 to {of}");
        Ok(Self { number: k - 1, of })
    }

    /// Returns whether a run belongs to it. Neighbours differ in their seed only and cost the same,
    /// so they go to different parts.
    pub(super) fn has(self, run: usize) -> bool {
        run % self.of == self.number
    }
}

/// One run.
#[derive(Debug)]
pub(super) struct Unit {
    /// Index of its point.
    pub(super) point: usize,
    pub(super) seed: u64,
}

impl Unit {
    /// Returns the name of the point, and the seed.
    pub(super) fn name(&self, plan: &Plan) -> String {
        format!("{} seed {}", plan.points[self.point].1.name(), self.seed)
    }
}

/// All points and runs, in the order of the tables.
#[derive(Debug)]
pub(super) struct Plan {
    /// Points, without their runs.
    pub(super) points: Vec<(Scenario, Point)>,
    pub(super) units: Vec<Unit>,
}

impl Plan {
    /// Reads all scenarios and checks every combination before anything runs.
    pub(super) fn new(
        files: &[PathBuf],
        settings: &[Setting],
        seeds: Option<&Seeds>,
    ) -> Result<Self> {
        ensure_different_files(files)?;
        setting::ensure_distinct(settings)?;
        // Before there is memory for them; scenarios have a seed or more of their own.
        let seed_count = seeds.map_or(1, |seeds| seeds.0.len() as u64);
        let values = settings.iter().map(|setting| setting.values.len() as u64);
        let factors = [files.len() as u64, seed_count].into_iter().chain(values);
        ensure_few(factors.fold(1, u64::saturating_mul))?;
        let combinations = setting::combinations(settings);
        let mut points = Vec::new();
        for file in files {
            let source = Source::read(file)?;
            for chosen in &combinations {
                points.push(source.point(chosen)?);
            }
        }
        setting::ensure_used(settings, &points.iter().map(|(scenario, _)| scenario))?;
        let mut units = Vec::new();
        for (number, (scenario, _)) in points.iter().enumerate() {
            let seeds = seeds.map_or_else(|| scenario.seeds(), |seeds| seeds.0.clone());
            units.extend(seeds.into_iter().map(|seed| Unit { point: number, seed }));
        }
        ensure_few(units.len() as u64)?;
        Ok(Self { points, units })
    }

    /// Counts the runs of a part, or all.
    pub(super) fn count(&self, part: Option<Part>) -> usize {
        (0..self.units.len()).filter(|&run| part.is_none_or(|part| part.has(run))).count()
    }

    /// Returns the points with the runs that there are, judged when none is missing; points without
    /// any are left out.
    pub(super) fn results(&self, runs: &[Option<Run>]) -> Results {
        let mut points: Vec<Point> = self.points.iter().map(|(_, point)| point.clone()).collect();
        let mut wanted = vec![0; points.len()];
        for (unit, run) in self.units.iter().zip(runs) {
            points[unit.point].runs.extend(run.clone());
            wanted[unit.point] += 1;
        }
        for ((scenario, _), (point, wanted)) in
            self.points.iter().zip(points.iter_mut().zip(wanted))
        {
            if point.runs.len() == wanted {
                point.judge(scenario);
            }
        }
        points.retain(|point| !point.runs.is_empty());
        Results::new(points)
    }
}

fn ensure_few(runs: u64) -> Result<()> {
    ensure!(runs <= RUNS_MAX, "{runs} runs; at most {RUNS_MAX}");
    Ok(())
}

/// Refuses a scenario that is named twice, because its points could not be told apart.
fn ensure_different_files(files: &[PathBuf]) -> Result<()> {
    // A file that is not there is refused when it is read.
    let place = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    let places: Vec<PathBuf> = files.iter().map(place).collect();
    for (number, file) in files.iter().enumerate() {
        let known = places[..number].iter().position(|other| *other == places[number]);
        let Some(known) = known else { continue };
        let (file, other) = (file.display(), files[known].display());
        ensure!(
            file.to_string() != other.to_string(),
            "{file} is named twice; leave one of them out"
        );
        bail!("{other} and {file} are one file; leave one of them out");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_lists_and_ranges() {
        assert_eq!(Seeds::parse("1..3,9").unwrap().0, [1, 2, 3, 9]);
        for text in ["", "3..1", "a", "1,1", "1..2,2", "0..99999999999"] {
            assert!(Seeds::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn parts_cover_everything_once() {
        let parts: Vec<Part> = (1..=3).map(|k| Part::parse(&format!("{k}/3")).unwrap()).collect();
        for run in 0..10 {
            assert_eq!(parts.iter().filter(|part| part.has(run)).count(), 1);
        }
        for text in ["0/3", "4/3", "1", "a/b", "1/0"] {
            assert!(Part::parse(text).is_err(), "{text}");
        }
    }
}
