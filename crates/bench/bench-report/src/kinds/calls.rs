//! Calls of workloads, including lookups, records and files.

use bench_record::spec::Benchmark;
use bench_record::workload::Figures;
use bench_record::{Run, Work};
use report::{Table, significant};

use super::aspect::{Aspect, CALL_CPU, GOODPUT, OPERATION, OPERATION_P99};
use super::cells::{above_0, us};
use super::column::{Column, DEPTH, DOUBT, PointRow, SIZE, SPREAD};
use super::quantity::{BYTES, CALLS, TAIL};
use super::{Kind, column};

pub(super) const KIND: Kind = Kind {
    table,
    quantities: &[CALLS, TAIL],
    aspects: BY_RATE,
    by_the_clock: BY_THE_CLOCK,
    ..Kind::NOTHING
};
pub(crate) const FILES: Kind = Kind {
    quantities: &[BYTES, TAIL],
    aspects: &[FILE_GOODPUT, OPERATION_P99, FILE_CPU],
    by_the_clock: &[OPERATION, OPERATION_P99, FILE_CPU],
    ..KIND
};

const CALL_RATE: Aspect = Aspect {
    unit: "M ops/s",
    // By the clock, the rate is the requested one.
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

/// The aspects by which workloads are chosen, the first one first: the number of operations, how
/// long one takes, and its cost.
pub(crate) const BY_RATE: &[Aspect] = &[CALL_RATE, OPERATION_P99, CALL_CPU];
/// The same without the cost, for operations that come one by one.
pub(crate) const ONE_BY_ONE: &[Aspect] = &[CALL_RATE, OPERATION_P99];
/// The number of operations alone.
pub(crate) const RATE_ALONE: &[Aspect] = &[CALL_RATE];
/// The aspects if operations come by the clock, at a requested rate.
const BY_THE_CLOCK: &[Aspect] = &[OPERATION, OPERATION_P99, CALL_CPU];

/// Columns of what was requested.
const ASKED: [Column; 3] =
    [SIZE, DEPTH, Column::new("due/s per thread", |p| above_0(p.rate_per_s))];

const TIMES: [Column; 4] = [
    Column::new("p50 µs", |p| Some(us(p.action?.distribution.p50_us))),
    Column::new("p99 µs", |p| Some(us(p.action?.distribution.p99_us))),
    Column::new("p99.9 µs", |p| Some(us(p.action?.distribution.p999_us?))),
    Column::new("max µs", |p| Some(us(p.action?.distribution.max_us))),
];

/// Columns of calls.
const OF_CALLS: [Column; 7] = [
    Column::new("calls", |p| Some(p.action?.calls.to_string())),
    UNENDED,
    Column::new("msg/call", |p| Some(significant(work_of(p)?.messages_per_call))).least(2),
    Column::new("B/call", |p| Some(significant(work_of(p)?.bytes_per_call))).least(1),
    Column::new("client CPU ns/call", |p| Some(significant(work_of(p)?.client_cpu_ns))),
    Column::new("server CPU ns/call", |p| Some(significant(work_of(p)?.server_cpu_ns))),
    LATE,
];

/// Columns of lookups that also READ.
const READS: [Column; 3] = [
    Column::new("READs/call", |p| Some(significant(work_of(p)?.reads_per_call))),
    Column::new("client process CPU ns/call", |p| {
        Some(significant(work_of(p)?.client_process_cpu_ns))
    })
    .least(11),
    Column::new("server process CPU ns/call", |p| {
        Some(significant(work_of(p)?.server_process_cpu_ns))
    })
    .least(12),
];

/// Columns of records that travel together.
const OF_RECORDS: [Column; 11] = [
    FARTHEST,
    Column::new("wait p50 µs", |p| Some(us(work_of(p)?.part("wait")?.p50_us))),
    Column::new("wait p99 µs", |p| Some(us(work_of(p)?.part("wait")?.p99_us))),
    Column::new("wait p99.99 µs", |p| Some(us(work_of(p)?.part("wait")?.p9999_us?))).least(10),
    Column::new("records", |p| Some(p.action?.calls.to_string())),
    UNENDED,
    // Each message with records has an answer.
    Column::new("in a message", |p| {
        Some(significant(2.0 / work_of(p)?.messages_per_call.max(f64::MIN_POSITIVE)))
    }),
    Column::new("B/record", |p| Some(significant(work_of(p)?.bytes_per_call))),
    Column::new("sender CPU ns/record", |p| Some(significant(work_of(p)?.client_cpu_ns))),
    Column::new("receiver CPU ns/record", |p| Some(significant(work_of(p)?.server_cpu_ns))),
    LATE,
];

/// Columns of files.
const OF_FILES: [Column; 10] = [
    Column::new("GB/s", |p| Some(significant(p.bandwidth?.mb_per_s / 1e3))),
    Column::new("p50 ms", |p| Some(significant(p.action?.distribution.p50_us / 1e3))),
    Column::new("p99 ms", |p| Some(significant(p.action?.distribution.p99_us / 1e3))),
    Column::new("max ms", |p| Some(significant(p.action?.distribution.max_us / 1e3))),
    Column::new("files", |p| Some(p.action?.calls.to_string())),
    UNENDED,
    Column::new("msg/file", |p| Some(significant(work_of(p)?.messages_per_call))),
    Column::new("client CPU s/GB", |p| Some(significant(work_of(p)?.client_cpu_s_per_gb?))),
    Column::new("server CPU s/GB", |p| Some(significant(work_of(p)?.server_cpu_s_per_gb?))),
    LATE,
];

/// The farthest percentile of the tail of times.
const FARTHEST: Column =
    Column::new("p99.99 µs", |p| Some(us(p.action?.distribution.p9999_us?))).least(3);

const UNENDED: Column = Column::new("not done", |p| {
    work_of(p)?.arrivals?;
    Some(p.action?.unended.to_string())
});

const LATE: Column = Column::new("late ms", |p| Some(significant(work_of(p)?.behind_ms?)));

/// Renders the rate of one kind of operation, in millions a second.
fn rate(row: &PointRow<'_>) -> Option<String> {
    let work = work_of(row)?;
    let share = row.action?.calls as f64 / work.calls.max(1) as f64;
    Some(significant(work.mcalls_per_s * share))
}

fn columns(benchmark: Benchmark) -> Vec<Column> {
    let mut columns = ASKED.to_vec();
    if let Some(name) = benchmark.about().parameter {
        columns.push(Column::new(name, |p| p.action.map(|_| p.parameter.to_string())));
    }
    let figures = benchmark.about().figures;
    match figures {
        Figures::Files => columns.extend(OF_FILES),
        Figures::Records => {
            columns.push(Column::new("M records/s", rate));
            columns.extend(TIMES);
            columns.extend(OF_RECORDS);
        }
        _ => {
            columns.push(Column::new("call", |p| Some(p.action?.name.clone())));
            columns.push(Column::new("M calls/s", rate));
            columns.extend(TIMES);
            columns.extend(benchmark.is_for_groups().then_some(FARTHEST));
            columns.extend(OF_CALLS);
        }
    }
    if figures == Figures::Lookups {
        columns.extend(READS);
    }
    columns.extend([SPREAD, DOUBT]);
    columns
}

/// Returns a table with a row for each kind of operation of each point.
fn table(run: &Run) -> Table {
    let rows = run.points.iter().flat_map(|point| {
        let actions = point.work.as_ref().map(|work| &work.actions);
        // If no operation ended, the row shows what was requested, and no figure.
        let nothing = actions.is_some_and(Vec::is_empty).then(|| PointRow::of(point));
        let row = move |action| PointRow { action: Some(action), ..PointRow::of(point) };
        nothing.into_iter().chain(actions.into_iter().flatten().map(row))
    });
    column::table(&caption(run), run, columns(run.benchmark), rows)
}

/// Describes what was requested.
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

/// Returns the figures of a row that has some.
fn work_of<'a>(row: &PointRow<'a>) -> Option<&'a Work> {
    row.action.and(row.point.work.as_ref())
}
