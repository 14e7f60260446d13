//! `netsim check`: scenarios as tests, each with all its seeds, in one table beside its bounds.

use crate::cli::CheckArgs;
use crate::command::pool::{self, Step};
use crate::command::record::Run;
use crate::command::run::attempt;
use crate::command::source::Source;
use crate::command::{Verdict, ensure_free};
use anyhow::Result;
use netsim::{Bound, Outcome, Scenario};
use report::{Page, Progress, Section, Table, shell_word};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Shown of each scenario, whatever it expects, unless its flows never end.
const ALWAYS: &str = "max/ideal";

/// A scenario and its runs.
struct Entry {
    file: String,
    title: String,
    scenario: Scenario,
    outcomes: Vec<Outcome>,
    /// Of seeds that are shown and not judged.
    beside: Vec<Outcome>,
    /// Runs that failed, and flows that did not end well, with the command that repeats each.
    broken: Vec<String>,
}

/// Bad when a mean misses its bound, or a run failed.
pub(crate) fn run(args: &CheckArgs) -> Result<Verdict> {
    if let Some(path) = &args.markdown {
        ensure_free(path, args.force)?;
    }
    let mut entries = args.scenarios.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?;
    execute(&mut entries, args)?;
    let table = table(&entries, args);
    print!("{}", table.text());
    if let Some(path) = &args.markdown {
        report::write_atomic(path, report::markdown(&page(&entries, table)).as_bytes())?;
    }
    let problems: Vec<String> = entries.iter().flat_map(Entry::problems).collect();
    for problem in &problems {
        eprintln!("netsim: {problem}");
    }
    Ok(if problems.is_empty() { Verdict::Good } else { Verdict::Bad })
}

fn read(path: &Path) -> Result<Entry> {
    let (scenario, point) = Source::read(path)?.point(&[])?;
    let (file, title) = (point.file, point.title);
    let (outcomes, beside, broken) = (Vec::new(), Vec::new(), Vec::new());
    Ok(Entry { file, title, scenario, outcomes, beside, broken })
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
        |&(number, seed, _)| attempt(scenarios[number], seed, None),
        &AtomicBool::new(false),
        |step| {
            if let Step::Ended(place, run) = step {
                let (number, seed, _) = units[place];
                progress.point(&format!("{} seed {seed}", entries[number].file));
                runs[place] = Some(run);
            }
            Ok(())
        },
    )?;
    for ((number, _, judged), run) in units.into_iter().zip(runs) {
        run.into_iter().for_each(|run| entries[number].take(run, judged));
    }
    Ok(())
}

impl Entry {
    fn take(&mut self, run: Run, judged: bool) {
        let open = || format!("{} of {} flows ended well", run.done, run.flows);
        let what = run.error.clone().or_else(|| (run.done < run.flows).then(open));
        let again = format!("{} --seed {}", self.command(), run.seed);
        self.broken.extend(what.map(|what| format!("{what}; repeat it with: {again}")));
        let outcomes = if judged { &mut self.outcomes } else { &mut self.beside };
        outcomes.extend(run.outcome);
    }

    fn command(&self) -> String {
        format!("netsim run {}", shell_word(&self.file))
    }

    fn bounds(&self) -> Vec<Bound> {
        self.scenario.bounds(&self.outcomes)
    }

    /// What went wrong, with the command that repeats it.
    fn problems(&self) -> Vec<String> {
        let missed = self.bounds().into_iter().filter_map(|bound| bound.missed());
        let missed = missed.map(|missed| format!("{missed}; repeat it with: {}", self.command()));
        self.broken.iter().cloned().chain(missed).collect()
    }

    /// A row for each figure that something is expected of, and for the slowest flow.
    fn rows(&self) -> Vec<Vec<String>> {
        let beside = self.scenario.bounds(&self.beside);
        let alone = |outcome| self.scenario.bounds(std::slice::from_ref(outcome));
        let alone: Vec<Vec<Bound>> = self.outcomes.iter().map(alone).collect();
        let shown = |b: &Bound| b.is_asked() || b.figure == ALWAYS && b.mean.is_some();
        let rows = self.bounds().into_iter().enumerate().filter(|(_, bound)| shown(bound));
        let rows = rows.map(|(place, bound)| {
            let singles = alone.iter().filter_map(|bounds| bounds[place].mean);
            vec![
                self.file.clone(),
                bound.figure.to_owned(),
                number(bound.mean),
                range(singles),
                number(beside.get(place).and_then(|beside| beside.mean)),
                bound.wanted(),
                verdict(&bound).to_owned(),
            ]
        });
        rows.collect()
    }
}

fn verdict(bound: &Bound) -> &'static str {
    match (bound.is_asked(), bound.missed().is_none()) {
        (false, _) => "",
        (true, true) => "held",
        (true, false) => "MISSED",
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

fn page(entries: &[Entry], table: Table) -> Page {
    let asked = entries.iter().flat_map(Entry::bounds).filter(Bound::is_asked);
    let (held, missed): (Vec<Bound>, Vec<Bound>) = asked.partition(|b| b.missed().is_none());
    let titles = entries.iter().map(|entry| vec![entry.file.clone(), entry.title.clone()]);
    let mut names = Table::new("What the scenarios are", &["scenario", "title"], 2);
    titles.for_each(|row| names.push(row));
    Page {
        title: "Scenarios".to_owned(),
        summary: vec![
            "Every scenario with all its seeds, beside the bounds that it holds itself to \
             (`[expect]`). Written by `make scenarios`; do not edit. The figures are of virtual \
             time: they repeat on any machine."
                .to_owned(),
            "Scenarios in `heldout`, and the column of other seeds, are those that no parameter of \
             the transport was chosen on."
                .to_owned(),
        ],
        facts: vec![
            ("bounds held".to_owned(), held.len().to_string()),
            ("bounds missed".to_owned(), missed.len().to_string()),
        ],
        sections: vec![Section {
            title: "Figures".to_owned(),
            tables: vec![table, names],
            ..Section::default()
        }],
        ..Page::default()
    }
}
