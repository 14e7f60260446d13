//! Data files that a scenario names, beside it: transfers of a trace, distributions of sizes.
//!
//! Comma-separated, the first row names the columns, `#` begins a comment. What is wrong is said
//! with the file, its line and the column.

use super::field::Bounded;
use super::network::Wrong;
use super::spec::{Poisson, TransferBytes, Workloads};
use crate::time::Time;
use crate::transport::Kind;
use crate::workload::FLOWS_MAX;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as NoSuchKind;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Maximum start of a transfer; no run is longer.
const START_NS_MAX: u64 = 60_000_000_000;
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Maximum number of rows: the transfers that a run may have, and room for comments.
const ROWS_MAX: u64 = FLOWS_MAX + 10_000;
const TRACE_COLUMNS: [&str; 5] = ["start_ns", "src", "dst", "bytes", "transport"];
const SIZES_COLUMNS: [&str; 2] = ["bytes", "percent"];

/// Transfers from a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, [[workload.trace]]")]
pub(crate) struct Trace {
    /// File with rows of `start_ns,src,dst,bytes`, or with `,transport` after them: hosts by
    /// number.
    pub(crate) file: String,
    /// Transport of rows that name none.
    pub(crate) transport: Option<Kind>,
    #[serde(skip)]
    pub(crate) transfers: Arc<[Transfer]>,
}

/// A row of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    /// Line in its file, for messages.
    pub(crate) line: usize,
    pub(crate) start: Time,
    pub(crate) src_host: u32,
    pub(crate) dst_host: u32,
    pub(crate) bytes: TransferBytes,
    pub(crate) transport: Option<Kind>,
}

impl Workloads {
    /// Reads the files that workloads name, relative to `folder`. Returns their texts.
    pub(super) fn load(&mut self, folder: &Path) -> Result<Vec<String>, Wrong> {
        let mut texts = Vec::new();
        for spec in &mut self.trace {
            let span = spec.span();
            let trace = spec.get_mut();
            let wrong = |problem| (span.clone(), "workload.trace.file", problem);
            let text = read(folder, &trace.file).map_err(wrong)?;
            trace.transfers = transfers(&trace.file, &text).map_err(wrong)?.into();
            texts.push(text);
        }
        for spec in &mut self.poisson {
            let span = spec.span();
            let Poisson { sizes, sizes_file, .. } = spec.get_mut();
            let wrong = |problem| (span.clone(), "workload.poisson.sizes_file", problem);
            match sizes_file {
                Some(_) if !sizes.is_empty() => {
                    return Err(wrong("sizes are given, too; one of the two is enough".to_owned()));
                }
                Some(name) => {
                    let text = read(folder, name).map_err(wrong)?;
                    *sizes = distribution(name, &text).map_err(wrong)?;
                    texts.push(text);
                }
                None if sizes.is_empty() => {
                    let problem = "missing, and so are sizes: one of the two is needed";
                    return Err(wrong(problem.to_owned()));
                }
                None => {}
            }
        }
        Ok(texts)
    }
}

fn read(folder: &Path, name: &str) -> Result<String, String> {
    let path = folder.join(name);
    let there = path.display();
    let file = path.metadata().map_err(|error| format!("{there}: {error}"))?;
    if !file.is_file() || file.len() > FILE_BYTES_MAX {
        return Err(format!("{there} is no file, or has more than {FILE_BYTES_MAX} bytes"));
    }
    fs::read_to_string(&path).map_err(|error| format!("{there}: {error}"))
}

/// A row that is no comment.
struct CsvRow<'a> {
    file: &'a str,
    line: usize,
    columns: &'static [&'static str],
    cells: Vec<&'a str>,
}

impl CsvRow<'_> {
    fn wrong(&self, column: &str, problem: &str) -> String {
        format!("{} line {}, {column}: {problem}", self.file, self.line)
    }

    fn cell(&self, column: usize) -> &str {
        self.cells.get(column).copied().unwrap_or_default()
    }

    fn number<T: std::str::FromStr>(&self, column: usize) -> Result<T, String> {
        let cell = self.cell(column);
        let problem = || self.wrong(self.columns[column], &format!("{cell:?} is no such number"));
        cell.parse().map_err(|_| problem())
    }
}

/// Returns all rows below the first, which must be `columns`; the last `optional` of them may be
/// missing.
fn rows<'a>(
    file: &'a str,
    text: &'a str,
    columns: &'static [&'static str],
    optional: usize,
) -> Result<Vec<CsvRow<'a>>, String> {
    let lines = text.lines().count() as u64;
    if lines > ROWS_MAX {
        return Err(format!("{file} has {lines} lines; at most {ROWS_MAX} are allowed"));
    }
    let cut = |line: &'a str| line.split('#').next().unwrap_or_default().trim();
    let mut rows =
        (1..).zip(text.lines().map(cut)).filter(|(_, line)| !line.is_empty()).map(|(line, row)| {
            CsvRow { file, line, columns, cells: row.split(',').map(str::trim).collect() }
        });
    let needed = &columns[..columns.len() - optional];
    let head = rows.next().filter(|head| head.cells == columns || head.cells == needed);
    let Some(head) = head else {
        let or = if optional > 0 { format!(", or {}", columns.join(",")) } else { String::new() };
        return Err(format!("{file}: the first row must be {}{or}", needed.join(",")));
    };
    let width = head.cells.len();
    let fits = |row: &CsvRow<'_>| (row.cells.len() == width).then_some(());
    let all: Vec<CsvRow<'a>> = rows.collect();
    match all.iter().find(|row| fits(row).is_none()) {
        Some(row) => {
            let problem = format!("{} cells, where the first row has {width}", row.cells.len());
            Err(row.wrong("all", &problem))
        }
        None => Ok(all),
    }
}

fn transfers(file: &str, text: &str) -> Result<Vec<Transfer>, String> {
    let transfer = |row: CsvRow<'_>| {
        let start_ns = row.number::<u64>(0)?;
        if start_ns > START_NS_MAX {
            let problem = format!("{start_ns} is not allowed, only 0 to {START_NS_MAX}");
            return Err(row.wrong("start_ns", &problem));
        }
        Ok(Transfer {
            line: row.line,
            start: Time::from_ps(start_ns * 1000),
            src_host: row.number(1)?,
            dst_host: row.number(2)?,
            bytes: Bounded::new(row.number(3)?).map_err(|problem| row.wrong("bytes", &problem))?,
            transport: transport(&row)?,
        })
    };
    rows(file, text, &TRACE_COLUMNS, 1)?.into_iter().map(transfer).collect()
}

/// Reads the transport from the last column; `None` when it is empty, as the workload says then.
fn transport(row: &CsvRow<'_>) -> Result<Option<Kind>, String> {
    let cell = row.cell(4);
    if cell.is_empty() {
        return Ok(None);
    }
    let kind: Result<Kind, NoSuchKind> = Kind::deserialize(cell.into_deserializer());
    kind.map(Some).map_err(|error| row.wrong("transport", &error.to_string()))
}

fn distribution(file: &str, text: &str) -> Result<Vec<(TransferBytes, f64)>, String> {
    let point = |row: CsvRow<'_>| {
        let bytes = Bounded::new(row.number(0)?).map_err(|problem| row.wrong("bytes", &problem))?;
        Ok((bytes, row.number(1)?))
    };
    rows(file, text, &SIZES_COLUMNS, 0)?.into_iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_read_with_their_lines() {
        let text = "# a comment\nstart_ns,src,dst,bytes,transport\n\n1500, 3, 4, 99 # why\n";
        let wrong = transfers("t.csv", text).unwrap_err();
        assert_eq!(wrong, "t.csv line 4, all: 4 cells, where the first row has 5");
        let text = text.replace("99 #", "99, roce #") + "0,1,2,7,\n";
        let all = transfers("t.csv", &text).unwrap();
        let bytes = Bounded::new(99).unwrap();
        let start = Time::from_ps(1_500_000);
        let kind = Some(Kind::Roce);
        let first = Transfer { line: 4, start, src_host: 3, dst_host: 4, bytes, transport: kind };
        assert_eq!((all[0], all.len(), all[1].transport), (first, 2, None));
        assert_eq!(transfers("t.csv", "start_ns,src,dst,bytes\n0,1,2,7\n").unwrap().len(), 1);
    }

    #[test]
    fn what_is_wrong_is_said_with_line_and_column() {
        let wrong = |row: &str| {
            let text = format!("start_ns,src,dst,bytes,transport\n0,1,2,3,srd\n{row}\n");
            transfers("t.csv", &text).unwrap_err()
        };
        assert_eq!(wrong("x,1,2,3,"), "t.csv line 3, start_ns: \"x\" is no such number");
        assert!(wrong("99000000000,1,2,3,").contains("only 0 to 60000000000"));
        assert_eq!(wrong("0,-1,2,3,"), "t.csv line 3, src: \"-1\" is no such number");
        assert!(wrong("0,1,2,0,").ends_with("bytes: 0 is not allowed, only 1 to 4000000000"));
        assert!(wrong("0,1,2,3,quic").starts_with("t.csv line 3, transport: unknown variant"));
        let wrong = transfers("t.csv", "0,1,2,3\n").unwrap_err();
        assert!(wrong.starts_with("t.csv: the first row must be start_ns,src,dst,bytes, or"));
    }

    #[test]
    fn the_distributions_that_come_along_have_the_means_they_name() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/data");
        let mean = |name: &str| {
            let points = distribution(name, &read(&folder, name).unwrap()).unwrap();
            let halves = points.windows(2).map(|pair| {
                let bytes = f64::from(pair[0].0.get()) + f64::from(pair[1].0.get());
                bytes / 2.0 * (pair[1].1 - pair[0].1) / 100.0
            });
            (halves.sum::<f64>() / 1e5).round() / 10.0
        };
        assert_eq!((mean("websearch.csv"), mean("datamining.csv")), (1.7, 12.7));
        assert!(read(&folder, "none.csv").unwrap_err().contains("none.csv: No such file"));
        assert!(read(&folder, ".").unwrap_err().contains("is no file"));
    }
}
