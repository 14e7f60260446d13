//! `netsim check`: scenarios as tests, each with all its seeds, in one table beside its bounds.

mod page;

use crate::cli::CheckArgs;
use crate::command::interrupt::{interruption, leave};
use crate::command::pool::{self, Step};
use crate::command::record::{Point, Run};
use crate::command::run::attempt;
use crate::command::source::Source;
use crate::command::{Verdict, all_of, ensure_different, ensure_free, judge, print, write_text};
use anyhow::Result;
use netsim::{Bound, Scenario};
use report::{Progress, Table};
use std::path::Path;

/// Figure that is shown of each scenario, whatever it expects, unless its flows never end.
const ALWAYS: &str = "max/ideal";

/// A run: the number of its scenario, its seed, and whether it is judged.
type Unit = (usize, u64, bool);

/// A scenario and its runs.
#[derive(Clone)]
struct Entry {
    scenario: Scenario,
    point: Point,
    /// Runs with seeds that are shown and not judged.
    beside: Point,
}

/// Runs the command. The verdict is bad when a mean misses its bound, or a run failed.
pub(crate) fn run(args: &CheckArgs) -> Result<Verdict> {
    ensure_different(args.markdown.as_ref(), args.html.as_ref())?;
    for path in args.markdown.iter().chain(&args.html) {
        ensure_free(path, args.force)?;
    }
    let entries = args.scenarios.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?;
    finish(&execute(&entries, args)?, args, None)
}

/// Shows and writes the results of the scenarios; after an interruption, of those that were
/// finished.
fn finish(entries: &[Entry], args: &CheckArgs, interrupted: Option<&str>) -> Result<Verdict> {
    let table = table(entries, args);
    let tally = judge::tally(entries.iter().map(|entry| &entry.point));
    let tally = tally.map(|line| line + "\n").unwrap_or_default();
    let shown = print(&(table.text() + &tally));
    let mut page = page::page(entries, table);
    page.warnings.splice(0..0, interrupted.map(str::to_owned));
    let markdown = args.markdown.as_ref().map(|path| write_text(path, Ok(report::markdown(&page))));
    let html = args
        .html
        .as_ref()
        .map(|path| write_text(path, Ok(report::html(&page::with_chart(page, entries)))));
    let problems: Vec<String> = entries.iter().flat_map(Entry::problems).collect();
    for line in problems.iter().cloned().chain(entries.iter().flat_map(Entry::notes)) {
        report::say(format_args!("netsim: {line}"));
    }
    all_of(markdown.into_iter().chain(html).chain([shown]))?;
    Ok(Verdict::of(problems.is_empty()))
}

fn read(path: &Path) -> Result<Entry> {
    let (scenario, point) = Source::read(path)?.point(&[])?;
    Ok(Entry { scenario, beside: point.clone(), point })
}

/// Runs everything on all cores.
fn execute(entries: &[Entry], args: &CheckArgs) -> Result<Vec<Entry>> {
    let mut units: Vec<Unit> = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        units.extend(entry.scenario.seeds().iter().map(|&seed| (number, seed, true)));
        let beside = args.beside.iter().flat_map(|seeds| &seeds.0);
        units.extend(beside.map(|&seed| (number, seed, false)));
    }
    let mut progress = Progress::new(units.len(), args.quiet);
    let mut runs: Vec<Option<Run>> = vec![None; units.len()];
    // The table needs no flows, which are many.
    let work = |&(number, seed, _): &Unit| Run {
        outcome: None,
        ..attempt(&entries[number].scenario, seed, None)
    };
    pool::run(pool::jobs(args.jobs), &units, work, &*interruption()?, |step| match step {
        Step::Ended(place, run) => {
            let (number, seed, _) = units[place];
            progress.point(&format!("{} seed {seed}", entries[number].point.file));
            runs[place] = Some(run);
            Ok(())
        }
        Step::Interrupted => {
            let (done, all) = (runs.iter().flatten().count(), runs.len());
            let what = format!("interrupted with {done} of {all} runs");
            progress.say(&format!("netsim: {what}"));
            let why = format!("{what}: scenarios that were not finished are left out");
            leave(finish(&finished(entries, &units, &runs), args, Some(&why)).map(drop))
        }
    })?;
    Ok(finished(entries, &units, &runs))
}

/// Returns the scenarios of which all runs have ended, with these runs, and judged.
fn finished(entries: &[Entry], units: &[Unit], runs: &[Option<Run>]) -> Vec<Entry> {
    let mut all: Vec<(Entry, bool)> = entries.iter().map(|entry| (entry.clone(), true)).collect();
    for (&(number, _, is_judged), run) in units.iter().zip(runs) {
        let (entry, is_finished) = &mut all[number];
        let point = if is_judged { &mut entry.point } else { &mut entry.beside };
        point.runs.extend(run.clone());
        *is_finished &= run.is_some();
    }
    let mut finished: Vec<Entry> =
        all.into_iter().filter_map(|(entry, is_finished)| is_finished.then_some(entry)).collect();
    finished.iter_mut().for_each(|entry| entry.point.judge(&entry.scenario));
    finished
}

impl Entry {
    fn bounds(&self) -> Vec<Bound> {
        judge::bounds(&self.scenario, &self.point.runs)
    }

    /// Returns what went wrong, with the command that repeats it.
    fn problems(&self) -> Vec<String> {
        self.point.problems(&self.point.command(None))
    }

    /// Returns what went wrong with the seeds that are not judged.
    fn notes(&self) -> impl Iterator<Item = String> {
        self.beside.failures().map(|failure| format!("beside, not judged: {failure}"))
    }

    /// Returns a row for each figure that something is expected of, and for the slowest flow.
    fn rows(&self) -> Vec<Vec<String>> {
        let beside = judge::bounds(&self.scenario, &self.beside.runs);
        let alone = |run| judge::bounds(&self.scenario, std::slice::from_ref(run));
        let alone: Vec<Vec<Bound>> = self.point.runs.iter().map(alone).collect();
        let shown = |b: &Bound| b.is_bounded() || b.figure == ALWAYS && b.mean.is_some();
        let rows = self.bounds().into_iter().enumerate().filter(|(_, bound)| shown(bound));
        let rows = rows.map(|(place, bound)| {
            let singles = alone.iter().filter_map(|bounds| bounds[place].mean);
            vec![
                self.point.file.clone(),
                bound.figure.to_owned(),
                number(bound.mean),
                range(singles),
                number(beside.get(place).and_then(|beside| beside.mean)),
                bound.wanted(),
                judge::word(&bound).to_owned(),
            ]
        });
        rows.collect()
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}

/// Returns the least and the greatest value of single seeds.
fn range(values: impl Iterator<Item = f64> + Clone) -> String {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    if least <= most { format!("{least:.3} to {most:.3}") } else { "-".to_owned() }
}

fn table(entries: &[Entry], args: &CheckArgs) -> Table {
    let beside = args.beside.as_ref().map_or_else(
        || "other seeds".to_owned(),
        |seeds| {
            let words: Vec<String> = seeds.0.iter().map(ToString::to_string).collect();
            format!("seeds {}", words.join(", "))
        },
    );
    let titles =
        ["scenario", "figure", "mean", "single seeds", beside.as_str(), "bound", "verdict"];
    let mut table = Table::new("Means over each scenario's seeds", &titles, 2);
    entries.iter().flat_map(Entry::rows).for_each(|row| table.push(row));
    table
}
