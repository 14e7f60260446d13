//! Reads `ucx_perftest`. Its server prints the test and the message size, its client the figures,
//! so that the output of both is needed (one process that does both prints all). Its "MB/s" are
//! MiB/s. The goodput is computed from the one of two columns that has more digits: the rate for
//! short messages, the bandwidth for long ones. The percentiles are those of the last second, so
//! the mean of all is taken.

use bench_record::spec::{Benchmark, Operation};
use bench_record::{Bandwidth, Latency, Point};

use super::{Found, MIB, Printed, numbers, one_test, unsupported, whole};

/// The quantity that a test prints.
#[derive(Debug, Clone, Copy)]
enum Figure {
    HalfRoundTrip,
    Rate,
}

/// Tests as the server names them.
const TESTS: [(&str, Figure, Operation); 13] = [
    ("tag match latency", Figure::HalfRoundTrip, Operation::Tagged),
    ("tag sync match latency", Figure::HalfRoundTrip, Operation::Tagged),
    ("stream latency", Figure::HalfRoundTrip, Operation::Send),
    ("am latency", Figure::HalfRoundTrip, Operation::Send),
    ("active message latency", Figure::HalfRoundTrip, Operation::Send),
    ("put latency", Figure::HalfRoundTrip, Operation::Write),
    ("tag match bandwidth", Figure::Rate, Operation::Tagged),
    ("tag sync match bandwidth", Figure::Rate, Operation::Tagged),
    ("stream bandwidth", Figure::Rate, Operation::Send),
    ("am bandwidth", Figure::Rate, Operation::Send),
    ("active message bandwidth", Figure::Rate, Operation::Send),
    ("put bandwidth", Figure::Rate, Operation::Write),
    ("get latency / bandwidth", Figure::Rate, Operation::Read),
];

const SUPPORTED: &str =
    "latency and bandwidth of tag, stream, am (active messages) and put, and get";

pub(super) fn is_here(text: &str) -> bool {
    text.contains("| API:") || (text.contains("| # iterations |") && text.contains("%ile"))
}

pub(super) fn read(text: &str) -> Result<Found, String> {
    let missing = "the client does not print the test and its message size: put the server's output in \
        front of it, `cat server.txt client.txt`";
    let name = settings(text, "Test").next().ok_or(missing)?;
    one_test("Test", settings(text, "Test"))?;
    one_test("Message size", settings(text, "Message size"))?;
    let size_bytes = settings(text, "Message size").next().and_then(|size| size.parse().ok());
    let size_bytes: usize = size_bytes.ok_or(missing)?;
    let known = TESTS.iter().find(|(test, ..)| is_it(name, test));
    let (_, figure, operation) = *known.ok_or_else(|| unsupported(name, SUPPORTED))?;
    // If the same test were there twice, only the last row would be read.
    let heads = text.lines().enumerate().filter(|(_, line)| is_head(line));
    one_test("table at line", heads.map(|(number, _)| number + 1))?;
    let row = last_row(text)?;
    // Iterations, then three columns of the time, two of bytes and two of messages a second.
    let [count, _, _, mean_us, _, mib_per_s, _, per_second] = row[..] else {
        return Err(format!("a row of {} figures, not of 8", row.len()));
    };
    let iterations = Some(whole(count)? as u64);
    let (benchmark, point) = match figure {
        Figure::HalfRoundTrip => {
            let latency = Latency { round_trips: iterations, mean_us, distribution: None };
            (Benchmark::Latency, Point { latency: Some(latency), ..Point::new(size_bytes, 1) })
        }
        Figure::Rate => {
            let bandwidth = Bandwidth {
                messages: iterations,
                ..Bandwidth::of_rate(mmsg_per_s(per_second, mib_per_s, size_bytes), size_bytes)
            };
            let is_one_sided = operation.is_one_sided();
            let benchmark = if is_one_sided { Benchmark::Rma } else { Benchmark::Bandwidth };
            (benchmark, Point { bandwidth: Some(bandwidth), ..Point::new(size_bytes, 0) })
        }
    };
    let title = format!("ucx_perftest: {name}");
    Ok(Found { operation, ..Found::new(benchmark, title, vec![point]) })
}

/// Returns the rate of messages, from whole messages a second or from a bandwidth with two
/// decimals.
fn mmsg_per_s(per_second: f64, mib_per_s: f64, size_bytes: usize) -> f64 {
    let rate = Printed { value: per_second, step: 1.0 };
    let bandwidth = Printed { value: mib_per_s, step: 0.01 };
    if bandwidth.is_finer_than(rate) {
        return bandwidth.value * MIB / 1e6 / size_bytes as f64;
    }
    rate.value / 1e6
}

/// Returns whether `name` is that of `test`: `put bandwidth / message rate` of one interface is
/// `put bandwidth` of another.
fn is_it(name: &str, test: &str) -> bool {
    name.strip_prefix(test).is_some_and(|rest| rest.is_empty() || rest.starts_with(" / "))
}

/// Returns the values of a setting, from lines such as
/// `| Test:         tag match latency         |`.
fn settings<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| {
        let (key, value) = line.trim().strip_prefix("| ")?.split_once(':')?;
        (key.trim() == name).then(|| value.trim_end_matches('|').trim())
    })
}

fn is_head(line: &str) -> bool {
    line.contains("# iterations")
}

/// Returns the figures of the whole test: the row `Final:`, or the only one (`-f`).
fn last_row(text: &str) -> Result<Vec<f64>, String> {
    let after_head = text.lines().enumerate().skip_while(|(_, line)| !is_head(line));
    let is_row = |line: &str| {
        line.starts_with("Final:") || (line.starts_with(' ') && !line.trim().is_empty())
    };
    let last = after_head.filter(|(_, line)| is_row(line)).last();
    let (number, line) = last.ok_or("it has no row of final figures: was it interrupted?")?;
    // With -N numbers have commas.
    numbers(number, &line.trim_start_matches("Final:").replace(',', ""))
}
