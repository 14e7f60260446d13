//! `efa-bench compare`: two result files, point by point, with a verdict for CI; and assertions.

mod assertion;
mod figure;

use std::path::PathBuf;

use clap::Args;
use report::{Change, Table, noise_of_ratio, significant};

use crate::failure::Failure;
use crate::import::command::load;
use crate::output;
use crate::record::{Point, Results, Run};

pub(crate) use assertion::Assertion;
use figure::Figure;

/// Changes up to this many percent are noise, whatever the blocks say: what two runs of the same
/// program differ by on a quiet machine.
const NOISE_PERCENT: f64 = 5.0;
/// The same for figures without blocks.
const TAIL_NOISE_PERCENT: f64 = 20.0;

/// Compares two result files.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The result to compare with: of --json, or output of a tool that `import` reads.
    base: PathBuf,
    /// The result that is judged.
    new: PathBuf,
    /// Changes up to this many percent are noise; default: 5, more where blocks differ by more,
    /// 20 for p99.
    #[arg(long, value_name = "PERCENT")]
    threshold: Option<f64>,
    /// A limit the second file must keep, such as 'latency/64B p99 < 30us'; repeatable.
    #[arg(long = "assert", value_name = "LIMIT")]
    assertions: Vec<Assertion>,
    /// Show what changed only.
    #[arg(short, long)]
    quiet: bool,
}

/// Prints the verdicts; a failure when something regressed, is missing, or breaks a limit.
pub(crate) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let (base, new) = (load(&args.base)?, load(&args.new)?);
    let rows = rows(&base, &new, args.threshold);
    if !rows.iter().any(|row| row.new.is_some()) {
        let reason = format!(
            "the files have no point in common: {} has {}, {} has {}",
            args.base.display(),
            names(&base),
            args.new.display(),
            names(&new)
        );
        return Err(Failure::Usage(reason));
    }
    let titles = ["point", "figure", "verdict", "first", "second", "ratio", "noise"];
    let mut table = Table::new("Change from the first to the second", &titles, 3);
    for row in rows.iter().filter(|row| !args.quiet || row.change != Change::Same) {
        table.push(row.cells());
    }
    let count = |change: Change| rows.iter().filter(|row| row.change == change).count();
    let regressed = count(Change::Regressed);
    let summary = format!(
        "{} improved, {} the same, {regressed} regressed or missing\n",
        count(Change::Improved),
        count(Change::Same)
    );
    output::print(&format!("{}{summary}", table.text()))?;
    check(&args.assertions, &new.runs)?;
    if regressed > 0 {
        return Err(Failure::Check(format!("{regressed} figures regressed or are missing")));
    }
    Ok(())
}

/// Checks limits and prints each; a failure when one does not hold.
pub(crate) fn check(assertions: &[Assertion], runs: &[Run]) -> Result<(), Failure> {
    let outcomes: Vec<_> = assertions.iter().flat_map(|limit| limit.check(runs)).collect();
    for outcome in &outcomes {
        eprintln!("efa-bench: {}", outcome.text);
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

/// A line of the table.
struct Row {
    point: String,
    figure: Figure,
    base: f64,
    /// `None`: it is missing.
    new: Option<f64>,
    noise_percent: f64,
    change: Change,
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let (unit, _) = self.figure.units()[0];
        let mut cells = vec![self.point.clone(), format!("{} {unit}", self.figure.name())];
        match self.new {
            None => cells.extend(["MISSING".to_owned(), significant(self.base), "-".to_owned()]),
            Some(new) => cells.extend([
                self.change.word().to_owned(),
                significant(self.base),
                significant(new),
                format!("{:.3}", new / self.base),
                format!("{:.1} %", self.noise_percent),
            ]),
        }
        cells
    }
}

fn rows(base: &Results, new: &Results, threshold_percent: Option<f64>) -> Vec<Row> {
    let is_measured = |run: &&Run| run.source != "published";
    let name_of = |results: &Results| {
        let mut names: Vec<&str> =
            results.runs.iter().filter(is_measured).map(|r| r.name.as_str()).collect();
        names.dedup();
        (names.len() == 1).then(|| names[0].to_owned())
    };
    // Two fabrics may be compared as well, when there is no doubt which with which.
    let is_one_each = name_of(base).is_some() && name_of(new).is_some();
    let mut rows = Vec::new();
    for run in base.runs.iter().filter(is_measured) {
        let is_like = |other: &&Run| {
            (is_one_each || other.name == run.name)
                && other.kind() == run.kind()
                && other.operation == run.operation
                && other.endpoint == run.endpoint
        };
        for point in &run.points {
            let found = new
                .runs
                .iter()
                .filter(is_measured)
                .filter(is_like)
                .flat_map(|other| &other.points)
                .find(|other| other.is_like(point));
            rows.extend(rows_of(run, point, found, threshold_percent));
        }
    }
    rows
}

/// The figures of a point that are judged: the middle and the tail, or goodput.
fn rows_of(
    run: &Run,
    base: &Point,
    new: Option<&Point>,
    threshold_percent: Option<f64>,
) -> Vec<Row> {
    let name = format!("{} {} {} B, depth {}", run.name, run.kind(), base.size_bytes, base.depth);
    let middle = if Figure::P50.of(base).is_some() { Figure::P50 } else { Figure::Mean };
    [middle, Figure::P99, Figure::Goodput]
        .into_iter()
        .filter_map(|figure| {
            let value = figure.of(base)?;
            let other = new.and_then(|point| figure.of(point));
            let least = if figure == Figure::P99 { TAIL_NOISE_PERCENT } else { NOISE_PERCENT };
            let blocks = (figure != Figure::P99)
                .then(|| noise_of_ratio(&base.blocks, new.map_or(&[], |point| &point.blocks)))
                .flatten();
            let noise_percent =
                threshold_percent.unwrap_or_else(|| blocks.map_or(least, |noise| least.max(noise)));
            let change = other.map_or(Change::Regressed, |other| {
                Change::of(value, other, figure.better(), noise_percent)
            });
            Some(Row {
                point: name.clone(),
                figure,
                base: value,
                new: other,
                noise_percent,
                change,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Bandwidth;
    use crate::spec::Benchmark;

    fn results(name: &str, gbit_per_s: &[f64]) -> Results {
        let bandwidth = |gbit: f64| Bandwidth::new(1, (gbit * 1e9 / 8.0) as u64, 1.0);
        let middle = gbit_per_s[gbit_per_s.len() / 2];
        let point = Point {
            bandwidth: Some(bandwidth(middle)),
            blocks: gbit_per_s.to_vec(),
            ..Point::new(64, 1)
        };
        output::results(vec![Run::new(name, Benchmark::Bandwidth, vec![point])], Vec::new())
    }

    fn change(base: &[f64], new: &[f64]) -> Change {
        let rows = rows(&results("a", base), &results("b", new), None);
        assert_eq!(rows.len(), 1);
        rows[0].change
    }

    #[test]
    fn blocks_that_differ_widen_the_noise() {
        assert_eq!(change(&[10.0], &[9.6]), Change::Same);
        assert_eq!(change(&[10.0], &[9.0]), Change::Regressed);
        assert_eq!(change(&[9.9, 10.0, 10.1], &[8.9, 9.0, 9.1]), Change::Regressed);
        assert_eq!(change(&[8.0, 10.0, 12.0], &[7.0, 9.0, 11.0]), Change::Same);
        assert_eq!(change(&[10.0], &[12.0]), Change::Improved);
    }

    #[test]
    fn what_is_missing_counts_as_regressed() {
        let mut new = results("a", &[10.0]);
        new.runs[0].points[0].size_bytes = 65;
        let rows = rows(&results("a", &[10.0]), &new, None);
        assert_eq!((rows[0].new, rows[0].change), (None, Change::Regressed));
    }
}
