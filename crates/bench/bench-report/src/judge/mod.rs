//! `efa-bench compare`: two result files, point by point, with a verdict for CI; and assertions.

mod apart;
mod assertion;
mod figure;
mod pairs;

use std::path::{Path, PathBuf};

use bench_record::failure::Failure;
use bench_record::{Point, Results, Run};
use clap::Args;
use report::{Change, Interval, Table, ratio_interval, significant};

use crate::output;

use apart::{Apart, different_machines, different_wires, why_inconclusive};
pub use assertion::Assertion;
use figure::Figure;
use pairs::{Pair, Pairs};

/// Changes up to this many percent are noise, whatever the blocks say: what two runs of the same
/// program differ by on a quiet machine.
const NOISE_PERCENT: f64 = 5.0;
/// The same for percentiles of the tail, which have no blocks.
const TAIL_NOISE_PERCENT: f64 = 20.0;

/// Compares two result files.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The result to compare with: of --json, or output of a tool that `import` reads.
    base: PathBuf,
    /// The result that is judged.
    new: PathBuf,
    /// Changes up to this many percent are noise; default: 5, for p99 20. A larger change is noise,
    /// too, if the 95 % interval of the ratio, from the blocks of both files, contains 1.
    #[arg(long, value_name = "PERCENT")]
    threshold: Option<f64>,
    /// A limit the second file must keep, such as 'latency/64B p99 < 30us'; repeatable.
    #[arg(long = "assert", value_name = "LIMIT")]
    assertions: Vec<Assertion>,
    /// Show what changed only.
    #[arg(short, long)]
    quiet: bool,
}

/// Loads both files and prints the verdicts; a failure when something regressed, is missing, or
/// breaks a limit, and another one when nothing did but the blocks cannot tell.
pub fn run(
    args: &CompareArgs,
    load: impl Fn(&Path) -> Result<Results, Failure>,
) -> Result<(), Failure> {
    let (base, new) = (load(&args.base)?, load(&args.new)?);
    let Pairs { pairs, ambiguous, only_new } = Pairs::of(&base, &new);
    if ambiguous.is_empty() && !pairs.iter().any(|pair| pair.new.is_some()) {
        let reason = format!(
            "the files have no point in common: {} has {}, {} has {}",
            args.base.display(),
            names(&base),
            args.new.display(),
            names(&new)
        );
        return Err(Failure::Usage(reason));
    }
    let rows: Vec<ComparedFigure> =
        pairs.iter().flat_map(|pair| rows_of(pair, args.threshold)).collect();
    let titles = ["point", "figure", "verdict", "first", "second", "ratio", "95 % of it", "noise"];
    let mut table = Table::new("Change from the first to the second", &titles, 3);
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
    let doubts = ambiguous.iter().map(|text| format!("AMBIGUOUS: {text}\n"));
    let others = different_machines(&base, &new).into_iter().chain(different_wires(&pairs));
    let doubts: String = others.chain(doubts).collect();
    output::print(&format!("{}{doubts}{summary}\n", output::for_terminal(&table)))?;
    check(&args.assertions, &new.runs)?;
    if !ambiguous.is_empty() {
        let text = "points are there several times, not as often in both files: which is which? Give \
            runs names of their own (--name)";
        return Err(Failure::Check(format!("{} {text}", ambiguous.len())));
    }
    if regressed > 0 {
        return Err(Failure::Check(format!("{regressed} figures regressed or are missing")));
    }
    match inconclusive {
        0 => Ok(()),
        _ => Err(Failure::Inconclusive(why_inconclusive(&rows))),
    }
}

/// Checks limits and prints each; a failure when one does not hold.
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

/// A line of the table.
struct ComparedFigure {
    point: String,
    figure: Figure,
    base: f64,
    /// `None`: it is missing.
    new: Option<f64>,
    /// Of the ratio, where both have blocks of this figure.
    ratio: Option<Interval>,
    noise_percent: f64,
    change: Change,
    /// Then whatever the figures are, nobody can tell.
    apart: Option<Apart>,
}

impl ComparedFigure {
    /// The verdict, with its reason where the figures do not show it.
    fn verdict(&self) -> String {
        let word = self.change.word();
        self.apart.map_or_else(|| word.to_owned(), |apart| format!("{word}: {}", apart.words()))
    }

    fn cells(&self) -> Vec<String> {
        let (unit, _) = self.figure.units()[0];
        let mut cells = vec![self.point.clone(), format!("{} {unit}", self.figure.name())];
        let Some(new) = self.new else {
            cells.extend(["MISSING".to_owned(), significant(self.base)]);
            return cells;
        };
        let ends = |ratio: Interval| format!("{:.3} to {:.3}", ratio.low, ratio.high);
        cells.extend([
            self.verdict(),
            significant(self.base),
            significant(new),
            format!("{:.3}", new / self.base),
            self.ratio.map_or_else(|| "-".to_owned(), ends),
            format!("{:.1} %", self.noise_percent),
        ]);
        cells
    }
}

/// The figures of a point that are judged: the middle and the tail of times, and what was moved.
fn rows_of(pair: &Pair<'_>, threshold_percent: Option<f64>) -> Vec<ComparedFigure> {
    let &Pair { ref label, base, new, .. } = pair;
    let judged = Figure::judged(base).into_iter();
    let apart = Apart::of(pair);
    let row = |figure: Figure| {
        let value = figure.of(base)?;
        let other = new.and_then(|point| figure.of(point));
        let usual = if figure == Figure::P99 { TAIL_NOISE_PERCENT } else { NOISE_PERCENT };
        let noise_percent = threshold_percent.unwrap_or(usual);
        let has_blocks = |point: &&Point| Figure::of_blocks(point) == figure;
        let blocks = new.filter(has_blocks).filter(|_| has_blocks(&base));
        // The same blocks are the same measurement: of a file and itself there is nothing to doubt.
        let blocks = blocks.filter(|new| new.blocks != base.blocks);
        let ratio = blocks.and_then(|new| ratio_interval(&base.blocks, &new.blocks));
        let change = match other {
            None => Change::Regressed,
            Some(_) if apart.is_some() => Change::Inconclusive,
            Some(other) => Change::of(value, other, figure.better(), noise_percent, ratio),
        };
        Some(ComparedFigure {
            point: label.clone(),
            figure,
            base: value,
            new: other,
            ratio,
            noise_percent,
            change,
            apart,
        })
    };
    judged.filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_record::Bandwidth;
    use bench_record::cores::Cores;
    use bench_record::spec::Benchmark;
    use bench_record::wire::Wire;

    fn results(name: &str, gbit_per_s: &[f64]) -> Results {
        let bandwidth = |gbit: f64| Bandwidth::new(1, (gbit * 1e9 / 8.0) as u64, 1.0);
        let middle = gbit_per_s[gbit_per_s.len() / 2];
        let point = Point {
            bandwidth: Some(bandwidth(middle)),
            blocks: gbit_per_s.to_vec(),
            ..Point::new(64, 1)
        };
        Results::of(vec![Run::new(name, Benchmark::Bandwidth, vec![point])], Vec::new())
    }

    fn rows(base: &Results, new: &Results) -> Vec<ComparedFigure> {
        Pairs::of(base, new).pairs.iter().flat_map(|pair| rows_of(pair, None)).collect()
    }

    fn change(base: &[f64], new: &[f64]) -> Change {
        let rows = rows(&results("a", base), &results("b", new));
        assert_eq!(rows.len(), 1);
        rows[0].change
    }

    #[test]
    fn blocks_that_differ_widen_the_noise() {
        assert_eq!(change(&[10.0], &[9.6]), Change::Same);
        assert_eq!(change(&[10.0], &[9.0]), Change::Regressed);
        assert_eq!(change(&[9.9, 10.0, 10.1], &[8.9, 9.0, 9.1]), Change::Regressed);
        assert_eq!(change(&[8.0, 10.0, 12.0], &[7.0, 9.0, 11.0]), Change::Inconclusive);
        assert_eq!(change(&[9.9, 10.0, 10.1], &[9.8, 9.9, 10.2]), Change::Same);
        assert_eq!(change(&[10.0], &[12.0]), Change::Improved);
    }

    #[test]
    fn calls_are_judged_by_their_rate_and_their_times() {
        let words = r#"{"calls":2,"seconds":1.0,"mcalls_per_s":2.0,"messages_per_call":2.0,
            "bytes_per_call":88.0,"client_cpu_ns":1.0,"server_cpu_ns":1.0,"actions":[]}"#;
        let work: bench_record::Work = serde_json::from_str(words).expect("calls");
        let times = bench_record::Distribution { p50_us: 5.0, p99_us: 9.0, ..Default::default() };
        let mut results = results("a", &[2.0]);
        results.runs[0].benchmark = Benchmark::Rpc;
        let point = &mut results.runs[0].points[0];
        (point.bandwidth, point.operation_time) = (None, Some(times));
        (point.work, point.blocks) = (Some(work), vec![1.9, 2.0, 2.1]);
        let mut again = results.clone();
        again.runs[0].points[0].blocks = vec![2.1, 1.9, 2.05];
        let apart = rows(&results, &again);
        let found: Vec<_> =
            apart.iter().map(|row| (row.figure.name(), row.base, row.ratio.is_some())).collect();
        // Blocks are of the rate.
        assert_eq!(found, [("p50", 5.0, false), ("p99", 9.0, false), ("rate", 2.0, true)]);
        let changes: Vec<Change> = apart.iter().map(|row| row.change).collect();
        assert_eq!(changes, [Change::Same, Change::Same, Change::Inconclusive]);
        let alike = rows(&results, &results);
        assert!(alike.iter().all(|row| row.change == Change::Same), "a file and itself");
    }

    /// A virtual machine whose cores had moved was a regression of what ran there.
    #[test]
    fn near_cores_are_not_judged_against_far_ones() {
        let at = |gbit: f64, round_trip_ns: f64| {
            let mut results = results("a", &[gbit]);
            let cores = Cores::between(round_trip_ns, round_trip_ns);
            results.runs[0].points[0].cores = Some(cores);
            results
        };
        let near = at(10.0, 112.0);
        let apart = rows(&near, &at(5.0, 530.0));
        assert_eq!(apart[0].change, Change::Inconclusive);
        assert!(apart[0].cells()[2].ends_with("cores near and far"), "{:?}", apart[0].cells());
        assert!(why_inconclusive(&apart).contains("1 figures"), "{}", why_inconclusive(&apart));
        assert_eq!(rows(&near, &at(5.0, 113.0))[0].change, Change::Regressed);
        // Nobody looked.
        assert_eq!(rows(&near, &results("a", &[5.0]))[0].change, Change::Regressed);
        let mut gone = at(5.0, 530.0);
        gone.runs[0].points[0].bandwidth = None;
        let missing = rows(&near, &gone);
        assert_eq!((missing[0].new, missing[0].change), (None, Change::Regressed));
    }

    #[test]
    fn connections_are_judged_by_the_interval_of_their_median() {
        let times = |p50_us| bench_record::Distribution { p50_us, ..Default::default() };
        let results = |p50_us: f64, blocks: [f64; 3]| {
            let operation_time = Some(times(p50_us));
            let point = Point { operation_time, blocks: blocks.into(), ..Point::new(1, 1) };
            Results::of(vec![Run::new("a", Benchmark::Connections, vec![point])], Vec::new())
        };
        let (base, new) = ([80.0, 100.0, 120.0], [90.0, 110.0, 130.0]);
        let noisy = rows(&results(100.0, base), &results(110.0, new));
        assert_eq!((noisy[0].figure, noisy[0].change), (Figure::P50, Change::Inconclusive));
    }

    /// What another machine does faster was an improvement, without a word.
    #[test]
    fn files_of_two_machines_are_said_to_be() {
        let on = |name: &str, cores| {
            let mut results = results("a", &[10.0]);
            (results.host.name, results.host.cores) = (name.to_owned(), cores);
            results
        };
        let said = different_machines(&on("db1", 8), &on("db2", 64)).expect("a line");
        assert!(said.ends_with("on db1 (8 cores), the second on db2 (64 cores)\n"), "{said}");
        assert_eq!(said.lines().count(), 1);
        assert_eq!(different_machines(&on("db1", 8), &on("db1", 8)), None);
        assert_eq!(different_machines(&on("", 0), &on("db1", 8)), None);
    }

    /// Shared memory was judged against UDP as if a change of the program had made it fast.
    #[test]
    fn files_of_two_wires_are_said_to_be_and_not_judged() {
        let over = |wire, gbit: f64| {
            let mut results = results("a", &[gbit]);
            results.runs[0].wire = wire;
            results
        };
        let (udp, shm) = (over(Some(Wire::Udp), 1.0), over(Some(Wire::Shm), 9.0));
        let found = rows(&udp, &shm);
        assert_eq!(found[0].change, Change::Inconclusive);
        assert!(found[0].verdict().ends_with(": wires udp and shm"), "{}", found[0].verdict());
        assert!(why_inconclusive(&found).contains("another wire"), "{}", why_inconclusive(&found));
        let said = different_wires(&Pairs::of(&udp, &shm).pairs).expect("a line");
        assert_eq!(said, "OTHER WIRE: the first file went over udp, the second over shm\n");
        // Nobody knows that of the other.
        for other in [over(None, 9.0), over(Some(Wire::Udp), 9.0)] {
            assert_eq!(different_wires(&Pairs::of(&udp, &other).pairs), None);
            assert_eq!(rows(&udp, &other)[0].change, Change::Improved);
        }
        // A file with both has each against its own.
        let both = Results::of([udp.runs, shm.runs].concat(), Vec::new());
        let found = Pairs::of(&both, &both);
        assert!(found.ambiguous.is_empty() && different_wires(&found.pairs).is_none());
        let labels: Vec<&str> = found.pairs.iter().map(|pair| pair.label.as_str()).collect();
        assert_eq!(
            labels,
            ["a, wire udp bandwidth 64 B, depth 1", "a, wire shm bandwidth 64 B, depth 1"]
        );
    }

    #[test]
    fn what_is_missing_counts_as_regressed() {
        let mut new = results("a", &[10.0]);
        new.runs[0].points[0].size_bytes = 65;
        let rows = rows(&results("a", &[10.0]), &new);
        assert_eq!((rows[0].new, rows[0].change), (None, Change::Regressed));
    }
}
