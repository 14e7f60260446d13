//! perftest. Its "MB/sec" are MiB/s, or Gbit/s on request, and its JSON does not say which: the
//! goodput is taken from the message rate, which has one unit only.

use crate::record::{Bandwidth, Distribution, Latency, Point};
use crate::spec::{Benchmark, EndpointKind, Operation};

use super::{Found, numbers, whole};

pub(super) fn is_here(text: &str) -> bool {
    test_name(text).is_some()
}

/// `Send Latency Test` in text, `Send_Latency_Test` in JSON.
fn test_name(text: &str) -> Option<String> {
    let is_name = |name: &&str| {
        let name = name.trim_end_matches(" Test").trim_end_matches("_Test");
        ["Latency", "BW"].iter().any(|kind| name.ends_with(kind))
    };
    let plain = |line: &'_ str| {
        let (key, value) = line.split_once(':').unwrap_or(("", line));
        let key = key.trim().trim_matches('"');
        // Others write `# OSU MPI Latency Test`.
        (key == "test" || (key.is_empty() && !value.contains('#')))
            .then(|| value.trim().trim_matches([',', '"', ' ']).to_owned())
    };
    text.lines()
        .filter_map(plain)
        .find(|name| name.ends_with("Test") && is_name(&name.as_str()))
        .map(|name| name.replace('_', " "))
}

pub(super) fn read(text: &str) -> Result<Found, String> {
    let name = test_name(text).ok_or("it has no title like `Send Latency Test`")?;
    let transport = setting(text, "Connection type").unwrap_or_default();
    let depth = setting(text, "TX depth").and_then(|depth| depth.parse().ok()).unwrap_or(0);
    let rows = if text.trim_start().starts_with('{') { json_rows(text)? } else { rows(text)? };
    let is_latency = name.contains("Latency");
    let points = rows
        .iter()
        .map(|row| if is_latency { row.latency() } else { row.bandwidth(depth) })
        .collect::<Result<_, _>>()?;
    let benchmark = if is_latency { Benchmark::Latency } else { Benchmark::Bandwidth };
    let endpoint = if transport == "UD" { EndpointKind::Dgram } else { EndpointKind::Rdm };
    let operation = operation(&name)?;
    Ok(Found { benchmark, endpoint, operation, title: format!("{name}, {transport}"), points })
}

fn operation(name: &str) -> Result<Operation, String> {
    match name.split_whitespace().next() {
        Some("Send") => Ok(Operation::Send),
        _ => Err(format!("`{name}` cannot be compared with anything here: only Send tests can")),
    }
}

/// `TX depth        : 64` in text, `TX_depth : 64,` in JSON.
fn setting(text: &str, name: &str) -> Option<String> {
    let text = text.replace('_', " ");
    let at = text.find(name)? + name.len();
    let value = text[at..].trim_start_matches(['"', ' ', '\t']).strip_prefix(':')?;
    value.split([',', '\n', '\t']).next().map(|value| value.trim().trim_matches('"').to_owned())
}

/// Figures by their title.
struct Row(Vec<(String, f64)>);

impl Row {
    fn get(&self, titles: &[&str]) -> Option<f64> {
        let is_one = |title: &str| titles.iter().any(|wanted| title.starts_with(wanted));
        self.0.iter().find(|(title, _)| is_one(title)).map(|(_, value)| *value)
    }

    fn need(&self, titles: &[&str]) -> Result<f64, String> {
        self.get(titles).ok_or_else(|| format!("a row has no `{}`", titles[0]))
    }

    fn size_bytes(&self) -> Result<usize, String> {
        self.need(&["#bytes", "MsgSize"]).map(whole)
    }

    fn latency(&self) -> Result<Point, String> {
        let spread = || {
            Some(Distribution {
                min_us: self.get(&["t_min"])?,
                p50_us: self.get(&["t_typical"])?,
                p90_us: None,
                p99_us: self.get(&["99% percentile", "percentile_99"])?,
                p999_us: self.get(&["99.9% percentile", "percentile_99.9"]),
                p9999_us: None,
                max_us: self.get(&["t_max"])?,
            })
        };
        let latency = Latency {
            round_trips: self.need(&["#iterations", "n_iterations"])? as u64,
            mean_us: self.need(&["t_avg"])?,
            distribution: spread(),
        };
        Ok(Point { latency: Some(latency), ..Point::new(self.size_bytes()?, 1) })
    }

    fn bandwidth(&self, depth: usize) -> Result<Point, String> {
        let size_bytes = self.size_bytes()?;
        let messages = self.need(&["#iterations", "n_iterations"])? as u64;
        let per_second = self.need(&["MsgRate"])? * 1e6;
        let bytes = messages * size_bytes as u64;
        let bandwidth = Bandwidth::new(messages, bytes, messages as f64 / per_second);
        Ok(Point { bandwidth: Some(bandwidth), ..Point::new(size_bytes, depth) })
    }
}

/// The table: titles of several words, each row below it one size.
fn rows(text: &str) -> Result<Vec<Row>, String> {
    let mut titles: Option<Vec<String>> = None;
    let mut rows = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("#bytes") {
            titles = Some(split_titles(line));
        } else if let Some(titles) = &titles
            && line.trim_start().starts_with(|c: char| c.is_ascii_digit())
        {
            let values = numbers(number, line)?;
            if values.len() < titles.len() {
                let (got, want) = (values.len(), titles.len());
                return Err(format!("line {}: {got} figures for {want} titles", number + 1));
            }
            rows.push(Row(titles.iter().cloned().zip(values).collect()));
        }
    }
    titles.map(|_| rows).ok_or_else(|| "it has no line that begins with #bytes".to_owned())
}

/// ` #bytes #iterations    t_min[usec]    99% percentile[usec]`: a title ends with its unit in
/// brackets, or is one word.
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

/// perftest before 24 writes neither quotes nor proper commas, so it is read by lines.
fn json_rows(text: &str) -> Result<Vec<Row>, String> {
    let mut rows: Vec<Row> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let key = key.trim().trim_matches(['"', ' ']);
        let value = value.trim().trim_matches([',', '"', ' ']);
        if key == "MsgSize" {
            rows.push(Row(Vec::new()));
        }
        if let Some(row) = rows.last_mut() {
            let value = value
                .parse()
                .map_err(|_| format!("line {}: `{value}` is not a number", number + 1))?;
            row.0.push((key.to_owned(), value));
        }
    }
    Ok(rows)
}
