//! Calls of workloads: also lookups, records and files.

use bench_record::spec::Benchmark;
use bench_record::workload::Figures;
use bench_record::{ActionTimes, Point, Run, Work};
use report::{Table, significant};

use super::aspect::{Aspect, CALL_CPU, GOODPUT, OPERATION, OPERATION_P99};
use super::cells::{dash, doubt, spread, us};
use super::quantity::{BYTES, CALLS, TAIL};
use super::{CsvColumn, Kind};

pub(super) const KIND: Kind = Kind {
    table,
    quantities: &[CALLS, TAIL],
    aspects: BY_RATE,
    by_the_clock: BY_THE_CLOCK,
    csv: CSV,
    ..Kind::NOTHING
};
pub(super) const LOOKUPS: Kind = Kind { csv: &[], ..KIND };
pub(super) const RECORDS: Kind = LOOKUPS;
pub(crate) const FILES: Kind = Kind {
    quantities: &[BYTES, TAIL],
    aspects: &[FILE_GOODPUT, OPERATION_P99, FILE_CPU],
    by_the_clock: &[OPERATION, OPERATION_P99, FILE_CPU],
    ..LOOKUPS
};

const CALL_RATE: Aspect = Aspect {
    unit: "M ops/s",
    // By the clock it is what was asked for.
    of: |point| {
        point.work.as_ref().filter(|own| own.arrivals.is_none()).map(|own| own.mcalls_per_s)
    },
    ..GOODPUT
};
const FILE_GOODPUT: Aspect = Aspect {
    of: |point| {
        let is_due = point.work.as_ref().is_some_and(|work| work.arrivals.is_some());
        point.bandwidth.filter(|_| !is_due).map(|found| found.gbit_per_s)
    },
    ..GOODPUT
};
const FILE_CPU: Aspect = Aspect {
    unit: "CPU s/GB",
    of: |point| {
        let work = point.work.as_ref()?;
        Some(work.client_cpu_s_per_gb? + work.server_cpu_s_per_gb?)
    },
    ..CALL_CPU
};

/// What workloads are chosen by, each by the first: how many operations, or how long one takes.
pub(crate) const BY_RATE: &[Aspect] = &[CALL_RATE, OPERATION_P99, CALL_CPU];
pub(crate) const ONE_BY_ONE: &[Aspect] = &[CALL_RATE, OPERATION_P99];
pub(crate) const RATE_ALONE: &[Aspect] = &[CALL_RATE];
/// What they are compared by where operations come by the clock, at a rate that was asked for.
const BY_THE_CLOCK: &[Aspect] = &[OPERATION, OPERATION_P99, CALL_CPU];

const CSV: &[CsvColumn] = &[
    ("mcalls_per_s", |_, p| Some(work(p)?.mcalls_per_s.to_string())),
    ("behind_ms", |_, p| Some(work(p)?.behind_ms?.to_string())),
    ("get_p99_us", |_, p| Some(work(p)?.times("get")?.p99_us.to_string())),
    ("put_p99_us", |_, p| Some(work(p)?.times("put")?.p99_us.to_string())),
    ("bytes_per_call", |_, p| Some(work(p)?.bytes_per_call.to_string())),
    ("client_cpu_ns_per_call", |_, p| Some(work(p)?.client_cpu_ns.to_string())),
    ("server_cpu_ns_per_call", |_, p| Some(work(p)?.server_cpu_ns.to_string())),
    ("wait_p50_us", |_, p| Some(work(p)?.part("wait")?.p50_us.to_string())),
    ("wait_p99_us", |_, p| Some(work(p)?.part("wait")?.p99_us.to_string())),
    ("wait_p9999_us", |_, p| Some(work(p)?.part("wait")?.p9999_us?.to_string())),
    ("client_process_cpu_ns_per_call", |_, p| Some(work(p)?.client_process_cpu_ns.to_string())),
    ("server_process_cpu_ns_per_call", |_, p| Some(work(p)?.server_process_cpu_ns.to_string())),
    ("reads_per_call", |_, p| Some(work(p)?.reads_per_call.to_string())),
    ("client_cpu_s_per_gb", |_, p| Some(work(p)?.client_cpu_s_per_gb?.to_string())),
    ("server_cpu_s_per_gb", |_, p| Some(work(p)?.server_cpu_s_per_gb?.to_string())),
    ("calls", |_, p| Some(work(p)?.calls.to_string())),
    ("messages_per_call", |_, p| Some(work(p)?.messages_per_call.to_string())),
    ("unended", |_, p| {
        let work = work(p).filter(|own| own.arrivals.is_some())?;
        Some(work.actions.iter().map(|own| own.unended).sum::<u64>().to_string())
    }),
    ("get_calls", |_, p| Some(action(p, "get")?.calls.to_string())),
    ("get_p50_us", |_, p| Some(action(p, "get")?.distribution.p50_us.to_string())),
    ("put_calls", |_, p| Some(action(p, "put")?.calls.to_string())),
    ("put_p50_us", |_, p| Some(action(p, "put")?.distribution.p50_us.to_string())),
];

/// What one row is about.
struct WorkRow<'a> {
    point: &'a Point,
    work: &'a Work,
    action: &'a ActionTimes,
}

/// A column: its head, and what it says of a row.
type Column = (&'static str, fn(&WorkRow<'_>) -> String);

/// What was asked for.
const WHERE: [Column; 3] = [
    ("size B", |row| row.point.size_bytes.to_string()),
    ("depth", |row| row.point.depth.to_string()),
    ("due/s per thread", |row| match row.point.rate_per_s {
        0 => "-".to_owned(),
        rate => rate.to_string(),
    }),
];
const TIMES: [Column; 4] = [
    ("p50 µs", |row| us(row.action.distribution.p50_us)),
    ("p99 µs", |row| us(row.action.distribution.p99_us)),
    ("p99.9 µs", |row| row.action.distribution.p999_us.map_or_else(dash, us)),
    ("max µs", |row| us(row.action.distribution.max_us)),
];
/// What is known of calls.
const OF_CALLS: [Column; 7] = [
    ("calls", |row| row.action.calls.to_string()),
    UNENDED,
    ("msg/call", |row| significant(row.work.messages_per_call)),
    ("B/call", |row| significant(row.work.bytes_per_call)),
    ("client CPU ns/call", |row| significant(row.work.client_cpu_ns)),
    ("server CPU ns/call", |row| significant(row.work.server_cpu_ns)),
    LATE,
];
/// What is known of lookups that READ, too.
const READS: [Column; 3] = [
    ("READs/call", |row| significant(row.work.reads_per_call)),
    ("client process CPU ns/call", |row| significant(row.work.client_process_cpu_ns)),
    ("server process CPU ns/call", |row| significant(row.work.server_process_cpu_ns)),
];
/// What is known of records that travel together.
const OF_RECORDS: [Column; 11] = [
    FARTHEST,
    ("wait p50 µs", |row| row.work.part("wait").map_or_else(dash, |d| us(d.p50_us))),
    ("wait p99 µs", |row| row.work.part("wait").map_or_else(dash, |d| us(d.p99_us))),
    ("wait p99.99 µs", |row| row.work.part("wait").and_then(|d| d.p9999_us).map_or_else(dash, us)),
    ("records", |row| row.action.calls.to_string()),
    UNENDED,
    // Each message with records has an answer.
    ("in a message", |row| significant(2.0 / row.work.messages_per_call.max(f64::MIN_POSITIVE))),
    ("B/record", |row| significant(row.work.bytes_per_call)),
    ("sender CPU ns/record", |row| significant(row.work.client_cpu_ns)),
    ("receiver CPU ns/record", |row| significant(row.work.server_cpu_ns)),
    LATE,
];
/// What is known of files.
const OF_FILES: [Column; 10] = [
    ("GB/s", |row| {
        row.point.bandwidth.map_or_else(dash, |found| significant(found.mb_per_s / 1e3))
    }),
    ("p50 ms", |row| significant(row.action.distribution.p50_us / 1e3)),
    ("p99 ms", |row| significant(row.action.distribution.p99_us / 1e3)),
    ("max ms", |row| significant(row.action.distribution.max_us / 1e3)),
    ("files", |row| row.action.calls.to_string()),
    UNENDED,
    ("msg/file", |row| significant(row.work.messages_per_call)),
    ("client CPU s/GB", |row| row.work.client_cpu_s_per_gb.map_or_else(dash, significant)),
    ("server CPU s/GB", |row| row.work.server_cpu_s_per_gb.map_or_else(dash, significant)),
    LATE,
];
/// The tail of times that a group of nodes makes.
const FARTHEST: Column =
    ("p99.99 µs", |row| row.action.distribution.p9999_us.map_or_else(dash, us));
const UNENDED: Column = ("not done", |row| match row.work.arrivals {
    Some(_) => row.action.unended.to_string(),
    None => dash(),
});
const LATE: Column = ("late ms", |row| row.work.behind_ms.map_or_else(dash, significant));
const DOUBT: [Column; 2] = [("spread %", |row| spread(row.point)), ("± %", |row| doubt(row.point))];

/// Million operations of one kind a second.
fn rate(row: &WorkRow<'_>) -> String {
    let share = row.action.calls as f64 / row.work.calls.max(1) as f64;
    significant(row.work.mcalls_per_s * share)
}

fn columns(benchmark: Benchmark) -> Vec<Column> {
    let mut columns = WHERE.to_vec();
    if let Some(name) = benchmark.about().parameter {
        columns.push((name, |row| row.point.parameter.to_string()));
    }
    let figures = benchmark.about().figures;
    match figures {
        Figures::Files => columns.extend(OF_FILES),
        Figures::Records => {
            columns.push(("M records/s", rate));
            columns.extend(TIMES);
            columns.extend(OF_RECORDS);
        }
        _ => {
            columns.push(("call", |row| row.action.name.clone()));
            columns.push(("M calls/s", rate));
            columns.extend(TIMES);
            columns.extend(benchmark.is_for_groups().then_some(FARTHEST));
            columns.extend(OF_CALLS);
        }
    }
    if figures == Figures::Lookups {
        columns.extend(READS);
    }
    columns.extend(DOUBT);
    columns
}

/// One row for each kind of operation of each point.
fn table(run: &Run) -> Table {
    let columns = columns(run.benchmark);
    let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    let mut table = Table::new(&caption(run), &titles, 0);
    for point in &run.points {
        let Some(work) = &point.work else { continue };
        if work.actions.is_empty() {
            table.push(nothing_ended(point, columns.len()));
        }
        for action in &work.actions {
            let row = WorkRow { point, work, action };
            table.push(columns.iter().map(|(_, text)| text(&row)).collect());
        }
    }
    table
}

/// The row of a point of which no operation ended: what was asked for, and no figure.
fn nothing_ended(point: &Point, columns: usize) -> Vec<String> {
    let rate = if point.rate_per_s == 0 { dash() } else { point.rate_per_s.to_string() };
    let mut cells = vec![point.size_bytes.to_string(), point.depth.to_string(), rate];
    cells.resize(columns, dash());
    cells
}

/// What was asked for, in words.
fn caption(run: &Run) -> String {
    let method = &run.method;
    let mut words = Vec::new();
    if let Some(work) = method.work {
        words.push(match run.points.iter().find_map(|point| point.work.as_ref()?.arrivals) {
            None => "closed loop".to_owned(),
            Some(arrivals) => format!("open loop ({})", format!("{arrivals:?}").to_lowercase()),
        });
        let own = (run.benchmark.about().words)(&work);
        words.push(own.unwrap_or_else(|| format!("{} nodes", method.nodes)));
        if let Some(log) = work.log() {
            words.push(log.to_string());
        }
        if work.transactions {
            words.push(if work.locks { "rows locked" } else { "no locks" }.to_owned());
        }
        match work.zipf_hundredths {
            theta if work.keys == 0 && theta > 0 => {
                words.push(format!("Zipf {}", f64::from(theta) / 100.0));
            }
            _ if work.keys == 0 => {}
            0 => words.push(format!("{} keys alike", work.keys)),
            theta => words.push(format!("{} keys, Zipf {}", work.keys, f64::from(theta) / 100.0)),
        }
    }
    let counts = [
        (method.flow.post_list, "in lists of"),
        (method.threads, "threads:"),
        (method.endpoints, "endpoints per thread and peer:"),
    ];
    words.extend(counts.iter().filter(|(n, _)| *n > 1).map(|(n, what)| format!("{what} {n}")));
    format!("{}: {}, {}", run.name, run.benchmark.name(), words.join(", "))
}

/// One kind of operation.
fn action<'a>(point: &'a Point, name: &str) -> Option<&'a ActionTimes> {
    point.work.as_ref()?.actions.iter().find(|own| own.name == name)
}

const fn work(point: &Point) -> Option<&Work> {
    point.work.as_ref()
}
