//! Reads iperf3, JSON only: bytes that the receiver counted.

use bench_record::spec::{Benchmark, EndpointKind};
use bench_record::{Bandwidth, Method, Point};
use serde_json::Value;

use super::Found;

pub(super) fn is_here(text: &str) -> bool {
    text.trim_start().starts_with('{') && text.contains("\"iperf ")
}

pub(super) fn read(text: &str) -> Result<Found, String> {
    let all: Value = serde_json::from_str(text)
        .map_err(|error| format!("{error}: only the JSON of `iperf3 -J` can be read"))?;
    if let Some(error) = all["error"].as_str() {
        return Err(format!("the measurement had failed: {error}"));
    }
    let need = |value: &Value, name: &str| {
        value.as_f64().ok_or_else(|| format!("it has no number `{name}`"))
    };
    let test = &all["start"]["test_start"];
    let is_udp = test["protocol"] == "UDP";
    // UDP's summary is called otherwise; what was lost is not goodput.
    let sum = if is_udp { &all["end"]["sum"] } else { &all["end"]["sum_received"] };
    let size_bytes = need(&test["blksize"], "start.test_start.blksize")?;
    let seconds = need(&sum["seconds"], "end.sum_received.seconds")?;
    let lost_share = sum["lost_percent"].as_f64().unwrap_or(0.0) / 100.0;
    let bytes = need(&sum["bytes"], "end.sum_received.bytes")? * (1.0 - lost_share);
    let messages = (bytes / size_bytes) as u64;
    let bandwidth = Bandwidth::new(messages, bytes as u64, seconds);
    let point = Point {
        lost: sum["lost_packets"].as_u64(),
        bandwidth: Some(bandwidth),
        ..Point::new(size_bytes as usize, 0)
    };
    let protocol = test["protocol"].as_str().unwrap_or("TCP");
    let title = format!("iperf3 {protocol}, {} streams", test["num_streams"]);
    let endpoint = if is_udp { EndpointKind::Dgram } else { EndpointKind::Rdm };
    let streams = test["num_streams"].as_u64().unwrap_or(1);
    let endpoints = usize::try_from(streams).unwrap_or(usize::MAX);
    let method = Method { endpoints, ..Method::default() };
    Ok(Found { endpoint, method, ..Found::new(Benchmark::Bandwidth, title, vec![point]) })
}
