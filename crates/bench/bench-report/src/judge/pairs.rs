//! The pairing of points of two files by their settings. Points that are there more than once are
//! paired one by one in the order of the files, with a remark; if one file has more of them than
//! the other, nobody knows which is which, and the comparison says so.

use std::collections::BTreeMap;

use bench_record::wire::Wire;
use bench_record::{Point, Results, Run};

use crate::settings;
use crate::shown::of_several_wires;

/// The points of two files in pairs.
pub(super) struct Pairs<'a> {
    pub(super) pairs: Vec<Pair<'a>>,
    /// Descriptions of the points that cannot be paired.
    pub(super) ambiguous: Vec<String>,
    /// The number of points that only the second file has.
    pub(super) only_new: usize,
}

/// A point of the first file.
pub(super) struct Pair<'a> {
    pub(super) label: String,
    pub(super) base: &'a Point,
    /// The point of the second file; `None` if it has none.
    pub(super) new: Option<&'a Point>,
    /// The wires that the two points went over, as far as they are known.
    pub(super) wires: (Option<Wire>, Option<Wire>),
}

/// A point and everything that identifies it.
struct Named<'a> {
    key: String,
    label: String,
    point: &'a Point,
    wire: Option<Wire>,
}

impl<'a> Pairs<'a> {
    pub(super) fn of(base: &'a Results, new: &'a Results) -> Self {
        // Two fabrics may be compared as well, if each file has a single one.
        let is_one_each = has_one_name(base) && has_one_name(new);
        // If one file has a name over several wires, each wire is compared with its own.
        let by_wire = [base, new].map(|file| of_several_wires(&file.runs)).concat();
        let by_wire = NamedBy { is_one_each, by_wire };
        let (base, new) = (by_wire.named(base), by_wire.named(new));
        let (of_base, of_new) = (by_key(&base), by_key(&new));
        let mut this = Self { pairs: Vec::new(), ambiguous: Vec::new(), only_new: 0 };
        let mut taken = BTreeMap::new();
        for Named { key, label, point, wire } in &base {
            let ours = of_base.get(key.as_str()).map_or(0, Vec::len);
            let theirs = of_new.get(key.as_str()).map_or(&[][..], Vec::as_slice);
            let number: &mut usize = taken.entry(key.as_str()).or_default();
            *number += 1;
            let (new, label) = match theirs.len() {
                0 => (None, label.clone()),
                count if count != ours => {
                    if *number == 1 {
                        let text =
                            format!("{label}: {ours} in the first file, {count} in the second");
                        this.ambiguous.push(text);
                    }
                    continue;
                }
                1 => (Some(theirs[0]), label.clone()),
                count => (Some(theirs[*number - 1]), format!("{label} ({number} of {count})")),
            };
            let wires = (*wire, new.and_then(|new| new.wire));
            let new = new.map(|new| new.point);
            this.pairs.push(Pair { label, base: point, new, wires });
        }
        this.only_new = new.iter().filter(|new| !of_base.contains_key(new.key.as_str())).count();
        this
    }
}

fn by_key<'a, 'b>(all: &'b [Named<'a>]) -> BTreeMap<&'b str, Vec<&'b Named<'a>>> {
    let mut found: BTreeMap<&str, Vec<&Named<'_>>> = BTreeMap::new();
    for one in all {
        found.entry(&one.key).or_default().push(one);
    }
    found
}

/// Returns the runs that are judged; published figures are not.
fn judged(results: &Results) -> impl Iterator<Item = &Run> {
    results.runs.iter().filter(|run| run.source != "published")
}

fn has_one_name(results: &Results) -> bool {
    let mut names = judged(results).map(|run| run.name.as_str());
    let first = names.next();
    first.is_some() && names.all(|name| Some(name) == first)
}

/// The names that identify points beside their settings.
struct NamedBy {
    is_one_each: bool,
    /// Names that went over several wires in one file.
    by_wire: Vec<String>,
}

impl NamedBy {
    fn named<'a>(&self, results: &'a Results) -> Vec<Named<'a>> {
        let points = |run: &'a Run| run.points.iter().map(move |point| (run, point));
        judged(results).flat_map(points).map(|(run, point)| self.one(run, point)).collect()
    }

    fn one<'a>(&self, run: &'a Run, point: &'a Point) -> Named<'a> {
        let settings = settings::of(run, point);
        let values: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let name = if self.is_one_each { "" } else { run.name.as_str() };
        let wire = run.wire.filter(|_| self.by_wire.contains(&run.name));
        let over = wire.map_or_else(String::new, |wire| format!(", wire {}", wire.name()));
        Named {
            key: format!("{name}{over}\n{}\n{}", run.kind(), values.join("\n")),
            label: format!("{}{over} {} {}", run.name, run.kind(), settings::words(&settings)),
            point,
            wire: run.wire,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_record::spec::{Benchmark, Operation, Order, Window};
    use bench_record::workload::{LookupMethod, WorkSpec};

    fn results(runs: Vec<Run>) -> Results {
        Results::of(runs, Vec::new())
    }

    fn run(points: Vec<Point>) -> Run {
        Run::new("mine", Benchmark::Bandwidth, points)
    }

    /// Runs that each differ in one thing from the first, which is plain.
    fn different() -> Vec<Run> {
        let point = || Point::new(64, 256);
        let changed = |change: fn(&mut Run)| {
            let mut run = run(vec![point()]);
            change(&mut run);
            run
        };
        let of_point = |point: Point| run(vec![point]);
        let index = |way| {
            let mut index = Run::new("mine", Benchmark::Index, vec![point()]);
            index.method.work = Some(WorkSpec { way, ..WorkSpec::NONE });
            index
        };
        vec![
            changed(|_| {}),
            changed(|run| run.benchmark = Benchmark::Rma),
            changed(|run| run.operation = Operation::Tagged),
            changed(|run| run.method.threads = 2),
            changed(|run| run.method.endpoints = 2),
            changed(|run| run.method.directions = 2),
            changed(|run| run.method.flow.post_list = 2),
            changed(|run| run.method.flow.complete_every = 2),
            changed(|run| run.method.flow.window = Window::Refill),
            changed(|run| run.method.memory_bytes = 1 << 20),
            changed(|run| run.method.load_size_bytes = 8192),
            changed(|run| run.method.nodes = 3),
            changed(|run| "yours".clone_into(&mut run.name)),
            of_point(Point::new(65, 256)),
            of_point(Point::new(64, 255)),
            of_point(Point { rate_per_s: 1000, ..point() }),
            of_point(Point { parameter: 8, ..point() }),
            of_point(Point { validated: 1, ..point() }),
            of_point(Point { order: Order::Kept, ..point() }),
            of_point(Point { rx_depth: 512, ..point() }),
            index(LookupMethod::Rpc),
            index(LookupMethod::Read),
        ]
    }

    #[test]
    fn whatever_names_a_point_tells_it_from_others() {
        // Backwards, so that the first of the same size and depth is the wrong one.
        let (base, mut others) = (results(different()), different());
        for (number, run) in (1..).zip(&mut others) {
            run.points[0].lost = Some(number);
        }
        others.reverse();
        let new = results(others);
        let pairs = Pairs::of(&base, &new);
        assert_eq!((pairs.ambiguous.len(), pairs.only_new), (0, 0));
        let lost = |pair: &Pair<'_>| pair.new.expect(&pair.label).lost.expect("a number");
        let found: Vec<u64> = pairs.pairs.iter().map(lost).collect();
        assert_eq!(found, (1..).take(base.runs.len()).collect::<Vec<u64>>());
        let mut labels: Vec<&str> = pairs.pairs.iter().map(|pair| pair.label.as_str()).collect();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), base.runs.len(), "{labels:?}");
    }

    #[test]
    fn what_does_not_name_a_point_is_no_difference() {
        let mut again = run(vec![Point { rx_depth: 256, warmup_ms: 5, ..Point::new(64, 256) }]);
        (again.method.seed, again.method.runs) = (7, 10);
        again.client_cpu = Some(1);
        let (base, new) = (results(vec![run(vec![Point::new(64, 256)])]), results(vec![again]));
        assert!(Pairs::of(&base, &new).pairs[0].new.is_some());
    }

    #[test]
    fn doubles_are_paired_one_by_one_or_not_at_all() {
        let point = |lost| Point { lost: Some(lost), ..Point::new(64, 256) };
        let two = results(vec![run(vec![point(1)]), run(vec![point(2)])]);
        let pairs = Pairs::of(&two, &two).pairs;
        let lost = |pair: &Pair<'_>| pair.new.and_then(|point| point.lost);
        assert_eq!((lost(&pairs[0]), lost(&pairs[1])), (Some(1), Some(2)));
        assert!(pairs[1].label.ends_with("(2 of 2)"), "{}", pairs[1].label);
        let one = results(vec![run(vec![point(1), Point::new(8, 1)])]);
        let pairs = Pairs::of(&two, &one);
        assert!(pairs.pairs.is_empty());
        assert_eq!(
            pairs.ambiguous,
            ["mine bandwidth 64 B, depth 256: 2 in the first file, 1 in the second"]
        );
        assert_eq!(pairs.only_new, 1);
    }
}
