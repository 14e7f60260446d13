//! `efa-bench compare`: two result files, point by point, with a verdict for CI; and assertions.

mod assertion;
mod doubt;
mod figure;
mod pairs;
mod rows;

use std::path::{Path, PathBuf};

use bench_record::failure::Failure;
use bench_record::{Results, Run};
use clap::Args;
use report::{Change, Table};

use crate::output;

pub use assertion::Assertion;
use doubt::{different_machines, different_wires, why_inconclusive};
use pairs::Pairs;
use rows::{ComparedFigure, rows_of};

/// Compares two result files.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The result to compare with: of --json, or output of a tool that `import` reads.
    base: PathBuf,
    /// The result that is judged.
    new: PathBuf,
    /// Changes up to this many percent are noise; default: 5, for p99 20. A larger change is noise,
    /// too, if the 95 % interval of the ratio, from the blocks of both files, contains 1.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    threshold: Option<f64>,
    /// A limit the second file must keep, such as 'latency/64B p99 < 30us'; repeatable.
    #[arg(long = "assert", value_name = "LIMIT")]
    assertions: Vec<Assertion>,
    /// Show what changed only.
    #[arg(short, long)]
    quiet: bool,
}

/// Parses a change in percent; one that is not a finite number would call everything noise.
fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..=1000.0).contains(percent));
    percent.ok_or_else(|| format!("{text} is not allowed, only 0 to 1000"))
}

/// Loads both files and prints the verdicts. Fails if something regressed, is missing, or breaks a
/// limit, and fails in another way if only the blocks cannot tell.
pub fn run(
    args: &CompareArgs,
    load: impl Fn(&Path) -> Result<Results, Failure>,
) -> Result<(), Failure> {
    let (base, new) = (load(&args.base)?, load(&args.new)?);
    let Judged { text, verdict } = judge(args, &base, &new)?;
    output::print(&text)?;
    check(&args.assertions, &new.runs)?;
    verdict
}

/// The outcome of a comparison.
struct Judged {
    /// The table, and remarks on it.
    text: String,
    verdict: Result<(), Failure>,
}

/// Judges each point of `base` against the same point of `new`; fails if they have none in common.
fn judge(args: &CompareArgs, base: &Results, new: &Results) -> Result<Judged, Failure> {
    let Pairs { pairs, ambiguous, only_new } = Pairs::of(base, new);
    if ambiguous.is_empty() && !pairs.iter().any(|pair| pair.new.is_some()) {
        let reason = format!(
            "the files have no point in common: {} has {}, {} has {}",
            args.base.display(),
            names(base),
            args.new.display(),
            names(new)
        );
        return Err(Failure::Usage(reason));
    }
    let rows: Vec<Vec<ComparedFigure>> =
        pairs.iter().map(|pair| rows_of(pair, args.threshold)).collect();
    let blind = pairs.iter().zip(&rows).filter(|(_, rows)| rows.is_empty());
    let blind: Vec<String> =
        blind.map(|(pair, _)| format!("NO FIGURE: {}\n", pair.label)).collect();
    let rows: Vec<ComparedFigure> = rows.into_iter().flatten().collect();
    let mut table = head();
    for row in rows.iter().filter(|row| !args.quiet || row.change != Change::Same) {
        table.push(row.cells());
    }
    let count = |change: Change| rows.iter().filter(|row| row.change == change).count();
    let regressed = count(Change::Regressed);
    let inconclusive = count(Change::Inconclusive);
    let mut summary = format!(
        "{} improved, {} the same, {regressed} regressed or missing",
        count(Change::Improved),
        count(Change::Same)
    );
    if inconclusive > 0 {
        summary += &format!(", {inconclusive} inconclusive");
    }
    if only_new > 0 {
        summary += &format!("; {only_new} points of the second file are not in the first");
    }
    let incomplete: Vec<String> = both(base, new).into_iter().flat_map(incomplete).collect();
    let doubts = ambiguous.iter().map(|text| format!("AMBIGUOUS: {text}\n"));
    let others = different_machines(base, new).into_iter().chain(different_wires(&pairs));
    let warnings = both(base, new).into_iter().flat_map(warnings);
    let doubts =
        others.chain(doubts).chain(blind.iter().chain(&incomplete).cloned()).chain(warnings);
    let doubts: String = doubts.map(|text| one_line(&text)).collect();
    let text = format!("{}{doubts}{summary}\n", output::for_terminal(&table));
    Ok(Judged { text, verdict: verdict(&rows, [ambiguous.len(), incomplete.len(), blind.len()]) })
}

/// Returns the head of a comparison's table; a narrow table keeps the interval of the ratio.
pub(crate) fn head() -> Table {
    let titles = ["point", "figure", "verdict", "first", "second", "ratio", "95 % of it", "noise"];
    let mut table = Table::new("Change from the first to the second", &titles, 3);
    for (place, index) in (1..).zip([7, 4, 3, 5]) {
        table.columns[index].least = Some(place);
    }
    table
}

/// Returns the failure of a comparison, if any: what regressed or is missing comes before what
/// nobody can tell.
fn verdict(
    rows: &[ComparedFigure],
    [ambiguous, incomplete, blind]: [usize; 3],
) -> Result<(), Failure> {
    let count = |change: Change| rows.iter().filter(|row| row.change == change).count();
    if ambiguous > 0 {
        let text = "points are there several times, not as often in both files: which is which? Give \
            runs names of their own (--name)";
        return Err(Failure::Check(format!("{ambiguous} {text}")));
    }
    let regressed = count(Change::Regressed);
    if regressed > 0 {
        return Err(Failure::Check(format!("{regressed} figures regressed or are missing")));
    }
    match count(Change::Inconclusive) {
        0 if incomplete > 0 => Err(Failure::Inconclusive(format!(
            "{incomplete} runs ended early: measure them again, or go on with their plan"
        ))),
        0 if blind > 0 => Err(Failure::Inconclusive(format!(
            "{blind} points have no figure that can be judged: look whether anything was measured"
        ))),
        0 => Ok(()),
        _ => Err(Failure::Inconclusive(why_inconclusive(rows))),
    }
}

/// Makes a text of a file one line, whatever it contains.
fn one_line(text: &str) -> String {
    text.trim_end().replace(char::is_control, "\u{fffd}") + "\n"
}

/// Returns the two files with the names that a reader knows.
fn both<'a>(base: &'a Results, new: &'a Results) -> [(&'static str, &'a Results); 2] {
    [("first", base), ("second", new)]
}

/// Names the runs of a file that ended early.
fn incomplete((file, results): (&'static str, &Results)) -> Vec<String> {
    let ended = results.runs.iter().filter(|run| !run.complete && run.source != "published");
    let why = |run: &Run| run.error.clone().unwrap_or_else(|| "it ended early".to_owned());
    let line = |run: &Run| {
        let Run { name, .. } = run;
        format!("INCOMPLETE: {name} {} of the {file} file: {}\n", run.kind(), why(run))
    };
    ended.map(line).collect()
}

/// Renders the warnings of a file, which limit the meaning of its figures.
fn warnings((file, results): (&'static str, &Results)) -> Vec<String> {
    results.warnings.iter().map(|text| format!("warning of the {file} file: {text}\n")).collect()
}

/// Checks limits and prints each; fails if one does not hold.
pub fn check(assertions: &[Assertion], runs: &[Run]) -> Result<(), Failure> {
    let outcomes: Vec<_> = assertions.iter().flat_map(|limit| limit.check(runs)).collect();
    for outcome in &outcomes {
        report::say(format_args!("efa-bench: {}", outcome.text));
    }
    match outcomes.iter().filter(|outcome| !outcome.holds).count() {
        0 => Ok(()),
        broken => Err(Failure::Check(format!("{broken} of {} limits do not hold", outcomes.len()))),
    }
}

fn names(results: &Results) -> String {
    let mut names: Vec<String> =
        results.runs.iter().map(|r| format!("{} {}", r.name, r.benchmark.name())).collect();
    names.dedup();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod whole_files;
