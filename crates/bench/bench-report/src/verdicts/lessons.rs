//! What workloads teach: when batching pays, who should walk a tree, over what to replicate, and
//! where TCP is enough.

use std::collections::BTreeMap;

use bench_record::spec::Benchmark;
use bench_record::workload::LookupMethod;
use bench_record::{Point, Run};
use report::{Layout, Section, Table, significant};

use super::race::Race;

/// As good as the best.
const NEAR: f64 = 0.9;
/// What a trouble must gain to be worth it.
const WORTH: f64 = 1.1;

/// What was measured, and what follows.
type Lesson = (&'static str, String, String);

/// The lessons of these runs, of which `races` are those of workloads; nothing where there is none.
pub(super) fn section(runs: &[Run], races: &[Race<'_>]) -> Option<Section> {
    let titles = ["about", "measured", "recommendation"];
    let caption = "What the workloads mean for who builds on these fabrics";
    let mut table = Table::new(caption, &titles, 3).with_prose(1).with_prose(2);
    let all = [batching(runs), lookups(runs), replicas(runs), tcp(runs, races)];
    for (about, measured, advice) in all.into_iter().flatten() {
        table.push(vec![about.to_owned(), measured, advice]);
    }
    let (title, tables) = ("Lessons of the workloads".to_owned(), vec![table]);
    let is_empty = tables.iter().all(|table| table.rows.is_empty());
    (!is_empty).then(|| Section { title, layout: Layout::Folded, tables, ..Section::default() })
}

/// Operations a second of closed loops: of others the rate is what was asked for.
fn rate(point: &Point) -> Option<f64> {
    let work = point.work.as_ref().filter(|work| work.arrivals.is_none())?;
    Some(work.mcalls_per_s).filter(|rate| *rate > 0.0)
}

fn points(runs: &[Run], benchmark: Benchmark) -> impl Iterator<Item = (&Run, &Point, f64)> {
    let own = runs.iter().filter(move |run| run.benchmark == benchmark && run.source == "measured");
    let points = own.flat_map(|run| run.points.iter().map(move |point| (run, point)));
    points.filter_map(|(run, point)| Some((run, point, rate(point)?)))
}

/// Records several to a message beside one to a message.
fn batching(runs: &[Run]) -> Option<Lesson> {
    // Records in a message, and the rate that they had.
    type Rates = Vec<(usize, f64)>;
    let mut places: BTreeMap<(&str, usize, usize), Rates> = BTreeMap::new();
    for (run, point, rate) in points(runs, Benchmark::Piggyback) {
        let place = (run.name.as_str(), point.size_bytes, point.depth);
        places.entry(place).or_default().push((point.parameter, rate));
    }
    let mut words = Vec::new();
    let mut gains = Vec::new();
    for ((name, size, _), rates) in places {
        let one = rates.iter().find(|(records, _)| *records == 1);
        let best = rates.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((one, best)) = one.zip(best).filter(|(_, best)| best.0 > 1) else { continue };
        let gain = best.1 / one.1;
        gains.push(gain);
        words.push(format!(
            "{name}: {} records of {size} B in a message are {gain:.1} times those of one",
            best.0
        ));
    }
    let least = gains.iter().copied().reduce(f64::min)?;
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

/// Calls beside READs of the tree's nodes.
fn lookups(runs: &[Run]) -> Option<Lesson> {
    type Best<'a> = BTreeMap<&'a str, Vec<(LookupMethod, f64, &'a Point)>>;
    let mut best: Best<'_> = BTreeMap::new();
    for (run, point, rate) in points(runs, Benchmark::Index) {
        let Some(way) = run.method.work.map(|work| work.way) else { continue };
        let own = best.entry(&run.name).or_default();
        match own.iter_mut().find(|(known, ..)| *known == way) {
            Some(known) if known.1 >= rate => {}
            Some(known) => *known = (way, rate, point),
            None => own.push((way, rate, point)),
        }
    }
    best.retain(|_, ways| ways.len() > 1);
    let mut words = Vec::new();
    let mut advice = Vec::new();
    for (name, ways) in best {
        let each: Vec<String> = ways
            .iter()
            .map(|(way, rate, point)| {
                let server_ns = point.work.as_ref().map_or(0.0, |work| work.server_cpu_ns);
                let (rate, server_ns) = (significant(*rate), significant(server_ns));
                format!("{} {rate} M/s, {server_ns} ns of the owner", way.name())
            })
            .collect();
        words.push(format!("{name}: {}", each.join("; ")));
        let fastest = ways.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        advice.extend(fastest.map(|(way, ..)| format!("{name}: {}", way.name())));
    }
    let advice = format!("Fastest: {}.", advice.join("; "));
    (!words.is_empty()).then(|| ("Lookups", words.join(". ") + ".", advice))
}

/// The best of each fabric that shipped a log.
fn replicas(runs: &[Run]) -> Option<Lesson> {
    let mut best: BTreeMap<&str, (f64, &Point)> = BTreeMap::new();
    for (run, point, rate) in points(runs, Benchmark::Log) {
        let own = best.entry(&run.name).or_insert((rate, point));
        if own.0 < rate {
            *own = (rate, point);
        }
    }
    let words = best.iter().map(|(name, (rate, point))| {
        let p99 = point.operation_time.map(|times| times.p99_us);
        let p99 = p99.map_or_else(String::new, |p99| format!(" at p99 {} µs", significant(p99)));
        format!("{name}: {} M records/s{p99}", significant(*rate))
    });
    let words: Vec<String> = words.collect();
    let (name, _) = best.iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    let advice = format!("Ship logs over {name} where the rate counts.");
    (best.len() > 1).then(|| ("Replicas", words.join("; ") + ".", advice))
}

/// Workloads for which a fabric over TCP does as much as the best.
fn tcp(runs: &[Run], races: &[Race<'_>]) -> Option<Lesson> {
    let is_tcp = |name: &str| {
        let own = runs.iter().filter(|run| run.name == name);
        let mut providers = own.filter_map(|run| run.fabric.as_ref());
        providers.any(|fabric| fabric.provider.to_lowercase().starts_with("tcp"))
    };
    let (mut enough, mut short) = (Vec::new(), Vec::new());
    for race in races.iter().filter(|race| race.entries.len() > 1) {
        let of = |(name, point): &(&str, &Point)| Some((is_tcp(name), rate(point)?));
        let rates: Vec<(bool, f64)> = race.entries.iter().filter_map(of).collect();
        let best = |tcp| rates.iter().filter(|own| own.0 == tcp).map(|own| own.1).reduce(f64::max);
        let Some((tcp, other)) = best(true).zip(best(false)) else { continue };
        match tcp / other {
            share if share >= NEAR => enough.push(race.label.clone()),
            share => short.push(format!("{} ({:.1} times)", race.label, 1.0 / share)),
        }
    }
    let mut words = Vec::new();
    if !enough.is_empty() {
        words.push(format!("TCP does as much as the best other fabric: {}", enough.join("; ")));
    }
    if !short.is_empty() {
        words.push(format!("Another one does more: {}", short.join("; ")));
    }
    let advice = match (enough.is_empty(), short.is_empty()) {
        (true, true) => return None,
        (false, true) => "TCP is enough for all of these.",
        (true, false) => "TCP is enough for none of these.",
        (false, false) => "TCP is enough for the first; for the others it costs what is said.",
    };
    Some(("Where TCP is enough", words.join(". ") + ".", advice.to_owned()))
}
