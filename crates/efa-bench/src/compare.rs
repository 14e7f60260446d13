//! Sets runs side by side: one row per point, one column per run, ratios to the first.

use report::{Table, significant};

use crate::output::us;
use crate::record::{Point, Run};
use crate::settings::{self, DEPTH, ENDPOINT, RX_DEPTH, SIZE};
use crate::spec::Benchmark;

/// What may be special about a point of the comparison: its place, and what the run's name says.
const SPECIAL: [&str; 4] = [SIZE, DEPTH, ENDPOINT, RX_DEPTH];

/// All points of one name and benchmark that are of messages sent one by one, by one thread over one
/// endpoint.
#[derive(Debug)]
struct Group<'a> {
    name: &'a str,
    benchmark: Benchmark,
    points: Vec<&'a Point>,
}

impl Group<'_> {
    fn find(&self, size_bytes: usize, depth: usize) -> Option<&Point> {
        self.points.iter().copied().find(|p| p.size_bytes == size_bytes && p.depth == depth)
    }
}

/// Gathers runs by name and benchmark, in order of appearance.
fn groups(runs: &[Run]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for run in runs {
        let points = run.points.iter().filter(|point| settings::is_usual_but(run, point, &SPECIAL));
        let known = groups.iter_mut().find(|g| g.name == run.name && g.benchmark == run.benchmark);
        match known {
            Some(group) => group.points.extend(points),
            None => groups.push(Group {
                name: &run.name,
                benchmark: run.benchmark,
                points: points.collect(),
            }),
        }
    }
    groups
}

/// Half round trip in µs: the median where there is one, else the mean.
pub(crate) fn latency_us(point: &Point) -> Option<f64> {
    point.latency.map(|l| l.distribution.map_or(l.mean_us, |d| d.p50_us))
}

/// What a row of the comparison shows.
#[derive(Debug, Clone, Copy)]
struct Row {
    benchmark: Benchmark,
    size_bytes: usize,
    depth: usize,
    rate: bool,
}

/// The rows: sizes and depths that the published tables have as well.
fn rows() -> Vec<Row> {
    let latency = [16, 64, 512, 1024, 4096, 8192].map(|size_bytes| Row {
        benchmark: Benchmark::Latency,
        size_bytes,
        depth: 1,
        rate: false,
    });
    let bandwidth = [(512, 256), (4096, 256), (8192, 16), (8192, 64), (8192, 256)];
    let bandwidth = bandwidth.map(|(size_bytes, depth)| Row {
        benchmark: Benchmark::Bandwidth,
        size_bytes,
        depth,
        rate: false,
    });
    let rate = [(16, 1), (16, 16), (16, 64), (16, 256), (16, 1024), (64, 256)];
    let rate = rate.map(|(size_bytes, depth)| Row {
        benchmark: Benchmark::Bandwidth,
        size_bytes,
        depth,
        rate: true,
    });
    latency.into_iter().chain(bandwidth).chain(rate).collect()
}

impl Row {
    fn label(self) -> String {
        match (self.benchmark, self.rate) {
            (Benchmark::Latency, _) => format!("latency {} B, half round trip", self.size_bytes),
            (_, false) => format!("bandwidth {} B, depth {}", self.size_bytes, self.depth),
            (_, true) => format!("message rate {} B, depth {}", self.size_bytes, self.depth),
        }
    }

    const fn unit(self) -> &'static str {
        match (self.benchmark, self.rate) {
            (Benchmark::Latency, _) => "µs",
            (_, false) => "Gbit/s",
            (_, true) => "M msg/s",
        }
    }

    fn value(self, group: &Group<'_>) -> Option<f64> {
        let point = group.find(self.size_bytes, self.depth)?;
        match (self.benchmark, self.rate) {
            (Benchmark::Latency, _) => latency_us(point),
            (_, false) => point.bandwidth.map(|b| b.gbit_per_s),
            (_, true) => point.bandwidth.map(|b| b.mmsg_per_s),
        }
    }

    fn text(self, value: Option<f64>) -> String {
        match (value, self.benchmark) {
            (None, _) => "-".to_owned(),
            (Some(v), Benchmark::Latency) => us(v),
            (Some(v), _) => significant(v),
        }
    }

    /// How many times as good the first is: above 1 it is faster.
    fn ratio(self, first: Option<f64>, other: Option<f64>) -> String {
        let (Some(first), Some(other)) = (first, other) else { return "-".to_owned() };
        let ratio = match self.benchmark {
            Benchmark::Latency => other / first,
            _ => first / other,
        };
        if ratio.is_finite() { format!("{ratio:.2}x") } else { "-".to_owned() }
    }
}

/// The comparison of the first name among `names` with the others.
pub(crate) fn table(runs: &[Run], names: &[&str]) -> Table {
    let groups = groups(runs);
    let has_value = |name: &&str| {
        let own = |row: &Row, group: &Group<'_>| {
            group.name == *name && group.benchmark == row.benchmark && row.value(group).is_some()
        };
        rows().iter().any(|row| groups.iter().any(|group| own(row, group)))
    };
    let names: Vec<&str> = names.iter().copied().filter(has_value).collect();
    let Some((first, others)) = names.split_first() else { return Table::default() };
    let mut titles = vec!["what".to_owned(), "unit".to_owned()];
    titles.extend(names.iter().map(|n| (*n).to_owned()));
    titles.extend(others.iter().map(|n| format!("vs {n}")));
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let caption = format!("{first} beside the others (ratios above 1: {first} is faster)");
    let mut table = Table::new(&caption, &titles, 2);
    for row in rows() {
        let value = |name: &str| {
            let own = |g: &&Group<'_>| g.name == name && g.benchmark == row.benchmark;
            groups.iter().find(own).and_then(|g| row.value(g))
        };
        let values: Vec<Option<f64>> = names.iter().map(|n| value(n)).collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        let mut cells = vec![row.label(), row.unit().to_owned()];
        cells.extend(values.iter().map(|v| row.text(*v)));
        cells.extend(values[1..].iter().map(|v| row.ratio(values[0], *v)));
        table.push(cells);
    }
    table
}

/// The main figures in words, for the top of a report.
pub(crate) fn sentences(runs: &[Run], names: &[&str]) -> Vec<String> {
    let groups = groups(runs);
    let main = [
        (Benchmark::Latency, 64, 1, false),
        (Benchmark::Bandwidth, 8192, 256, false),
        (Benchmark::Bandwidth, 16, 256, true),
    ];
    let sentence = |(benchmark, size_bytes, depth, rate)| {
        let row = Row { benchmark, size_bytes, depth, rate };
        let figures: Vec<String> = names
            .iter()
            .filter_map(|name| {
                let own = |g: &&Group<'_>| g.name == *name && g.benchmark == benchmark;
                let value = groups.iter().find(own).and_then(|g| row.value(g))?;
                Some(format!("{name} {} {}", row.text(Some(value)), row.unit()))
            })
            .collect();
        (!figures.is_empty()).then(|| {
            let label = row.label();
            let (first, rest) = label.split_at(1);
            format!("{}{rest}: {}.", first.to_uppercase(), figures.join(", "))
        })
    };
    main.into_iter().filter_map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper;

    #[test]
    fn runs_of_another_manner_are_not_mixed_in() {
        let mut runs = paper::runs();
        let mut listed = runs[3].clone();
        listed.method.flow.post_list = 8;
        listed.points.iter_mut().for_each(|point| point.bandwidth = None);
        runs.insert(0, listed);
        let table = table(&runs, &[paper::EFA]);
        let row = table.rows.iter().find(|r| r[0] == "bandwidth 8192 B, depth 256").expect("row");
        assert_eq!(row[2], "93.49");
    }

    #[test]
    fn ratios_above_one_mean_that_the_first_is_faster() {
        let runs = paper::runs();
        let table = table(&runs, &[paper::EFA, paper::RC, paper::TCP]);
        let row = table.rows.iter().find(|r| r[0].starts_with("latency 64 B")).expect("row");
        assert_eq!(row[1..5], ["µs", "20.68", "1.16", "36.74"]);
        assert_eq!(row[5..], ["0.06x", "1.78x"]);
        let row = table.rows.iter().find(|r| r[0] == "bandwidth 8192 B, depth 256").expect("row");
        assert_eq!(row[2..4], ["93.49", "92.02"]);
    }
}
