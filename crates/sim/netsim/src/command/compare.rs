//! `netsim compare`: two result files, point by point, with a verdict for CI.

use crate::cli::CompareArgs;
use crate::command::record::{Point, Results, Run};
use crate::command::{Verdict, print, print_line};
use anyhow::{Result, ensure};
use netsim::Summary;
use report::{Better, Change, Interval, Table, middle_interval};

/// Changes up to this many percent are noise, whatever the seeds say, unless told otherwise.
const NOISE_PERCENT: f64 = 2.0;

/// A figure that is compared. All but fairness are better when they are smaller.
struct Metric {
    name: &'static str,
    of: fn(&Summary) -> f64,
    better: Better,
}

const METRICS: [Metric; 5] = [
    Metric { name: "max/ideal", of: |s| s.max_to_ideal, better: Better::Less },
    Metric { name: "mean/ideal", of: |s| s.mean_to_ideal, better: Better::Less },
    Metric { name: "p99 us", of: |s| s.p99_us, better: Better::Less },
    // Few repeated packets against fewer is no news; what is sent for what is needed may be.
    Metric { name: "sent/needed", of: |s| 1.0 + s.repeated_percent / 100.0, better: Better::Less },
    Metric { name: "Jain", of: |s| s.jain, better: Better::More },
];

/// Bad when something regressed or is missing.
pub(crate) fn run(args: &CompareArgs) -> Result<Verdict> {
    let (base, new) = (Results::read(&args.base)?, Results::read(&args.new)?);
    let pairs = pairs(&base, &new);
    ensure!(
        pairs.iter().any(|(_, new)| new.is_some()),
        "the files have no point in common: {} has {}, {} has {}",
        args.base.display(),
        names(&base),
        args.new.display(),
        names(&new)
    );
    let mut table = Table::new(
        "Change from the first to the second",
        &["point", "figure", "verdict", "first", "second", "ratio", "95 % of it", "noise"],
        3,
    );
    let mut counts = [0; 4];
    let mut count = |change: Change| counts[change as usize] += 1;
    for (base, new) in pairs {
        let name = base.name();
        let Some(new) = new else {
            table.push(vec![name, "-".to_owned(), "MISSING".to_owned()]);
            count(Change::Regressed);
            continue;
        };
        for row in rows(base, new, args.threshold) {
            count(row.change);
            table.push(row.cells(&name));
        }
    }
    print(&table.text())?;
    let [improved, same, regressed, inconclusive] = counts;
    let doubts =
        if inconclusive > 0 { format!(", {inconclusive} inconclusive") } else { String::new() };
    print_line(&format!(
        "{improved} improved, {same} the same, {regressed} regressed or missing{doubts}"
    ))?;
    Ok(Verdict::of(regressed == 0))
}

/// Each point of the first file, with its like in the second. Files of one point each always
/// compare: two transports in one scenario, say.
fn pairs<'a>(base: &'a Results, new: &'a Results) -> Vec<(&'a Point, Option<&'a Point>)> {
    if let ([a], [b]) = (&base.points[..], &new.points[..]) {
        return vec![(a, Some(b))];
    }
    let like =
        |a: &Point| new.points.iter().find(|b| (&a.title, &a.settings) == (&b.title, &b.settings));
    base.points.iter().map(|a| (a, like(a))).collect()
}

fn names(results: &Results) -> String {
    let names: Vec<String> = results.points.iter().map(|p| format!("\"{}\"", p.name())).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// A line of the table.
struct FigureChange {
    figure: &'static str,
    change: Change,
    base: f64,
    new: f64,
    /// Of the seeds' ratios.
    ratio: Option<Interval>,
    noise_percent: f64,
}

impl FigureChange {
    fn cells(&self, point: &str) -> Vec<String> {
        vec![
            point.to_owned(),
            self.figure.to_owned(),
            self.change.word().to_owned(),
            report::significant(self.base),
            report::significant(self.new),
            format!("{:.3}", self.new / self.base),
            self.ratio.map_or_else(|| "-".to_owned(), |r| format!("{:.3} to {:.3}", r.low, r.high)),
            format!("{:.1} %", self.noise_percent),
        ]
    }
}

/// The figures of the seeds that both points ran and that ended; and the flows that ended.
fn rows(base: &Point, new: &Point, threshold_percent: Option<f64>) -> Vec<FigureChange> {
    let both: Vec<(&Run, &Run)> = base
        .runs
        .iter()
        .filter_map(|a| Some((a, new.runs.iter().find(|b| b.seed == a.seed)?)))
        .collect();
    let done = |runs: &[Run]| {
        let sum = |count: fn(&Run) -> usize| runs.iter().map(count).sum::<usize>() as f64;
        if runs.iter().any(|run| run.error.is_some()) {
            0.0
        } else {
            sum(|r| r.done) / sum(|r| r.flows).max(1.0)
        }
    };
    let ended = Metric { name: "flows done", of: |_| 0.0, better: Better::More };
    let ended = ended.row(&[(done(&base.runs), done(&new.runs))], 0.0);
    let summaries: Vec<(&Summary, &Summary)> =
        both.iter().filter_map(|(a, b)| a.summary.as_ref().zip(b.summary.as_ref())).collect();
    let metrics = METRICS.iter().filter(|_| !summaries.is_empty()).map(|metric| {
        let of = |(a, b): &(&Summary, &Summary)| ((metric.of)(a), (metric.of)(b));
        let values: Vec<(f64, f64)> = summaries.iter().map(of).collect();
        metric.row(&values, threshold_percent.unwrap_or(NOISE_PERCENT))
    });
    [ended].into_iter().chain(metrics).collect()
}

impl Metric {
    /// Of what each seed had before and has now: the means, and what the ratios of the seeds, each
    /// with itself, leave open.
    fn row(&self, values: &[(f64, f64)], noise_percent: f64) -> FigureChange {
        let mean = |pick: fn(&(f64, f64)) -> f64| {
            values.iter().map(pick).sum::<f64>() / values.len() as f64
        };
        let (base, new) = (mean(|v| v.0), mean(|v| v.1));
        let ratios: Vec<f64> =
            values.iter().map(|(a, b)| b / a).filter(|r| r.is_finite()).collect();
        let ratio = middle_interval(&ratios);
        let change = Change::of(base, new, self.better, noise_percent, ratio);
        FigureChange { figure: self.name, change, base, new, ratio, noise_percent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(title: &str, max_to_ideal: &[f64]) -> Point {
        let run = |(seed, &max_to_ideal): (u64, &f64)| Run {
            flows: 4,
            done: 4,
            summary: Some(Summary { max_to_ideal, ..summary() }),
            ..Run::failed(seed, String::new())
        };
        let runs = (1..).zip(max_to_ideal).map(run).map(|run| Run { error: None, ..run });
        Point { title: title.to_owned(), runs: runs.collect(), ..Point::default() }
    }

    fn summary() -> Summary {
        let text = "{\"done\":4,\"min_us\":1,\"mean_us\":1,\"p50_us\":1,\"p99_us\":1,\"max_us\":1,\
            \"min_to_ideal\":1,\"mean_to_ideal\":1,\"max_to_ideal\":1,\"repeated_percent\":0,\"jain\":1}";
        serde_json::from_str(text).unwrap()
    }

    fn changes(base: &Point, new: &Point, threshold: Option<f64>) -> Vec<Change> {
        rows(base, new, threshold).iter().map(|row| row.change).collect()
    }

    #[test]
    fn changes_beyond_the_noise_are_told() {
        let base = point("a", &[1.0, 1.1, 1.2]);
        let all_same = changes(&base, &base, None);
        assert_eq!(all_same, [Change::Same; 6]);
        let worse = point("a", &[1.1, 1.21, 1.32]);
        assert_eq!(changes(&base, &worse, None)[1], Change::Regressed);
        assert_eq!(changes(&worse, &base, None)[1], Change::Improved);
        assert_eq!(changes(&base, &worse, Some(11.0))[1], Change::Same);
        let noisy = point("a", &[1.3, 0.9, 1.4]);
        assert_eq!(changes(&base, &noisy, None)[1], Change::Inconclusive, "the seeds disagree");
    }

    #[test]
    fn a_flow_that_does_not_end_is_a_regression() {
        let base = point("a", &[1.0]);
        let mut new = base.clone();
        new.runs[0].done = 3;
        assert_eq!(changes(&base, &new, Some(50.0))[0], Change::Regressed);
        new.runs[0] = Run::failed(1, "broken".to_owned());
        assert_eq!(changes(&base, &new, Some(50.0)), [Change::Regressed]);
    }

    #[test]
    fn points_pair_by_what_they_are() {
        let results = |points| Results::new(points);
        let (a, b) = (
            results(vec![point("x", &[1.0]), point("y", &[1.0])]),
            results(vec![point("y", &[1.0])]),
        );
        let found: Vec<bool> = pairs(&a, &b).iter().map(|(_, new)| new.is_some()).collect();
        assert_eq!(found, [false, true]);
        let other = results(vec![point("z", &[1.0])]);
        assert!(pairs(&b, &other)[0].1.is_some(), "one point each");
    }
}
