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
    let test = &all["start"]["test_start"];
    let is_udp = test["protocol"] == "UDP";
    let size_bytes = need(&test["blksize"], "start.test_start.blksize")?;
    // UDP's summary is called otherwise. With --bidir each direction has one.
    let one_way = if is_udp { "sum" } else { "sum_received" };
    let back = format!("{one_way}_bidir_reverse");
    let is_both_ways = !all["end"][&back].is_null();
    let mut bandwidth = received(&all["end"][one_way], one_way, size_bytes)?;
    let mut lost = all["end"][one_way]["lost_packets"].as_u64();
    if is_both_ways {
        bandwidth = bandwidth.and(received(&all["end"][&back], &back, size_bytes)?);
        let lost_back = all["end"][&back]["lost_packets"].as_u64();
        lost = lost.zip(lost_back).map(|(there, back)| there.saturating_add(back));
    }
    let point = Point { lost, bandwidth: Some(bandwidth), ..Point::new(size_bytes as usize, 0) };
    let protocol = test["protocol"].as_str().unwrap_or("TCP");
    let title = format!("iperf3 {protocol}, {} streams", test["num_streams"]);
    let endpoint = if is_udp { EndpointKind::Dgram } else { EndpointKind::Rdm };
    let streams = test["num_streams"].as_u64().unwrap_or(1);
    let endpoints = usize::try_from(streams).unwrap_or(usize::MAX);
    let directions = if is_both_ways { 2 } else { 1 };
    let method = Method { endpoints, directions, ..Method::default() };
    Ok(Found { endpoint, method, ..Found::new(Benchmark::Bandwidth, title, vec![point]) })
}

fn need(value: &Value, name: &str) -> Result<f64, String> {
    value.as_f64().ok_or_else(|| format!("it has no number `{name}`"))
}

/// What arrived in one direction, by its summary; what was lost is not goodput.
fn received(sum: &Value, name: &str, size_bytes: f64) -> Result<Bandwidth, String> {
    let seconds = need(&sum["seconds"], &format!("end.{name}.seconds"))?;
    let lost_share = sum["lost_percent"].as_f64().unwrap_or(0.0) / 100.0;
    let bytes = need(&sum["bytes"], &format!("end.{name}.bytes"))? * (1.0 - lost_share);
    Ok(Bandwidth::new((bytes / size_bytes) as u64, bytes as u64, seconds))
}
