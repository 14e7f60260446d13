//! Fits a profile of the NIC model to the published tables by changing a few of its numbers at a
//! time and keeping what is nearer:
//!
//! `cargo run --release -p netsim --example fit -- PROFILE.toml SECONDS [SEED [KEY,KEY...]]`
//!
//! Without keys it changes all numbers but whole lengths. It prints the fitted file; what it found
//! on the way goes to standard error. `docs/NIC-MODEL.md` says which tables tell which parameter.
#![allow(clippy::disallowed_methods, reason = "a tool that works for a given time")]

use anyhow::{Context, Result, bail};
use netsim::nic::{Comparison, Profile};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Keys that are no times: nothing is learnt by changing them a little.
const FIXED: [&str; 3] = ["mtu_bytes", "inline_bytes", "acknowledged_max"];
/// Error above which a row weighs more than its size.
const TOLERATED_PERCENT: f64 = 11.0;

/// A number in the file.
#[derive(Clone)]
struct Number {
    place: Range<usize>,
    value: f64,
}

/// Finds the numbers that follow `KEY =`, outside of comments and strings.
fn numbers(text: &str, keys: Option<&str>) -> Vec<Number> {
    let mut found = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let code = line.split('#').next().unwrap_or_default();
        for (at, _) in code.match_indices(" = ").filter(|_| !code.contains('"')) {
            let key = code[..at].rsplit([' ', '{', ',']).next().unwrap_or_default();
            let wanted = keys
                .map_or_else(|| !FIXED.contains(&key), |keys| keys.split(',').any(|k| k == key));
            let from = at + 3;
            let rest = &code[from..];
            let length = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            if let (true, Ok(value)) = (wanted, rest[..length].parse()) {
                found.push(Number { place: start + from..start + from + length, value });
            }
        }
        start += line.len();
    }
    found
}

/// Returns the file with other numbers.
fn with(text: &str, numbers: &[Number], is_whole: &[bool]) -> String {
    let mut changed = text.to_owned();
    for (number, &is_whole) in numbers.iter().zip(is_whole).rev() {
        let digits = match number.value {
            _ if is_whole => 0,
            value if value < 10.0 => 4,
            _ => 1,
        };
        changed.replace_range(number.place.clone(), &format!("{:.digits$}", number.value));
    }
    changed
}

/// Returns the distance of the model from the tables; less is nearer.
fn distance(text: &str) -> Option<f64> {
    let profile = Profile::parse(text).ok()?;
    let comparison = Comparison::run(&[("fit".to_owned(), profile)], None, 1);
    let lines = comparison.lines.iter().filter(|line| line.apart.is_none());
    let cost = |percent: f64| percent + 2.0 * (percent / TOLERATED_PERCENT).powi(4).min(1e4);
    let costs: Vec<f64> = lines.map(|line| cost(line.error_percent.abs())).collect();
    Some(costs.iter().sum::<f64>() / costs.len().max(1) as f64)
}

/// Numbers in [0, 1), from a linear congruence: good enough to choose with.
struct Chance(u64);

impl Chance {
    fn unit(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, file, seconds, more @ ..] = args.as_slice() else {
        bail!("usage: fit PROFILE.toml SECONDS [SEED [KEY,KEY...]]");
    };
    let original = std::fs::read_to_string(file).with_context(|| file.clone())?;
    let limit = Duration::from_secs(seconds.parse().context("SECONDS")?);
    let mut chance = Chance(more.first().map_or(Ok(1), |seed| seed.parse()).context("SEED")?);
    let mut best = numbers(&original, more.get(1).map(String::as_str));
    let whole = |n: &Number| original[n.place.clone()].parse::<u64>().is_ok() && n.value >= 100.0;
    let is_whole: Vec<bool> = best.iter().map(whole).collect();
    anyhow::ensure!(!best.is_empty(), "{file} has none of these numbers");
    let mut nearest = distance(&original).with_context(|| format!("{file} is no profile"))?;
    let began = Instant::now();
    let mut step = 0.1;
    eprintln!("{} numbers, distance {nearest:.3}", best.len());
    while began.elapsed() < limit {
        let mut tried = best.clone();
        for _ in 0..1 + (chance.unit() * 3.0) as usize {
            let index = (chance.unit() * tried.len() as f64) as usize;
            tried[index].value *= (step * (2.0 * chance.unit() - 1.0)).exp();
        }
        step = f64::max(step * 0.997, 0.02);
        let distance = distance(&with(&original, &tried, &is_whole));
        if let Some(distance) = distance.filter(|distance| *distance < nearest) {
            (nearest, best) = (distance, tried);
            eprintln!("{:.0} s: distance {nearest:.3}", began.elapsed().as_secs_f64());
        }
    }
    print!("{}", with(&original, &best, &is_whole));
    Ok(())
}
