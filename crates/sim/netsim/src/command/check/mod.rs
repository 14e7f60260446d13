//! `netsim check`: scenarios as tests, each with all its seeds, in one table beside its bounds.

mod page;

use crate::cli::CheckArgs;
use crate::command::pool::{self, Step};
use crate::command::record::{Point, Run};
use crate::command::run::attempt;
use crate::command::source::Source;
use crate::command::{Verdict, ensure_different, ensure_free, judge, print};
use anyhow::Result;
use netsim::{Bound, Scenario};
use report::{Progress, Table};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Shown of each scenario, whatever it expects, unless its flows never end.
const ALWAYS: &str = "max/ideal";

/// A scenario and its runs.
struct Entry {
    scenario: Scenario,
    point: Point,
    /// Of seeds that are shown and not judged.
    beside: Point,
}

/// Bad when a mean misses its bound, or a run failed.
pub(crate) fn run(args: &CheckArgs) -> Result<Verdict> {
    ensure_different(args.markdown.as_ref(), args.html.as_ref())?;
    for path in args.markdown.iter().chain(&args.html) {
        ensure_free(path, args.force)?;
    }
    let mut entries = args.scenarios.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?;
    execute(&mut entries, args)?;
    let table = table(&entries, args);
    let tally = judge::tally(entries.iter().map(|entry| &entry.point));
    let tally = tally.map(|line| line + "\n").unwrap_or_default();
    let shown = print(&(table.text() + &tally));
    let page = page::page(&entries, table);
    if let Some(path) = &args.markdown {
        report::write_atomic(path, report::markdown(&page).as_bytes())?;
    }
    if let Some(path) = &args.html {
        report::write_atomic(path, report::html(&page::with_chart(page, &entries)).as_bytes())?;
    }
    let problems: Vec<String> = entries.iter().flat_map(Entry::problems).collect();
    for line in problems.iter().cloned().chain(entries.iter().flat_map(Entry::notes)) {
        report::say(format_args!("netsim: {line}"));
    }
    shown.map(|()| Verdict::of(problems.is_empty()))
}

fn read(path: &Path) -> Result<Entry> {
    let (scenario, point) = Source::read(path)?.point(&[])?;
    Ok(Entry { scenario, beside: point.clone(), point })
}

/// Runs everything on all cores.
fn execute(entries: &mut [Entry], args: &CheckArgs) -> Result<()> {
    let mut units = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        units.extend(entry.scenario.seeds().iter().map(|&seed| (number, seed, true)));
        let beside = args.beside.iter().flat_map(|seeds| &seeds.0);
        units.extend(beside.map(|&seed| (number, seed, false)));
    }
    let mut progress = Progress::new(units.len(), args.quiet);
    let mut runs: Vec<Option<Run>> = vec![None; units.len()];
    let scenarios: Vec<&Scenario> = entries.iter().map(|entry| &entry.scenario).collect();
    pool::run(
        pool::jobs(args.jobs),
        &units,
        // What is shown needs no flows, which are many.
        |&(number, seed, _)| Run { outcome: None, ..attempt(scenarios[number], seed, None) },
        &AtomicBool::new(false),
        |step| {
            if let Step::Ended(place, run) = step {
                let (number, seed, _) = units[place];
                progress.point(&format!("{} seed {seed}", entries[number].point.file));
                runs[place] = Some(run);
            }
            Ok(())
        },
    )?;
    for ((number, _, judged), run) in units.into_iter().zip(runs) {
        let entry = &mut entries[number];
        let point = if judged { &mut entry.point } else { &mut entry.beside };
        point.runs.extend(run);
    }
    entries.iter_mut().for_each(|entry| entry.point.judge(&entry.scenario));
    Ok(())
}

impl Entry {
    fn bounds(&self) -> Vec<Bound> {
        judge::bounds(&self.scenario, &self.point.runs)
    }

    /// What went wrong, with the command that repeats it.
    fn problems(&self) -> Vec<String> {
        self.point.problems(&self.point.command(None))
    }

    /// The same of the seeds that are not judged.
    fn notes(&self) -> impl Iterator<Item = String> {
        self.beside.failures().map(|failure| format!("beside, not judged: {failure}"))
    }

    /// A row for each figure that something is expected of, and for the slowest flow.
    fn rows(&self) -> Vec<Vec<String>> {
        let beside = judge::bounds(&self.scenario, &self.beside.runs);
        let alone = |run| judge::bounds(&self.scenario, std::slice::from_ref(run));
        let alone: Vec<Vec<Bound>> = self.point.runs.iter().map(alone).collect();
        let shown = |b: &Bound| b.is_asked() || b.figure == ALWAYS && b.mean.is_some();
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

/// The least and the most of single seeds.
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
