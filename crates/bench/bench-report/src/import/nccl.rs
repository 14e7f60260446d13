//! Reads NCCL tests (and those of RCCL, which are the same). The result is the mean time of an
//! operation, out of place; the bus bandwidth is computed from it, because two decimals of GB/s are
//! too few for small sizes. Releases before 2.17 do not print the operation, but logs often hold
//! the command.

use bench_record::spec::Benchmark;
use bench_record::workload::Pattern;
use bench_record::{Collective, Point};

use super::{Found, one_test, unsupported};

const SUPPORTED: &str = "all_reduce_perf, all_gather_perf, alltoall_perf, broadcast_perf, \
                         gather_perf and reduce_scatter_perf";
/// Titles of columns that describe a row, beside its size.
const SETTINGS: [&str; 3] = ["type", "redop", "root"];
const STARTING: &str = "# Collective test starting:";

pub(super) fn is_here(text: &str) -> bool {
    heads(text).next().is_some()
}

fn heads(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter_map(|line| head(plain(line)))
}

/// Splits the header `#  size  count  type  redop  root  time  algbw  busbw #wrong  time ...` into
/// words.
fn head(line: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = line.strip_prefix('#')?.split_whitespace().collect();
    (words.starts_with(&["size", "count", "type"]) && words.contains(&"busbw")).then_some(words)
}

/// Returns a line without what mpirun puts in front of it: `[1,0]<stdout>:`.
fn plain(line: &str) -> &str {
    match line.split_once("<stdout>:") {
        Some((rank, rest)) if rank.starts_with('[') => rest.trim(),
        _ => line.trim(),
    }
}

pub(super) fn read(text: &str) -> Result<Found, String> {
    let mut all = heads(text);
    let head = all.next().ok_or("it has no line with `size`, `count`, `type` and `busbw`")?;
    one_test("operation", starting(text))?;
    one_test("columns", heads(text).map(|head| head.join(" ")))?;
    let name = test_name(text).ok_or_else(|| {
        format!(
            "it does not say which operation it is: write the first line that newer releases have, \
             `{STARTING} all_reduce_perf`"
        )
    })?;
    let (pattern, test) = match name {
        "all_reduce_perf" => (Pattern::Allreduce, "allreduce"),
        "all_gather_perf" => (Pattern::Allgather, "allgather"),
        "alltoall_perf" => (Pattern::Alltoall, "alltoall"),
        "broadcast_perf" => (Pattern::Bcast, "bcast"),
        "gather_perf" => (Pattern::Gather, "gather"),
        "reduce_scatter_perf" => (Pattern::ReduceScatter, "reduce_scatter"),
        other => return Err(unsupported(other, SUPPORTED)),
    };
    let table = Table::of(&head, ranks(text), pattern)?;
    let points = table.points(text)?;
    let title = format!("{name}, out of place");
    Ok(Found { test, ..Found::new(Benchmark::Collective, title, points) })
}

/// The columns of a table, and the subject of its rows.
struct Table {
    columns: usize,
    time: usize,
    /// Older releases print the largest error instead, which does not count.
    wrong: Option<usize>,
    settings: Vec<usize>,
    ranks: usize,
    pattern: Pattern,
}

impl Table {
    fn of(head: &[&str], ranks: usize, pattern: Pattern) -> Result<Self, String> {
        let column = |name: &str| head.iter().position(|title| *title == name);
        Ok(Self {
            columns: head.len(),
            time: column("time").ok_or("its table has no column `time`")?,
            wrong: column("#wrong"),
            settings: SETTINGS.iter().filter_map(|name| column(name)).collect(),
            ranks,
            pattern,
        })
    }

    fn points(&self, text: &str) -> Result<Vec<Point>, String> {
        let (mut points, mut first) = (Vec::new(), None);
        let rows = (1..).zip(text.lines()).map(|(line, row)| (line, plain(row)));
        // What stands before the table may begin with numbers, too.
        for (line, row) in rows.skip_while(|(_, row)| head(row).is_none()) {
            let words: Vec<&str> = row.split_whitespace().collect();
            let Some(bytes) = words.first().and_then(|word| word.parse::<usize>().ok()) else {
                continue;
            };
            let wrong = |reason: String| format!("line {line}: {reason}");
            if words.len() < self.columns {
                let (got, want) = (words.len(), self.columns);
                return Err(wrong(format!("{got} figures for {want} titles")));
            }
            if bytes == 0 {
                continue;
            }
            let own: Vec<&str> = self.settings.iter().map(|at| words[*at]).collect();
            let own = own.join(" ");
            if *first.get_or_insert_with(|| own.clone()) != own {
                let before = first.unwrap_or_default();
                return Err(wrong(format!("it holds several tests ({before}; {own}): split it")));
            }
            points.push(self.point(bytes, &words).map_err(wrong)?);
        }
        Ok(points)
    }

    fn point(&self, bytes: usize, words: &[&str]) -> Result<Point, String> {
        let wrong = self.wrong.and_then(|at| words[at].parse::<f64>().ok()).unwrap_or(0.0);
        if wrong > 0.0 {
            return Err(format!("{wrong} values of {bytes} B are wrong"));
        }
        let time = words[self.time];
        let mean_us = time.parse().map_err(|_| format!("`{time}` is not a number (time)"))?;
        point(self.pattern, bytes, self.ranks, mean_us)
    }
}

fn point(pattern: Pattern, bytes: usize, ranks: usize, mean_us: f64) -> Result<Point, String> {
    let size_bytes = match pattern {
        // NCCL counts the parts of all ranks together, this program those of each rank.
        pattern if pattern.is_in_parts() && ranks == 0 => {
            return Err("it does not list its ranks, whose parts a size is made of".to_owned());
        }
        pattern if pattern.is_in_parts() => bytes / ranks,
        _ => bytes,
    };
    let bus = || pattern.bus_gbit_per_s(size_bytes, ranks, mean_us / 1e6);
    let bus_gbit_per_s = if ranks > 0 { bus() } else { None };
    let collective = Collective {
        ranks,
        operations: None,
        mean_us,
        bus_gbit_per_s,
        overlap_percent: None,
        alone_us: None,
    };
    Ok(Point { collective: Some(collective), ..Point::new(size_bytes, 1) })
}

/// Returns the name of the test, from its own line, or from the first word of the log that ends as
/// one: `./build/all_reduce_perf`.
fn test_name(text: &str) -> Option<&str> {
    let word = || text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    starting(text).next().or_else(|| word().find(|word| word.ends_with("_perf")))
}

fn starting(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| plain(line).strip_prefix(STARTING)).map(str::trim)
}

/// Returns the number of listed ranks, `#  Rank  0 Group  0 Pid ...`; 0 if there are none.
fn ranks(text: &str) -> usize {
    let numbers = text.lines().filter_map(|line| {
        let mut words = plain(line).strip_prefix('#')?.split_whitespace();
        (words.next() == Some("Rank")).then(|| words.next()?.parse::<usize>().ok()).flatten()
    });
    numbers.max().map_or(0, |last| last + 1)
}
