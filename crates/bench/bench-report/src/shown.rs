//! The runs as a report shows them: one value for each measurement, everywhere in the report.
//!
//! Runs of one name may have measured the same (a point of a sweep over sizes and of one over
//! depths, or two files of one report). All their blocks then count as blocks of one measurement,
//! and the point whose figure lies nearest to their middle stands for all, in every table, figure
//! and lesson, with the interval of all blocks. The other values are listed beside it. Code that
//! shows runs takes them from here and chooses nothing itself.
//!
//! [`settings`] defines what identifies a measurement. Runs whose number of receives differs from
//! each point's depth measured something else and have a name of their own; so have runs of one
//! name that went over several wires.

use std::collections::BTreeMap;

use bench_record::wire::Wire;
use bench_record::{Point, Run, cores};
use report::{Section, Table, middle, middle_interval, significant};

use crate::settings;

/// Runs as they are shown.
#[derive(Debug)]
pub struct Shown {
    /// The runs with one value for each measurement.
    pub runs: Vec<Run>,
    repeats: Vec<Repeat>,
}

/// A point that was measured more than once.
#[derive(Debug)]
struct Repeat {
    /// The number of the first run that has this point.
    run: usize,
    /// The name of that run.
    name: String,
    what: String,
    figures: Vec<f64>,
    shown: f64,
}

/// The index of a run, and of a point in it.
type PointIndex = (usize, usize);

impl Shown {
    /// Unites the points that were measured more than once.
    #[must_use]
    pub fn of(runs: &[Run]) -> Self {
        let mut this = Self { runs: runs.to_vec(), repeats: Vec::new() };
        let mut places: BTreeMap<String, Vec<PointIndex>> = BTreeMap::new();
        for (number, run) in runs.iter().enumerate() {
            for (index, point) in run.points.iter().enumerate() {
                places.entry(key(run, point)).or_default().push((number, index));
            }
        }
        let mut repeated: Vec<Vec<PointIndex>> =
            places.into_values().filter(|places| places.len() > 1).collect();
        // In the order of the runs.
        repeated.sort();
        for places in &repeated {
            this.unite(runs, places);
        }
        let by_wire = of_several_wires(runs);
        for (run, own) in this.runs.iter_mut().zip(runs) {
            run.name = name(own, &by_wire);
        }
        for repeat in &mut this.repeats {
            repeat.name.clone_from(&this.runs[repeat.run].name);
        }
        this
    }

    /// Puts the same point at all these places.
    fn unite(&mut self, runs: &[Run], places: &[PointIndex]) {
        let found: Vec<&Point> =
            places.iter().map(|&(run, index)| &runs[run].points[index]).collect();
        let Some((one, shown)) = one_of(&found) else { return };
        let &(first, index) = &places[0];
        let (run, point) = (&runs[first], &runs[first].points[index]);
        self.repeats.push(Repeat {
            run: first,
            name: String::new(),
            what: format!("{} {}", run.kind(), settings::words(&settings::of(run, point))),
            figures: found.iter().filter_map(|point| point.figure()).collect(),
            shown,
        });
        for &(run, index) in places {
            self.runs[run].points[index] = one.clone();
        }
    }

    /// Renders the points that were measured more than once, with their values.
    pub(crate) fn section(&self) -> Option<Section> {
        let titles = ["run", "what", "shown", "measured"];
        let caption = "points measured more than once (µs, Gbit/s or M calls/s)";
        let mut table = Table::new(caption, &titles, 2).with_prose(1);
        for Repeat { name, what, figures, shown, .. } in &self.repeats {
            let figures: Vec<String> = figures.iter().map(|figure| significant(*figure)).collect();
            table.push(vec![name.clone(), what.clone(), significant(*shown), figures.join(", ")]);
        }
        let text = "The same settings, so the same measurement: all blocks count as blocks of one (of one \
            phase, where the cores were near in some and far in others), and the measurement nearest to the \
            middle of them is what every table, figure and lesson of this page shows, with the interval of all \
            blocks."
            .to_owned();
        (!table.rows.is_empty()).then(|| Section {
            title: "Measured more than once".to_owned(),
            text: vec![text],
            data: vec![table],
            ..Section::default()
        })
    }
}

/// Returns the name of a run as the reader sees it, with what makes all its points special.
fn name(run: &Run, by_wire: &[String]) -> String {
    let mut name = run.name.clone();
    if let Some(count) = settings::receives(run) {
        name += &format!(", {} {count}", settings::RX_DEPTH);
    }
    if let Some(wire) = run.wire.filter(|_| by_wire.contains(&run.name)) {
        name += &format!(", wire {}", wire.name());
    }
    name
}

/// Returns the names whose runs went over several wires, as far as the wires are known.
pub(crate) fn of_several_wires(runs: &[Run]) -> Vec<String> {
    let mut wires: BTreeMap<&str, Vec<Option<Wire>>> = BTreeMap::new();
    for run in runs {
        wires.entry(&run.name).or_default().push(run.wire);
    }
    let is_several = |(_, own): &(&str, Vec<Option<Wire>>)| own.iter().any(|one| *one != own[0]);
    wires.into_iter().filter(is_several).map(|(name, _)| name.to_owned()).collect()
}

/// Returns the key of a point. Points with the same key are the same measurement.
fn key(run: &Run, point: &Point) -> String {
    let settings = settings::of(run, point);
    let values: Vec<String> = settings.iter().map(ToString::to_string).collect();
    let wire = run.wire.map_or("", Wire::name);
    format!("{}\n{wire}\n{}\n{}\n{}", run.name, run.source, run.kind(), values.join("\n"))
}

/// Returns the point that stands for all, and its figure; of equally good points, the last. Points
/// measured with the processors elsewhere do not count.
fn one_of(points: &[&Point]) -> Option<(Point, f64)> {
    let phase = cores::counting(points.iter().map(|point| &point.cores));
    let is_there = |point: &&&Point| {
        phase.is_none_or(|phase| point.cores.as_ref().is_some_and(|own| own.phase == phase))
    };
    let points: Vec<&Point> = points.iter().filter(is_there).copied().collect();
    let blocks: Vec<f64> = points.iter().flat_map(|point| blocks(point)).collect();
    let middle = middle(&blocks)?;
    let distance = |figure: f64| (figure - middle).abs();
    let with_figures = points.iter().rev().filter_map(|point| Some((*point, point.figure()?)));
    let (nearest, shown) = with_figures.min_by(|a, b| distance(a.1).total_cmp(&distance(b.1)))?;
    let has_blocks = points.iter().any(|point| !point.blocks.is_empty());
    let point = Point {
        p99_blocks: points.iter().flat_map(|point| point.p99_blocks.clone()).collect(),
        interval: if has_blocks { middle_interval(&blocks) } else { nearest.interval },
        blocks: if has_blocks { blocks } else { Vec::new() },
        lost: points.iter().map(|point| point.lost).sum(),
        validated: points.iter().map(|point| point.validated).sum(),
        ..nearest.clone()
    };
    Some((point, shown))
}

/// Returns the figures of a point's blocks; without blocks, the figure of the point itself, if it
/// has one.
fn blocks(point: &Point) -> Vec<f64> {
    let own = || point.figure().into_iter().collect();
    if point.blocks.is_empty() { own() } else { point.blocks.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_record::Bandwidth;
    use bench_record::Results;
    use bench_record::spec::Benchmark;

    const SIZE: usize = 8192;

    fn point(depth: usize, rx_depth: usize, gbit_per_s: f64) -> Point {
        let messages = (gbit_per_s * 1e9 / 8.0 / SIZE as f64) as u64;
        let bandwidth = Bandwidth::new(messages, messages * SIZE as u64, 1.0);
        let blocks = [0.91, 0.99, 1.1, 1.01, 0.98].map(|share| share * bandwidth.gbit_per_s).into();
        Point { rx_depth, bandwidth: Some(bandwidth), blocks, ..Point::new(SIZE, depth) }
    }

    /// Runs as a plan makes them: over sizes, over depths, over endpoints. Depth 256 is in all of
    /// them, with 9.477, 5.781 and 6.268 Gbit/s.
    fn runs() -> Vec<Run> {
        let run = |points| Run::new("mine", Benchmark::Bandwidth, points);
        let depths = [(1, 0.5), (16, 2.0), (64, 4.0), (256, 5.781), (1024, 5.5)];
        let mut endpoints = run(vec![point(256, 256, 12.0)]);
        endpoints.method.endpoints = 2;
        vec![
            run(vec![point(256, 256, 9.477)]),
            run(depths.map(|(depth, gbit)| point(depth, depth, gbit)).into()),
            run(vec![point(256, 256, 6.268)]),
            endpoints,
        ]
    }

    /// Returns every candidate that is among the numbers of a page's text, tables and data tables
    /// of plots, to as many digits as people see.
    fn seen(page: &report::Page, candidates: &[&'static str]) -> Vec<&'static str> {
        let mut words: Vec<String> = page.summary.clone();
        for section in page.sections.iter().filter(|own| own.title != "Measured more than once") {
            words.extend(section.text.iter().cloned());
            let tables = section.tables.iter().chain(&section.data);
            words.extend(tables.flat_map(|table| table.rows.iter().flatten().cloned()));
            let lines = section.chart.iter().flat_map(|chart| &chart.series);
            words.extend(lines.flat_map(|line| &line.points).map(|p| significant(p.1)));
            words.extend(section.chart.iter().map(|chart| chart.description.clone()));
        }
        let is_there = |number: &&&str| {
            words.iter().flat_map(|text| text.split([' ', ','])).any(|word| word == **number)
        };
        candidates.iter().filter(is_there).copied().collect()
    }

    #[test]
    fn every_place_of_a_page_shows_the_same_value_of_a_point() {
        let mut all = runs();
        all.extend(crate::paper::runs());
        let results = Results::of(all, Vec::new());
        let page = crate::page::page(&results, Vec::new(), None);
        let titles: Vec<&str> = page.sections.iter().map(|own| own.title.as_str()).collect();
        for title in ["Side by side", "Lessons: mine", "Measured more than once"] {
            assert!(titles.contains(&title), "{titles:?}");
        }
        assert_eq!(seen(&page, &["9.477", "5.781", "6.268"]), ["6.268"]);
        // The other values are still listed.
        let own = page.sections.iter().find(|own| own.title == "Measured more than once");
        let row = &own.expect("a section").data[0].rows[0];
        assert_eq!(row[2..], ["6.268", "9.477, 5.781, 6.268"], "{row:?}");
    }

    #[test]
    fn other_receives_are_another_measurement_with_a_name_of_its_own() {
        let run = |points| Run::new("mine", Benchmark::Bandwidth, points);
        // A sweep of an older version, whose receives followed its deepest point.
        let old = run(vec![point(256, 1024, 5.781), point(1024, 1024, 5.5)]);
        let shown = Shown::of(&[run(vec![point(256, 256, 9.477)]), old]);
        let names: Vec<&str> = shown.runs.iter().map(|run| run.name.as_str()).collect();
        assert_eq!(names, ["mine", "mine, rx depth 1024"]);
        assert!(shown.section().is_none(), "nothing was measured twice");
        let figure = shown.runs[0].points[0].figure().expect("a figure");
        assert!((figure - 9.477).abs() < 1e-3);
    }

    /// Shared memory and UDP are two measurements, each with its own blocks.
    #[test]
    fn another_wire_is_another_measurement_with_a_name_of_its_own() {
        let over = |wire, gbit| Run {
            wire,
            ..Run::new("mine", Benchmark::Bandwidth, vec![point(256, 256, gbit)])
        };
        let seen = |runs: &[Run]| -> Vec<(String, usize)> {
            let shown = Shown::of(runs);
            let of = |run: &Run| (run.name.clone(), run.points[0].blocks.len());
            shown.runs.iter().map(of).collect()
        };
        let (udp, shm) = (over(Some(Wire::Udp), 5.0), over(Some(Wire::Shm), 40.0));
        let found = seen(&[udp.clone(), shm.clone(), shm]);
        let names = ["mine, wire udp", "mine, wire shm", "mine, wire shm"].map(str::to_owned);
        assert_eq!(found.iter().map(|own| own.1).collect::<Vec<_>>(), [5, 10, 10]);
        assert_eq!(found.into_iter().map(|own| own.0).collect::<Vec<_>>(), names);
        // Over one wire it need not be said.
        assert_eq!(seen(&[udp.clone(), udp]), [("mine".to_owned(), 10), ("mine".to_owned(), 10)]);
    }

    #[test]
    fn the_middle_of_all_blocks_decides_and_their_interval_is_told() {
        let shown = Shown::of(&runs());
        let point = &shown.runs[0].points[0];
        assert_eq!(point.blocks.len(), 15);
        let interval = point.interval.expect("an interval");
        assert!(interval.low < 6.0 && interval.high > 8.0, "{interval:?}");
        // Points with the cores far apart do not count if others had them near.
        let at = |gbit, ns| Point {
            cores: Some(cores::Cores::between(ns, ns)),
            ..self::point(256, 256, gbit)
        };
        let (one, figure) =
            one_of(&[&at(5.0, 530.0), &at(9.0, 112.0), &at(9.1, 112.0)]).expect("a point");
        assert!(figure > 8.9 && one.blocks.len() == 10, "{one:?}");
        // Without blocks, the figures themselves count as blocks.
        let bare = |gbit| Point { blocks: Vec::new(), ..self::point(256, 0, gbit) };
        let (one, figure) = one_of(&[&bare(1.0), &bare(9.0), &bare(2.0)]).expect("a point");
        assert!((figure - 2.0).abs() < 1e-3 && one.blocks.is_empty());
    }
}
