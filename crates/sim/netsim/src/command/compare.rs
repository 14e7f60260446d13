//! `netsim compare`: two result files, point by point, with a verdict for CI.

#[cfg(test)]
mod tests;

use crate::cli::CompareArgs;
use crate::command::record::{Point, Results, Run};
use crate::command::{Verdict, print, print_line};
use anyhow::{Result, ensure};
use netsim::Summary;
use report::{Better, Change, Interval, Table, middle_interval};

/// Default threshold: smaller changes, in percent, are noise, whatever the seeds say.
const NOISE_PERCENT: f64 = 2.0;
/// Factor by which a single seed must be worse to be a regression, whatever became of the others. A
/// run repeats to the packet, so this is no accident of measuring.
const SEED_FACTOR: f64 = 2.0;

/// A figure that is compared. All but fairness are better when they are smaller.
struct Metric {
    name: &'static str,
    of: fn(&Summary) -> f64,
    better: Better,
    /// Whether it is a figure of all flows: a run in which some did not end does not show it.
    needs_all: bool,
}

/// Creates a figure of all flows that is better when it is smaller.
const fn of_all(name: &'static str, of: fn(&Summary) -> f64) -> Metric {
    Metric { name, of, better: Better::Less, needs_all: true }
}

const METRICS: [Metric; 5] = [
    of_all("max/ideal", |s| s.max_to_ideal),
    of_all("mean/ideal", |s| s.mean_to_ideal),
    of_all("p99 us", |s| s.p99_us),
    // Few repeated packets against fewer is no news; what is sent for what is needed may be.
    Metric { needs_all: false, ..of_all("sent/needed", |s| 1.0 + s.repeated_percent / 100.0) },
    Metric { better: Better::More, ..of_all("Jain", |s| s.jain) },
];

/// Runs the command. The verdict is bad when something regressed or is missing.
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
    let mut notes = Vec::new();
    for (base, new) in pairs {
        let name = base.name();
        let lone = new.and_then(|new| lone_seeds(base, new));
        notes.extend(lone.map(|seeds| format!("{name}: {seeds}")));
        let Some(new) = new.filter(|new| !both(base, new).is_empty()) else {
            let what = if new.is_some() { "every seed" } else { "-" };
            table.push(vec![name, what.to_owned(), "MISSING".to_owned()]);
            count(Change::Regressed);
            continue;
        };
        for row in rows(base, new, args.threshold) {
            count(row.change);
            table.push(row.cells(&name));
        }
    }
    print(&table.text())?;
    notes.iter().try_for_each(|note| print_line(note))?;
    let [improved, same, regressed, inconclusive] = counts;
    let doubts =
        if inconclusive > 0 { format!(", {inconclusive} inconclusive") } else { String::new() };
    print_line(&format!(
        "{improved} improved, {same} the same, {regressed} regressed or missing{doubts}"
    ))?;
    Ok(Verdict::of(regressed == 0))
}

/// Pairs each point of the first file with its match in the second. Files of one point each always
/// compare: two transports in one scenario, say.
fn pairs<'a>(base: &'a Results, new: &'a Results) -> Vec<(&'a Point, Option<&'a Point>)> {
    if let ([a], [b]) = (&base.points[..], &new.points[..]) {
        return vec![(a, Some(b))];
    }
    let places = 0..base.points.len();
    places.map(|place| (&base.points[place], like(base, new, place))).collect()
}

/// Finds the point of the second file that has the title and the settings of one in the first. If
/// there are several, those of a file that both have belong together, and of the rest the first
/// ones, the second ones, and so on.
fn like<'a>(base: &Results, new: &'a Results, place: usize) -> Option<&'a Point> {
    let point = &base.points[place];
    let is_like = |p: &&Point| (&p.title, &p.settings) == (&point.title, &point.settings);
    let has_file = |results: &Results, file: &str| {
        results.points.iter().filter(is_like).any(|p| p.file == file)
    };
    let by_file = has_file(new, &point.file);
    let is_rival = |p: &Point, other: &Results| {
        if by_file { p.file == point.file } else { !has_file(other, &p.file) }
    };
    let before = base.points[..place].iter().filter(is_like).filter(|p| is_rival(p, new)).count();
    new.points.iter().filter(is_like).filter(|p| is_rival(p, base)).nth(before)
}

/// Returns the runs of both points, by their seeds.
fn both<'a>(base: &'a Point, new: &'a Point) -> Vec<(&'a Run, &'a Run)> {
    let pair = |a: &'a Run| Some((a, new.runs.iter().find(|b| b.seed == a.seed)?));
    base.runs.iter().filter_map(pair).collect()
}

/// Returns the seeds that only one of two points has, in words; `None` if there are none.
fn lone_seeds(base: &Point, new: &Point) -> Option<String> {
    let only = |of: &Point, other: &Point, file: &str| {
        let lone = of.runs.iter().filter(|a| other.runs.iter().all(|b| b.seed != a.seed));
        let seeds: Vec<String> = lone.map(|run| run.seed.to_string()).collect();
        let word = if seeds.len() == 1 { "seed" } else { "seeds" };
        (!seeds.is_empty()).then(|| format!("{word} {} only in the {file}", seeds.join(", ")))
    };
    let texts = [only(base, new, "first"), only(new, base, "second")];
    let texts: Vec<String> = texts.into_iter().flatten().collect();
    (!texts.is_empty()).then(|| texts.join(", "))
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
    /// Interval of the ratios of the seeds.
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

/// Compares the seeds that both points ran: the flows that ended, and the figures, each over those
/// seeds in which both show it.
fn rows(base: &Point, new: &Point, threshold_percent: Option<f64>) -> Vec<FigureChange> {
    let both = both(base, new);
    let (base_runs, new_runs): (Vec<&Run>, Vec<&Run>) = both.iter().copied().unzip();
    let done = |runs: &[&Run]| {
        let sum =
            |count: fn(&Run) -> usize| runs.iter().map(|run| count(run)).sum::<usize>() as f64;
        if runs.iter().any(|run| run.error.is_some()) {
            0.0
        } else {
            sum(|r| r.done) / sum(|r| r.flows).max(1.0)
        }
    };
    let ended = Metric { better: Better::More, ..of_all("flows done", |_| 0.0) };
    let ended = ended.row(&[(done(&base_runs), done(&new_runs))], 0.0);
    let metrics = METRICS.iter().filter_map(|metric| {
        let shown = both.iter().filter_map(|(a, b)| Some((metric.shown(a)?, metric.shown(b)?)));
        let values: Vec<(f64, f64)> = shown.collect();
        let noise_percent = threshold_percent.unwrap_or(NOISE_PERCENT);
        (!values.is_empty()).then(|| metric.row(&values, noise_percent))
    });
    [ended].into_iter().chain(metrics).collect()
}

impl Metric {
    /// Returns its value in a run; `None` if that does not show it.
    fn shown(&self, run: &Run) -> Option<f64> {
        let summary = run.summary.as_ref().filter(|_| run.is_complete() || !self.needs_all);
        summary.map(self.of)
    }

    /// Compares the values that each seed had before and has now: the means, and the uncertainty of
    /// the ratios of the seeds, each with itself.
    fn row(&self, values: &[(f64, f64)], noise_percent: f64) -> FigureChange {
        let mean = |pick: fn(&(f64, f64)) -> f64| {
            values.iter().map(pick).sum::<f64>() / values.len() as f64
        };
        let (base, new) = (mean(|v| v.0), mean(|v| v.1));
        let ratios: Vec<f64> =
            values.iter().map(|(a, b)| b / a).filter(|r| r.is_finite()).collect();
        let ratio = middle_interval(&ratios);
        let change = match Change::of(base, new, self.better, noise_percent, ratio) {
            _ if self.has_worse_seeds(values, (base, new), noise_percent) => Change::Regressed,
            change => change,
        };
        FigureChange { figure: self.name, change, base, new, ratio, noise_percent }
    }

    /// Returns whether the seeds show a regression that the interval of their ratios may hide,
    /// because some of them did not change: their mean is worse and none of them is better, or one
    /// of them is much worse.
    fn has_worse_seeds(
        &self,
        values: &[(f64, f64)],
        means: (f64, f64),
        noise_percent: f64,
    ) -> bool {
        let noise = 1.0 + noise_percent / 100.0;
        let worsening = |&(base, new): &(f64, f64)| match self.better {
            _ if base == new => 1.0,
            Better::Less => new / base,
            Better::More => base / new,
        };
        let none_is_better = values.iter().all(|seed| worsening(seed) * noise >= 1.0);
        let much = SEED_FACTOR.max(noise);
        none_is_better && worsening(&means) > noise
            || values.iter().map(worsening).any(|w| w > much)
    }
}
