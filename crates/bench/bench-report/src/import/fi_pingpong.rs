//! Reads libfabric's `fi_pingpong`: `usec/xfer` is half a round trip. Sizes are written 1k and 4m
//! in multiples of 1024, counts in thousands and millions; digits that have no room are cut off.

use bench_record::spec::Benchmark;
use bench_record::{Latency, Point};

use super::{Found, each_once, whole};

pub(super) fn is_here(text: &str) -> bool {
    head(text).is_some()
}

fn head(text: &str) -> Option<&str> {
    text.lines().find(|line| line.starts_with("bytes") && line.contains("usec/xfer"))
}

pub(super) fn read(text: &str, size_bytes: Option<usize>) -> Result<Found, String> {
    let head = head(text).ok_or("it has no line with `bytes` and `usec/xfer`")?;
    let column = |name: &str| head.split_whitespace().position(|title| title == name);
    let (sent, figure) = (column("#sent"), column("usec/xfer"));
    let mut points = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if !line.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let line = number + 1;
        let at = |column: Option<usize>| {
            column.and_then(|at| words.get(at)).copied().unwrap_or_default()
        };
        let wrong =
            |word: &str, what: &str| format!("line {line}: `{word}` is not a number ({what})");
        let (word, sent, figure) = (at(Some(0)), at(sent), at(figure));
        let latency = Latency {
            round_trips: Some(count(sent).ok_or_else(|| wrong(sent, "#sent"))?),
            mean_us: figure.parse().map_err(|_| wrong(figure, "usec/xfer"))?,
            distribution: None,
        };
        let given = size_bytes.filter(|given| written(*given) == word);
        let size_bytes = match given {
            Some(given) => given,
            None => {
                let size = scaled(word, &SIZES).ok_or_else(|| wrong(word, "bytes"))?;
                if size.fract() != 0.0 {
                    return Err(format!(
                        "line {line}: `{word}` leaves out digits of the message size: give the \
                         whole size with --size"
                    ));
                }
                whole(size).map_err(|why| format!("line {line}: {why}"))?
            }
        };
        points.push(Point { latency: Some(latency), ..Point::new(size_bytes, 1) });
    }
    each_once(&points)?;
    Ok(Found::new(Benchmark::Latency, "fi_pingpong", points))
}

/// Letters behind a number, and their factors.
type Letters = [(char, u64); 3];

const SIZES: Letters = [('k', 1 << 10), ('m', 1 << 20), ('g', 1 << 30)];
const COUNTS: Letters = [('k', 1_000), ('m', 1_000_000), ('b', 1_000_000_000)];

/// Parses a number such as `64`, `4k` or `1.2m`.
fn scaled(word: &str, letters: &Letters) -> Option<f64> {
    let with = |&(letter, factor): &(char, u64)| Some((word.strip_suffix(letter)?, factor));
    let (digits, factor) = letters.iter().find_map(with).unwrap_or((word, 1));
    digits.parse::<f64>().ok().map(|number| number * factor as f64)
}

/// Parses a whole number such as `10`, `100k` or `2b`.
fn count(word: &str) -> Option<u64> {
    scaled(word, &COUNTS).and_then(|count| whole(count.round()).ok()).map(|count| count as u64)
}

/// Renders a size as the tool prints it: with one digit behind the point if one is before it, and
/// never rounded.
fn written(size_bytes: usize) -> String {
    let size = size_bytes as u64;
    let of_unit = SIZES.into_iter().rfind(|(_, factor)| size >= *factor);
    let Some((letter, factor)) = of_unit else { return size.to_string() };
    match (size / factor, size % factor * 10 / factor) {
        (units @ 0..10, tenths @ 1..) => format!("{units}.{tenths}{letter}"),
        (units, _) => format!("{units}{letter}"),
    }
}
