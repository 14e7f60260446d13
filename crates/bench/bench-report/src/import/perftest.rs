//! Reads perftest. Its "MB/sec" are MiB/s, or Gbit/s on request, and its JSON does not say which.
//! The goodput is computed from the message rate, which has one unit only; for long messages, whose
//! rate has few digits, it is computed from the bandwidth.

use bench_record::spec::{Benchmark, EndpointKind, Flow, Operation};
use bench_record::{Bandwidth, Distribution, Latency, Method, Point};

use super::{Found, MIB, Printed, numbers, one_test, unsupported, whole};

/// The quantity that a test prints.
#[derive(Debug, Clone, Copy)]
enum Figure {
    /// Half of a round trip: a ping-pong of messages, or of WRITEs that the peer sees in its
    /// memory.
    HalfRoundTrip,
    /// A whole operation.
    Operation,
    Rate,
}

/// Tests by their title, without "Post List" and "Bidirectional".
const TESTS: [(&str, Figure, Operation); 10] = [
    ("Send Latency Test", Figure::HalfRoundTrip, Operation::Send),
    ("RDMA_Write Latency Test", Figure::HalfRoundTrip, Operation::Write),
    ("RDMA_Read Latency Test", Figure::Operation, Operation::Read),
    ("Send BW Test", Figure::Rate, Operation::Send),
    ("RDMA_Write BW Test", Figure::Rate, Operation::Write),
    ("RDMA_Read BW Test", Figure::Rate, Operation::Read),
    ("Atomic FETCH AND ADD Latency Test", Figure::Operation, Operation::FetchAdd),
    ("Atomic CMP AND SWAP Latency Test", Figure::Operation, Operation::CompareSwap),
    ("Atomic FETCH AND ADD BW Test", Figure::Rate, Operation::FetchAdd),
    ("Atomic CMP AND SWAP BW Test", Figure::Rate, Operation::CompareSwap),
];

/// Bytes of a unit of bandwidth, by the end of its title.
const UNITS: [(&str, f64); 3] = [("[MB/sec]", MIB), ("[MiB/sec]", MIB), ("[Gb/sec]", GBIT)];
const GBIT: f64 = 1e9 / 8.0;
/// The value of one unit of the last digit of a bandwidth, which has two decimals.
const AVERAGE_STEP: f64 = 0.01;
/// The value of one unit of the last digit of a rate in millions of messages, which has six.
const RATE_STEP: f64 = 1e-6;

/// Settings that identify a measurement beside its title.
const SETTINGS: [&str; 5] =
    ["Connection type", "TX depth", "CQ Moderation", "Post List", "Number of qps"];
/// Settings that identify the adapter: another adapter makes another measurement.
const ADAPTER: [&str; 3] = ["Device", "Mtu", "Link type"];

const SUPPORTED: &str = "latency and bandwidth of ib_send, ib_write, ib_read and ib_atomic";

/// Returns whether a run has the title of perftest in its result file: `Send BW Test, SRD`.
pub(super) fn is_title(citation: &str) -> bool {
    let test = citation.rsplit_once(", ").map_or(citation, |(test, _)| test);
    let plain = test.replace("Post List ", "").replace("Bidirectional ", "");
    TESTS.iter().any(|(own, ..)| *own == plain)
}

pub(super) fn is_here(text: &str) -> bool {
    test_names(text).next().is_some()
}

/// Returns the names of the tests: `Send Latency Test` in text, `Send_Latency_Test` in JSON.
fn test_names(text: &str) -> impl Iterator<Item = String> {
    let plain = |line: &'_ str| {
        let (key, value) = line.split_once(':').unwrap_or(("", line));
        let key = key.trim().trim_matches('"');
        // Others write `# OSU MPI Latency Test`.
        (key == "test" || (key.is_empty() && !value.contains('#')))
            .then(|| value.trim().trim_matches([',', '"', ' ']).to_owned())
    };
    let is_name = |name: &String| ["Latency_Test", "BW_Test"].iter().any(|end| name.ends_with(end));
    let names = text.lines().filter_map(plain).map(|name| name.replace(' ', "_")).filter(is_name);
    names.map(|name| name.replace('_', " ").replace("RDMA ", "RDMA_"))
}

pub(super) fn read(text: &str) -> Result<Found, String> {
    let name = test_names(text).next().ok_or("it has no title like `Send Latency Test`")?;
    one_test("title", test_names(text))?;
    for name in SETTINGS.iter().chain(&ADAPTER) {
        one_test(name, settings(text, name).into_iter())?;
    }
    let plain = name.replace("Post List ", "").replace("Bidirectional ", "");
    let known = TESTS.iter().find(|(test, ..)| *test == plain);
    let (_, figure, operation) = *known.ok_or_else(|| unsupported(&name, SUPPORTED))?;
    let [transport, depth, moderation, list, pairs] =
        SETTINGS.map(|name| settings(text, name).into_iter().next().unwrap_or_default());
    let count = |value: String, usual| value.parse::<usize>().unwrap_or(usual);
    let depth = count(depth, 0);
    let rows = if text.trim_start().starts_with('{') { json_rows(text)? } else { rows(text)? };
    let one = |row: &TitledFigures| match figure {
        Figure::HalfRoundTrip => row.latency(),
        Figure::Operation => row.operation(),
        Figure::Rate => row.bandwidth(depth),
    };
    let is_both_ways = name.contains("Bidirectional");
    let mut points = rows.iter().map(one).collect::<Result<Vec<Point>, _>>()?;
    if is_both_ways {
        // The iterations are those of one side, the rate is that of both.
        let rates = points.iter_mut().filter_map(|point| point.bandwidth.as_mut());
        rates.for_each(|rate| rate.messages = None);
    }
    let benchmark = match (figure, operation) {
        (Figure::HalfRoundTrip, _) => Benchmark::Latency,
        (Figure::Rate, Operation::Send) => Benchmark::Bandwidth,
        (_, operation) if operation.is_atomic() => Benchmark::Atomics,
        _ => Benchmark::Rma,
    };
    let flow = Flow {
        complete_every: count(moderation, 1).max(1),
        post_list: count(list, 1).max(1),
        ..Flow::default()
    };
    let method = Method {
        flow,
        endpoints: count(pairs, 1).max(1),
        directions: if is_both_ways { 2 } else { 1 },
        ..Method::default()
    };
    let is_unreliable = ["UD", "UC"].contains(&transport.as_str()) || transport.starts_with("Raw");
    let endpoint = if is_unreliable { EndpointKind::Dgram } else { EndpointKind::Rdm };
    let title = format!("{name}, {transport}");
    Ok(Found { endpoint, operation, method, ..Found::new(benchmark, title, points) })
}

/// Returns the values of a setting: `TX depth        : 64` in text, `TX_depth : 64,` in JSON; also
/// the second of two in a line.
fn settings(text: &str, name: &str) -> Vec<String> {
    let text = text.replace('_', " ");
    let is_key = |(at, _): &(usize, &str)| {
        let before = text[..*at].chars().next_back();
        before.is_none_or(|c| c.is_whitespace() || c == '"')
    };
    let values = text.match_indices(name).filter(is_key).filter_map(|(at, _)| {
        let rest = text[at + name.len()..].trim_start_matches(['"', ' ', '\t']);
        let value = rest.strip_prefix(':')?;
        value.split([',', '\n', '\t']).next().map(|value| value.trim().trim_matches('"').to_owned())
    });
    values.collect()
}

/// Figures by their title.
struct TitledFigures(Vec<(String, f64)>);

impl TitledFigures {
    fn titled(&self, titles: &[&str]) -> Option<&(String, f64)> {
        let is_one = |title: &str| titles.iter().any(|wanted| title.starts_with(wanted));
        self.0.iter().find(|(title, _)| is_one(title))
    }

    fn get(&self, titles: &[&str]) -> Option<f64> {
        self.titled(titles).map(|(_, value)| *value)
    }

    fn need(&self, titles: &[&str]) -> Result<f64, String> {
        self.get(titles).ok_or_else(|| format!("a row has no `{}`", titles[0]))
    }

    fn size_bytes(&self) -> Result<usize, String> {
        self.need(&["#bytes", "MsgSize"]).and_then(whole)
    }

    fn iterations(&self) -> Result<u64, String> {
        self.need(&["#iterations", "n_iterations"]).and_then(whole).map(|count| count as u64)
    }

    fn spread(&self) -> Option<Distribution> {
        Some(Distribution {
            min_us: self.get(&["t_min"])?,
            p50_us: self.get(&["t_typical"])?,
            p90_us: None,
            p99_us: self.get(&["99% percentile", "percentile_99"])?,
            p999_us: self.get(&["99.9% percentile", "percentile_99.9"]),
            p9999_us: None,
            max_us: self.get(&["t_max"])?,
        })
    }

    /// Returns the point of half round trips; a test by duration (`-D`) has their mean only.
    fn latency(&self) -> Result<Point, String> {
        let latency = Latency {
            round_trips: Some(self.iterations()?),
            mean_us: self.need(&["t_avg"])?,
            distribution: self.spread(),
        };
        Ok(Point { latency: Some(latency), ..Point::new(self.size_bytes()?, 1) })
    }

    /// Returns the point of whole operations, one at a time.
    fn operation(&self) -> Result<Point, String> {
        Ok(Point {
            operation_time: self.spread(),
            operation_mean_us: Some(self.need(&["t_avg"])?),
            ..Point::new(self.size_bytes()?, 1)
        })
    }

    fn bandwidth(&self, depth: usize) -> Result<Point, String> {
        let size_bytes = self.size_bytes()?;
        let messages = self.iterations()?;
        let rate = Bandwidth::of_rate(self.mmsg_per_s(size_bytes)?, size_bytes);
        let bandwidth = Bandwidth { messages: Some(messages), ..rate };
        Ok(Point { bandwidth: Some(bandwidth), ..Point::new(size_bytes, depth) })
    }

    /// Returns the rate of messages, from the one of two figures that has the finer digits.
    fn mmsg_per_s(&self, size_bytes: usize) -> Result<f64, String> {
        let rate = Printed { value: self.need(&["MsgRate"])?, step: RATE_STEP };
        let Some((title, average)) = self.titled(&["BW average", "BW_average"]) else {
            return Ok(rate.value);
        };
        let average = Printed { value: *average, step: AVERAGE_STEP };
        if !average.is_finer_than(rate) {
            return Ok(rate.value);
        }
        let named = UNITS.iter().find(|(end, _)| title.ends_with(*end)).map(|(_, unit)| *unit);
        match named.or_else(|| fitting_unit(average, rate, size_bytes)) {
            Some(unit) => Ok(mmsg_of(average.value, unit, size_bytes)),
            None if rate.value > 0.0 => Ok(rate.value),
            None => Err(format!("a row of {size_bytes} bytes does not tell the unit of `{title}`")),
        }
    }
}

/// Returns the rate of messages at a bandwidth.
fn mmsg_of(bandwidth: f64, unit: f64, size_bytes: usize) -> f64 {
    bandwidth * unit / 1e6 / size_bytes as f64
}

/// Returns the only unit in which the bandwidth agrees with the rate, both as they are rounded.
fn fitting_unit(average: Printed, rate: Printed, size_bytes: usize) -> Option<f64> {
    let is_fitting = |unit: &f64| {
        let [low, high] =
            [-0.5, 0.5].map(|half| mmsg_of(average.value + half * average.step, *unit, size_bytes));
        low <= rate.value + rate.step / 2.0 && high >= rate.value - rate.step / 2.0
    };
    let mut fitting = [MIB, GBIT].into_iter().filter(is_fitting);
    match (fitting.next(), fitting.next()) {
        (Some(unit), None) => Some(unit),
        _ => None,
    }
}

/// Parses the table: titles of several words, and a row for each size below them.
fn rows(text: &str) -> Result<Vec<TitledFigures>, String> {
    let mut titles: Option<Vec<String>> = None;
    let mut rows = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("#bytes") {
            titles = Some(split_titles(line));
            continue;
        }
        // With -U every sample is printed, too: `17, 2.34`.
        let is_row =
            !line.contains(',') && line.trim_start().starts_with(|c: char| c.is_ascii_digit());
        if let Some(titles) = titles.as_ref().filter(|_| is_row) {
            let values = numbers(number, line)?;
            if values.len() < titles.len() {
                let (got, want) = (values.len(), titles.len());
                return Err(format!("line {}: {got} figures for {want} titles", number + 1));
            }
            rows.push(TitledFigures(titles.iter().cloned().zip(values).collect()));
        }
    }
    titles.map(|_| rows).ok_or_else(|| "it has no line that begins with #bytes".to_owned())
}

/// Splits a header such as ` #bytes #iterations    t_min[usec]    99% percentile[usec]`: a title
/// ends with its unit in brackets, or is one word.
fn split_titles(line: &str) -> Vec<String> {
    let mut titles: Vec<String> = Vec::new();
    let mut is_open = false;
    for word in line.split_whitespace() {
        let is_start = word.starts_with('#') || word == "tps" || !is_open;
        match titles.last_mut() {
            Some(title) if !is_start => {
                title.push(' ');
                title.push_str(word);
            }
            _ => titles.push(word.to_owned()),
        }
        is_open = !(word.ends_with(']') || word.starts_with('#'));
    }
    titles
}

/// Parses JSON by lines, because versions before 24 write neither quotes nor proper commas.
fn json_rows(text: &str) -> Result<Vec<TitledFigures>, String> {
    if !text.trim_end().ends_with('}') {
        return Err("it was cut off: its last brace is missing".to_owned());
    }
    let mut rows: Vec<TitledFigures> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let key = key.trim().trim_matches(['"', ' ']);
        let value = value.trim().trim_matches([',', '"', ' ']);
        if key == "MsgSize" {
            rows.push(TitledFigures(Vec::new()));
        }
        if let Some(row) = rows.last_mut() {
            let value = value
                .parse()
                .map_err(|_| format!("line {}: `{value}` is not a number", number + 1))?;
            row.0.push((key.to_owned(), value));
        }
    }
    let keys = |row: &TitledFigures| row.0.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    match rows.iter().position(|row| keys(row) != keys(&rows[0])) {
        Some(row) => Err(format!("row {} has other figures than the first", row + 1)),
        None => Ok(rows),
    }
}
