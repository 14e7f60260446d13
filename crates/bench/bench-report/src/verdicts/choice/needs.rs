//! "If your system does this, use that": a row for each thing that data systems do, a cell for each
//! fabric.

use bench_record::cores::{self, Phase};
use bench_record::{Point, Run};
use report::{Table, significant};

use super::chosen::{KnownCost, choose, choose_by_cost, choose_by_rate};
use super::{Cell, cost, push};
use crate::held::{self, Ladder};
use crate::kinds::aspect::{self, Aspect};
use crate::kinds::{calls, incast, shuffle};
use crate::verdicts::race::{self, Race};

/// A thing that data systems do.
struct Need {
    /// The words after "if your system".
    what: &'static str,
    /// The workload that measures the need; `suits` selects its points.
    kind: &'static str,
    suits: fn(&Point) -> bool,
    decides: &'static [Aspect],
    says: &'static [Aspect],
    /// The command that measures it: the words after `efa-bench local`.
    command: &'static str,
}

const NEEDS: [Need; 12] = [
    Need {
        what: "makes one small call after the other",
        kind: "rpc",
        suits: |point| point.depth == 1,
        decides: calls::ONE_BY_ONE,
        says: aspect::TIMES,
        command: "rpc -d 1",
    },
    Need {
        what: "has many small calls under way",
        kind: "rpc",
        suits: |point| point.depth > 1,
        command: "rpc -d 32",
        ..CALLS
    },
    Need {
        what: "reads and writes values of 1 KiB and more",
        kind: "kv",
        suits: |point| point.size_bytes >= 1024,
        command: "kv -s 4096 -d 32",
        ..CALLS
    },
    Need {
        what: "gathers small records into messages",
        kind: "piggyback",
        command: "piggyback",
        ..CALLS
    },
    Need {
        what: "looks keys up in another node's index",
        kind: "index",
        command: "index -d 32",
        ..CALLS
    },
    Need {
        what: "moves files or other long blocks",
        kind: "fileget",
        decides: calls::FILES.aspects,
        says: calls::FILES.aspects,
        command: "fileget -s 16M",
        ..CALLS
    },
    Need {
        what: "waits for replicas at each commit",
        kind: "log",
        suits: |point| point.depth == 1,
        decides: calls::ONE_BY_ONE,
        says: aspect::TIMES,
        command: "log -d 1",
    },
    Need {
        what: "ships a log with many commits under way",
        kind: "log",
        suits: |point| point.depth > 1,
        command: "log -d 16",
        ..CALLS
    },
    Need {
        what: "commits transactions on several nodes",
        kind: "2pc",
        command: "2pc -d 64",
        ..CALLS
    },
    Need {
        what: "repartitions tuples between all nodes",
        kind: "shuffle",
        decides: shuffle::KIND.aspects,
        says: shuffle::KIND.aspects,
        command: "shuffle -s 64",
        ..CALLS
    },
    Need {
        what: "gets answers of many nodes at once",
        kind: "incast",
        decides: incast::KIND.aspects,
        says: incast::KIND.aspects,
        command: "incast -s 1M",
        ..CALLS
    },
    Need {
        what: "adds something up over all nodes",
        kind: "allreduce",
        decides: aspect::TIMES,
        says: aspect::TIMES,
        command: "allreduce -s 1024",
        ..CALLS
    },
];

/// Closed loops, judged by their rate.
const CALLS: Need = Need {
    what: "",
    kind: "",
    suits: |_| true,
    decides: calls::BY_RATE,
    says: calls::BY_RATE,
    command: "",
};

/// The findings on one need of a system.
struct NeedRow {
    what: String,
    advice: String,
    /// One cell for each fabric; `None` if it was not measured.
    cells: Vec<Option<Cell>>,
}

/// Returns the table, and the commands for what is missing in it.
pub(super) fn table(runs: &[Run], names: &[&str]) -> (Table, Vec<String>) {
    let titles = [&["if your system", "use"][..], names].concat();
    let caption = "If your system does this, use that";
    let mut table = Table::new(caption, &titles, titles.len());
    for column in 0..titles.len() {
        table = table.with_prose(column);
    }
    let mut missing = Vec::new();
    let mut add = |row: Option<NeedRow>, what: &str, command: &str| {
        let absent = |name: &&str| format!("{what}, {name}: {}", command_on(runs, name, command));
        let Some(row) = row else {
            let first = names.first().copied().unwrap_or_default();
            missing.push(format!("{what}: {}", command_on(runs, first, command)));
            return;
        };
        let open = names.iter().zip(&row.cells).filter(|(_, cell)| cell.is_none());
        missing.extend(open.map(|(name, _)| absent(name)));
        let cells = row.cells.into_iter().map(|cell| cell.unwrap_or_else(Cell::nothing));
        let head = [row.what, row.advice].map(Cell::plain);
        push(&mut table, head.into_iter().chain(cells).collect());
    };
    for need in &NEEDS {
        let suits = |_: &Run, point: &Point| point.rate_per_s == 0 && (need.suits)(point);
        let found = race::race_of(runs, names, need.kind, need.decides, suits);
        add(found.map(|race| of_race(runs, names, need, &race)), need.what, need.command);
    }
    let held = "must answer by the clock";
    add(of_rates(runs, names), held, "rpc -d 128 --rate 5000,20000,80000");
    add(of_connections(runs, names), "opens connections often", "rpc -d 1");
    for own in &COSTS {
        let suits = |_: &Run, point: &Point| point.rate_per_s == 0 && (own.of)(point).is_some();
        let found = race::race_of(runs, names, own.kind, calls::BY_RATE, suits);
        add(found.map(|race| of_cost(runs, names, &race, own)), own.what, own.kind);
    }
    (table, missing)
}

/// A resource of which a system may have little.
struct Cost {
    what: &'static str,
    /// The workload that measures it.
    kind: &'static str,
    unit: &'static str,
    of: fn(&Point) -> Option<f64>,
}

const COSTS: [Cost; 2] = [
    Cost {
        what: "has little processor time for its bytes",
        kind: "fileget",
        unit: "CPU s/GB",
        of: cost::cpu_s_per_gb,
    },
    Cost {
        what: "has little processor time for its messages",
        kind: "rpc",
        unit: "CPU s/million messages",
        of: cost::cpu_s_per_million,
    },
];
/// Returns the place of a race without its kind.
fn at(label: &str, kind: &str) -> String {
    label.strip_prefix(kind).unwrap_or(label).trim_start().to_owned()
}

fn of_race(runs: &[Run], names: &[&str], need: &Need, race: &Race<'_>) -> NeedRow {
    let chosen = choose(race);
    let cell = |name: &&str| {
        let (_, point) = race.entries.iter().find(|(own, _)| own == name)?;
        Some(Cell::of(runs, point, chosen.signed(name, &said(need.says, point))))
    };
    let what = format!("{} ({} {})", need.what, need.kind, at(&race.label, need.kind));
    NeedRow { what, advice: chosen.words(), cells: names.iter().map(cell).collect() }
}

/// Renders the aspects of a point: "2.8 µs, p99 31 µs".
fn said(aspects: &[Aspect], point: &Point) -> String {
    let figures = aspects.iter().filter(|aspect| !aspect.is_cost).filter_map(|aspect| {
        let tail = if aspect.at == "at p99" { "p99 " } else { "" };
        Some(format!("{tail}{} {}", significant((aspect.of)(point)?), aspect.unit))
    });
    figures.collect::<Vec<_>>().join(", ")
}

/// Returns the row of rates that are held.
fn of_rates(runs: &[Run], names: &[&str]) -> Option<NeedRow> {
    const KINDS: [&str; 3] = ["rpc", "kv", "open_loop"];
    let known = KINDS.iter().map(|kind| held::ladders(runs, names, kind));
    let rest = || {
        let others = runs.iter().map(Run::kind).filter(|kind| !KINDS.contains(kind));
        others.flat_map(|kind| held::ladders(runs, names, kind)).collect::<Vec<_>>()
    };
    let ladder = known.flatten().next().or_else(|| rest().into_iter().next())?;
    Some(NeedRow {
        what: format!(
            "must answer by the clock, p99 below {} µs ({})",
            ladder.bound_us, ladder.label
        ),
        advice: choose_by_rate(&ladder),
        cells: names.iter().map(|name| rate_cell(runs, &ladder, name)).collect(),
    })
}

fn rate_cell(runs: &[Run], ladder: &Ladder<'_>, name: &str) -> Option<Cell> {
    let own = ladder.entries.iter().find(|own| own.name == name)?;
    let step = own.best.or(own.beyond)?;
    Some(Cell::of(runs, step.point, own.words()))
}

/// Returns the row of connections: the same workloads on each fabric, with as many threads and
/// endpoints.
fn of_connections<'a>(runs: &[Run], names: &[&'a str]) -> Option<NeedRow> {
    let is_pair = |run: &&Run| run.benchmark.is_workload() && run.method.nodes == 2;
    let of_fabric = |name: &str| {
        let own = runs.iter().filter(|run| run.name == name).filter(is_pair);
        own.filter_map(|run| Some((cost::connection_us(run)?, run))).collect::<Vec<_>>()
    };
    let kind = |run: &Run| (run.benchmark, run.method.threads, run.method.endpoints);
    let measured: Vec<_> =
        names.iter().map(|name| of_fabric(name)).filter(|own| !own.is_empty()).collect();
    // Runs of one fabric alone, such as those with many threads, have nothing to be compared with.
    let is_common = |run: &Run| {
        measured.iter().all(|own| own.iter().any(|(_, other)| kind(other) == kind(run)))
    };
    let of_name = |name: &&str| {
        let mut times = of_fabric(name);
        times.retain(|(_, run)| is_common(run));
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        times
    };
    let all: Vec<Vec<(f64, &Run)>> = names.iter().map(of_name).collect();
    let known = names.iter().zip(&all).filter(|(_, times)| !times.is_empty());
    let known_cost = |(&name, times): (&&'a str, &Vec<(f64, &Run)>)| KnownCost {
        name,
        values: times.iter().map(|own| own.0).collect(),
        phase: phase_of(times.iter().map(|own| own.1)),
    };
    let costs: Vec<KnownCost<'_>> = known.map(known_cost).collect();
    let chosen = choose_by_cost(&costs);
    let cell = |(name, times): (&&str, &Vec<(f64, &Run)>)| {
        let (middle, run) = times.get(times.len() / 2)?;
        let (low, high) = (times.first()?.0, times.last()?.0);
        let range = match times.len() {
            1 => "one session".to_owned(),
            count => format!("{} to {} in {count} sessions", significant(low), significant(high)),
        };
        let figure = format!("{} µs ({range})", significant(*middle));
        Some(Cell::of_set_up(runs, run, chosen.signed(name, &figure)))
    };
    let cells = names.iter().zip(&all).map(cell).collect();
    let what = "opens connections often (set-up and first round trip)".to_owned();
    (!costs.is_empty()).then(|| NeedRow { what, advice: chosen.words(), cells })
}

/// Returns the place of the processors during all points of these runs; `None` if it was not one
/// place, or is not known. Nothing is known of the moment of the set-up itself.
fn phase_of<'a>(runs: impl Iterator<Item = &'a Run>) -> Option<Phase> {
    let phases = runs.flat_map(|run| &run.points).filter_map(Point::phase);
    cores::common(phases).filter(|phase| *phase != Phase::Changed)
}

/// Returns the row of a cost.
fn of_cost(runs: &[Run], names: &[&str], race: &Race<'_>, own: &Cost) -> NeedRow {
    let Cost { what, unit, of, .. } = own;
    let known = race.entries.iter().filter_map(|&(name, point)| {
        Some(KnownCost { name, values: vec![of(point)?], phase: point.phase() })
    });
    let chosen = choose_by_cost(&known.collect::<Vec<_>>());
    let cell = |name: &&str| {
        let (_, point) = race.entries.iter().find(|(own, _)| own == name)?;
        let figure = format!("{} {unit}", significant(of(point)?));
        Some(Cell::of(runs, point, chosen.signed(name, &figure)))
    };
    let what = format!("{what} ({})", race.label);
    NeedRow { what, advice: chosen.words(), cells: names.iter().map(cell).collect() }
}

/// Returns the command that measures something on a fabric of these runs, as one of them was
/// started.
fn command_on(runs: &[Run], name: &str, words: &str) -> String {
    let command = runs.iter().find(|run| run.name == name && run.command.contains("--fabric"));
    let all: Vec<&str> = command.map(|run| run.command.split(' ').collect()).unwrap_or_default();
    let program =
        all.iter().position(|word| word.rsplit('/').next() == Some("efa-bench")).unwrap_or(0);
    // Wherever it was found then.
    let own = all[..program].iter().map(|word| match word.rsplit('/').next() {
        Some("softefa") => "softefa",
        _ => *word,
    });
    let prefix = own.collect::<Vec<_>>().join(" ");
    let fabric = all.iter().position(|word| *word == "--fabric").and_then(|at| all.get(at + 1));
    let fabric = fabric.map_or_else(String::new, |own| format!(" --fabric {own}"));
    format!("{prefix} efa-bench local {words}{fabric}").trim_start().to_owned()
}
