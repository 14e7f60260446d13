//! The page of `netsim sweep --html`: each parameter with its effects on the figures.

use super::output;
use super::parameter::{Parameter, scale_of};
use crate::command::judge;
use crate::command::page::{describe, line};
use crate::command::record::{Point, Results, Run};
use netsim::Summary;
use report::{Axis, Chart, Page, Scale, Section, Series, Stroke, Table};

/// Maximum number of lines of a chart: more cannot be told apart.
const LINES_MAX: usize = 12;
/// Maximum number of runs that are named as warnings.
const WARNINGS_MAX: usize = 8;
/// Maximum number of points that are named as not ranked.
const NAMES_MAX: usize = 8;

/// A figure that is drawn. It may be unknown for a run in which flows are open.
struct Figure {
    title: &'static str,
    axis: &'static str,
    of: fn(&Summary) -> f64,
    needs_all: bool,
}

const FIGURES: [Figure; 3] = [
    Figure {
        title: "Slowest flow over the best possible time",
        axis: "max/ideal",
        of: |s| s.max_to_ideal,
        needs_all: true,
    },
    Figure {
        title: "99th percentile of completion times",
        axis: "p99 (µs)",
        of: |s| s.p99_us,
        needs_all: true,
    },
    Figure {
        title: "Packets sent again",
        axis: "repeated (percent)",
        of: |s| s.repeated_percent,
        needs_all: false,
    },
];

/// Builds the page of a sweep.
pub(super) fn page(results: &Results) -> Page {
    let parameters = Parameter::all(results);
    let fields: Vec<&str> = parameters.iter().map(|parameter| parameter.field.as_str()).collect();
    let failures: Vec<String> = results.points.iter().flat_map(Point::failures).collect();
    let more = failures.len().saturating_sub(WARNINGS_MAX);
    let mut warnings: Vec<String> = failures.into_iter().take(WARNINGS_MAX).collect();
    warnings.extend((more > 0).then(|| format!("and {more} more")));
    let mut sections = Vec::new();
    for parameter in &parameters {
        sections
            .extend(FIGURES.iter().filter_map(|of| section(of, parameter, &parameters, results)));
    }
    sections.push(runs(results, &parameters));
    Page {
        title: format!("Sweep over {}", fields.join(", ")),
        summary: summary(results, &parameters),
        warnings,
        facts: vec![
            ("Program".to_owned(), format!("netsim {}", results.netsim)),
            ("Command".to_owned(), results.command.clone()),
        ],
        sections,
    }
}

/// Returns how many runs there are, which point is best and which worst, and how many meet the
/// expectations.
fn summary(results: &Results, parameters: &[Parameter]) -> Vec<String> {
    let points = &results.points;
    let runs: usize = points.iter().map(|point| point.runs.len()).sum();
    let mut texts = vec![format!("{} points, {runs} runs.", points.len())];
    let (ranked, others): (Vec<&Point>, Vec<&Point>) =
        points.iter().partition(|point| point.is_complete());
    let rated = || ranked.iter().filter_map(|&p| Some((mean(&values(&FIGURES[0], p))?, p)));
    let best = rated().min_by(|a, b| a.0.total_cmp(&b.0));
    let worst = rated().max_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((best, worst)) = best.zip(worst).filter(|_| ranked.len() > 1) {
        texts.push(format!(
            "The slowest flow takes least with {} ({:.3} times the best possible time), most with {} \
             ({:.3} times).",
            label(best.1, parameters),
            best.0,
            label(worst.1, parameters),
            worst.0
        ));
    }
    let mut names: Vec<String> =
        others.iter().take(NAMES_MAX).map(|point| label(point, parameters)).collect();
    let more = others.len() - names.len();
    names.extend((more > 0).then(|| format!("and {more} more")));
    if !names.is_empty() {
        let names = names.join("; ");
        texts.push(format!("Not ranked, because a run failed or flows did not end: {names}."));
    }
    texts.extend(judge::tally(points.iter()).map(|tally| format!("Points and their {tally}.")));
    texts
}

/// Returns the label that distinguishes a point from the others.
fn label(point: &Point, parameters: &[Parameter]) -> String {
    let setting = |of: &Parameter| format!("{}={}", of.field, of.value(point));
    parameters.iter().map(setting).collect::<Vec<_>>().join(", ")
}

/// Shows the effect of a parameter on a figure; `None` when no run shows it.
fn section(
    figure: &Figure,
    parameter: &Parameter,
    parameters: &[Parameter],
    results: &Results,
) -> Option<Section> {
    let others: Vec<&Parameter> = parameters.iter().filter(|other| *other != parameter).collect();
    let lines = lines(&others, results);
    let mut series = Vec::new();
    for (look, (name, points)) in lines.iter().take(LINES_MAX).enumerate() {
        series.extend(series_of(figure, parameter, look, name, points));
    }
    let shown: Vec<f64> =
        series.iter().flat_map(|line| line.points.iter().map(|point| point.1)).collect();
    shown.first()?;
    let y_scale = if figure.needs_all { scale_of(&shown) } else { Scale::Linear };
    let means: Vec<Series> =
        series.iter().filter(|line| line.stroke != Stroke::Spread).cloned().collect();
    let mut text = vec![
        "Large marks are means over the seeds, small ones single seeds. Runs in which flows did not \
         end are left out, and a point with such a run has no mean."
            .to_owned(),
    ];
    if !others.is_empty() {
        let fields: Vec<&str> = others.iter().map(|other| other.field.as_str()).collect();
        text.push(format!("One line for each value of {}.", fields.join(" and ")));
    }
    if lines.len() > LINES_MAX {
        let all = lines.len();
        text.push(format!("The first {LINES_MAX} of {all} lines; the table below has all points."));
    }
    Some(Section {
        title: format!("{} over {}", figure.axis, parameter.field),
        text,
        chart: Some(Chart {
            title: figure.title.to_owned(),
            description: describe(&means, figure.axis),
            x: parameter.axis(),
            y: Axis { label: figure.axis.to_owned(), scale: y_scale },
            series,
        }),
        ..Section::default()
    })
}

/// Groups points that differ in one parameter only, by the values that they have of the `others`.
fn lines<'a>(others: &[&Parameter], results: &'a Results) -> Vec<(String, Vec<&'a Point>)> {
    let mut lines: Vec<(String, Vec<&Point>)> = Vec::new();
    for point in &results.points {
        let values: Vec<&str> = others.iter().map(|other| other.value(point)).collect();
        let name = values.join(", ");
        match lines.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push(point),
            None => lines.push((name, vec![point])),
        }
    }
    lines
}

/// Returns the means of the points of which all runs show the figure, and single seeds: where there
/// are several, and where some of them would have to speak for the others.
fn series_of(
    figure: &Figure,
    parameter: &Parameter,
    look: usize,
    name: &str,
    points: &[&Point],
) -> Vec<Series> {
    let place = |point: &&Point| {
        let (x, values) = (parameter.place(point)?, values(figure, point));
        let is_whole = values.len() == point.runs.len();
        Some((x, values, is_whole))
    };
    let mut placed: Vec<(f64, Vec<f64>, bool)> = points.iter().filter_map(place).collect();
    placed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let whole = placed.iter().filter(|(_, _, is_whole)| *is_whole);
    let means = whole.filter_map(|(x, values, _)| Some((*x, mean(values)?))).collect();
    let name = if name.is_empty() { "mean" } else { name };
    let means = line(name, look, Stroke::Solid, means);
    let singles = placed.iter().flat_map(|(x, values, _)| values.iter().map(|value| (*x, *value)));
    let singles = line(&format!("{name}, single seeds"), look, Stroke::Spread, singles.collect());
    let several = placed.iter().any(|(_, values, is_whole)| values.len() > 1 || !is_whole);
    let lines = [means].into_iter().chain(several.then_some(singles));
    lines.filter(|line| !line.points.is_empty()).collect()
}

/// Returns the figure of each run that shows it.
fn values(figure: &Figure, point: &Point) -> Vec<f64> {
    let known = |run: &&Run| run.is_complete() || !figure.needs_all;
    let summaries = point.runs.iter().filter(known).filter_map(|run| run.summary.as_ref());
    summaries.map(figure.of).collect()
}

/// Returns the mean; `None` for no values.
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Lists all points in numbers, and how to repeat them.
fn runs(results: &Results, parameters: &[Parameter]) -> Section {
    let points = &results.points;
    let mut details: Vec<(String, String)> = Vec::new();
    for point in points {
        if details.iter().all(|(file, _)| *file != point.file) {
            details.push((point.file.clone(), point.scenario.clone()));
        }
    }
    Section {
        title: "All points".to_owned(),
        text: vec![
            "The same scenario, settings and seed give the same run on every machine, to the last \
             packet. Scenarios are shown with the settings of their first point."
                .to_owned(),
        ],
        tables: [output::table(results)].into_iter().chain(missed(results, parameters)).collect(),
        data: vec![output::seeds(results)],
        commands: points.iter().map(Point::sweep_command).collect(),
        details,
        ..Section::default()
    }
}

/// Lists the bounds that points miss; `None` when there are none.
fn missed(results: &Results, parameters: &[Parameter]) -> Option<Table> {
    let mut table = Table::new("Expectations that are missed", &["point", "what"], 2);
    for point in &results.points {
        let name = label(point, parameters);
        point.missed().for_each(|missed| table.push(vec![name.clone(), missed.to_owned()]));
    }
    (!table.rows.is_empty()).then_some(table)
}
