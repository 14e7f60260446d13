//! The goal of a ramp of rates.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The bound that a rate must keep: "p99<1ms". Times count from the moment for which an operation
/// was due.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ramp {
    /// The time that 99 of 100 operations must stay below, in µs.
    pub p99_us: f64,
}

/// The bounds that a tail can have, in µs.
const BOUNDS_US: std::ops::RangeInclusive<f64> = 1.0..=10_000_000.0;

/// The multiple of a bound's length after which a fabric that falls behind is beyond the bound.
const BOUNDS_IN_BLOCK: f64 = 20.0;

impl Ramp {
    /// Returns the least length of a block that shows whether the bound is kept, in s.
    #[must_use]
    pub fn block_min_s(self) -> f64 {
        self.p99_us / 1e6 * BOUNDS_IN_BLOCK
    }
}

impl FromStr for Ramp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}`: write p99<1ms, from 1us to 10s");
        let (name, bound) = text.split_once('<').ok_or_else(wrong)?;
        let bound = bound.trim();
        let end = bound.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = bound[..end].parse().map_err(|_| wrong())?;
        let p99_us = match bound[end..].trim() {
            "us" | "µs" => number,
            "ms" => number * 1e3,
            "s" => number * 1e6,
            _ => return Err(wrong()),
        };
        let is_sound = name.trim() == "p99" && BOUNDS_US.contains(&p99_us);
        is_sound.then_some(Self { p99_us }).ok_or_else(wrong)
    }
}

impl fmt::Display for Ramp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p99<{}us", self.p99_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_parsed() {
        for (text, p99_us) in [("p99<1ms", 1e3), (" p99 < 250us", 250.0), ("p99<0.5s", 5e5)] {
            assert_eq!(text.parse(), Ok(Ramp { p99_us }), "{text}");
        }
        let again = Ramp { p99_us: 1.5 };
        assert_eq!(again.to_string().parse(), Ok(again));
        for text in [
            "",
            "p99",
            "p99<",
            "p99<1",
            "p99<ms",
            "p98<1ms",
            "p99<0us",
            "p99<11s",
            "p99>1ms",
            "p99<1..ms",
        ] {
            let error = text.parse::<Ramp>().expect_err(text);
            assert!(error.contains("p99<1ms"), "{error}");
        }
    }
}
