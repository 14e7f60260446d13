//! Sets runs side by side: one row per point, one column per run, ratios to the first.

use bench_record::cores::are_apart;
use bench_record::spec::Benchmark;
use bench_record::{Point, Run};
use report::{Table, distinct, significant};

use crate::kinds::cells::us;
use crate::settings::{self, DEPTH, ENDPOINT, RX_DEPTH, SIZE};

/// The settings in which a point of the comparison may be unusual: its place, and what the run's
/// name says.
const SPECIAL: [&str; 4] = [SIZE, DEPTH, ENDPOINT, RX_DEPTH];

/// All points of one name and benchmark whose messages were sent one by one, by one thread over one
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

/// The quantity that a row of the comparison shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ComparedQuantity {
    Median,
    /// The mean. Many tables were published with means only, so figures beside them are means, too.
    Mean,
    Goodput,
    Rate,
}

/// A row of the comparison.
#[derive(Debug, Clone, Copy)]
struct ComparedPoint {
    what: ComparedQuantity,
    size_bytes: usize,
    depth: usize,
}

/// Returns the rows: sizes and depths that the published tables have as well.
fn rows() -> Vec<ComparedPoint> {
    let row = |what| move |(size_bytes, depth)| ComparedPoint { what, size_bytes, depth };
    let latency = [16, 64, 512, 1024, 4096, 8192].map(|size_bytes| (size_bytes, 1));
    let bandwidth = [(512, 256), (4096, 256), (8192, 16), (8192, 64), (8192, 256)];
    let rate = [(16, 1), (16, 16), (16, 64), (16, 256), (16, 1024), (64, 256)];
    let times = latency
        .map(row(ComparedQuantity::Median))
        .into_iter()
        .chain(latency.map(row(ComparedQuantity::Mean)));
    times
        .chain(bandwidth.map(row(ComparedQuantity::Goodput)))
        .chain(rate.map(row(ComparedQuantity::Rate)))
        .collect()
}

impl ComparedPoint {
    const fn benchmark(self) -> Benchmark {
        match self.what {
            ComparedQuantity::Median | ComparedQuantity::Mean => Benchmark::Latency,
            ComparedQuantity::Goodput | ComparedQuantity::Rate => Benchmark::Bandwidth,
        }
    }

    fn label(self) -> String {
        let Self { what, size_bytes, depth } = self;
        match what {
            ComparedQuantity::Median => format!("latency {size_bytes} B, median half round trip"),
            ComparedQuantity::Mean => format!("latency {size_bytes} B, mean half round trip"),
            ComparedQuantity::Goodput => format!("bandwidth {size_bytes} B, depth {depth}"),
            ComparedQuantity::Rate => format!("message rate {size_bytes} B, depth {depth}"),
        }
    }

    const fn unit(self) -> &'static str {
        match self.what {
            ComparedQuantity::Median | ComparedQuantity::Mean => "µs",
            ComparedQuantity::Goodput => "Gbit/s",
            ComparedQuantity::Rate => "M msg/s",
        }
    }

    fn value(self, point: &Point) -> Option<f64> {
        match self.what {
            ComparedQuantity::Median => point.latency?.distribution.map(|d| d.p50_us),
            ComparedQuantity::Mean => point.latency.map(|latency| latency.mean_us),
            ComparedQuantity::Goodput => point.bandwidth.map(|b| b.gbit_per_s),
            ComparedQuantity::Rate => point.bandwidth.map(|b| b.mmsg_per_s),
        }
    }

    fn text(self, value: Option<f64>) -> String {
        match (value, self.benchmark()) {
            (None, _) => "-".to_owned(),
            (Some(v), Benchmark::Latency) => us(v),
            (Some(v), _) => significant(v),
        }
    }

    /// Renders how many times as fast the first value is as the other: above 1, the first is
    /// faster.
    fn ratio(self, first: Option<f64>, other: Option<f64>) -> String {
        let (Some(first), Some(other)) = (first, other) else { return "-".to_owned() };
        let ratio = match self.benchmark() {
            Benchmark::Latency => other / first,
            _ => first / other,
        };
        if ratio.is_finite() { format!("{ratio:.2}x") } else { "-".to_owned() }
    }

    /// Renders the ratio of two points, or the reason why there is none: points measured with the
    /// cores near and far, or while the cores moved, are not comparable.
    fn ratio_of(self, first: Option<&Point>, other: Option<&Point>) -> String {
        let phase = |point: Option<&Point>| point.and_then(Point::phase);
        match phase(first).zip(phase(other)) {
            Some((ours, theirs)) if are_apart(Some(ours), Some(theirs)) => {
                format!("cores {} and {}", ours.name(), theirs.name())
            }
            _ => {
                let value = |point: Option<&Point>| point.and_then(|point| self.value(point));
                self.ratio(value(first), value(other))
            }
        }
    }

    /// Returns the point of this row in the group of that name.
    fn point<'a>(self, groups: &'a [Group<'_>], name: &str) -> Option<&'a Point> {
        let own = |g: &&Group<'_>| g.name == name && g.benchmark == self.benchmark();
        groups.iter().find(own)?.find(self.size_bytes, self.depth)
    }
}

const DATA_CENTRE: &str = "a data centre's network";
const MEMORY: &str = "shared memory";

/// Names the network that the messages of a run crossed, for people. Runs over different networks
/// are no fair race.
pub(crate) fn network(runs: &[Run], name: &str) -> &'static str {
    let is = |own: fn(&Run) -> bool| runs.iter().filter(|run| run.name == name).any(own);
    // Older records have only their command.
    if is(|run| run.source == "published") {
        DATA_CENTRE
    } else if is(Run::is_in_memory) {
        MEMORY
    } else if is(|run| run.is_loopback || run.command.contains("efa-bench local ")) {
        "loopback"
    } else {
        "a network that is not told"
    }
}

/// Lists the networks of all these names, each once: "loopback beside a data centre's network".
pub(crate) fn networks<'a>(runs: &[Run], names: impl Iterator<Item = &'a str>) -> String {
    distinct(names.map(|name| network(runs, name))).join(" beside ")
}

/// Divides the names into sides that may be compared: published adapters do not stand beside runs
/// that never left the memory of one machine. If there are both, the first side is all that was
/// measured, and the second is all that went over a network.
fn sides<'a>(runs: &[Run], names: &[&'a str]) -> Vec<Vec<&'a str>> {
    let not_over = |what: &str| -> Vec<&'a str> {
        names.iter().copied().filter(|name| network(runs, name) != what).collect()
    };
    let (here, over_networks) = (not_over(DATA_CENTRE), not_over(MEMORY));
    match here.len() < names.len() && over_networks.len() < names.len() {
        true => vec![here, over_networks],
        false => vec![names.to_vec()],
    }
}

/// Returns the comparisons of the first name among `names` with the others.
pub fn tables(runs: &[Run], names: &[&str]) -> Vec<Table> {
    let all = sides(runs, names).into_iter().map(|names| table(runs, &names));
    all.filter(|table| !table.rows.is_empty()).collect()
}

/// Returns the comparison of the first name among `names` with the others.
fn table(runs: &[Run], names: &[&str]) -> Table {
    let groups = groups(runs);
    let value = |row: ComparedPoint, name: &str| {
        row.point(&groups, name).and_then(|point| row.value(point))
    };
    let has_value = |name: &&str| rows().iter().any(|row| value(*row, name).is_some());
    let names: Vec<&str> = names.iter().copied().filter(has_value).collect();
    let Some((first, others)) = names.split_first() else { return Table::default() };
    let are_apart = names.iter().any(|name| network(runs, name) != network(runs, first));
    let mut titles = vec!["what".to_owned(), "unit".to_owned()];
    titles.extend(names.iter().map(|n| (*n).to_owned()));
    titles.extend(others.iter().map(|n| format!("vs {n}")));
    titles.extend(are_apart.then(|| "over".to_owned()));
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let caption = format!("{first} beside the others (ratios above 1: {first} is faster)");
    let mut table = Table::new(&caption, &titles, 2);
    if are_apart {
        table = table.with_prose(titles.len() - 1);
    }
    for row in rows() {
        let values: Vec<Option<f64>> = names.iter().map(|n| value(row, n)).collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        let mut cells = vec![row.label(), row.unit().to_owned()];
        cells.extend(values.iter().map(|v| row.text(*v)));
        let own = row.point(&groups, first);
        cells.extend(others.iter().map(|name| row.ratio_of(own, row.point(&groups, name))));
        let there = names.iter().zip(&values).filter(|(_, value)| value.is_some());
        cells.extend(are_apart.then(|| networks(runs, there.map(|(name, _)| *name))));
        table.push(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper;
    use bench_record::cores::Cores;
    use bench_record::wire::Wire;
    use bench_record::{Distribution, Latency};

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

    /// A ping-pong whose median is far from its mean because of its slowest round trips.
    fn measured() -> Run {
        let spread = Distribution { p50_us: 6.0, ..Distribution::default() };
        let times = Latency { round_trips: Some(9), mean_us: 6.3, distribution: Some(spread) };
        let blocks = vec![5.7, 6.0, 6.0, 6.1, 6.6];
        let interval = report::middle_interval(&blocks);
        let point = Point { latency: Some(times), blocks, interval, ..Point::new(64, 1) };
        let run = Run::new("mine", Benchmark::Latency, vec![point]);
        Run { is_loopback: true, ..run }
    }

    #[test]
    fn means_stand_beside_means_and_loopback_is_named_in_the_same_row() {
        let mut runs = paper::runs();
        runs.push(measured());
        let table = table(&runs, &["mine", paper::EFA]);
        let row = |label: &str| {
            table
                .rows
                .iter()
                .find(|row| row[0].contains(label))
                .unwrap_or_else(|| panic!("{label}"))
        };
        // 20.68 / 6.3; with the median it was 3.45x.
        let mean = row("latency 64 B, mean");
        assert_eq!(mean[2..5], ["6.30", "20.68", "3.28x"], "{mean:?}");
        assert_eq!(mean[5], "loopback beside a data centre's network");
        let median = row("latency 64 B, median");
        assert_eq!(median[2..], ["6.00", "-", "-", "loopback"], "{median:?}");
    }

    #[test]
    fn published_adapters_do_not_stand_beside_shared_memory() {
        let named = |name: &str, wire| Run { name: name.to_owned(), wire, ..measured() };
        let mut runs = paper::runs();
        runs.push(named("memory", Some(Wire::Shm)));
        runs.push(named("UDP", Some(Wire::Udp)));
        let names = ["memory", "UDP", paper::EFA];
        let [here, networks]: [Table; 2] = tables(&runs, &names).try_into().expect("two tables");
        let titles = |table: &Table| -> Vec<String> {
            table.columns[2..].iter().map(|column| column.title.clone()).collect()
        };
        assert_eq!(titles(&here), ["memory", "UDP", "vs UDP", "over"]);
        assert_eq!(here.rows[0].last().map(String::as_str), Some("shared memory beside loopback"));
        let beside = ["UDP", paper::EFA, "vs paper:efa-c5n", "over"];
        assert_eq!(titles(&networks), beside);
        // One of them alone leaves nothing to be kept apart.
        assert_eq!(tables(&runs, &["memory", "UDP"]).len(), 1);
        assert_eq!(tables(&runs, &["UDP", paper::EFA]).len(), 1);
    }

    #[test]
    fn near_cores_are_not_held_against_far_ones() {
        let mut far = measured();
        "yours".clone_into(&mut far.name);
        let mut near = measured();
        near.points[0].cores = Some(Cores::between(112.0, 113.0));
        far.points[0].cores = Some(Cores::between(530.0, 533.0));
        let ratio = |runs: &[Run]| table(runs, &["mine", "yours"]).rows[0][4].clone();
        assert_eq!(ratio(&[near.clone(), far.clone()]), "cores near and far");
        far.points[0].cores.clone_from(&near.points[0].cores);
        assert_eq!(ratio(&[near.clone(), far.clone()]), "1.00x");
        far.points[0].cores = None;
        assert_eq!(ratio(&[near, far]), "1.00x", "nobody looked");
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
