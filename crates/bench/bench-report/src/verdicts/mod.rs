//! The first screen of a report: what was compared with what, where, and the outcome in words and
//! in one picture.

mod about;
mod choice;
mod lessons;
mod race;
mod words;

use bench_record::{Point, Run};
use report::{Better, Dot, Dots, LOOKS, Layout, Scale, Section, Table, distinct, significant};

use crate::kinds::aspect::Aspect;
pub(crate) use about::about;
use race::{Race, races};
use words::verdict;

/// The number of plain measurements on the first screen; all are further down.
const RACES_MAX: usize = 3;
/// The number of others with which the first is compared on the first screen; further down, it is
/// compared with all.
const OTHERS_MAX: usize = 3;

/// Everything that was measured on several fabrics.
struct AllRaces<'a> {
    work: Vec<Race<'a>>,
    plain: Vec<Race<'a>>,
}

impl<'a> AllRaces<'a> {
    fn of(runs: &'a [Run], names: &[&'a str]) -> Self {
        let (work, plain) = races(runs, names).into_iter().partition(|race| race.is_workload);
        Self { work, plain }
    }

    /// Returns whether the workloads come first: in a plan of them, the streams beside them are not
    /// the point.
    fn are_about_work(&self) -> bool {
        self.work.len() > self.plain.len()
    }
}

/// Returns the table of the workloads that were measured, if these come first. It is for a
/// terminal: workloads are named without their settings, and verdicts are the first to be left out.
pub fn of_workloads(runs: &[Run]) -> Option<Table> {
    let measured = runs.iter().filter(|run| run.source != "published");
    let names = distinct(measured.map(|run| run.name.as_str()));
    let races = AllRaces::of(runs, &names);
    races.are_about_work().then(|| {
        let mut table = workloads(&races.work, |race| race.kind.clone());
        for (place, index) in (1..).zip([6, 3, 5]) {
            table.columns[index].least = Some(place);
        }
        table
    })
}

/// Returns what a reader sees first; empty if nothing was measured.
pub(crate) fn sections(runs: &[Run], names: &[&str]) -> Vec<Section> {
    let races = AllRaces::of(runs, names);
    let is_about_work = races.are_about_work();
    let AllRaces { work, plain } = races;
    let mut sections = Vec::new();
    let (first, second) = if is_about_work { (&work, &plain) } else { (&plain, &work) };
    for (layout, races) in [(Layout::Lead, first.as_slice()), (Layout::Body, second.as_slice())] {
        if races.is_empty() {
            continue;
        }
        let of_work = races.first().is_some_and(|race| race.is_workload);
        let races = if of_work { races } else { &races[..races.len().min(RACES_MAX)] };
        let table = if of_work {
            workloads(races, |race| race.label.clone())
        } else {
            verdicts(races, names, OTHERS_MAX)
        };
        let panels = races.iter().map(|race| panel(race, names)).collect();
        let title = match (layout, of_work) {
            (Layout::Lead, _) => String::new(),
            (_, true) => "Workloads".to_owned(),
            (_, false) => "Plain messages".to_owned(),
        };
        let is_alone = races.iter().all(|race| race.entries.len() < 2);
        let signs = if is_alone { "" } else { SIGNS };
        let text = vec![format!("{signs}{MARKS}")];
        sections.push(Section {
            title,
            layout,
            tables: vec![table],
            panels,
            text,
            ..Section::default()
        });
    }
    if is_about_work {
        let lead = sections.iter().take_while(|own| own.layout == Layout::Lead).count();
        let choice = choice::section(runs, &work, names);
        choice.into_iter().for_each(|section| sections.insert(lead, section));
    }
    sections.extend(lessons::section(runs, &work, names));
    let are_cut = plain.iter().any(|race| race.entries.len() > OTHERS_MAX + 1);
    if are_cut || plain.len() > RACES_MAX {
        let (title, layout) = ("All comparisons".to_owned(), Layout::Folded);
        let tables = vec![verdicts(&plain, names, usize::MAX)];
        sections.push(Section { title, layout, tables, ..Section::default() });
    }
    sections
}

const CAPTION: &str = "What came of it";
const NOBODY: &str = "nobody else was measured";
const SIGNS: &str = "▲ is better and ▼ worse than the other, ◆ is both, = is as good (what \
    differs is noise), ? is undecided: the blocks do not tell. ";
const MARKS: &str = "Marks: the middle block. Bars: its 95 % interval. Dots: all blocks. Strokes: \
    p99 and maximum of the middle block.";

/// Renders the figures of a point, as far as they are known: "5.65 µs, p99 9.10".
fn figures(aspects: &[Aspect], point: &Point) -> String {
    let mut words: Vec<String> = Vec::new();
    for (index, aspect) in aspects.iter().enumerate() {
        let Some(value) = (aspect.of)(point) else { continue };
        words.push(match (index, aspect.at) {
            (0, _) => format!("{} {}", significant(value), aspect.unit),
            (_, "at p99") => format!("p99 {}", significant(value)),
            _ => format!("{} {}", significant(value), aspect.unit),
        });
    }
    words.join(", ")
}

/// Returns a table with a row for each comparison of the first with up to `others_max` others.
fn verdicts(races: &[Race<'_>], names: &[&str], others_max: usize) -> Table {
    let everybody = || races.iter().flat_map(|race| race.entries.iter().map(|(name, _)| *name));
    let first = names.iter().copied().find(|name| everybody().any(|own| own == *name));
    let first = first.unwrap_or_default();
    let is_alone = everybody().all(|name| name == first);
    if is_alone {
        let mut table = Table::new("What was measured", &["what", first, "how certain"], 3);
        for race in races {
            for (_, point) in &race.entries {
                let figures = figures(race.aspects, point);
                table.push(vec![race.label.clone(), figures, alone(point)]);
            }
        }
        return table;
    }
    let others = others_of(races, first);
    let others = &others[..others.len().min(others_max)];
    match others {
        [other] => beside_one(races, first, other),
        _ => beside_several(races, first, others),
    }
}

/// Returns the names of the others that were measured.
fn others_of<'a>(races: &[Race<'a>], first: &str) -> Vec<&'a str> {
    let mut others: Vec<&str> = Vec::new();
    for (name, _) in races.iter().flat_map(|race| &race.entries) {
        if *name != first && !others.contains(name) {
            others.push(name);
        }
    }
    others
}

/// Returns the table with one other, whose verdict stands where a narrow screen shows it.
fn beside_one(races: &[Race<'_>], first: &str, other: &str) -> Table {
    let beside = format!("{first} beside {other}");
    let titles = ["what", beside.as_str(), first, other, "how certain"];
    let mut table =
        Table::new(CAPTION, &titles, titles.len()).with_prose(0).with_prose(1).with_prose(4);
    for race in races {
        let figures = |point| figures(race.aspects, point);
        let nothing = || "-".to_owned();
        // A failed step of a plan may leave anyone out.
        let (words, own, theirs, certainty) = match (race.of(first), race.of(other)) {
            (Some(ours), Some(theirs)) => {
                let verdict = verdict(race.aspects, ours, theirs);
                (verdict.words, figures(ours), figures(theirs), verdict.certainty)
            }
            (Some(ours), None) => (NOBODY.to_owned(), figures(ours), nothing(), alone(ours)),
            (None, Some(theirs)) => (missing(first), nothing(), figures(theirs), alone(theirs)),
            (None, None) => continue,
        };
        table.push(vec![race.label.clone(), words, own, theirs, certainty]);
    }
    table
}

/// Returns the text instead of a verdict if the first has nothing to compare.
fn missing(first: &str) -> String {
    format!("{first} was not measured")
}

/// Returns a table with a row for the first, and one for each of the others.
fn beside_several(races: &[Race<'_>], first: &str, others: &[&str]) -> Table {
    let beside = format!("{first} beside it");
    let titles = ["what", "fabric", beside.as_str(), "figures", "how certain"];
    let mut table =
        Table::new(CAPTION, &titles, titles.len()).with_prose(0).with_prose(2).with_prose(4);
    for race in races {
        let mut push = |name: &str, beside: String, figures: String, certainty: String| {
            table.push(vec![race.label.clone(), name.to_owned(), beside, figures, certainty]);
        };
        let ours = race.of(first);
        if let Some(ours) = ours {
            push(first, "-".to_owned(), figures(race.aspects, ours), alone(ours));
        }
        for (name, theirs) in race.entries.iter().filter(|(name, _)| others.contains(name)) {
            let figures = figures(race.aspects, theirs);
            match ours.map(|ours| verdict(race.aspects, ours, theirs)) {
                Some(verdict) => push(name, verdict.words, figures, verdict.certainty),
                None => push(name, missing(first), figures, alone(theirs)),
            }
        }
    }
    table
}

/// Returns a table with a row for each workload and fabric: operations, p99 and cost.
fn workloads(races: &[Race<'_>], name_of: impl Fn(&Race<'_>) -> String) -> Table {
    let titles = [
        "workload",
        "fabric",
        "rate or time",
        "p50 µs",
        "p99 µs",
        "CPU of both sides",
        "beside the first",
    ];
    let mut table = Table::new("Which fabric did how much, and at which cost", &titles, 2);
    table = table.with_prose(0).with_prose(titles.len() - 1);
    let text = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), significant);
    for race in races {
        let Some((_, first)) = race.entries.first() else { continue };
        for (index, (name, point)) in race.entries.iter().enumerate() {
            let cost = race.aspects.iter().find(|aspect| aspect.is_cost);
            let cost = cost
                .and_then(|own| Some(format!("{} {}", significant((own.of)(point)?), own.unit)));
            let rate = race
                .aspects
                .first()
                .and_then(|own| Some(format!("{} {}", significant((own.of)(point)?), own.unit)));
            table.push(vec![
                name_of(race),
                (*name).to_owned(),
                rate.unwrap_or_else(|| "-".to_owned()),
                text(point.operation_time.map(|times| times.p50_us)),
                text(point.operation_time.map(|times| times.p99_us)),
                cost.unwrap_or_else(|| "-".to_owned()),
                match index {
                    0 => String::new(),
                    _ => verdict(race.aspects, point, first).words,
                },
            ]);
        }
    }
    table
}

/// Describes how certain a figure is that stands alone.
fn alone(point: &Point) -> String {
    match (point.blocks.len(), point.interval.zip(point.figure())) {
        (blocks, Some((interval, figure))) if blocks > 1 => {
            format!("± {:.1} % (95 %, {blocks} blocks)", interval.half_width_percent(figure))
        }
        _ => "not known: one block".to_owned(),
    }
}

/// Returns the picture of a race.
fn panel(race: &Race<'_>, names: &[&str]) -> Dots {
    let Some(first) = race.aspects.first() else {
        return Dots {
            title: String::new(),
            unit: String::new(),
            scale: Scale::Linear,
            rows: Vec::new(),
        };
    };
    let is_time = first.better == Better::Less;
    let row = |(name, point): &(&str, &Point)| {
        let value = (first.of)(point)?;
        let scale = point.figure().map(|figure| value / figure);
        let blocks = first.blocks(point);
        let interval = point.interval.filter(|_| !blocks.is_empty());
        let ends = interval.zip(scale).map(|(own, scale)| (own.low * scale, own.high * scale));
        let look = names.iter().position(|own| own == name).unwrap_or(0) % LOOKS;
        let tail = if is_time { tail(point) } else { Vec::new() };
        Some(Dot { name: (*name).to_owned(), look, value, interval: ends, blocks, tail })
    };
    let scale = if is_time { Scale::Log10 } else { Scale::Linear };
    Dots {
        title: format!("{} ({}; {})", race.label, first.unit, first.better_word()),
        unit: first.unit.to_owned(),
        scale,
        rows: race.entries.iter().filter_map(row).collect(),
    }
}

/// Returns the tail of the times of a point, whatever was timed.
fn tail(point: &Point) -> Vec<(String, f64)> {
    let half = point.latency.and_then(|latency| latency.distribution);
    let response = || point.open_loop.and_then(|found| found.response);
    let times = half.or_else(response).or(point.operation_time);
    let named = |times: bench_record::Distribution| {
        vec![("p99".to_owned(), times.p99_us), ("max".to_owned(), times.max_us)]
    };
    times.map(named).unwrap_or_default()
}

#[cfg(test)]
mod tests;
