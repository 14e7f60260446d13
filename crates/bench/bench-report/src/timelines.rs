//! The course of windows: operations and their times over a window in which much less was done than
//! usual for some time, or which was watched.

use bench_record::{Point, Run, Timeline};
use report::{Axis, Chart, LOOKS, Layout, Scale, Section, Series, Stroke, Table, significant};

use crate::page::{describe, row_name};
use crate::settings;

/// The number of windows that are drawn; all others are rows.
const SHOWN_MAX: usize = 2;
/// Windows longer than this are shown in seconds.
const SECONDS_FROM_MS: f64 = 2_000.0;

/// A window with its course.
struct Watched<'a> {
    run: &'a Run,
    timeline: &'a Timeline,
    /// For example "rpc 32 B, depth 8".
    what: String,
    row: String,
}

/// Returns all windows, those that lost the greatest part of their window first.
fn watched(runs: &[Run]) -> Vec<Watched<'_>> {
    let one = |number: usize, run, index, point: &'_ Point| {
        let what = settings::words(&settings::of(run, point));
        let what = format!("{} {what}", run.kind());
        (what, row_name(number, index))
    };
    let mut all = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        for (index, point) in run.points.iter().enumerate() {
            let Some(timeline) = &point.timeline else { continue };
            let (what, row) = one(number, run, index, point);
            all.push(Watched { run, timeline, what, row });
        }
    }
    let lost = |own: &Watched<'_>| {
        let window_ms = own.timeline.part_ms * own.timeline.operations.len() as f64;
        own.timeline.lost_ms() / window_ms.max(f64::MIN_POSITIVE)
    };
    all.sort_by(|a, b| lost(b).total_cmp(&lost(a)));
    all
}

/// Returns charts of the worst windows side by side, and a list of all; `names` determines the
/// colours.
pub(crate) fn sections(runs: &[Run], names: &[&str]) -> Vec<Section> {
    let all = watched(runs);
    let mut sections: Vec<Section> =
        all.iter().take(SHOWN_MAX).flat_map(|own| charts(own, names)).collect();
    let titles = ["fabric", "what", "from ms", "lasts ms", "least, % of usual", "usual/s"];
    let caption = "Times of less than half of the usual operations: of each point the longest one";
    let mut table = Table::new(caption, &titles, 2);
    for own in &all {
        let Some(slump) = own.timeline.slump() else { continue };
        table.links.push((table.rows.len(), 1, own.row.clone()));
        table.push(vec![
            own.run.name.clone(),
            own.what.clone(),
            significant(slump.from_ms),
            significant(slump.lasts_ms),
            significant(slump.least_percent),
            significant(usual_per_s(own.timeline)),
        ]);
    }
    if !table.rows.is_empty() {
        let text = "Each window is kept in parts of equal length; of several blocks the one that lost most is \
            told here, while the middle one is what all figures are from. A slump is a fault, a phase of the \
            machine, or another program: what it is nobody can tell from inside."
            .to_owned();
        let title = "Slumps while it was measured".to_owned();
        let (text, tables) = (vec![text], vec![table]);
        sections.push(Section {
            title,
            text,
            tables,
            layout: Layout::Folded,
            ..Section::default()
        });
    }
    sections
}

/// Returns the operations a second of the middle part.
fn usual_per_s(timeline: &Timeline) -> f64 {
    let mut sorted = timeline.operations.clone();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).map_or(0.0, |count| *count as f64 * 1e3 / timeline.part_ms)
}

/// Returns charts of the operations over the window, and of their times if each was timed.
fn charts(own: &Watched<'_>, names: &[&str]) -> Vec<Section> {
    let Watched { run, timeline, what, .. } = own;
    let window_ms = timeline.part_ms * timeline.operations.len() as f64;
    let (unit, unit_ms) = if window_ms > SECONDS_FROM_MS { ("s", 1e3) } else { ("ms", 1.0) };
    let look = names.iter().position(|name| *name == run.name).unwrap_or(0) % LOOKS;
    let line = |name: &str, look, stroke, values: Vec<f64>| {
        let at = |part: usize| (part as f64 + 0.5) * timeline.part_ms / unit_ms;
        let points = values.into_iter().enumerate().map(|(part, value)| (at(part), value));
        Series { name: name.to_owned(), look, stroke, points: points.collect() }
    };
    let section = |what_of: &str, label: &str, scale: Scale, series: Vec<Series>| {
        let axis = |label: String, scale| Axis { label, scale };
        let chart = Chart {
            title: format!("{what}: {what_of} over the window, {}", run.name),
            description: describe(&series, label),
            x: axis(format!("time in the window ({unit})"), Scale::Linear),
            y: axis(label.to_owned(), scale),
            series,
        };
        Section {
            title: format!("In the course of {what}: {what_of}"),
            layout: Layout::Half,
            text: vec![words(timeline)],
            chart: Some(chart),
            ..Section::default()
        }
    };
    let rates = timeline.operations.iter().map(|count| *count as f64 * 1e3 / timeline.part_ms);
    let rates = vec![line(&run.name, look, Stroke::Solid, rates.collect())];
    let mut sections = vec![section("operations", "operations/s", Scale::Linear, rates)];
    if !timeline.mean_us.is_empty() {
        let some = |values: &[f64]| values.to_vec();
        let mut times = vec![
            line("longest", look, Stroke::Dotted, some(&timeline.longest_us)),
            line("mean", look, Stroke::Solid, some(&timeline.mean_us)),
        ];
        // A part in which nothing ended has no time.
        times.iter_mut().for_each(|own| own.points.retain(|(_, value)| *value > 0.0));
        sections.push(section("times", "µs", Scale::Log10, times));
    }
    sections
}

/// Describes what happened.
fn words(timeline: &Timeline) -> String {
    match timeline.slump() {
        Some(slump) => format!(
            "From {} ms on, for {} ms, less than half of the usual {} operations a second ended; at the least {} %.",
            significant(slump.from_ms),
            significant(slump.lasts_ms),
            significant(usual_per_s(timeline)),
            significant(slump.least_percent)
        ),
        None => format!(
            "Nothing special: {} operations a second in the middle part.",
            significant(usual_per_s(timeline))
        ),
    }
}

#[cfg(test)]
mod tests {
    use bench_record::spec::Benchmark;

    use super::*;

    fn run(name: &str, operations: &[u64]) -> Run {
        let longest_us = operations.iter().map(|count| 1000.0 / (*count as f64)).collect();
        let mean_us = operations.iter().map(|count| if *count == 0 { 0.0 } else { 9.0 }).collect();
        let timeline =
            Some(Timeline { part_ms: 4.0, operations: operations.to_vec(), mean_us, longest_us });
        let point = Point { timeline, ..Point::new(64, 1) };
        Run::new(name, Benchmark::Latency, vec![Point::new(8, 1), point])
    }

    const STEADY: [u64; 10] = [100; 10];
    const SHORT: [u64; 10] = [100, 100, 100, 100, 40, 100, 100, 100, 100, 100];
    const LONG: [u64; 10] = [100, 100, 0, 0, 0, 100, 100, 100, 100, 100];

    #[test]
    fn the_worst_windows_are_drawn_and_all_slumps_are_rows() {
        let runs = [run("a", &STEADY), run("b", &SHORT), run("c", &LONG)];
        let sections = sections(&runs, &["a", "b", "c"]);
        let titles: Vec<&str> = sections.iter().map(|own| own.title.as_str()).collect();
        let (rate, times) =
            ("In the course of latency 64 B: operations", "In the course of latency 64 B: times");
        assert_eq!(titles, [rate, times, rate, times, "Slumps while it was measured"]);
        let chart = sections[0].chart.as_ref().expect("a chart");
        assert!(chart.title.ends_with(", c"), "{}", chart.title);
        assert_eq!(chart.series[0].points[2], (10.0, 0.0));
        assert!(
            sections[0].text[0].starts_with("From 8.000 ms on, for 12.00 ms,"),
            "{:?}",
            sections[0].text
        );
        let table = &sections[4].tables[0];
        assert_eq!(table.rows[0], ["c", "latency 64 B", "8.000", "12.00", "0", "25000"]);
        assert_eq!((table.rows.len(), &table.links[0]), (2, &(0, 1, "m2-1".to_owned())));
        // Without operations there is no time.
        let times = sections[1].chart.as_ref().expect("a chart");
        assert_eq!(times.series[1].points.len(), 7);
    }

    #[test]
    fn without_a_course_there_is_nothing() {
        let run = Run::new("a", Benchmark::Latency, vec![Point::new(8, 1)]);
        assert!(sections(&[run], &["a"]).is_empty());
    }
}
