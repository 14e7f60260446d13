//! Reads sockperf. It prints half round trips, does not print the message size, and calls MiB
//! "MBps". It does not print its mode either: under load, it sends more messages than come back,
//! because by default one of a hundred is answered.

use bench_record::spec::{Benchmark, EndpointKind};
use bench_record::{Bandwidth, Distribution, Latency, Point};

use super::{Found, one_test, whole};

/// The words before a latency and before a rate, once for each test and each server.
const SUMMARIES: [&str; 2] = ["Summary: Latency is ", "Summary: Message Rate is "];

pub(super) fn is_here(text: &str) -> bool {
    text.contains("sockperf: == version")
}

pub(super) fn read(text: &str, size_bytes: Option<usize>) -> Result<Found, String> {
    let is_summary = |line: &&str| SUMMARIES.iter().any(|words| line.contains(words));
    let summaries = (1..).zip(text.lines()).filter(|(_, line)| is_summary(line));
    one_test("summary at line", summaries.map(|(number, _): (usize, _)| number))?;
    let printed = after(text, "using msg-size=").map(whole).transpose()?;
    let size_bytes = printed
        .or(size_bytes)
        .ok_or("it does not print the message size: give it with --size BYTES")?;
    let lost = after(text, "# dropped messages").and_then(|lost| whole(lost).ok());
    let lost = lost.map(|lost| lost as u64);
    let found = if let Some(mean_us) = after(text, SUMMARIES[0]) {
        refuse_under_load(text, lost.unwrap_or(0))?;
        let latency = Latency {
            round_trips: valid(text, "ReceivedMessages="),
            mean_us,
            distribution: distribution(text),
        };
        let point = Point { latency: Some(latency), lost, ..Point::new(size_bytes, 1) };
        Found::new(Benchmark::Latency, "sockperf latency", vec![point])
    } else if let Some(rate) = after(text, SUMMARIES[1]) {
        let bandwidth = Bandwidth::of_rate(rate / 1e6, size_bytes);
        let point = Point { bandwidth: Some(bandwidth), ..Point::new(size_bytes, 0) };
        Found::new(Benchmark::Bandwidth, "sockperf throughput", vec![point])
    } else {
        return Err("it has no line with `Summary: Latency` or `Summary: Message Rate`".to_owned());
    };
    let is_udp = text.contains("# UDP");
    let endpoint = if is_udp { EndpointKind::Dgram } else { EndpointKind::Rdm };
    Ok(Found { endpoint, ..found })
}

/// Returns the number behind `words`.
fn after(text: &str, words: &str) -> Option<f64> {
    let rest = text.split_once(words)?.1.trim_start_matches([' ', '=']);
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].trim_end_matches('.').parse().ok()
}

/// Returns a count of the part that is measured.
fn valid(text: &str, name: &str) -> Option<u64> {
    let (_, valid) = text.split_once("[Valid Duration]")?;
    after(valid, name).and_then(|count| whole(count).ok()).map(|count| count as u64)
}

/// Refuses a test under load. A ping-pong waits for each answer; under load, messages come by a
/// clock that sockperf does not print, and wait behind each other, so that their times are not
/// those of a closed loop.
fn refuse_under_load(text: &str, lost: u64) -> Result<(), String> {
    let counts = valid(text, "SentMessages=").zip(valid(text, "ReceivedMessages="));
    match counts {
        // One message may be under way at the end.
        Some((sent, received)) if sent > received.saturating_add(lost).saturating_add(1) => {
            Err(format!(
                "of {sent} messages {received} came back, so it is under-load, whose rate it does not \
                 print: only ping-pong and throughput can be read (measure it by `efa-bench \
                 open_loop`)"
            ))
        }
        _ => Ok(()),
    }
}

fn distribution(text: &str) -> Option<Distribution> {
    Some(Distribution {
        min_us: after(text, "<MIN> observation")?,
        p50_us: after(text, "percentile 50.000")?,
        p90_us: after(text, "percentile 90.000"),
        p99_us: after(text, "percentile 99.000")?,
        p999_us: after(text, "percentile 99.900"),
        p9999_us: None,
        max_us: after(text, "<MAX> observation")?,
    })
}
