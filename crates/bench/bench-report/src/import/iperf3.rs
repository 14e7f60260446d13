//! Reads the JSON of iperf3, with the bytes that the receiver counted.

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
    // With --bidir each direction has a summary of its own.
    let of = |direction| Summary::of(&all["end"], direction, is_udp);
    let (there, back) = (of(""), of("_bidir_reverse"));
    let is_both_ways = back.is_some();
    let there = there.ok_or("it has no summary `end.sum_received`")?;
    let mut bandwidth = there.received(size_bytes)?;
    let mut lost = there.lost();
    if let Some(back) = back {
        bandwidth = bandwidth.and(back.received(size_bytes)?);
        lost = lost.zip(back.lost()).map(|(there, back)| there.saturating_add(back));
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

/// The summary of one direction.
struct Summary<'a> {
    name: String,
    value: &'a Value,
}

impl<'a> Summary<'a> {
    /// Returns the summary of the receiver. For UDP, releases before 3.10 have only one of the
    /// sender.
    fn of(end: &'a Value, direction: &str, is_udp: bool) -> Option<Self> {
        let one = |name: &str| {
            let name = format!("{name}{direction}");
            Some(Self { value: end.get(&name)?, name })
        };
        let is_of_receiver = |own: &Self| !is_udp || own.value["sender"] == false;
        let of_sender = || one("sum").filter(|_| is_udp);
        one("sum_received").filter(is_of_receiver).or_else(of_sender)
    }

    fn number(&self, name: &str) -> Result<f64, String> {
        need(&self.value[name], &format!("end.{}.{name}", self.name))
    }

    fn lost_share(&self) -> f64 {
        let is_whole = self.name.starts_with("sum_received");
        if is_whole { 0.0 } else { self.value["lost_percent"].as_f64().unwrap_or(0.0) / 100.0 }
    }

    fn lost(&self) -> Option<u64> {
        self.value["lost_packets"].as_u64()
    }

    /// Returns the bandwidth of what arrived, because lost bytes are no goodput. A summary of the
    /// sender has the bytes that were sent; its share of losses refers to the packets that the
    /// receiver knew of.
    fn received(&self, size_bytes: f64) -> Result<Bandwidth, String> {
        let seconds = self.number("seconds")?;
        let packets = self.value["packets"].as_f64().zip(self.value["lost_packets"].as_f64());
        let bytes = match packets.filter(|_| !self.name.starts_with("sum_received")) {
            Some((packets, lost)) => (packets - lost).max(0.0) * size_bytes,
            None => self.number("bytes")? * (1.0 - self.lost_share()),
        };
        Ok(Bandwidth::new((bytes / size_bytes) as u64, bytes as u64, seconds))
    }
}
