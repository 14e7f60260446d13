//! The lessons of workloads: when batching pays, who should walk a tree, over what to replicate,
//! and where TCP is enough.

use std::collections::BTreeMap;

use bench_record::cores::{Phase, are_apart};
use bench_record::spec::{Benchmark, Operation};
use bench_record::{Point, Run};
use report::{Layout, Section, Table, significant};

use super::choice::choose;
use super::race::{Race, race_of};
use crate::kinds::calls::RATE_ALONE;
use crate::settings::{self, ENDPOINT, OPERATION, RX_DEPTH, WAY};

/// The share of the best figure from which a figure is as good as the best.
const NEAR: f64 = 0.9;
/// The gain from which an effort is worth it.
const WORTH: f64 = 1.1;

/// The text if the cores were near for some and far for others.
const APART: &str = "Cannot be told: the cores were near for some and far for others.";
/// The recommendation that goes with it.
const ALIKE: &str = "Measure again with the cores in the same places (--cpu, --server-cpu).";

/// The subject of a lesson, what was measured, and what follows.
type Lesson = (&'static str, String, String);

/// Returns the lessons of these runs; `races` are those of workloads. Returns `None` if there is no
/// lesson.
pub(super) fn section(runs: &[Run], races: &[Race<'_>], names: &[&str]) -> Option<Section> {
    let titles = ["about", "measured", "recommendation"];
    let caption = "What the workloads mean for who builds on these fabrics";
    let mut table = Table::new(caption, &titles, 3).with_prose(1).with_prose(2);
    let all = [batching(runs), lookups(runs), replicas(runs, names), tcp(runs, races)];
    for (about, measured, advice) in all.into_iter().flatten() {
        table.push(vec![about.to_owned(), measured, advice]);
    }
    let (title, tables) = ("Lessons of the workloads".to_owned(), vec![table]);
    let is_empty = tables.iter().all(|table| table.rows.is_empty());
    (!is_empty).then(|| Section { title, layout: Layout::Folded, tables, ..Section::default() })
}

/// Returns the operations a second of a closed loop; in other loops, the rate is the requested one.
fn rate(point: &Point) -> Option<f64> {
    let work = point.work.as_ref().filter(|work| work.arrivals.is_none())?;
    Some(work.mcalls_per_s).filter(|rate| *rate > 0.0)
}

fn points(runs: &[Run], benchmark: Benchmark) -> impl Iterator<Item = (&Run, &Point, f64)> {
    let own = runs.iter().filter(move |run| run.benchmark == benchmark && run.source == "measured");
    let points = own.flat_map(|run| run.points.iter().map(move |point| (run, point)));
    points.filter_map(|(run, point)| Some((run, point, rate(point)?)))
}

/// The result of records that were sent several to a message.
struct Records {
    in_message: usize,
    rate: f64,
    phase: Option<Phase>,
}

/// Compares records several to a message with records one to a message.
fn batching(runs: &[Run]) -> Option<Lesson> {
    let mut places: BTreeMap<(&str, usize, usize), Vec<Records>> = BTreeMap::new();
    for (run, point, rate) in points(runs, Benchmark::Piggyback) {
        let place = (run.name.as_str(), point.size_bytes, point.depth);
        let records = Records { in_message: point.parameter, rate, phase: point.phase() };
        places.entry(place).or_default().push(records);
    }
    let (mut words, mut gains, mut is_apart) = (Vec::new(), Vec::new(), false);
    for ((name, size, _), all) in places {
        let Some(one) = all.iter().find(|own| own.in_message == 1) else { continue };
        let alike = all.iter().filter(|own| !are_apart(one.phase, own.phase));
        is_apart |= alike.clone().count() < all.len();
        let best = alike.max_by(|a, b| a.rate.total_cmp(&b.rate));
        let Some(best) = best.filter(|best| best.in_message > 1) else { continue };
        let gain = best.rate / one.rate;
        gains.push(gain);
        words.push(format!(
            "{name}: {} records of {size} B in a message are {gain:.1} times those of one",
            best.in_message
        ));
    }
    let Some(least) = gains.iter().copied().reduce(f64::min) else {
        return is_apart.then(|| ("Batching", APART.to_owned(), ALIKE.to_owned()));
    };
    let advice = match least {
        least if least >= WORTH => {
            "Put records together before they are sent, on each of these fabrics."
        }
        _ if gains.iter().all(|gain| *gain < WORTH) => {
            "Send records one by one: putting them together gains nothing here."
        }
        _ => "Put records together where it pays; elsewhere send them one by one.",
    };
    Some(("Batching", words.join("; ") + ".", advice.to_owned()))
}

/// The best lookups of each way, by fabric.
type Lookups<'a> = BTreeMap<&'a str, Vec<(&'static str, f64, &'a Point)>>;

/// Describes what was looked up, whoever walked the tree.
fn lookup_place(run: &Run, point: &Point) -> String {
    let kept = run.benchmark.about().parameter;
    let mut settings = settings::of(run, point);
    settings.retain(|own| {
        let is_of_way = own.name == WAY || Some(own.name) == kept;
        // A client that walks the tree itself READs.
        let is_read = own.name == OPERATION && run.operation == Operation::Read;
        !is_of_way && !is_read && own.name != ENDPOINT && own.name != RX_DEPTH
    });
    settings::words(&settings)
}

/// Compares calls with READs of the tree's nodes, at the setting at which most fabrics have both.
fn lookups(runs: &[Run]) -> Option<Lesson> {
    let mut places: BTreeMap<String, Lookups<'_>> = BTreeMap::new();
    for (run, point, rate) in points(runs, Benchmark::Index) {
        let Some(way) = run.method.work.map(|work| work.way.name()) else { continue };
        let of_place = places.entry(lookup_place(run, point)).or_default();
        let own = of_place.entry(&run.name).or_default();
        match own.iter_mut().find(|(known, ..)| *known == way) {
            Some(known) if known.1 >= rate => {}
            Some(known) => *known = (way, rate, point),
            None => own.push((way, rate, point)),
        }
    }
    places.values_mut().for_each(|own| own.retain(|_, ways| ways.len() > 1));
    let highest = |own: &Lookups<'_>| own.values().flatten().map(|way| way.1).fold(0.0, f64::max);
    let (place, best) = places.into_iter().max_by(|(_, a), (_, b)| {
        a.len().cmp(&b.len()).then_with(|| highest(a).total_cmp(&highest(b)))
    })?;
    let (mut words, mut advice) = (Vec::new(), Vec::new());
    for (name, ways) in best {
        let each: Vec<String> = ways
            .iter()
            .map(|(way, rate, point)| {
                let server_ns = point.work.as_ref().map_or(0.0, |work| work.server_cpu_ns);
                let (rate, server_ns) = (significant(*rate), significant(server_ns));
                format!("{way} {rate} M/s, {server_ns} ns of the owner")
            })
            .collect();
        words.push(format!("{name}: {}", each.join("; ")));
        let race = Race {
            label: String::new(),
            kind: Benchmark::Index.name().to_owned(),
            aspects: RATE_ALONE,
            entries: ways.iter().map(|(way, _, point)| (*way, *point)).collect(),
            is_workload: true,
        };
        advice.push(format!("{name}: {}", choose(&race).words()));
    }
    let advice = format!("Fastest: {}.", advice.join("; "));
    let measured = format!("{place}: {}.", words.join(". "));
    (!words.is_empty()).then_some(("Lookups", measured, advice))
}

/// Compares the fabrics that shipped a log, at the setting that most of them have.
fn replicas(runs: &[Run], names: &[&str]) -> Option<Lesson> {
    let suits = |run: &Run, point: &Point| run.source == "measured" && rate(point).is_some();
    let race = race_of(runs, names, Benchmark::Log.name(), RATE_ALONE, suits)?;
    let words = race.entries.iter().filter_map(|(name, point)| {
        let p99 = point.operation_time.map(|times| times.p99_us);
        let p99 = p99.map_or_else(String::new, |p99| format!(" at p99 {} µs", significant(p99)));
        Some(format!("{name}: {} M records/s{p99}", significant(rate(point)?)))
    });
    let measured = format!("{}: {}.", race.label, words.collect::<Vec<_>>().join("; "));
    let chosen = choose(&race);
    let advice = match chosen.is_clear() {
        true => format!("Ship logs over {} where the rate counts.", chosen.best),
        false => format!("Over what to ship logs: {}.", chosen.words()),
    };
    (race.entries.len() > 1).then_some(("Replicas", measured, advice))
}

/// Returns the rate of a fabric over TCP as a share of that of the best other fabric, with the
/// cores in the same places.
fn share_of_tcp(rates: &[(bool, f64, Option<Phase>)]) -> Option<f64> {
    let of = |is_tcp: bool| rates.iter().filter(move |own| own.0 == is_tcp);
    let mut others: Vec<_> = of(false).collect();
    others.sort_by(|a, b| b.1.total_cmp(&a.1));
    others.into_iter().find_map(|other| {
        let alike = of(true).filter(|own| !are_apart(own.2, other.2));
        alike.map(|own| own.1 / other.1).reduce(f64::max)
    })
}

/// Finds the workloads for which a fabric over TCP does as much as the best.
fn tcp(runs: &[Run], races: &[Race<'_>]) -> Option<Lesson> {
    let is_tcp = |name: &str| {
        let own = runs.iter().filter(|run| run.name == name);
        let mut providers = own.filter_map(|run| run.fabric.as_ref());
        providers.any(|fabric| fabric.provider.to_lowercase().starts_with("tcp"))
    };
    let (mut enough, mut short, mut apart) = (Vec::new(), Vec::new(), Vec::new());
    for race in races.iter().filter(|race| race.entries.len() > 1) {
        let of = |(name, point): &(&str, &Point)| Some((is_tcp(name), rate(point)?, point.phase()));
        let rates: Vec<_> = race.entries.iter().filter_map(of).collect();
        let has = |tcp| rates.iter().any(|own| own.0 == tcp);
        match share_of_tcp(&rates) {
            Some(share) if share >= NEAR => enough.push(race.label.clone()),
            Some(share) => short.push(format!("{} ({:.1} times)", race.label, 1.0 / share)),
            None if has(true) && has(false) => apart.push(race.label.clone()),
            None => {}
        }
    }
    let mut words = Vec::new();
    if !enough.is_empty() {
        words.push(format!("TCP does as much as the best other fabric: {}", enough.join("; ")));
    }
    if !short.is_empty() {
        words.push(format!("Another one does more: {}", short.join("; ")));
    }
    if !apart.is_empty() {
        words.push(format!("Cannot be told, the cores were elsewhere: {}", apart.join("; ")));
    }
    let advice = match (enough.is_empty(), short.is_empty()) {
        (true, true) if apart.is_empty() => return None,
        (true, true) => ALIKE,
        (false, true) if apart.is_empty() => "TCP is enough for all of these.",
        (true, false) if apart.is_empty() => "TCP is enough for none of these.",
        (false, true) => "TCP is enough for the first.",
        (true, false) => "TCP is not enough for the first.",
        (false, false) => "TCP is enough for the first; for the others it costs what is said.",
    };
    let advice = match apart.is_empty() || advice == ALIKE {
        true => advice.to_owned(),
        false => format!("{advice} {ALIKE}"),
    };
    Some(("Where TCP is enough", words.join(". ") + ".", advice))
}
