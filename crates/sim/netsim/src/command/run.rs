//! `netsim run`: one scenario, a run per seed.

use crate::cli::RunArgs;
use crate::command::interrupt::{interruption, leave};
use crate::command::pool::{self, Step};
use crate::command::record::{Point, Results, Run};
use crate::command::source::Source;
use crate::command::{
    Verdict, all_of, ensure_different, ensure_free, is_stdout, page, print, print_line, setting,
    write_text,
};
use anyhow::{Result, bail};
use netsim::{Outcome, Scenario, open_flows, shares_table, slowdown_table, table};
use std::panic::{self, AssertUnwindSafe};

/// Runs the command. The verdict is bad when a run failed, some flow did not end well, or the runs
/// miss what the scenario expects.
pub(crate) fn run(args: &RunArgs) -> Result<Verdict> {
    check_files(args)?;
    setting::ensure_distinct(&args.set)?;
    let settings = setting::combinations(&args.set);
    let chosen = settings.first().map_or(&[][..], Vec::as_slice);
    let (scenario, mut point) = Source::read(&args.scenario)?.point(chosen)?;
    setting::ensure_used(&args.set, &std::iter::once(&scenario))?;
    let seeds = args.seed.map_or_else(|| scenario.seeds(), |seed| vec![seed]);
    let sampled_us = args.samples.or_else(|| args.html.as_ref().map(|_| 1));
    let mut runs: Vec<Run> = Vec::with_capacity(seeds.len());
    let work = |&seed: &u64| attempt(&scenario, seed, sampled_us);
    pool::run(1, &seeds, work, &*interruption()?, |step| match step {
        Step::Ended(_, run) => {
            runs.push(run);
            Ok(())
        }
        Step::Interrupted => {
            let (done, all) = (runs.len(), seeds.len());
            report::say(format_args!("netsim: interrupted with {done} of {all} runs"));
            // It is not judged: its bounds are those of all seeds.
            let point = Point { runs: runs.clone(), ..point.clone() };
            leave(if done > 0 { finish(args, &scenario, point).map(drop) } else { Ok(()) })
        }
    })?;
    point.runs = runs;
    point.judge(&scenario);
    finish(args, &scenario, point)
}

/// Shows and writes the results of the runs.
fn finish(args: &RunArgs, scenario: &Scenario, point: Point) -> Result<Verdict> {
    let again = point.command(args.seed);
    let results = Results::new(vec![point]);
    write(args, scenario, &results)?;
    let missed = results.points.iter().flat_map(Point::missed);
    let missed = missed.map(|missed| format!("missed: {missed}; repeat it with: {again}"));
    for line in results.points.iter().flat_map(Point::errors).chain(missed) {
        report::say(format_args!("netsim: {line}"));
    }
    Ok(Verdict::of(results.points.iter().all(Point::is_good)))
}

/// Refuses files that could not be written, before anything runs.
fn check_files(args: &RunArgs) -> Result<()> {
    if args.html.as_deref().is_some_and(is_stdout) {
        bail!("--html needs the name of a file; only JSON goes to the terminal");
    }
    if args.samples.is_some() && args.json.is_none() && args.html.is_none() {
        bail!("samples are in JSON and on the page: add --json FILE or --html FILE");
    }
    ensure_different(args.json.as_ref(), args.html.as_ref())?;
    for path in args.json.iter().chain(&args.html).filter(|path| !is_stdout(path)) {
        ensure_free(path, args.force)?;
    }
    Ok(())
}

/// Runs a scenario once.
fn simulate(scenario: &Scenario, seed: u64, sampled_us: Option<u32>) -> Result<Run> {
    let Some(interval_us) = sampled_us else {
        return Ok(Run::of(scenario, scenario.run(seed)?, None));
    };
    let (outcome, samples) = scenario.run_sampled(seed, interval_us)?;
    Ok(Run::of(scenario, outcome, Some(samples)))
}

/// Runs a scenario once among others; an error is its result. A panic is one, too: its message
/// comes where it happens, and ends nothing but this run.
pub(crate) fn attempt(scenario: &Scenario, seed: u64, sampled_us: Option<u32>) -> Run {
    let result = panic::catch_unwind(AssertUnwindSafe(|| simulate(scenario, seed, sampled_us)));
    match result {
        Ok(Ok(run)) => run,
        Ok(Err(error)) => Run::failed(seed, format!("broken rule: {error:#}")),
        Err(payload) => {
            let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
            let why = text.unwrap_or_else(|| "for no stated reason".to_owned());
            Run::failed(seed, format!("panicked: {why}"))
        }
    }
}

fn write(args: &RunArgs, scenario: &Scenario, results: &Results) -> Result<()> {
    // First what needs no file: a full disk must not swallow it. Nor does it swallow the files.
    let shown = if args.json.as_deref().is_some_and(is_stdout) {
        results.json().and_then(|json| print(&json))
    } else {
        show(scenario, results)
    };
    let html = args.html.iter();
    let html = html.map(|path| write_text(path, Ok(report::html(&page::page(results)))));
    let json = args.json.iter().filter(|path| !is_stdout(path));
    let json = json.map(|path| write_text(path, results.json()));
    all_of(html.chain(json).chain([shown]))
}

/// Prints the tables.
fn show(scenario: &Scenario, results: &Results) -> Result<()> {
    let runs = results.points.iter().flat_map(|point| &point.runs);
    let outcomes: Vec<Outcome> = runs.filter_map(|run| run.outcome.clone()).collect();
    print_line(scenario.title())?;
    if outcomes.is_empty() {
        return Ok(());
    }
    print(&table(scenario.title(), &outcomes).text())?;
    if let Some(shares) = shares_table(scenario.title(), &outcomes) {
        print(&shares.text())?;
    }
    if let Some(slowdown) = slowdown_table(scenario.title(), &outcomes) {
        print(&slowdown.text())?;
    }
    open_flows(&outcomes, scenario.limit_ms()).iter().try_for_each(|line| print_line(line))
}
