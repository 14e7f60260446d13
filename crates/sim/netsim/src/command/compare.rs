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
    /// It is that of all flows: a run in which some did not end does not show it.
    needs_all: bool,
}

/// A figure of all flows that is better when it is smaller.
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

/// Each point of the first file, with its like in the second. Files of one point each always
/// compare: two transports in one scenario, say.
fn pairs<'a>(base: &'a Results, new: &'a Results) -> Vec<(&'a Point, Option<&'a Point>)> {
    if let ([a], [b]) = (&base.points[..], &new.points[..]) {
        return vec![(a, Some(b))];
    }
    let places = 0..base.points.len();
    places.map(|place| (&base.points[place], like(base, new, place))).collect()
}

/// The point of the second file that has the title and the settings of one in the first. If there
/// are several, those of a file that both have belong together, and of the rest the first ones, the
/// second ones, and so on.
fn like<'a>(base: &Results, new: &'a Results, place: usize) -> Option<&'a Point> {
    let point = &base.points[place];
    let is_like = |p: &&Point| (&p.title, &p.settings) == (&point.title, &point.settings);
    let has_file = |results: &Results, file: &str| {
        results.points.iter().filter(is_like).any(|p| p.file == file)
    };
    let by_file = has_file(new, &point.file);
    let is_rival = |p: &Point, other: &Results| match by_file {
        true => p.file == point.file,
        false => !has_file(other, &p.file),
    };
    let before = base.points[..place].iter().filter(is_like).filter(|p| is_rival(p, new)).count();
    new.points.iter().filter(is_like).filter(|p| is_rival(p, base)).nth(before)
}

/// The runs of both points, by their seeds.
fn both<'a>(base: &'a Point, new: &'a Point) -> Vec<(&'a Run, &'a Run)> {
    let pair = |a: &'a Run| Some((a, new.runs.iter().find(|b| b.seed == a.seed)?));
    base.runs.iter().filter_map(pair).collect()
}

/// The seeds that only one of two points has, in words; `None` if there are none.
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

/// The flows that ended; and the figures of the seeds that both points ran, each over those in
/// which both show it.
fn rows(base: &Point, new: &Point, threshold_percent: Option<f64>) -> Vec<FigureChange> {
    let done = |runs: &[Run]| {
        let sum = |count: fn(&Run) -> usize| runs.iter().map(count).sum::<usize>() as f64;
        if runs.iter().any(|run| run.error.is_some()) {
            0.0
        } else {
            sum(|r| r.done) / sum(|r| r.flows).max(1.0)
        }
    };
    let ended = Metric { better: Better::More, ..of_all("flows done", |_| 0.0) };
    let ended = ended.row(&[(done(&base.runs), done(&new.runs))], 0.0);
    let both = both(base, new);
    let metrics = METRICS.iter().filter_map(|metric| {
        let shown = both.iter().filter_map(|(a, b)| Some((metric.shown(a)?, metric.shown(b)?)));
        let values: Vec<(f64, f64)> = shown.collect();
        let noise_percent = threshold_percent.unwrap_or(NOISE_PERCENT);
        (!values.is_empty()).then(|| metric.row(&values, noise_percent))
    });
    [ended].into_iter().chain(metrics).collect()
}

impl Metric {
    /// Its value in a run; `None` if that does not show it.
    fn shown(&self, run: &Run) -> Option<f64> {
        let summary = run.summary.as_ref().filter(|_| run.is_complete() || !self.needs_all);
        summary.map(self.of)
    }

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

    /// All were paired with the first.
    #[test]
    fn points_that_look_alike_pair_by_file_and_then_by_order() {
        let results = |files: &[&str]| {
            let of = |file: &&str| Point { file: (*file).to_owned(), ..point("x", &[1.0]) };
            Results::new(files.iter().map(of).collect())
        };
        let found = |base: &[&str], new: &[&str]| -> Vec<String> {
            let (base, new) = (results(base), results(new));
            let name = |point: Option<&Point>| point.map_or_else(String::new, |p| p.file.clone());
            pairs(&base, &new).into_iter().map(|(_, new)| name(new)).collect()
        };
        assert_eq!(found(&["a", "b"], &["b", "a"]), ["a", "b"]);
        assert_eq!(found(&["a", "b"], &["x/a", "x/b"]), ["x/a", "x/b"]);
        assert_eq!(found(&["b", "a", "d"], &["a", "c"]), ["c", "a", ""]);
        let mut twice = results(&["a", "a"]);
        twice.points[1].runs[0].done = 3;
        let pairs = pairs(&twice, &twice);
        assert!(pairs.iter().all(|(base, new)| Some(*base) == *new), "{pairs:?}");
    }

    /// Only how many flows had ended was compared.
    #[test]
    fn seeds_that_only_one_point_has_are_named() {
        let (base, mut new) = (point("a", &[1.0, 1.0, 1.0]), point("a", &[1.0]));
        assert_eq!(lone_seeds(&base, &base), None);
        assert_eq!(lone_seeds(&base, &new).unwrap(), "seeds 2, 3 only in the first");
        new.runs[0].seed = 9;
        assert!(both(&base, &new).is_empty());
        let lone = "seeds 1, 2, 3 only in the first, seed 9 only in the second";
        assert_eq!(lone_seeds(&base, &new).unwrap(), lone);
    }

    /// A run that lost its slowest flows was an improvement.
    #[test]
    fn figures_of_all_flows_are_those_of_runs_that_ended() {
        let base = point("a", &[4.0, 4.0]);
        let mut new = point("a", &[4.0, 1.0]);
        new.runs[1].done = 3;
        let of = |rows: &[FigureChange], figure: &str| {
            rows.iter().find(|row| row.figure == figure).map(|row| (row.base, row.new))
        };
        let both_ended = rows(&base, &new, None);
        assert_eq!(of(&both_ended, "max/ideal"), Some((4.0, 4.0)), "of the first seed");
        new.runs[0].done = 3;
        let none_ended = rows(&base, &new, None);
        let figures: Vec<&str> = none_ended.iter().map(|row| row.figure).collect();
        assert_eq!(figures, ["flows done", "sent/needed"]);
    }
}
