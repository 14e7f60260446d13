//! Results of a sweep as a table and as CSV.

use crate::command::record::{Point, Results, Run};
use netsim::Summary;
use report::{Table, csv_line};

/// Columns of figures; the names of settings come before them.
const FIGURES: [&str; 10] = [
    "seeds",
    "done",
    "mean us",
    "p99 us",
    "max us",
    "max/ideal",
    "worst",
    "repeated %",
    "Jain",
    "lost",
];
const CSV_FIGURES: [&str; 19] = [
    "seed",
    "flows",
    "done",
    "lost_packets",
    "min_us",
    "mean_us",
    "p50_us",
    "p99_us",
    "max_us",
    "min_to_ideal",
    "mean_to_ideal",
    "p50_to_ideal",
    "p99_to_ideal",
    "max_to_ideal",
    "goodput_percent",
    "repeated_percent",
    "jain",
    "digest",
    "error",
];

/// Returns the fields that were set in any point, in order of appearance.
fn fields(results: &Results) -> Vec<&str> {
    let mut fields: Vec<&str> = Vec::new();
    for (field, _) in results.points.iter().flat_map(|point| &point.settings) {
        if !fields.contains(&field.as_str()) {
            fields.push(field);
        }
    }
    fields
}

/// Returns the values of the fields, empty where a point does not set one.
fn values(point: &Point, fields: &[&str]) -> Vec<String> {
    let value = |field: &&str| point.settings.iter().find(|(name, _)| name == field);
    fields.iter().map(|field| value(field).map_or_else(String::new, |(_, v)| v.clone())).collect()
}

/// Returns a row per point: means over its seeds, and the worst of them.
pub(super) fn table(results: &Results) -> Table {
    let fields = fields(results);
    let many = results.points.iter().any(|point| point.file != results.points[0].file);
    let by_file = many || fields.is_empty();
    let mut titles = if by_file { vec!["scenario"] } else { Vec::new() };
    titles.extend(&fields);
    let text_columns = titles.len();
    titles.extend(FIGURES);
    let judged = results.points.iter().any(|point| !point.expected.is_empty());
    titles.extend(judged.then_some("expected"));
    let mut table = Table::new("Means over seeds", &titles, text_columns);
    for point in &results.points {
        let mut row = if by_file { vec![point.file.clone()] } else { Vec::new() };
        row.extend(values(point, &fields));
        row.extend(figures(point));
        row.extend(judged.then(|| point.verdict().to_owned()));
        table.push(row);
    }
    table
}

fn figures(point: &Point) -> Vec<String> {
    let sum = |count: fn(&Run) -> u64| -> u64 { point.runs.iter().map(count).sum() };
    let (done, flows) = (sum(|run| run.done as u64), sum(|run| run.flows as u64));
    let summaries: Vec<&Summary> =
        point.runs.iter().filter_map(|run| run.summary.as_ref()).collect();
    let mut row = vec![seeds_that_ran(point), format!("{done}/{flows}")];
    if summaries.is_empty() {
        row.resize(FIGURES.len() - 1, "-".to_owned());
    } else {
        let mean = |value: fn(&Summary) -> f64| {
            summaries.iter().map(|s| value(s)).sum::<f64>() / summaries.len() as f64
        };
        let worst = summaries.iter().map(|s| s.max_to_ideal).fold(0.0, f64::max);
        // Flows that have not ended would be the slowest, and a run that failed counts none.
        let is_complete = point.is_complete();
        let of_all = |text: String| if is_complete { text } else { "-".to_owned() };
        let us = [mean(|s| s.mean_us), mean(|s| s.p99_us), mean(|s| s.max_us)];
        row.extend(us.map(|value| of_all(format!("{value:.1}"))));
        let ratios = [mean(|s| s.max_to_ideal), worst];
        row.extend(ratios.map(|value| of_all(format!("{value:.3}"))));
        row.push(format!("{:.2}", mean(|s| s.repeated_percent)));
        row.push(of_all(format!("{:.3}", mean(|s| s.jain))));
    }
    row.push(sum(|run| run.lost_packets).to_string());
    row
}

/// Returns how many seeds ran; "2/3" where one of three failed.
fn seeds_that_ran(point: &Point) -> String {
    let all = point.runs.len();
    let ran = point.runs.iter().filter(|run| run.error.is_none()).count();
    if ran == all { all.to_string() } else { format!("{ran}/{all}") }
}

/// Returns a line per run, with empty cells for what a run does not have.
pub(super) fn csv(results: &Results) -> String {
    let seeds = seeds(results);
    let titles: Vec<&str> = seeds.columns.iter().map(|column| column.title.as_str()).collect();
    let rows = seeds.rows.iter().map(|row| csv_line(row));
    [csv_line(&titles)].into_iter().chain(rows).collect()
}

/// Returns a row per run with everything that is known of it.
pub(super) fn seeds(results: &Results) -> Table {
    let fields = fields(results);
    let titles: Vec<&str> =
        ["scenario"].iter().chain(&fields).chain(&CSV_FIGURES).copied().collect();
    let mut table = Table::new("Every run", &titles, 1 + fields.len());
    for point in &results.points {
        for run in &point.runs {
            let mut row = vec![point.file.clone()];
            row.extend(values(point, &fields));
            row.extend(cells(run));
            table.push(row);
        }
    }
    table
}

/// Returns the cells of [`CSV_FIGURES`].
fn cells(run: &Run) -> Vec<String> {
    let counts = [run.seed, run.flows as u64, run.done as u64, run.lost_packets];
    let figure = |value: fn(&Summary) -> f64| {
        run.summary.as_ref().map_or_else(String::new, |summary| value(summary).to_string())
    };
    let figures = [
        figure(|s| s.min_us),
        figure(|s| s.mean_us),
        figure(|s| s.p50_us),
        figure(|s| s.p99_us),
        figure(|s| s.max_us),
        figure(|s| s.min_to_ideal),
        figure(|s| s.mean_to_ideal),
        figure(|s| s.p50_to_ideal),
        figure(|s| s.p99_to_ideal),
        figure(|s| s.max_to_ideal),
        figure(|s| s.goodput_percent),
        figure(|s| s.repeated_percent),
        figure(|s| s.jain),
    ];
    let texts = [run.digest.clone(), run.error.clone()].map(Option::unwrap_or_default);
    counts.map(|count| count.to_string()).into_iter().chain(figures).chain(texts).collect()
}
