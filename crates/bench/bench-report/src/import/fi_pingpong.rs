//! Reads libfabric's `fi_pingpong`: `usec/xfer` is half a round trip, sizes are written 1k and 4m.

use bench_record::spec::Benchmark;
use bench_record::{Latency, Point};

use super::Found;

pub(super) fn is_here(text: &str) -> bool {
    head(text).is_some()
}

fn head(text: &str) -> Option<&str> {
    text.lines().find(|line| line.starts_with("bytes") && line.contains("usec/xfer"))
}

pub(super) fn read(text: &str) -> Result<Found, String> {
    let head = head(text).ok_or("it has no line with `bytes` and `usec/xfer`")?;
    let column = |name: &str| head.split_whitespace().position(|title| title == name);
    let (sent, figure) = (column("#sent"), column("usec/xfer"));
    let mut points = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if !line.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let at = |column: Option<usize>, what: &str| {
            let word = column.and_then(|at| words.get(at)).copied().unwrap_or_default();
            scaled(word)
                .ok_or_else(|| format!("line {}: `{word}` is not a number ({what})", number + 1))
        };
        let latency = Latency {
            round_trips: Some(at(sent, "#sent")? as u64),
            mean_us: at(figure, "usec/xfer")?,
            distribution: None,
        };
        let size_bytes = at(Some(0), "bytes")? as usize;
        points.push(Point { latency: Some(latency), ..Point::new(size_bytes, 1) });
    }
    Ok(Found::new(Benchmark::Latency, "fi_pingpong", points))
}

/// `64`, `4k`, `1.2m`; multiples of 1024.
fn scaled(word: &str) -> Option<f64> {
    let (digits, factor) = match word.chars().last()? {
        'k' => (&word[..word.len() - 1], 1024.0),
        'm' => (&word[..word.len() - 1], 1_048_576.0),
        'g' => (&word[..word.len() - 1], 1_073_741_824.0),
        _ => (word, 1.0),
    };
    digits.parse::<f64>().ok().map(|number| number * factor)
}
