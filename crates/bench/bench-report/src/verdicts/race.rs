//! The selection of measurements that are compared: for each benchmark the place that most fabrics
//! have, and of those the most telling one.

use bench_record::cores;
use bench_record::spec::Benchmark;
use bench_record::workload::Figures;
use bench_record::{Point, Run};
use report::Better;

use crate::kinds::aspect::Aspect;
use crate::kinds::{self, Kind, SMALL_BYTES};
use crate::settings::{self, DEPTH, ENDPOINT, RX_DEPTH, SIZE, Setting};

/// The usual size of messages whose time is compared: what most applications send.
const LATENCY_BYTES: usize = 64;
/// The usual size of the messages of streams, where most tables look.
const STREAM_BYTES: usize = 8192;
/// The usual size of messages whose number is compared.
const RATE_BYTES: usize = 16;
/// The usual depth of streams.
const STREAM_DEPTH: usize = 256;
/// The usual size of collective operations.
const RANK_BYTES: usize = 1024;

/// A measurement that several fabrics have.
pub(super) struct Race<'a> {
    /// For example "latency 64 B".
    pub(super) label: String,
    /// For example "latency".
    pub(super) kind: String,
    pub(super) aspects: &'static [Aspect],
    /// The names and their points; one entry for each name, in their order.
    pub(super) entries: Vec<(&'a str, &'a Point)>,
    pub(super) is_workload: bool,
}

impl<'a> Race<'a> {
    /// Returns the point of one of them; `None` if it did not take part.
    pub(super) fn of(&self, name: &str) -> Option<&'a Point> {
        self.entries.iter().find(|(own, _)| *own == name).map(|(_, point)| *point)
    }
}

/// A measurement with its settings.
struct Candidate<'a> {
    run: &'a Run,
    point: &'a Point,
    settings: Vec<Setting>,
}

/// Returns the races of all benchmarks, in the order in which they were measured.
pub(super) fn races<'a>(runs: &'a [Run], names: &[&'a str]) -> Vec<Race<'a>> {
    let measured = || runs.iter().filter(|run| names.contains(&run.name.as_str()));
    let mut kinds: Vec<(&str, Benchmark)> = Vec::new();
    for run in measured() {
        if !kinds.iter().any(|(kind, _)| *kind == run.kind()) {
            kinds.push((run.kind(), run.benchmark));
        }
    }
    // Plain latency and streams first: everybody looks for them.
    let rank = |benchmark: Benchmark| match benchmark {
        Benchmark::Latency => 0,
        Benchmark::Bandwidth => 1,
        _ => 2,
    };
    kinds.sort_by_key(|(_, benchmark)| rank(*benchmark));
    let mut races = Vec::new();
    for (kind, benchmark) in kinds {
        let own = measured().filter(|run| run.kind() == kind);
        let all: Vec<Candidate<'_>> = own.flat_map(candidates).collect();
        let Kind { aspects, by_the_clock, of_small, .. } = *kinds::of(benchmark);
        match of_small {
            Some((_, of_small)) => {
                races.extend(stream_races(&all, kind, names, [aspects, of_small]));
            }
            None => races.extend(wider(
                race(&all, kind, aspects, names),
                race(&due(&all), kind, by_the_clock, names),
            )),
        }
    }
    races
}

/// Returns the race in which more take part, else the first.
fn wider<'a>(first: Option<Race<'a>>, second: Option<Race<'a>>) -> Option<Race<'a>> {
    let count = |race: &Option<Race<'_>>| race.as_ref().map_or(0, |race| race.entries.len());
    if count(&second) > count(&first) { second } else { first }
}

/// Returns the candidates whose operations came by the clock.
fn due<'a>(all: &[Candidate<'a>]) -> Vec<Candidate<'a>> {
    let is_due =
        |one: &&Candidate<'a>| one.point.work.as_ref().is_some_and(|work| work.arrivals.is_some());
    all.iter().filter(is_due).map(Candidate::copy).collect()
}

/// Returns the race of those points of a kind that suit.
pub(super) fn race_of<'a>(
    runs: &'a [Run],
    names: &[&'a str],
    kind: &str,
    aspects: &'static [Aspect],
    suits: impl Fn(&Run, &Point) -> bool,
) -> Option<Race<'a>> {
    let own = runs.iter().filter(|run| names.contains(&run.name.as_str()) && run.kind() == kind);
    let all = own.flat_map(candidates).filter(|one| suits(one.run, one.point));
    race(&all.collect::<Vec<_>>(), kind, aspects, names)
}

fn candidates(run: &Run) -> impl Iterator<Item = Candidate<'_>> {
    run.points.iter().map(move |point| {
        let mut settings = settings::of(run, point);
        // The name says these.
        settings.retain(|own| own.name != ENDPOINT && own.name != RX_DEPTH);
        Candidate { run, point, settings }
    })
}

/// Returns the races of streams: long messages by their bytes, short ones by their number.
fn stream_races<'a>(
    all: &[Candidate<'a>],
    kind: &str,
    names: &[&'a str],
    [of_long, of_small]: [&'static [Aspect]; 2],
) -> impl Iterator<Item = Race<'a>> {
    let part = |is_small: bool| -> Vec<Candidate<'a>> {
        let own = all.iter().filter(|one| (one.point.size_bytes <= SMALL_BYTES) == is_small);
        own.map(Candidate::copy).collect()
    };
    let long = race(&part(false), kind, of_long, names);
    let short = race(&part(true), &rate_of(kind), of_small, names);
    long.into_iter().chain(short)
}

/// Returns the name of a stream of short messages.
fn rate_of(kind: &str) -> String {
    match kind {
        "bandwidth" => "message rate".to_owned(),
        other => format!("{other} message rate"),
    }
}

/// Returns whether the cores were near for one and far for another, or moved, so that nobody can
/// compare them.
fn are_apart(own: &[&Candidate<'_>]) -> bool {
    let mut phases = own.iter().map(|one| one.point.phase()).filter(Option::is_some);
    let Some(first) = phases.next() else { return false };
    phases.any(|phase| cores::are_apart(first, phase))
}

impl<'a> Candidate<'a> {
    fn copy(&self) -> Self {
        Self { run: self.run, point: self.point, settings: self.settings.clone() }
    }

    /// Describes what was measured, whoever did it.
    fn place(&self) -> String {
        settings::words(&self.settings)
    }

    /// Returns how far the measurement is from what people look for: less is better.
    fn oddity(&self) -> f64 {
        let far = |value: usize, wanted: usize| (value.max(1) as f64 / wanted as f64).log2().abs();
        let point = self.point;
        let place = match self.run.benchmark.about().figures {
            Figures::Stream if point.size_bytes <= SMALL_BYTES => {
                far(point.size_bytes, RATE_BYTES) + far(point.depth, STREAM_DEPTH)
            }
            Figures::Stream => far(point.size_bytes, STREAM_BYTES) + far(point.depth, STREAM_DEPTH),
            Figures::Collective => far(point.size_bytes, RANK_BYTES),
            _ => far(point.size_bytes, LATENCY_BYTES),
        };
        let has_own_name = |own: &&Setting| own.name == SIZE || own.name == DEPTH;
        let special = self.settings.iter().filter(|own| !own.is_usual && !has_own_name(own));
        place + 100.0 * special.count() as f64
    }
}

/// Returns the race at the place that most have; of equally many, the best of the first for a
/// workload, and the most usual for others and where times of one operation count.
fn race<'a>(
    all: &[Candidate<'a>],
    kind: &str,
    aspects: &'static [Aspect],
    names: &[&'a str],
) -> Option<Race<'a>> {
    let first = aspects.first()?;
    let has_figure = |one: &&Candidate<'a>| (first.of)(one.point).is_some_and(|value| value > 0.0);
    let mut places: Vec<(String, Vec<&Candidate<'a>>)> = Vec::new();
    for one in all.iter().filter(has_figure) {
        let place = one.place();
        match places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, own)) if own.iter().any(|known| known.run.name == one.run.name) => {}
            Some((_, own)) => own.push(one),
            None => places.push((place, vec![one])),
        }
    }
    let is_workload = all.first()?.run.benchmark.is_workload();
    // Times are least where the least is done.
    let is_by_oddity = !is_workload || first.better == Better::Less;
    let value = |one: &Candidate<'a>| (first.of)(one.point).unwrap_or_default();
    let order = |a: &Candidate<'a>, b: &Candidate<'a>| match is_by_oddity {
        true => a.oddity().total_cmp(&b.oddity()),
        // The better one comes first.
        false => first.compare(value(b), value(a)),
    };
    let (place, own) = places.into_iter().min_by(|(_, a), (_, b)| {
        let by_place = || match (a.first(), b.first()) {
            (Some(a), Some(b)) => order(a, b),
            _ => std::cmp::Ordering::Equal,
        };
        b.len().cmp(&a.len()).then(are_apart(a).cmp(&are_apart(b))).then_with(by_place)
    })?;
    let entry = |name: &&'a str| {
        let found = own.iter().find(|one| one.run.name == **name)?;
        Some((*name, found.point))
    };
    let entries = names.iter().filter_map(entry).collect();
    let kind = kind.to_owned();
    Some(Race { label: format!("{kind} {place}"), kind, aspects, entries, is_workload })
}

#[cfg(test)]
mod tests {
    use bench_record::spec::Arrivals;
    use bench_record::{Bandwidth, Distribution, Latency};

    use super::super::tests::calls;
    use super::super::words::verdict;
    use super::*;

    fn latency(name: &str, sizes: &[usize]) -> Run {
        let point = |&size_bytes: &usize| {
            let latency = Latency { round_trips: Some(1), mean_us: 5.0, distribution: None };
            Point { latency: Some(latency), ..Point::new(size_bytes, 1) }
        };
        Run::new(name, Benchmark::Latency, sizes.iter().map(point).collect())
    }

    fn stream(name: &str, places: &[(usize, usize)]) -> Run {
        let point = |&(size, depth): &(usize, usize)| Point {
            bandwidth: Some(Bandwidth::new(9, (size * 9) as u64, 1.0)),
            ..Point::new(size, depth)
        };
        Run::new(name, Benchmark::Bandwidth, places.iter().map(point).collect())
    }

    fn labels(runs: &[Run]) -> Vec<String> {
        races(runs, &["mine", "yours"]).into_iter().map(|race| race.label).collect()
    }

    #[test]
    fn latency_comes_first_and_streams_by_bytes_and_by_number() {
        let places = [(16, 1), (16, 256), (8192, 16), (8192, 256), (64, 256)];
        let runs = [stream("mine", &places), latency("mine", &[1, 64, 8192])];
        let wanted =
            ["latency 64 B", "bandwidth 8192 B, depth 256", "message rate 16 B, depth 256"];
        assert_eq!(labels(&runs), wanted);
    }

    #[test]
    fn what_all_have_is_better_than_what_people_look_for() {
        let runs = [latency("mine", &[8, 64, 512]), latency("yours", &[512, 1024])];
        let races = races(&runs, &["mine", "yours"]);
        assert_eq!(races[0].label, "latency 512 B");
        let names: Vec<&str> = races[0].entries.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["mine", "yours"]);
    }

    #[test]
    fn what_was_asked_for_in_another_way_is_another_place() {
        let mut listed = stream("yours", &[(8192, 256)]);
        listed.method.flow.post_list = 8;
        let found = [stream("mine", &[(8192, 256)]), listed];
        let races = races(&found, &["mine", "yours"]);
        assert_eq!(races.len(), 1);
        assert_eq!(races[0].entries.len(), 1, "the usual one alone");
    }

    #[test]
    fn a_size_with_the_cores_alike_is_better_than_the_usual_one() {
        let at = |ns| Some(cores::Cores::between(ns, ns));
        let mut runs = [latency("mine", &[32, 64]), latency("yours", &[32, 64])];
        for (run, point, ns) in [(0, 0, 110.0), (1, 0, 110.0), (0, 1, 110.0), (1, 1, 530.0)] {
            runs[run].points[point].cores = at(ns);
        }
        assert_eq!(labels(&runs), ["latency 32 B"]);
        runs[1].points[1].cores = at(112.0);
        assert_eq!(labels(&runs), ["latency 64 B"]);
    }

    /// Matrices of 8 KiB do not stand for those of 64 B, which are faster.
    #[test]
    fn the_worst_time_does_not_stand_for_all() {
        let mut matrix = latency("mine", &[64, 8192]);
        matrix.benchmark = Benchmark::Matrix;
        for (point, mean_us) in matrix.points.iter_mut().zip([5.0, 50.0]) {
            point.latency.as_mut().expect("a latency").mean_us = mean_us;
        }
        assert_eq!(labels(&[matrix])[0].split(',').next(), Some("matrix 64 B"));
        let times =
            |p50_us| Some(Distribution { p50_us, p99_us: p50_us, ..Distribution::default() });
        let connections = [(1, 9.0), (4, 90.0)].map(|(threads, p50_us)| {
            let point = Point { operation_time: times(p50_us), ..Point::new(1, 1) };
            let mut run = Run::new("mine", Benchmark::Connections, vec![point]);
            run.method.threads = threads;
            run
        });
        assert!(!labels(&connections)[0].contains("threads 4"), "{:?}", labels(&connections));
    }

    /// By the clock, rates say nothing, because they are the requested ones.
    #[test]
    fn a_rate_that_was_asked_for_is_compared_by_its_times() {
        let by_the_clock = |name: &str, p50_us, p99_us| {
            let mut run = calls(name, 0.02, 500.0);
            let point = &mut run.points[0];
            point.rate_per_s = 20_000;
            point.operation_time = Some(Distribution { p50_us, p99_us, ..Distribution::default() });
            point.work.as_mut().expect("calls").arrivals = Some(Arrivals::Poisson);
            run
        };
        let clock = [by_the_clock("mine", 10.0, 30.0), by_the_clock("yours", 40.0, 90.0)];
        let [own] = races(&clock, &["mine", "yours"]).try_into().ok().expect("one race");
        let (ours, theirs) = (own.entries[0].1, own.entries[1].1);
        let said = verdict(own.aspects, ours, theirs).words;
        assert!(said.starts_with("▲ 4.0 times as fast at the median, 3.0 times"), "{said}");
        // Of as many in a closed loop the rate is told.
        let closed = [calls("mine", 2.0, 500.0), calls("yours", 1.0, 500.0)];
        let all = [clock.to_vec(), closed.to_vec()].concat();
        let [own] = races(&all, &["mine", "yours"]).try_into().ok().expect("one race");
        assert_eq!((own.aspects[0].unit, own.label.contains("asked/s")), ("M ops/s", false));
    }

    #[test]
    fn nothing_measured_is_no_race() {
        assert!(labels(&[]).is_empty());
        assert!(labels(&[latency("other", &[64])]).is_empty());
        let empty = Run::new("mine", Benchmark::Latency, vec![Point::new(64, 1)]);
        assert!(labels(&[empty]).is_empty());
    }
}
