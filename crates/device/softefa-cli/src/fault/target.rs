//! The runs whose faults are to change, and the checks before anything changes.

use std::path::Path;

use softefa::counters::{self, ProcessCounters};
use softefa::fault as nic_fault;

use super::{FaultRequest, Reached};
use crate::args::FaultRunArgs;
use crate::failure::Failure;
use crate::run_dir::{self, LiveRun};

/// The runs that are alive and chosen.
#[derive(Debug)]
pub(crate) struct Target(Vec<LiveRun>);

impl Target {
    /// Returns the runs that the options name.
    ///
    /// # Errors
    /// There is no such run.
    pub(crate) fn find(args: &FaultRunArgs) -> Result<Self, Failure> {
        if let Some(pid) = args.run {
            let mut runs = run_dir::live_runs();
            runs.retain(|run| run.pid() == pid || has_process(run, pid));
            let none = || format!("no run of this user has process {pid}; see softefa fault show");
            return Self::some(runs, none);
        }
        if !args.all {
            if let Some(run) = run_dir::own_run() {
                return Ok(Self(vec![run]));
            }
        }
        let none = || "no program runs on a device; start one with: softefa run -- PROGRAM".into();
        Self::some(run_dir::live_runs(), none)
    }

    fn some(runs: Vec<LiveRun>, none: impl FnOnce() -> String) -> Result<Self, Failure> {
        if runs.is_empty() { Err(Failure::new(none())) } else { Ok(Self(runs)) }
    }

    /// Returns the runs.
    pub(crate) fn runs(&self) -> &[LiveRun] {
        &self.0
    }

    /// Applies `request` to the runs and returns those that it reached.
    ///
    /// # Errors
    /// A run cannot apply the fault, and nothing has changed. Or a file cannot be written.
    pub(crate) fn set(self, request: Option<&FaultRequest>) -> Result<Vec<Reached>, Failure> {
        // Runs that end meanwhile must not remove their directories, and of two commands the later
        // one must win everywhere.
        let _alone = self.0.first().and_then(|run| run_dir::hold(&run.path));
        let Self(mut runs) = self;
        if let Some(request) = request {
            check(&mut runs, request)?;
        }
        let fault = request.map(FaultRequest::begin);
        let set = |run: LiveRun| {
            let told = nic_fault::set(&run.path, fault.as_ref()).map_err(|error| {
                Failure::new(format!(
                    "faults cannot be written to {}: {error}; is the disk full?",
                    run.path.display()
                ))
            })?;
            let is_meant = |told: &ProcessCounters| {
                fault.as_ref().is_none_or(|fault| fault.is_for(&told.device))
            };
            Ok((run, told.into_iter().filter(is_meant).collect()))
        };
        runs.into_iter().map(set).collect()
    }
}

fn has_process(run: &LiveRun, pid: u32) -> bool {
    let all = counters::read_dir(&run.path).unwrap_or_default();
    all.iter().any(|process| process.pid == pid)
}

/// Keeps the runs that have the requested device; none of their limits may be exceeded by
/// `request`.
fn check(runs: &mut Vec<LiveRun>, request: &FaultRequest) -> Result<(), Failure> {
    if let Some(device) = &request.device {
        let known: Vec<String> = runs.iter().flat_map(|run| devices_of(&run.path)).collect();
        runs.retain(|run| devices_of(&run.path).contains(device));
        if runs.is_empty() {
            return Err(Failure::new(format!(
                "no run has a device {device}; there is {}",
                names(known)
            )));
        }
    }
    for run in runs {
        for process in counters::read_dir(&run.path).unwrap_or_default() {
            check_paths(&process, request)?;
        }
    }
    Ok(())
}

fn names(mut all: Vec<String>) -> String {
    all.sort();
    all.dedup();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

fn check_paths(process: &ProcessCounters, request: &FaultRequest) -> Result<(), Failure> {
    let (device, paths) = (&process.device, process.faults.paths);
    let is_meant = request.device.as_ref().is_none_or(|wanted| wanted == device);
    let mut named = request.spec.blackholes.iter().filter_map(|hole| hole.path);
    match named.find(|path| is_meant && process.is_running() && *path >= paths) {
        None => Ok(()),
        Some(path) => {
            let device = device.clone();
            Err(softefa::ConfigError::FaultPath { path, device, paths }.into())
        }
    }
}

/// Returns the devices of the run at `path`, open or not.
fn devices_of(path: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(path.join("sysfs/class/infiniband")) else {
        return Vec::new();
    };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
