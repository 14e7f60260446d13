//! Faults on purpose: what a user asks for, and the dice that decide each datagram's fate.
//!
//! Deterministic: the same seed and the same sequence of datagrams give the same fates.

use std::fmt;
use std::str::FromStr;

use crate::config::ConfigError;

/// Shares are per million, so that a specification compares and prints exactly.
const MILLION: u32 = 1_000_000;

/// Faults of every transmitted datagram. Write `loss=1%,reorder=20%,dup=1%,delay=50us,seed=1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultSpec {
    /// Share dropped, per million.
    pub loss_ppm: u32,
    /// Share held back behind later datagrams, per million.
    pub reorder_ppm: u32,
    /// Share sent twice, per million.
    pub dup_ppm: u32,
    /// Shortest delay added to each datagram.
    pub delay_min_ns: u64,
    /// Longest delay added to each datagram.
    pub delay_max_ns: u64,
    /// Seed of the dice.
    pub seed: u64,
}

impl FaultSpec {
    /// Faults a user may name.
    pub const KEYS: [&'static str; 5] = ["loss", "reorder", "dup", "delay", "seed"];

    /// Whether anything is to be done to a datagram.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.loss_ppm + self.reorder_ppm + self.dup_ppm > 0 || self.delay_max_ns > 0
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let error = |expected| ConfigError::FaultValue {
            key: key.to_owned(),
            value: value.to_owned(),
            expected,
        };
        let share = || parse_share(value).ok_or_else(|| error("write a share like 1% or 0.01"));
        let delay =
            |text| parse_delay(text).ok_or_else(|| error("write 50us, 2ms or a range 50us..80us"));
        match key {
            "loss" => self.loss_ppm = share()?,
            "reorder" => self.reorder_ppm = share()?,
            "dup" => self.dup_ppm = share()?,
            "delay" => {
                let (min, max) = value.split_once("..").unwrap_or((value, value));
                (self.delay_min_ns, self.delay_max_ns) = (delay(min)?, delay(max)?);
                if self.delay_min_ns > self.delay_max_ns {
                    return Err(error("the range must not fall"));
                }
            }
            "seed" => self.seed = value.parse().map_err(|_| error("write a number"))?,
            _ => return Err(ConfigError::FaultKey { key: key.to_owned() }),
        }
        Ok(())
    }
}

impl FromStr for FaultSpec {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut spec = Self::default();
        for item in text.split(',').filter(|item| !item.trim().is_empty()) {
            let (key, value) = item.split_once('=').unwrap_or((item, ""));
            spec.set(key.trim(), value.trim())?;
        }
        Ok(spec)
    }
}

impl fmt::Display for FaultSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, ppm) in
            [("loss", self.loss_ppm), ("reorder", self.reorder_ppm), ("dup", self.dup_ppm)]
        {
            if ppm > 0 {
                write!(f, "{key}={}%,", f64::from(ppm) / 10_000.0)?;
            }
        }
        if self.delay_max_ns > 0 {
            write!(f, "delay={}ns..{}ns,", self.delay_min_ns, self.delay_max_ns)?;
        }
        write!(f, "seed={}", self.seed)
    }
}

fn parse_share(text: &str) -> Option<u32> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |n| (n, 0.01));
    let share = number.trim().parse::<f64>().ok()? * unit;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked range")]
    (0.0..=1.0).contains(&share).then(|| (share * f64::from(MILLION)).round() as u32)
}

fn parse_delay(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale)
}

/// What happens to one datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fate {
    /// Copies sent: 0 = lost, 2 = doubled.
    pub(crate) copies: u8,
    /// Extra time before it leaves.
    pub(crate) delay_ns: u64,
    /// It was held back to come after later ones.
    pub(crate) reordered: bool,
}

/// Longest time a reordered datagram is held back.
const REORDER_MAX_NS: u64 = 300_000;

/// Throws the dice for one queue pair.
#[derive(Debug)]
pub(crate) struct Dice {
    spec: FaultSpec,
    state: u64,
}

impl Dice {
    /// `stream` tells queue pairs apart; equal seed and stream give equal fates.
    pub(crate) fn new(spec: FaultSpec, stream: u64) -> Self {
        // Mixed, because plain sums of seed and stream would give shifted copies of one sequence.
        Self { spec, state: mix(mix(spec.seed) ^ stream) }
    }

    pub(crate) fn throw(&mut self) -> Fate {
        if self.hits(self.spec.loss_ppm) {
            return Fate { copies: 0, delay_ns: 0, reordered: false };
        }
        let copies = 1 + u8::from(self.hits(self.spec.dup_ppm));
        let reordered = self.hits(self.spec.reorder_ppm);
        let spread = self.spec.delay_max_ns - self.spec.delay_min_ns;
        let mut delay_ns = self.spec.delay_min_ns + self.below(spread + 1);
        if reordered {
            delay_ns += 1 + self.below(REORDER_MAX_NS);
        }
        Fate { copies, delay_ns, reordered }
    }

    fn hits(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.below(u64::from(MILLION)) < u64::from(ppm)
    }

    fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64 (Steele et al., 2014); the bias of the high product is below 2^-32 here.
        self.state = self.state.wrapping_add(GOLDEN);
        let z = mix(self.state);
        ((u128::from(z) * u128::from(bound)) >> 64) as u64
    }
}

/// Step of SplitMix64: 2^64 over the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Number of a queue pair's stream of fates: the how-many-th of which process. Processes are told
/// apart by their command lines, so that the two ends of a test do not lose in step and a
/// repeated test has the same fates.
pub(crate) fn stream_of(ordinal: u64) -> u64 {
    let mut hash = ordinal;
    for byte in std::env::args_os().flat_map(|arg| arg.into_encoded_bytes()) {
        hash = mix(hash ^ u64::from(byte)).wrapping_add(GOLDEN);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specification_survives_the_environment() {
        let spec: FaultSpec =
            "loss=1%, reorder=0.2,dup=0.5%,delay=50us..2ms,seed=7".parse().unwrap();
        assert_eq!((spec.loss_ppm, spec.reorder_ppm, spec.dup_ppm), (10_000, 200_000, 5_000));
        assert_eq!((spec.delay_min_ns, spec.delay_max_ns), (50_000, 2_000_000));
        assert_eq!(spec.to_string().parse::<FaultSpec>().unwrap(), spec);
    }

    #[test]
    fn mistakes_are_named() {
        for bad in ["los=1%", "loss=101%", "loss=x", "delay=5", "delay=3us..1us", "seed=", "dup"] {
            let error = bad.parse::<FaultSpec>().unwrap_err().to_string();
            assert!(error.contains(&bad[..3]), "{bad}: {error}");
        }
    }

    #[test]
    fn shares_are_met_and_repeatable() {
        let spec: FaultSpec = "loss=10%,seed=3".parse().unwrap();
        let lost = |stream| {
            let mut dice = Dice::new(spec, stream);
            (0..10_000).filter(|_| dice.throw().copies == 0).count()
        };
        assert_eq!(lost(1), lost(1));
        let fates = |stream, skip| {
            let mut dice = Dice::new(spec, stream);
            (0..100 + skip).map(|_| dice.throw().copies).skip(skip).collect::<Vec<_>>()
        };
        for shift in 0..4 {
            assert_ne!(fates(1, shift), fates(2, 0), "streams are copies, shifted by {shift}");
        }
        assert_ne!(stream_of(0), stream_of(1));
        assert!((900..1_100).contains(&lost(1)), "{}", lost(1));
    }
}
