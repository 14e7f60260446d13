//! `netsim paper`: what the SRD paper says of its measurements, beside the same experiments here.
//!
//! Paper: L. Shalev, H. Ayoub, N. Bshara, E. Sabbag: "A Cloud-Optimized Transport Protocol for
//! Elastic and Scalable HPC", IEEE Micro 40(6), 2020, sections II and IV. `experiment` says what
//! is run, `claim` judges each statement, `page` draws the figures.

mod claim;
mod experiment;
mod page;

use crate::cli::PaperArgs;
use crate::command::record::{Results, Run};
use crate::command::run::attempt;
use crate::command::{Verdict, ensure_free, pool, print};
use anyhow::Result;
use claim::Claim;
use experiment::{Experiment, Protocol};
use report::Progress;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Bad when some statement does not hold.
pub(crate) fn run(args: &PaperArgs) -> Result<Verdict> {
    let files = args.out.as_deref().map(Files::of);
    for path in files.iter().flat_map(|files| [&files.html, &files.json]) {
        ensure_free(path, args.force)?;
    }
    let experiments = measure(args)?;
    let claims = claim::judge(&experiments);
    let shown = print(&claim::text(&claims));
    let results = Results::new(experiments.iter().map(Experiment::point).collect());
    for line in results.points.iter().flat_map(|point| point.errors()) {
        report::say(format_args!("netsim: {line}"));
    }
    if let Some(files) = files {
        let html = report::html(&page::page(&experiments, &claims, &results));
        report::write_atomic(&files.html, html.as_bytes())?;
        report::write_atomic(&files.json, results.json()?.as_bytes())?;
        print(&format!("\nfigures: {}\n", files.html.display()))?;
    }
    let good = claims.iter().all(Claim::holds);
    shown.map(|()| Verdict::of(good))
}

/// What is written into the folder.
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
    let mut experiments = experiment::all(args.quick)?;
    let mut jobs: Vec<(usize, u64)> = Vec::new();
    for (number, experiment) in experiments.iter().enumerate() {
        jobs.extend(experiment.seeds.iter().map(|&seed| (number, seed)));
    }
    jobs.sort_by_key(|&(number, _)| u64::MAX - experiments[number].cost_bytes);
    let mut progress = Progress::new(jobs.len(), args.quiet);
    let mut runs: Vec<(usize, Run)> = Vec::with_capacity(jobs.len());
    let work = |&(number, seed): &(usize, u64)| {
        let experiment = &experiments[number];
        attempt(&experiment.scenario, seed, None)
    };
    // Nothing is kept before the end, so Ctrl-C need not be caught.
    let stop = AtomicBool::new(false);
    pool::run(pool::jobs(args.jobs), &jobs, work, &stop, |step| {
        if let pool::Step::Ended(place, run) = step {
            let number = jobs[place].0;
            progress.point(&format!("{} seed {}", experiments[number].name(), run.seed));
            runs.push((number, run));
        }
        Ok(())
    })?;
    drop(progress);
    runs.sort_by_key(|(number, run)| (*number, run.seed));
    for (number, run) in runs {
        experiments[number].point.runs.push(run);
    }
    Ok(experiments)
}

/// The experiments of one kind and protocol, by transfer size.
fn of(
    experiments: &[Experiment],
    figure: experiment::Figure,
    protocol: Protocol,
) -> impl Iterator<Item = &Experiment> {
    experiments.iter().filter(move |e| e.figure == figure && e.protocol == protocol)
}
