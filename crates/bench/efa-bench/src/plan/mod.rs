//! Plans: the same measurements on several fabrics, beside published hardware, with one report.
//!
//! The text of a plan ([`source`]) becomes a list of tasks ([`task`]), which is checked as a whole
//! before anything runs. The executor runs each task in processes of its own and writes what it
//! finds to the journal ([`journal`]), from which an interrupted plan goes on and the results
//! ([`outcome`]) are put together. Steps that measure the same on several fabrics take turns
//! ([`rounds`]), each block in a session of its own, so that an interrupted plan goes on with the
//! next round. Any other step is repeated as a whole: its blocks are shuffled over one session, and
//! halves of two sessions would not be one measurement.

mod budget;
mod clock;
mod comparisons;
mod counters;
mod execute;
mod fabric;
mod journal;
mod library;
mod mpi;
mod options;
mod outcome;
mod rounds;
mod scratch;
mod source;
mod task;
#[cfg(test)]
mod tests;
mod tool;

use std::path::Path;

use bench_engine::interrupt;
use bench_record::failure::Failure;
use bench_record::{Results, Run};
use bench_report::shown::Shown;
use bench_report::{compare, output, page, paper, settings, statements, verdicts};

use self::comparisons::Planned;
use self::execute::Executor;
use self::journal::{Event, Identity, Journal};
pub(crate) use self::options::PlanArgs;
use self::outcome::Findings;
use self::source::{Rounds, Source};
use self::task::Task;
use crate::{page_files, result_file};

const SCALES: std::ops::RangeInclusive<f64> = 0.01..=100.0;

/// Runs `efa-bench plan`.
pub(crate) fn run(options: &PlanArgs) -> Result<(), Failure> {
    if options.list {
        return list();
    }
    if !SCALES.contains(&options.scale) {
        return Err(Failure::Usage(format!("--scale {}: give 0.01 to 100", options.scale)));
    }
    let plan = library::find(options.plan.as_deref().unwrap_or_default())?;
    let mut source = source::read(&plan.name, &plan.text)?;
    source.rounds = rounds(&source, options)?;
    let fabrics = fabric::all(&source.fabrics, options)?;
    let tasks = task::all(&source, &fabrics, options.scale)?;
    let planned = comparisons::of_plan(&source, &tasks, &fabrics)?;
    let (mut tasks, planned) = comparisons::only(&options.only, tasks, planned)?;
    let target = options.target()?;
    if let Some(target) = &target {
        task::run_against(&mut tasks, &fabrics, target);
    }
    if options.dry_run {
        return output::print(&budget::listing(&plan.name, &tasks));
    }
    let identity = Identity {
        plan: plan.name.clone(),
        scale: options.scale,
        target: target.as_ref().map(ToString::to_string),
        host: Some(bench_engine::host::machine()),
        steps: tasks.iter().map(|task| task.command.clone()).collect(),
    };
    let (mut journal, events) = Journal::open(options, &identity)?;
    let findings = begin(&mut journal, events, &identity)?;
    announce(options, &plan.name, &tasks, &findings);
    let names: Vec<String> = fabrics.iter().map(|fabric| fabric.name.clone()).collect();
    let report = Report { options, plan: &plan.name, tasks: &tasks, comparisons: &planned, names };
    let compared = (planned.as_slice(), source.rounds);
    let mut executor =
        Executor::new(&fabrics, &tasks, compared, findings, journal, target, options)?;
    let ended = executor.run(|findings| report.keep(findings).map(|_| ()));
    if matches!(ended, Err(Failure::Interrupted)) {
        executor.interrupted()?;
    }
    let findings = executor.close();
    let results = report.finish(&findings)?;
    ended?;
    match results.plan.iter().flat_map(|plan| &plan.failed).next() {
        None => comparisons::verdict(&comparisons::found(&planned, &findings)),
        Some(_) => Err(Failure::Check(report.failures(&findings))),
    }
}

/// Returns the rounds of the whole plan, as the plan or the options say.
fn rounds(source: &Source, options: &PlanArgs) -> Result<Option<Rounds>, Failure> {
    match (source.rounds, options.rounds.map(|rounds| rounds as usize)) {
        (own, None) => Ok(own),
        (Some(_), Some(least)) => Ok(Some(Rounds { least, most: least })),
        (None, Some(_)) => Err(Failure::Usage(
            "--rounds: this plan has blocks instead, which it measures in turn".to_owned(),
        )),
    }
}

/// Begins the journal, or goes on with it; returns what was found before.
fn begin(
    journal: &mut Journal,
    events: Vec<Event>,
    identity: &Identity,
) -> Result<Findings, Failure> {
    let mut findings = Findings::new(identity.steps.len());
    if events.is_empty() {
        journal.start(identity)?;
    } else {
        events.into_iter().for_each(|event| findings.note(event));
        let steps_done = findings.done();
        journal.add(&Event::PlanResumed { date: bench_engine::host::date(), steps_done })?;
    }
    if let Some(text) = journal.doubt.take() {
        let doubt = Event::Warning { text };
        journal.add(&doubt)?;
        findings.note(doubt);
    }
    Ok(findings)
}

/// Returns what `--dry-run` prints of the plan `text`, for the fuzz target.
#[cfg(fuzzing)]
pub(crate) fn understand(text: &str) -> Result<String, Failure> {
    static OPTIONS: std::sync::LazyLock<PlanArgs> = std::sync::LazyLock::new(PlanArgs::for_tests);
    let source = source::read("x.toml", text)?;
    let fabrics = fabric::all(&source.fabrics, &OPTIONS)?;
    let tasks = task::all(&source, &fabrics, 0.5)?;
    Ok(budget::listing("x.toml", &tasks))
}

/// Lists the plans.
fn list() -> Result<(), Failure> {
    for (name, text) in library::BUILT_IN {
        let about = source::read(name, text)?.about;
        output::print(&format!("{name:<11} {about}\n"))?;
    }
    Ok(())
}

/// Says how long the plan will take, before it begins.
fn announce(options: &PlanArgs, name: &str, tasks: &[Task], findings: &Findings) {
    if options.quiet {
        return;
    }
    let open = tasks.iter().zip(&findings.outcomes).filter(|(_, outcome)| !outcome.is_done());
    let time = budget::time(budget::total_s(open.map(|(task, _)| task)));
    let (all, done) = (tasks.len(), findings.done());
    match done {
        0 => report::say(format_args!("plan {name}: {all} steps, about {time}")),
        _ => report::say(format_args!(
            "plan {name} goes on: {done} of {all} steps are done, about {time} left (--force \
             begins anew)"
        )),
    }
}

/// The files that a plan writes.
struct Report<'a> {
    options: &'a PlanArgs,
    plan: &'a str,
    tasks: &'a [Task],
    comparisons: &'a [Planned],
    /// Fabrics in the order of the plan.
    names: Vec<String>,
}

impl Report<'_> {
    fn out(&self) -> &Path {
        &self.options.out
    }

    /// Writes what is known so far, so that a valid result file is there whatever happens next.
    fn keep(&self, findings: &Findings) -> Result<Results, Failure> {
        let mut runs = findings.runs();
        runs.extend(paper::runs());
        let record = findings.record(self.plan, self.options.scale, self.tasks, self.comparisons);
        let mut results = result_file::results(runs, warnings(&record, findings));
        results.plan = Some(record);
        output::write(&self.out().join("results.json"), &output::json(&results)?)?;
        Ok(results)
    }

    /// Writes all files and says what is in them.
    fn finish(&self, findings: &Findings) -> Result<Results, Failure> {
        let results = self.keep(findings)?;
        let shown = Shown::of(&results.runs).runs;
        let names = self.shown_names(&shown);
        let compared = bench_report::comparisons::text(&results);
        // The comparisons of a plan say more than a table of all that it measured.
        let tables = || match verdicts::of_workloads(&shown) {
            Some(work) => vec![work],
            // Published figures by themselves say nothing of what was measured.
            None if compare::tables(&shown, &names).is_empty() => Vec::new(),
            None => compare::tables(&shown, &[&names[..], &[paper::EFA]].concat()),
        };
        for table in if compared.is_none() { tables() } else { Vec::new() } {
            let text = output::for_terminal(&table);
            output::print(&format!("{}\n{text}\n", table.caption))?;
        }
        for text in compared.into_iter().chain(statements::text(&results)) {
            output::print(&format!("{text}\n"))?;
        }
        for warning in &results.warnings {
            output::print(&format!("warning: {warning}\n"))?;
        }
        output::write(&self.out().join("results.csv"), &output::csv(&results.runs))?;
        let pages = page::pages(&results, None, page_files::PAPER);
        let index = page_files::folder(&pages, self.out())?;
        let rest = "index.md, results.json, results.csv and events.ndjson beside it";
        output::print(&format!("\nreport: {} ({rest})\n", index.display()))?;
        let rest = findings.open();
        if rest > 0 && interrupt::asked() {
            output::print(&format!("{rest} steps are left: the same command goes on with them\n"))?;
        }
        Ok(results)
    }

    /// Returns the names of what was measured on the plan's fabrics, in their order.
    fn shown_names<'r>(&self, shown: &'r [Run]) -> Vec<&'r str> {
        // Runs with special settings have a name that begins with that of the fabric.
        let is_of = |fabric: &str, name: &str| {
            name.strip_prefix(fabric).is_some_and(|rest| {
                rest.is_empty() || rest.starts_with(&format!(", {}", settings::RX_DEPTH))
            })
        };
        let names = self.names.iter().flat_map(|fabric| {
            let names = shown.iter().map(|run| run.name.as_str());
            names.filter(move |name| is_of(fabric, name))
        });
        report::distinct(names)
    }

    fn failures(&self, findings: &Findings) -> String {
        let failed = findings.failures(self.tasks);
        let texts: Vec<String> =
            failed.iter().map(|f| format!("{}: {}", f.step, f.reason)).collect();
        texts.join("; ")
    }
}

/// Returns what a reader must know of the results as a whole.
fn warnings(record: &bench_record::PlanRecord, findings: &Findings) -> Vec<String> {
    let named = |what: &str, all: &[bench_record::LeftOut]| {
        all.iter().map(|one| format!("{what}: {}: {}", one.step, one.reason)).collect::<Vec<_>>()
    };
    // A page shows the first warnings only.
    let mut warnings = named("Failed", &record.failed);
    warnings.extend(findings.warnings.clone());
    if record.scale != 1.0 {
        warnings.push(format!(
            "durations were multiplied by {}: figures of other durations are not comparable",
            record.scale
        ));
    }
    warnings.extend(named("Left out", &record.skipped));
    if findings.open() > 0 {
        warnings.push(format!(
            "Incomplete: {} of {} steps of plan {} are done",
            record.steps_done, record.steps, record.name
        ));
    }
    warnings
}
