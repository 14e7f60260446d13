//! The costs of a workload on a fabric: its connection, and its processor time by bytes and by
//! messages.

use bench_record::{Point, Run, Work};
use report::{Table, significant};

use super::{Cell, push};
use crate::held::{self, KeptRate};
use crate::verdicts::race::Race;

/// Returns the time of the set-up of the endpoint and the first round trip, in µs.
pub(super) fn connection_us(run: &Run) -> Option<f64> {
    let set_up: f64 = run.setup_us.iter().map(|(_, time_us)| time_us).sum();
    run.cold_start_us.map(|first| set_up + first).filter(|_| !run.setup_us.is_empty())
}

/// Returns the processor time of both sides for one operation in ns: that of whole processes if it
/// is known, because a fabric may have threads of its own.
fn cpu_ns(work: &Work) -> Option<f64> {
    let are_known = work.client_cpu_ns > 0.0 && work.server_cpu_ns > 0.0;
    work.process_cpu_ns().or_else(|| are_known.then(|| work.cpu_ns()))
}

/// Returns the processor seconds for 10^9 bytes.
pub(super) fn cpu_s_per_gb(point: &Point) -> Option<f64> {
    if let Some(found) = point.shuffle {
        let whole = Some(found.process_cpu_ns_per_tuple).filter(|ns| *ns > 0.0);
        let per_byte = whole.unwrap_or(found.cpu_ns_per_tuple) / point.size_bytes as f64;
        return Some(per_byte).filter(|own| own.is_finite() && *own > 0.0);
    }
    let work = point.work.as_ref()?;
    // For files, the bytes that the client wanted count.
    let is_file = work.client_cpu_s_per_gb.is_some();
    let bytes = if is_file { point.size_bytes as f64 } else { work.bytes_per_call };
    // ns for a byte are s for 10^9.
    cpu_ns(work).map(|ns| ns / bytes).filter(|own| own.is_finite())
}

/// Returns the processor seconds for a million messages.
pub(super) fn cpu_s_per_million(point: &Point) -> Option<f64> {
    let work = point.work.as_ref()?;
    cpu_ns(work).map(|ns| ns / work.messages_per_call / 1e3).filter(|own| own.is_finite())
}

/// Returns a table with a row for each workload and fabric.
pub(super) fn table(runs: &[Run], races: &[Race<'_>], names: &[&str]) -> Table {
    let titles = [
        "workload",
        "fabric",
        "rate held",
        "first rate not held",
        "connection µs",
        "CPU s/GB",
        "CPU s/million messages",
    ];
    let caption = "How far it goes and what it costs: the highest rate held, set-up with the first round trip, processor time of both sides";
    let mut table = Table::new(caption, &titles, 4).with_prose(0).with_prose(2).with_prose(3);
    for race in races {
        let ladder = held::ladders(runs, names, &race.kind).into_iter().next();
        for (name, point) in race.entries.iter().filter(|(name, _)| names.contains(name)) {
            let run =
                runs.iter().find(|run| run.points.iter().any(|own| std::ptr::eq(own, *point)));
            let own =
                ladder.iter().flat_map(|ladder| &ladder.entries).find(|own| own.name == *name);
            let [best, beyond] = match own {
                Some(own) => {
                    let label = ladder.as_ref().map_or("", |ladder| &ladder.label);
                    let label = if label == race.label { "" } else { label };
                    rates(runs, own, label)
                }
                None => [Cell::nothing(), Cell::nothing()],
            };
            let connection = run
                .and_then(|run| Some(Cell::of_set_up(runs, run, significant(connection_us(run)?))));
            let of_point = |value: Option<f64>| {
                value.map_or_else(Cell::nothing, |value| Cell::of(runs, point, significant(value)))
            };
            push(
                &mut table,
                vec![
                    Cell::plain(race.label.clone()),
                    Cell::plain((*name).to_owned()),
                    best,
                    beyond,
                    connection.unwrap_or_else(Cell::nothing),
                    of_point(cpu_s_per_gb(point)),
                    of_point(cpu_s_per_million(point)),
                ],
            );
        }
    }
    table
}

/// Renders the highest rate that was held, and the first that was not; `label` names their place if
/// it is another than that of the rest of the row.
fn rates(runs: &[Run], own: &KeptRate<'_>, label: &str) -> [Cell; 2] {
    let at = if label.is_empty() { String::new() } else { format!(" ({label})") };
    let cell = |step: Option<held::Step<'_>>, words: String| match step {
        Some(step) => Cell::of(runs, step.point, words),
        None => Cell::plain(words),
    };
    [cell(own.best, own.words() + &at), cell(own.beyond, own.beyond_words())]
}
