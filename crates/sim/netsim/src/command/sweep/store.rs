//! Finished runs on disk, a file each, so that a sweep can go on where it ended.

use super::plan::{Plan, Unit};
use crate::command::ensure_free;
use crate::command::record::{Point, Results, Run};
use anyhow::{Context, Result, ensure};
use netsim::Scenario;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::fs;
use std::hash::Hasher;
use std::path::{Path, PathBuf};

/// A folder of finished runs.
#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
    /// Hash of this program: another one gives other results.
    program: Vec<u8>,
}

impl Store {
    /// Opens a folder; it is made when the first run is saved.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let program = std::env::current_exe().and_then(fs::read);
        let program = program.context("cannot read this program to tell its results apart")?;
        let mut hasher = SipHasher13::new();
        hasher.write(&program);
        Ok(Self { folder: folder.to_owned(), program: hasher.finish128().as_bytes().to_vec() })
    }

    pub(super) fn results_path(&self) -> PathBuf {
        self.folder.join("results.json")
    }

    pub(super) fn csv_path(&self) -> PathBuf {
        self.folder.join("results.csv")
    }

    /// Returns the path of a run, named by everything that the run depends on: scenario, its data
    /// files, seed, program.
    fn path(&self, scenario: &Scenario, point: &Point, seed: u64) -> PathBuf {
        let mut hasher = SipHasher13::new();
        hasher.write(&self.program);
        hasher.write(point.scenario.as_bytes());
        scenario.data().iter().for_each(|text| hasher.write(text.as_bytes()));
        let hash = hasher.finish128().as_u128();
        self.folder.join("runs").join(format!("{hash:032x}-{seed}.json"))
    }

    /// Loads a run that is finished. Files that are no results, and failed runs, are made again.
    pub(super) fn load(&self, plan: &Plan, unit: &Unit) -> Option<Run> {
        let (scenario, point) = &plan.points[unit.point];
        let path = self.path(scenario, point, unit.seed);
        let kept = Results::read(&path).ok()?.points.pop()?;
        let run = kept.runs.into_iter().find(|run| run.seed == unit.seed)?;
        let same = kept.scenario == point.scenario && run.error.is_none();
        let figures = Some(scenario.figures(run.outcome.as_ref()?));
        same.then_some(Run { outcome: None, figures, ..run })
    }

    /// Saves a run with everything it showed.
    pub(super) fn save(&self, plan: &Plan, unit: &Unit, run: &Run) -> Result<()> {
        let (scenario, point) = &plan.points[unit.point];
        let path = self.path(scenario, point, unit.seed);
        let kept = Point { runs: vec![run.clone()], ..point.clone() };
        let json = Results::new(vec![kept]).json()?;
        Ok(report::write_atomic(&path, json.as_bytes())?)
    }

    /// Refuses to replace the tables of another sweep: one that has points this one has not.
    pub(super) fn ensure_same_sweep(&self, plan: &Plan, force: bool) -> Result<()> {
        let path = self.results_path();
        if !path.exists() {
            // Without results.json, results.csv is no sweep's.
            return ensure_free(&self.csv_path(), force);
        }
        if force {
            return Ok(());
        }
        let same = |a: &Point, b: &Point| (&a.file, &a.settings) == (&b.file, &b.settings);
        let known = |old: &Point| plan.points.iter().any(|(_, point)| same(point, old));
        let other = Results::read(&path)?.points.into_iter().find(|old| !known(old));
        let Some(other) = other else { return Ok(()) };
        let (there, name) = (path.display(), other.name());
        ensure!(force, "{there} is of another sweep, which has \"{name}\"; --force replaces it");
        Ok(())
    }
}
