//! Published figures beside modelled ones, row by row, with a summary; as text, and as JSON.

use super::profile::Profile;
use super::replay::Replay;
use crate::percentile::nearest_rank;
use published::{Anomaly, Fabric, Measurement, Operation, Unit, rows};
use report::Table;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// One row of a published table beside the model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Name of the table in the thesis, `c3.3`.
    pub table: &'static str,
    /// Series of the modelled figure: `model:c5n`.
    pub series: String,
    /// Bytes of a message.
    pub size_bytes: u32,
    /// Number of messages under way per queue pair.
    pub depth: u32,
    /// Number of queue pairs per thread.
    pub queue_pairs: u32,
    /// Number of threads that send.
    pub threads: u32,
    /// Wait of the generators of background load in nanoseconds; 0 where there are none.
    pub wait_ns: u32,
    #[serde(serialize_with = "operation_word")]
    operation: Operation,
    #[serde(serialize_with = "unit_word")]
    unit: Unit,
    /// The published figure.
    pub published: f64,
    /// The modelled figure, in the same unit.
    pub modelled: f64,
    /// Modelled over published, less 1, in percent.
    pub error_percent: f64,
    /// The reason why the row is listed apart, if it is.
    #[serde(serialize_with = "anomaly_word")]
    pub apart: Option<Anomaly>,
}

/// Errors of some rows, without their sign, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// Number of rows.
    pub rows: usize,
    /// Median of the errors.
    pub median_percent: f64,
    /// 90th percentile of the errors.
    pub p90_percent: f64,
    /// Largest error.
    pub max_percent: f64,
}

/// A comparison as it is kept in files. The series of a line is `model:` and the profile's name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record<'a> {
    schema: &'static str,
    errors: Option<Errors>,
    lines: &'a [Line],
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Rows of the tables.
    pub lines: Vec<Line>,
}

impl Comparison {
    /// Runs the benchmarks of `table` (of all tables) on profiles, each with the rows of its
    /// fabric.
    #[must_use]
    pub fn run(profiles: &[(String, Profile)], table: Option<&str>, seed: u64) -> Self {
        let mut lines = Vec::new();
        let mut replays: BTreeMap<Fabric, (String, Replay<'_>)> = BTreeMap::new();
        for (name, profile) in profiles {
            let series = format!("model:{name}");
            replays.insert(profile.fabric, (series, Replay::new(profile, seed)));
        }
        let is_asked = |row: &Measurement| table.is_none_or(|table| is_part_of(row.table, table));
        for row in rows().into_iter().filter(is_asked) {
            if let Some((series, replay)) = replays.get_mut(&row.fabric) {
                let modelled = replay.modelled(&row);
                lines.push(Line::new(&row, series.clone(), modelled));
            }
        }
        Self { lines }
    }

    /// Returns the errors of the rows that are not listed apart and satisfy `part`.
    pub fn errors(&self, part: impl Fn(&Line) -> bool) -> Option<Errors> {
        let own = self.lines.iter().filter(|line| line.apart.is_none() && part(line));
        let mut errors: Vec<f64> = own.map(|line| line.error_percent.abs()).collect();
        errors.sort_by(f64::total_cmp);
        let rows = errors.len();
        (rows > 0).then(|| Errors {
            rows,
            median_percent: nearest_rank(&errors, 50),
            p90_percent: nearest_rank(&errors, 90),
            max_percent: errors[rows - 1],
        })
    }

    /// Returns the tables and the summary as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for name in self.tables() {
            let of_table = |line: &&Line| line.table == name && line.apart.is_none();
            let lines = self.lines.iter().filter(of_table);
            text += &section(&format!("Table {}", name.to_uppercase()), lines);
        }
        let apart = self.lines.iter().filter(|line| line.apart.is_some());
        text += &section("Listed apart (why: crates/support/published/data/published.csv)", apart);
        text + &self.summary()
    }

    /// Returns rows and errors, for programs.
    #[must_use]
    pub fn record(&self) -> Record<'_> {
        Record { schema: "netsim-nic-1", errors: self.errors(|_| true), lines: &self.lines }
    }

    /// Returns the names of the tables, in their order.
    fn tables(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = self.lines.iter().map(|line| line.table).collect();
        names.dedup();
        names
    }

    fn summary(&self) -> String {
        let mut table = Table::new("", &["error", "rows", "median %", "p90 %", "max %"], 1);
        let mut push = |name: String, errors: Option<Errors>| {
            if let Some(e) = errors {
                let percent = |value: f64| format!("{value:.1}");
                let cells = [e.median_percent, e.p90_percent, e.max_percent].map(percent);
                table.push([vec![name, e.rows.to_string()], cells.to_vec()].concat());
            }
        };
        for name in self.tables() {
            push(name.to_uppercase(), self.errors(|line| line.table == name));
        }
        let mut series: Vec<&str> = self.lines.iter().map(|line| line.series.as_str()).collect();
        series.sort_unstable();
        series.dedup();
        for name in series {
            push(name.to_owned(), self.errors(|line| line.series == name));
        }
        push("all".to_owned(), self.errors(|_| true));
        format!("Summary\n{}", table.text())
    }
}

impl Line {
    fn new(row: &Measurement, series: String, modelled: f64) -> Self {
        Self {
            table: row.table,
            series,
            size_bytes: row.size_bytes,
            depth: row.depth,
            queue_pairs: row.queue_pairs,
            threads: row.threads,
            wait_ns: row.wait_ns,
            operation: row.operation,
            unit: row.unit,
            published: row.value,
            modelled,
            error_percent: (modelled / row.value - 1.0) * 100.0,
            apart: row.anomaly,
        }
    }

    fn cells(&self) -> Vec<String> {
        let figure = |value: f64| format!("{value:.2}");
        let mut cells = vec![
            self.series.trim_start_matches("model:").to_owned(),
            self.operation.word().to_owned(),
            self.unit.name().to_owned(),
        ];
        let counts = [self.size_bytes, self.depth, self.queue_pairs, self.threads, self.wait_ns];
        cells.extend(counts.map(|count| count.to_string()));
        cells.extend([figure(self.published), figure(self.modelled)]);
        cells.push(format!("{:+.1}", self.error_percent));
        cells.push(self.apart.map_or_else(String::new, |reason| reason.word().to_owned()));
        cells
    }
}

fn operation_word<S: Serializer>(operation: &Operation, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(operation.word())
}

fn unit_word<S: Serializer>(unit: &Unit, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(unit.word())
}

fn anomaly_word<S: Serializer>(reason: &Option<Anomaly>, to: S) -> Result<S::Ok, S::Error> {
    reason.map(Anomaly::word).serialize(to)
}

const TITLES: [&str; 12] = [
    "profile",
    "operation",
    "unit",
    "bytes",
    "depth",
    "QPs",
    "threads",
    "wait ns",
    "published",
    "modelled",
    "error %",
    "",
];

fn section<'a>(title: &str, lines: impl Iterator<Item = &'a Line>) -> String {
    let mut table = Table::new(title, &TITLES, 3);
    for line in lines {
        table.push(line.cells());
    }
    if table.rows.is_empty() {
        return String::new();
    }
    format!("{title}\n{}\n", table.text())
}

/// Returns whether `part` names a table or its group: `c3` stands for all of C.3, `c3.3` for
/// itself.
fn is_part_of(name: &str, part: &str) -> bool {
    let part = part.to_lowercase();
    name.strip_prefix(part.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
