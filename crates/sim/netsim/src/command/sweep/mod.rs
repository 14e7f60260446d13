//! `netsim sweep`: scenarios x settings x seeds.
//!
//! [`Plan`] lists the runs, [`Store`] keeps finished ones on disk, [`pool`] makes the others on all
//! cores, `output` and `page` show the results. A run that fails is a result like others.

mod output;
mod page;
mod parameter;
mod plan;
mod slurm;
mod store;

pub(crate) use plan::{Part, Seeds};

use crate::cli::SweepArgs;
use crate::command::interrupt::{interruption, leave};
use crate::command::pool::{self, Step};
use crate::command::record::{Point, Results, Run};
use crate::command::run::attempt;
use crate::command::{
    Verdict, all_of, ensure_different, ensure_free, judge, print, print_line, write_text,
};
use anyhow::Result;
use plan::{Plan, Unit};
use report::Progress;
use std::path::PathBuf;
use store::Store;

/// Runs the command. The verdict is bad when a run failed, some flow did not end well, or a point
/// misses what its scenario expects.
pub(crate) fn run(args: &SweepArgs) -> Result<Verdict> {
    if let Some(tasks) = args.slurm {
        print(&slurm::script(args, tasks)?)?;
        return Ok(Verdict::Good);
    }
    check_files(args)?;
    let plan = Plan::new(&args.scenarios, &args.set, args.seeds.as_ref())?;
    let store = args.out.as_ref().map(|folder| Store::open(folder)).transpose()?;
    if let Some(store) = store.as_ref().filter(|_| args.part.is_none()) {
        store.ensure_same_sweep(&plan, args.force)?;
    }
    let mut sweep = Sweep { runs: vec![None; plan.units.len()], plan, store, args };
    sweep.execute()?;
    sweep.finish()
}

/// Refuses files that could not be written, before anything runs.
fn check_files(args: &SweepArgs) -> Result<()> {
    let files = [&args.json, &args.csv, &args.html];
    for (number, file) in files.into_iter().enumerate() {
        files[..number]
            .iter()
            .try_for_each(|other| ensure_different(file.as_ref(), other.as_ref()))?;
        file.iter().try_for_each(|path| ensure_free(path, args.force))?;
    }
    Ok(())
}

struct Sweep<'a> {
    args: &'a SweepArgs,
    plan: Plan,
    /// Result of each unit of the plan; `None` until it is finished.
    runs: Vec<Option<Run>>,
    store: Option<Store>,
}

impl Sweep<'_> {
    /// Makes the runs that are not in the store.
    fn execute(&mut self) -> Result<()> {
        let stop = interruption()?;
        let mut progress = Progress::new(self.plan.count(self.args.part), self.args.quiet);
        let todo = self.resume(&mut progress);
        let units: Vec<&Unit> = todo.iter().map(|&number| &self.plan.units[number]).collect();
        let (runs, store, plan) = (&mut self.runs, &self.store, &self.plan);
        pool::run(
            pool::jobs(self.args.jobs),
            &units,
            |unit| attempt(&plan.points[unit.point].0, unit.seed, None),
            &stop,
            |step| match step {
                Step::Ended(place, run) => {
                    let number = todo[place];
                    let unit = &plan.units[number];
                    progress.point(&one_line(&unit.name(plan), &run));
                    if let Some(store) = store {
                        store.save(plan, unit, &run)?;
                    }
                    runs[number] = Some(Run { outcome: None, ..run });
                    Ok(())
                }
                Step::Interrupted => {
                    let done = runs.iter().flatten().count();
                    progress
                        .say(&format!("netsim: interrupted with {done} of {} runs", runs.len()));
                    leave(write(&plan.results(runs), store.as_ref(), self.args))
                }
            },
        )
    }

    /// Takes finished runs from the store. Returns the numbers of the others, of this part.
    fn resume(&mut self, progress: &mut Progress) -> Vec<usize> {
        let mut todo = Vec::new();
        for (number, unit) in self.plan.units.iter().enumerate() {
            let mine = self.args.part.is_none_or(|part| part.has(number));
            let kept = self.store.as_ref().and_then(|store| store.load(&self.plan, unit));
            match kept {
                Some(run) => {
                    progress.skip(usize::from(mine));
                    self.runs[number] = Some(run);
                }
                None if mine => todo.push(number),
                None => {}
            }
        }
        let kept = self.plan.count(self.args.part) - todo.len();
        if kept > 0 && !self.args.quiet {
            progress.say(&format!("netsim: {kept} runs are finished already"));
        }
        todo
    }

    fn finish(&self) -> Result<Verdict> {
        let results = self.plan.results(&self.runs);
        write(&results, self.store.as_ref(), self.args)?;
        Ok(Verdict::of(results.points.iter().all(Point::is_good)))
    }
}

/// Prints and writes the tables; a part of a sweep has none. A file that cannot be written keeps
/// nothing else from being shown.
fn write(results: &Results, store: Option<&Store>, args: &SweepArgs) -> Result<()> {
    if args.part.is_some() {
        return Ok(());
    }
    let shown = show(results);
    let files: [Option<PathBuf>; 2] = [args.json.clone(), store.map(Store::results_path)];
    let json = files.iter().flatten().map(|path| write_text(path, results.json()));
    let files: [Option<PathBuf>; 2] = [args.csv.clone(), store.map(Store::csv_path)];
    let csv = files.iter().flatten().map(|path| write_text(path, Ok(output::csv(results))));
    let html = args.html.iter();
    let html = html.map(|path| write_text(path, Ok(report::html(&page::page(results)))));
    all_of([shown].into_iter().chain(json).chain(csv).chain(html))
}

/// Shows the tables, and what went wrong.
fn show(results: &Results) -> Result<()> {
    let tally = judge::tally(results.points.iter());
    let table = print(&output::table(results).text());
    let shown = table.and_then(|()| tally.iter().try_for_each(|line| print_line(line)));
    for line in results.points.iter().flat_map(|point| point.problems(&point.sweep_command())) {
        report::say(format_args!("netsim: {line}"));
    }
    shown
}

fn one_line(name: &str, run: &Run) -> String {
    let Some(summary) = &run.summary else {
        let why = run.error.clone().unwrap_or_else(|| "no flow ended well".to_owned());
        return format!("{name}: {why}");
    };
    let (done, flows, most) = (run.done, run.flows, summary.max_to_ideal);
    format!("{name}: {done}/{flows} flows, max/ideal {most:.3}")
}
