//! How times are spread, from the histograms in the results: which share of them was longer than any
//! given time. Percentiles are points of these lines; where the tail begins only a line shows.

use report::{Axis, Chart, LOOKS, Scale, Section, Series, Stroke};

use crate::page::describe;
use crate::record::{Point, Run, TimesOf};

/// Sizes that are shown where they were measured: one that is mostly overhead, one that is mostly
/// bytes.
const SIZES_BYTES: [usize; 2] = [64, 8192];
/// Marks of a line between two halvings of the rest.
const MARKS: u32 = 2;

/// A plot for each of a few sizes; `names` number the colours.
pub(crate) fn sections(runs: &[Run], names: &[&str]) -> Vec<Section> {
    let mut sizes: Vec<usize> = times(runs).map(|(_, point)| point.size_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let shown = |size: &usize| SIZES_BYTES.contains(size);
    if !sizes.iter().any(shown) {
        sizes.truncate(1);
    } else {
        sizes.retain(shown);
    }
    sizes.into_iter().filter_map(|size| section(runs, names, size)).collect()
}

/// Points whose half round trips are known one by one.
fn times(runs: &[Run]) -> impl Iterator<Item = (&Run, &Point)> {
    let points = runs.iter().flat_map(|run| run.points.iter().map(move |point| (run, point)));
    points.filter(|(_, point)| point.times.as_ref().is_some_and(|t| t.of == TimesOf::RoundTrips))
}

fn section(runs: &[Run], names: &[&str], size: usize) -> Option<Section> {
    let own = times(runs).filter(|(_, point)| point.size_bytes == size);
    let mut series: Vec<Series> = Vec::new();
    for (run, point) in own {
        let Some(mut line) = line(run, point, names) else { continue };
        // Lines of one fabric share the colour, not the marker.
        line.look += LOOKS * series.iter().filter(|own| own.look % LOOKS == line.look).count();
        series.push(line);
    }
    let axis = |label: &str| Axis { label: label.to_owned(), scale: Scale::Log10 };
    let chart = Chart {
        title: format!("Share of half round trips of {size} B that took longer (logarithmic)"),
        description: describe(&series, "of all"),
        x: axis("half round trip (µs)"),
        y: axis("share that took longer"),
        series,
    };
    let text =
        "From the histogram of all round trips of the block that counts. A line at 0.01 shows \
        the 99th percentile; how far it goes on to the right is what the slowest messages cost."
            .to_owned();
    (!chart.series.is_empty()).then(|| Section {
        title: format!("Tail of the latency, {size} B"),
        text: vec![text],
        chart: Some(chart),
        ..Section::default()
    })
}

fn line(run: &Run, point: &Point, names: &[&str]) -> Option<Series> {
    let packed = point.times.as_ref()?;
    let histogram = packed.unpack()?;
    let us = |time_ns: u64| time_ns as f64 / 1_000.0 / f64::from(packed.of.ways());
    let mut points: Vec<(f64, f64)> = histogram
        .iter_quantiles(MARKS)
        .map(|mark| (us(mark.value_iterated_to()), 1.0 - mark.quantile()))
        .filter(|(_, share)| *share > 0.0)
        .collect();
    points.dedup_by(|a, b| a.0 == b.0);
    let is_plain = matches!(run.test.as_str(), "" | "latency");
    Some(Series {
        name: if is_plain { run.name.clone() } else { format!("{} {}", run.name, run.test) },
        look: names.iter().position(|name| *name == run.name).unwrap_or(0) % LOOKS,
        stroke: Stroke::Solid,
        points,
    })
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use super::*;
    use crate::record::PackedTimes;
    use crate::spec::Benchmark;

    fn point(size_bytes: usize) -> Point {
        let mut times = Histogram::new_with_bounds(1, 1_000_000_000, 3).expect("bounds");
        times.record_n(10_000, 990).expect("in bounds");
        times.record_n(200_000, 10).expect("in bounds");
        let times = PackedTimes::pack(TimesOf::RoundTrips, &times);
        Point { times, ..Point::new(size_bytes, 1) }
    }

    #[test]
    fn a_line_shows_the_share_of_longer_times() {
        let run = Run::new("fabric", Benchmark::Latency, vec![point(64), point(1)]);
        let sections = sections(&[run], &["fabric"]);
        assert_eq!(sections.len(), 1);
        let chart = sections[0].chart.as_ref().expect("a chart");
        assert!(chart.title.contains("64 B"), "{}", chart.title);
        let points = &chart.series[0].points;
        let (first, last) = (points[0], points[points.len() - 1]);
        assert!((first.0 - 5.0).abs() < 0.05 && first.1 < 1.0, "{points:?}");
        // One in a hundred took ten times as long.
        assert!((last.0 - 5.0).abs() < 0.05 && (last.1 - 0.01).abs() < 1e-9, "{points:?}");
    }

    #[test]
    fn without_histograms_there_is_no_plot() {
        let run = Run::new("fabric", Benchmark::Latency, vec![Point::new(64, 1)]);
        assert!(sections(&[run], &["fabric"]).is_empty());
        let run = Run::new("fabric", Benchmark::Latency, vec![point(3), point(5)]);
        let sections = sections(&[run], &["fabric"]);
        assert_eq!(sections.len(), 1);
        assert!(sections[0].title.ends_with("3 B"));
    }
}
