//! Reads OSU micro-benchmarks. The first line names the test, and MB = 10^6 bytes. Only the message
//! rate test prints the window (64 by default) and the number of pairs; no test prints the number
//! of ranks.

use bench_record::spec::{Benchmark, Operation};
use bench_record::{Bandwidth, Collective, Distribution, Latency, Method, Point};

use super::{Found, each_once, numbers, one_test, unsupported, whole};

/// The quantity that a test prints.
#[derive(Debug, Clone, Copy)]
enum Figure {
    /// Half of a round trip.
    HalfRoundTrip,
    /// A whole operation of one rank.
    Operation,
    /// The mean time of a whole operation of all ranks, with our name for it.
    OfRanks(&'static str),
    /// MB/s, in this number of directions.
    Stream { directions: usize },
}

/// Tests by their header lines in small letters, without `# OSU ` and the version: releases differ
/// in capitals.
const TESTS: [(&str, Figure, Operation); 13] = [
    ("mpi latency test", Figure::HalfRoundTrip, Operation::Send),
    ("mpi bandwidth test", Figure::Stream { directions: 1 }, Operation::Send),
    ("mpi bi-directional bandwidth test", Figure::Stream { directions: 2 }, Operation::Send),
    (
        "mpi multiple bandwidth / message rate test",
        Figure::Stream { directions: 1 },
        Operation::Send,
    ),
    ("mpi_put latency test", Figure::Operation, Operation::Write),
    ("mpi_get latency test", Figure::Operation, Operation::Read),
    ("mpi_put bandwidth test", Figure::Stream { directions: 1 }, Operation::Write),
    ("mpi_get bandwidth test", Figure::Stream { directions: 1 }, Operation::Read),
    ("mpi_put bi-directional bandwidth test", Figure::Stream { directions: 2 }, Operation::Write),
    ("mpi allreduce latency test", Figure::OfRanks("allreduce"), Operation::Send),
    ("mpi allgather latency test", Figure::OfRanks("allgather"), Operation::Send),
    ("mpi broadcast latency test", Figure::OfRanks("bcast"), Operation::Send),
    ("mpi barrier latency test", Figure::OfRanks("barrier"), Operation::Send),
];

const SUPPORTED: &str = "Latency, Bandwidth, Bi-Directional Bandwidth, Multiple Bandwidth / Message Rate, \
    MPI_Put and MPI_Get Latency and Bandwidth, Allreduce, Allgather, Broadcast and Barrier";

pub(super) fn is_here(text: &str) -> bool {
    titles(text).next().is_some()
}

fn titles(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter_map(|line| line.strip_prefix("# OSU "))
}

/// Returns the test of a title: `MPI Latency Test v7.4`.
fn test(title: &str) -> Option<(Figure, Operation)> {
    // Tests of GPUs are the same tests with other memory.
    let title = title.to_lowercase().replace("mpi-cuda", "mpi").replace("mpi-rocm", "mpi");
    let is_it = |name: &str| {
        title.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let known = TESTS.iter().find(|(name, ..)| is_it(name));
    known.map(|(_, figure, operation)| (*figure, *operation))
}

pub(super) fn read(text: &str) -> Result<Found, String> {
    let title = titles(text).next().ok_or("it has no title like `# OSU MPI Latency Test`")?;
    one_test("title", titles(text))?;
    one_test("columns", text.lines().filter(|line| is_head(line)).map(str::trim))?;
    one_test("settings", text.lines().map(str::trim).filter(|line| line.starts_with("# [ ")))?;
    let (figure, operation) = test(title).ok_or_else(|| unsupported(title, SUPPORTED))?;
    let head = text.lines().find(|line| is_head(line));
    let titles = split_titles(head.ok_or("it has no line that begins with `# Size`")?);
    let has_size = titles.first().is_some_and(|title| *title == "Size");
    let table =
        Table { titles, has_size, figure, depth: setting(text, "window size").unwrap_or(0) };
    let mut points = Vec::new();
    for (number, line) in text.lines().enumerate().skip_while(|(_, line)| !is_head(line)) {
        // The launcher of the test may have written something, too.
        let is_row = line.trim_start().starts_with(|c: char| c.is_ascii_digit());
        if is_row {
            points.push(table.point(number, line)?);
        }
    }
    each_once(&points)?;
    let benchmark = match (figure, operation) {
        (Figure::HalfRoundTrip, _) => Benchmark::Latency,
        (Figure::OfRanks(_), _) => Benchmark::Collective,
        (_, Operation::Send) => Benchmark::Bandwidth,
        _ => Benchmark::Rma,
    };
    let directions = if let Figure::Stream { directions } = figure { directions } else { 1 };
    let threads = setting(text, "pairs").unwrap_or(1);
    Ok(Found {
        operation,
        test: if let Figure::OfRanks(name) = figure { name } else { "" },
        method: Method { directions, threads, ..Method::default() },
        ..Found::new(benchmark, format!("OSU {title}"), points)
    })
}

struct Table<'a> {
    titles: Vec<&'a str>,
    has_size: bool,
    figure: Figure,
    /// The depth; 0 if it is not printed.
    depth: usize,
}

impl Table<'_> {
    fn point(&self, number: usize, line: &str) -> Result<Point, String> {
        // With --validation a word follows the figures.
        let words = line.split_whitespace();
        let figures: Vec<&str> = words.filter(|word| !matches!(*word, "Pass" | "-")).collect();
        if line.split_whitespace().any(|word| word == "Fail") {
            return Err(format!("line {}: the validation of data failed there", number + 1));
        }
        let (got, want) = (line.split_whitespace().count(), self.titles.len());
        if got < want {
            return Err(format!("line {}: {got} figures for {want} titles", number + 1));
        }
        let row = numbers(number, &figures.join(" "))?;
        let at = |name: &str| {
            let place = self.titles.iter().position(|title| title.contains(name))?;
            row.get(place).copied()
        };
        let (size, figure) = match (self.has_size, &row[..]) {
            (true, [size, figure, ..]) => (*size, *figure),
            (false, [figure, ..]) => (0.0, *figure),
            _ => return Err(format!("line {}: a size and a figure were expected", number + 1)),
        };
        let size_bytes = whole(size).map_err(|why| format!("line {}: {why}", number + 1))?;
        let one = Point::new(size_bytes, 1);
        // The figure has two decimals: 0.00 only says that the time is shorter than these.
        let is_too_short = figure == 0.0 && !matches!(self.figure, Figure::Stream { .. });
        Ok(match self.figure {
            _ if is_too_short => one,
            Figure::HalfRoundTrip => {
                let distribution = distribution(at);
                let latency = Latency { round_trips: None, mean_us: figure, distribution };
                Point { latency: Some(latency), ..one }
            }
            Figure::Operation => Point { operation_mean_us: Some(figure), ..one },
            Figure::OfRanks(_) => {
                let operations = at("Iterations").map(|count| count as u64);
                let collective = Collective {
                    ranks: 0,
                    operations,
                    mean_us: figure,
                    bus_gbit_per_s: None,
                    overlap_percent: None,
                    alone_us: None,
                };
                Point { collective: Some(collective), ..one }
            }
            Figure::Stream { .. } => {
                let mmsg_per_s = at("Messages/s").map_or(figure / size, |rate| rate / 1e6);
                let bandwidth = Bandwidth {
                    messages: None,
                    seconds: None,
                    mb_per_s: figure,
                    gbit_per_s: figure * 8.0 / 1e3,
                    mmsg_per_s,
                };
                Point { bandwidth: Some(bandwidth), ..Point::new(size_bytes, self.depth) }
            }
        })
    }
}

/// Returns the distribution of `-z`, which prints minimum and maximum for some tests only.
fn distribution(at: impl Fn(&str) -> Option<f64>) -> Option<Distribution> {
    Some(Distribution {
        min_us: at("Min Lat")?,
        p50_us: at("P50")?,
        p90_us: at("P90"),
        p99_us: at("P99")?,
        p999_us: None,
        p9999_us: None,
        max_us: at("Max Lat")?,
    })
}

/// Returns true for a header: `# Size      Bandwidth (MB/s)`, or `# Avg Latency(us)` of a barrier.
fn is_head(line: &str) -> bool {
    line.starts_with("# Size") || line.starts_with("# Avg Latency")
}

/// Splits a header such as `# Size       Avg Latency(us)  P50 Tail Lat(us)`: titles are two blanks
/// or more apart.
fn split_titles(line: &str) -> Vec<&str> {
    line.trim_start_matches("# ").split("  ").map(str::trim).filter(|t| !t.is_empty()).collect()
}

/// Returns a setting of the line `# [ pairs: 1 ] [ window size: 64 ]`.
fn setting(text: &str, name: &str) -> Option<usize> {
    let rest = text.split_once(&format!("[ {name}:"))?.1;
    rest.split(']').next()?.trim().parse().ok()
}
