//! The distribution of times, from the histograms in the results: the share of operations that took
//! longer than any given time. Percentiles are points of these lines; only a line shows where the
//! tail begins.

use bench_record::{Point, Run, TimesOf};
use report::{Axis, Chart, LOOKS, Scale, Section, Series, Stroke};

use crate::page::describe;

/// Sizes that are shown if they were measured: one that is mostly overhead, one that is mostly
/// bytes.
const SIZES_BYTES: [usize; 2] = [64, 8192];
/// Marks of a line between two halvings of the remaining share.
const MARKS: u32 = 2;

/// Returns a plot for each of a few sizes; `names` determines the colours.
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

/// Returns the points whose half round trips are known one by one.
fn times(runs: &[Run]) -> impl Iterator<Item = (&Run, &Point)> {
    let points = runs.iter().flat_map(|run| run.points.iter().map(move |point| (run, point)));
    points.filter(|(_, point)| point.times.as_ref().is_some_and(|t| t.of == TimesOf::RoundTrips))
}

fn section(runs: &[Run], names: &[&str], size: usize) -> Option<Section> {
    let own = times(runs).filter(|(_, point)| point.size_bytes == size);
    let mut series: Vec<Series> = Vec::new();
    for (run, point) in own {
        let Some(mut line) = line(run, point, names) else { continue };
        // A point that several runs measured is the same in all of them (`shown`).
        if series.iter().any(|own| own.name == line.name && own.points == line.points) {
            continue;
        }
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
        the 99th percentile; how far it goes on to the right is what the slowest messages cost. It ends at \
        the slowest of all, with the share that took as long."
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
    let slowest_us = us(histogram.max());
    let mut points: Vec<(f64, f64)> = histogram
        .iter_quantiles(MARKS)
        .map(|mark| (us(mark.value_iterated_to()), 1.0 - mark.quantile()))
        .filter(|(time_us, share)| *share > 0.0 && *time_us < slowest_us)
        .collect();
    points.dedup_by(|a, b| a.0 == b.0);
    // No operation took longer than the slowest, and zero has no place on a logarithmic axis, so
    // the last point is the share of operations that took as long.
    points.push((slowest_us, histogram.count_at(histogram.max()) as f64 / histogram.len() as f64));
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
    use bench_record::PackedTimes;
    use bench_record::spec::Benchmark;

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
        // One in a hundred took twenty times as long.
        let tail = points[points.len() - 2];
        assert!((tail.0 - 5.0).abs() < 0.05 && (tail.1 - 0.01).abs() < 1e-9, "{points:?}");
        assert!((last.0 - 100.0).abs() < 0.1 && (last.1 - 0.01).abs() < 1e-9, "{points:?}");
    }

    #[test]
    fn a_line_ends_at_the_maximum_of_its_point() {
        let mut times = Histogram::new_with_bounds(1, 1_000_000_000, 3).expect("bounds");
        times.record_n(20_000, 100_000).expect("in bounds");
        for time_ns in [150_000, 344_000, 1_172_000] {
            times.record(time_ns).expect("in bounds");
        }
        let times_us = bench_record::Distribution::of(&times, 2);
        let packed = PackedTimes::pack(TimesOf::RoundTrips, &times);
        let point = Point { times: packed, ..Point::new(64, 1) };
        let run = Run::new("fabric", Benchmark::Latency, vec![point]);
        let line = line(&run, &run.points[0], &["fabric"]).expect("a line");
        let &(last_us, share) = line.points.last().expect("points");
        assert_eq!(Some(last_us), times_us.map(|times| times.max_us));
        assert!((share - 1.0 / 100_003.0).abs() < 1e-12, "{share}");
        let falls = |pair: &[(f64, f64)]| pair[0].0 < pair[1].0 && pair[0].1 >= pair[1].1;
        assert!(line.points.windows(2).all(falls), "{:?}", line.points);
        // If all operations took equally long, there is one place.
        let mut same = Histogram::new_with_bounds(1, 1_000_000_000, 3).expect("bounds");
        same.record_n(20_000, 7).expect("in bounds");
        let times = PackedTimes::pack(TimesOf::RoundTrips, &same);
        let one = Point { times, ..Point::new(64, 1) };
        assert_eq!(super::line(&run, &one, &["fabric"]).map(|own| own.points.len()), Some(1));
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
