//! Results of other tools, so that one report can hold them all.
//!
//! Each tool has a module that reads its output. The format is recognised by its title, and the
//! test by its header line; a test that is not in the module's table is refused by name. What a
//! tool does not print is left out, never guessed. Units are ours: µs for half a round trip, MB =
//! 10^6 bytes.

mod cmtime;
mod fi_pingpong;
mod iperf3;
mod nccl;
mod osu;
mod perftest;
mod sockperf;
mod ucx;

use std::borrow::Cow;

use bench_record::spec::{Benchmark, EndpointKind, Operation};
use bench_record::{Method, Point, Run};

use crate::output;
use crate::sound::{self, WHOLE_MAX, zero_time};

/// A tool whose output can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Of perftest (`ib_send_lat`, `ib_write_bw`, `ib_read_lat`, ...): text or JSON.
    Perftest,
    /// OSU micro-benchmarks: latency, bandwidth, message rate, put and get, collective operations.
    Osu,
    /// Of sockperf: ping-pong, throughput.
    Sockperf,
    /// Of iperf3: JSON (`-J`).
    Iperf3,
    /// Of libfabric's `fi_pingpong`.
    FiPingpong,
    /// `ucx_perftest`, with the server's part, which names the test.
    Ucx,
    /// NCCL tests (`all_reduce_perf`, ...), and RCCL's.
    Nccl,
    /// The connections of rdmacm-utils' `cmtime`.
    Cmtime,
}

impl Format {
    const ALL: [Self; 8] = [
        Self::Perftest,
        Self::Osu,
        Self::Sockperf,
        Self::Iperf3,
        Self::FiPingpong,
        Self::Ucx,
        Self::Nccl,
        Self::Cmtime,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Perftest => "perftest",
            Self::Osu => "OSU",
            Self::Sockperf => "sockperf",
            Self::Iperf3 => "iperf3",
            Self::FiPingpong => "fi_pingpong",
            Self::Ucx => "ucx_perftest",
            Self::Nccl => "NCCL tests",
            Self::Cmtime => "cmtime",
        }
    }

    /// Whether `text` has the title of this tool.
    fn is_of(self, text: &str) -> bool {
        match self {
            Self::Perftest => perftest::is_here(text),
            Self::Osu => osu::is_here(text),
            Self::Sockperf => sockperf::is_here(text),
            Self::Iperf3 => iperf3::is_here(text),
            Self::FiPingpong => fi_pingpong::is_here(text),
            Self::Ucx => ucx::is_here(text),
            Self::Nccl => nccl::is_here(text),
            Self::Cmtime => cmtime::is_here(text),
        }
    }
}

/// The results of a tool.
#[derive(Debug)]
struct Found {
    benchmark: Benchmark,
    endpoint: EndpointKind,
    operation: Operation,
    /// The tool's name for the test: `Send Latency Test, SRD`.
    title: String,
    /// Our name for an operation of all ranks; empty for other tests.
    test: &'static str,
    method: Method,
    points: Vec<Point>,
}

impl Found {
    /// Creates the results of a test with reliable messages, which most tools send.
    fn new(benchmark: Benchmark, title: impl Into<String>, points: Vec<Point>) -> Self {
        Self {
            benchmark,
            endpoint: EndpointKind::Rdm,
            operation: Operation::Send,
            title: title.into(),
            test: "",
            method: Method::default(),
            points,
        }
    }
}

/// Reads the output of another tool: of `format`, or of the tool whose title it bears. `size_bytes`
/// is for tools that do not print the message size, or not all its digits; if a tool prints it,
/// both must agree.
///
/// # Errors
/// Names what is missing or cannot be understood, with the line.
pub fn read(text: &str, format: Option<Format>, size_bytes: Option<usize>) -> Result<Run, String> {
    if format.is_none() && output::is_own(text) {
        return Err(
            "it is a result file already: `efa-bench report` and `compare` read it".to_owned()
        );
    }
    let text = &*without_colours(text);
    let text = &*report::without_controls(text);
    let Some(format) = format.or_else(|| detect(text)) else {
        let names = Format::ALL.map(Format::name).join(", ");
        return Err(format!(
            "not the output of {names}, nor a result of efa-bench: name the tool with --as"
        ));
    };
    let found = match format {
        Format::Perftest => perftest::read(text),
        Format::Osu => osu::read(text),
        Format::Sockperf => sockperf::read(text, size_bytes),
        Format::Iperf3 => iperf3::read(text),
        Format::FiPingpong => fi_pingpong::read(text, size_bytes),
        Format::Ucx => ucx::read(text),
        Format::Nccl => nccl::read(text),
        Format::Cmtime => cmtime::read(text),
    };
    let found = found.map_err(|reason| format!("{}: {reason}", format.name()))?;
    if found.points.is_empty() {
        return Err(format!("{}: it has no row of figures", format.name()));
    }
    let is_other = |point: &&Point| size_bytes.is_some_and(|given| given != point.size_bytes);
    if let Some(Point { size_bytes, .. }) = found.points.iter().find(is_other) {
        return Err(format!(
            "{} prints the message size, {size_bytes} B: leave --size out",
            format.name()
        ));
    }
    if let Some(odd) = found.points.iter().find(|point| !is_written_in_full(point)) {
        return Err(format!(
            "{}: the row of {} bytes has a figure that comes out as no number",
            format.name(),
            odd.size_bytes
        ));
    }
    if let Some(reason) = found.points.iter().find_map(odd) {
        return Err(format!("{}: {reason}", format.name()));
    }
    Ok(Run {
        source: "imported".to_owned(),
        citation: Some(found.title),
        endpoint: found.endpoint,
        operation: found.operation,
        test: found.test.to_owned(),
        method: found.method,
        ..Run::new(format.name(), found.benchmark, found.points)
    })
}

/// Reads `text` as the output of each tool, for the fuzz target.
#[cfg(fuzzing)]
pub fn read_as_any(text: &str) -> Vec<Run> {
    let formats = Format::ALL.map(|format| (Some(format), None));
    let others = [(None, None), (Some(Format::Sockperf), Some(64))];
    let all = formats.into_iter().chain(others);
    all.filter_map(|(format, size_bytes)| read(text, format, size_bytes).ok()).collect()
}

/// Returns true if all figures of a point are numbers. A result file cannot hold others, such as
/// the rate in messages of 0 bytes.
fn is_written_in_full(point: &Point) -> bool {
    serde_json::to_value(point).is_ok_and(|value| serde_json::from_value::<Point>(value).is_ok())
}

/// Describes a figure that no point can have.
fn odd(point: &Point) -> Option<String> {
    if let Err(reason) = sound::check(point) {
        return Some(format!("it has {reason}"));
    }
    let bytes = point.size_bytes;
    zero_time(point)
        .map(|time| format!("it has a {time} of 0 at {bytes} bytes: nothing takes none"))
}

/// Returns whether perftest measured a run, whatever its name.
pub(crate) fn is_of_perftest(run: &Run) -> bool {
    run.citation.as_deref().is_some_and(perftest::is_title)
}

/// Returns whether a run has the name that it gets if nobody gives it one.
pub fn is_name_of_tool(name: &str) -> bool {
    Format::ALL.iter().any(|format| format.name() == name)
}

/// Returns the tool whose title `text` bears.
pub fn detect(text: &str) -> Option<Format> {
    let text = without_colours(text);
    Format::ALL.into_iter().find(|format| format.is_of(&text))
}

/// Removes the sequences that colour a terminal (ECMA-48: CSI, parameters, one final byte): some
/// tools write them into files, too.
fn without_colours(text: &str) -> Cow<'_, str> {
    if !text.contains(CSI) {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split(CSI);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let behind = part.trim_start_matches(|c: char| ('\x20'..='\x3f').contains(&c));
        let mut behind = behind.chars();
        let end = behind.clone().next().is_some_and(|c| ('\x40'..='\x7e').contains(&c));
        if end {
            behind.next();
        }
        plain.push_str(behind.as_str());
    }
    Cow::Owned(plain)
}

/// The beginning of a control sequence of a terminal.
const CSI: &str = "\x1b[";

/// Refuses the output of several tests, because only the first would be read: `values` are those of
/// `what`, of which each test has one.
fn one_test<T: ToString>(what: &str, values: impl Iterator<Item = T>) -> Result<(), String> {
    let all = report::distinct(values.map(|value| value.to_string()));
    match all.len() {
        0 | 1 => Ok(()),
        count => Err(format!("it holds {count} tests ({what}: {}): split it", all.join("; "))),
    }
}

/// Refuses a size that comes twice, where nothing says that it was measured on the same machine.
fn each_once(points: &[Point]) -> Result<(), String> {
    let mut sizes: Vec<usize> = points.iter().map(|point| point.size_bytes).collect();
    sizes.sort_unstable();
    match sizes.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("it holds several tests ({} bytes twice): split it", pair[0])),
        None => Ok(()),
    }
}

/// Parses the numbers of a row; `number` is its line, for error messages.
fn numbers(number: usize, line: &str) -> Result<Vec<f64>, String> {
    line.split_whitespace()
        .map(|word| {
            let value = word.parse().ok().filter(|value: &f64| value.is_finite());
            value.ok_or_else(|| format!("line {}: `{word}` is not a number", number + 1))
        })
        .collect()
}

/// Parses a whole number among the figures of a row: a size or a count.
fn whole(value: f64) -> Result<usize, String> {
    let is_whole = value.fract() == 0.0 && (0.0..=WHOLE_MAX).contains(&value);
    is_whole.then_some(value as usize).ok_or_else(|| format!("{value} is no whole number"))
}

/// Bytes of a MiB, which some tools call MB.
const MIB: f64 = 1_048_576.0;

/// A figure as a tool printed it.
#[derive(Debug, Clone, Copy)]
struct Printed {
    value: f64,
    /// The value of one unit of the last digit.
    step: f64,
}

impl Printed {
    /// Returns whether the digits say more than those of another figure. A rate of 3 messages a
    /// second may be one of 2.5.
    fn is_finer_than(self, other: Self) -> bool {
        // Products, because a value may be 0.
        self.step * other.value < other.step * self.value
    }
}

/// Refuses a test that has no counterpart here, and says which have one.
fn unsupported(test: &str, supported: &str) -> String {
    format!("`{test}` cannot be read: {supported} can")
}

#[cfg(test)]
mod tests;
