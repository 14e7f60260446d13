//! `netsim paper`: statements of the SRD paper on its measurements, beside the same experiments
//! here.
//!
//! Paper: L. Shalev, H. Ayoub, N. Bshara, E. Sabbag: "A Cloud-Optimized Transport Protocol for
//! Elastic and Scalable HPC", IEEE Micro 40(6), 2020, sections II and IV. `experiment` defines the
//! runs, `claim` judges each statement, `page` draws the figures.

mod claim;
mod experiment;
mod page;

use crate::cli::PaperArgs;
use crate::command::interrupt::{interruption, leave};
use crate::command::pool::{self, Step};
use crate::command::record::{Results, Run};
use crate::command::run::attempt;
use crate::command::{Verdict, all_of, ensure_free, print, write_text};
use anyhow::Result;
use claim::Claim;
use experiment::{Experiment, Protocol};
use report::Progress;
use std::path::{Path, PathBuf};

/// Warning about verdicts after --quick.
const QUICK: &str =
    "Made with --quick: fewer and shorter runs, which show that it works, not what holds.";

/// Runs the command. The verdict is bad when some statement does not hold.
pub(crate) fn run(args: &PaperArgs) -> Result<Verdict> {
    let files = args.out.as_deref().map(Files::of);
    for path in files.iter().flat_map(|files| [&files.html, &files.json]) {
        ensure_free(path, args.force)?;
    }
    finish(&measure(args)?, args, None)
}

/// Shows and writes the statements and the figures.
fn finish(
    experiments: &[Experiment],
    args: &PaperArgs,
    interrupted: Option<String>,
) -> Result<Verdict> {
    // A part of an experiment's seeds says nothing of it.
    let whole = |experiment: &Experiment| {
        let mut experiment = experiment.clone();
        if experiment.point.runs.len() < experiment.seeds.len() {
            experiment.point.runs.clear();
        }
        experiment
    };
    let whole: Vec<Experiment> = experiments.iter().map(whole).collect();
    let claims = claim::judge(&whole);
    let shown = print(&claim::text(&claims));
    let results = Results::new(experiments.iter().map(Experiment::point).collect());
    for line in results.points.iter().flat_map(|point| point.errors()) {
        report::say(format_args!("netsim: {line}"));
    }
    let files = args.out.as_deref().map(Files::of);
    let written = files.map(|files| {
        let mut page = page::page(&whole, &claims, &results);
        page.warnings.extend(args.quick.then(|| QUICK.to_owned()));
        page.warnings.extend(interrupted);
        let html = write_text(&files.html, Ok(report::html(&page)));
        let json = write_text(&files.json, results.json());
        let named = print(&format!("\nfigures: {}\n", files.html.display()));
        all_of([html, json, named])
    });
    all_of(written.into_iter().chain([shown]))?;
    Ok(Verdict::of(claims.iter().all(Claim::holds)))
}

/// Files that are written into the folder.
struct Files {
    html: PathBuf,
    json: PathBuf,
}

impl Files {
    fn of(folder: &Path) -> Self {
        Self { html: folder.join("index.html"), json: folder.join("results.json") }
    }
}

/// Makes all runs, the longest first.
fn measure(args: &PaperArgs) -> Result<Vec<Experiment>> {
    let experiments = experiment::all(args.quick)?;
    let mut jobs: Vec<(usize, u64)> = Vec::new();
    for (number, experiment) in experiments.iter().enumerate() {
        jobs.extend(experiment.seeds.iter().map(|&seed| (number, seed)));
    }
    jobs.sort_by_key(|&(number, _)| u64::MAX - experiments[number].cost_bytes);
    let mut progress = Progress::new(jobs.len(), args.quiet);
    let mut runs: Vec<(usize, Run)> = Vec::with_capacity(jobs.len());
    let work = |&(number, seed): &(usize, u64)| attempt(&experiments[number].scenario, seed, None);
    pool::run(pool::jobs(args.jobs), &jobs, work, &*interruption()?, |step| match step {
        Step::Ended(place, run) => {
            let number = jobs[place].0;
            progress.point(&format!("{} seed {}", experiments[number].name(), run.seed));
            runs.push((number, run));
            Ok(())
        }
        Step::Interrupted => {
            let what = format!("interrupted with {} of {} runs", runs.len(), jobs.len());
            progress.say(&format!("netsim: {what}"));
            let why = format!("{what}: experiments that were not finished are not measured.");
            leave(finish(&with_runs(&experiments, &runs), args, Some(why)).map(drop))
        }
    })?;
    drop(progress);
    Ok(with_runs(&experiments, &runs))
}

/// Returns the experiments with their runs, in the order of the seeds.
fn with_runs(experiments: &[Experiment], runs: &[(usize, Run)]) -> Vec<Experiment> {
    let mut experiments = experiments.to_vec();
    for (number, run) in runs {
        experiments[*number].point.runs.push(run.clone());
    }
    experiments.iter_mut().for_each(|e| e.point.runs.sort_by_key(|run| run.seed));
    experiments
}

/// Returns the experiments of one kind and protocol, by transfer size.
fn of(
    experiments: &[Experiment],
    figure: experiment::Figure,
    protocol: Protocol,
) -> impl Iterator<Item = &Experiment> {
    experiments.iter().filter(move |e| e.figure == figure && e.protocol == protocol)
}
