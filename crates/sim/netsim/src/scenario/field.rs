//! Numbers of scenario files that know their range.

use serde::{Deserialize, Deserializer, de};
use std::fmt;

/// A number between two bounds, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounded<const MIN: u32, const MAX: u32>(u32);

impl<const MIN: u32, const MAX: u32> Bounded<MIN, MAX> {
    /// Checks the number; the error says what is allowed.
    pub(crate) fn new(value: i64) -> Result<Self, String> {
        let inside = u32::try_from(value).ok().filter(|value| (MIN..=MAX).contains(value));
        inside.map(Self).ok_or_else(|| format!("{value} is not allowed, only {MIN} to {MAX}"))
    }

    pub(crate) const fn get(self) -> u32 {
        self.0
    }
}

impl<'de, const MIN: u32, const MAX: u32> Deserialize<'de> for Bounded<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let expected = || format!("a whole number, {MIN} to {MAX}");
        Self::new(whole_number(source, expected)?).map_err(de::Error::custom)
    }
}

/// Reads a whole number; `expected` describes what is allowed where there is something else.
fn whole_number<'de, D: Deserializer<'de>>(
    source: D,
    expected: impl Fn() -> String,
) -> Result<i64, D::Error> {
    struct Reader<F>(F);

    impl<F: Fn() -> String> de::Visitor<'_> for Reader<F> {
        type Value = i64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.0())
        }

        fn visit_i64<E: de::Error>(self, value: i64) -> Result<i64, E> {
            Ok(value)
        }

        fn visit_u64<E: de::Error>(self, value: u64) -> Result<i64, E> {
            i64::try_from(value)
                .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(value), &self))
        }
    }

    source.deserialize_any(Reader(expected))
}

/// A run's seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seed(pub(crate) u64);

impl<'de> Deserialize<'de> for Seed {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let value = whole_number(source, || format!("a whole number, 0 to {}", i64::MAX))?;
        let seed = u64::try_from(value).map(Self);
        seed.map_err(|_| de::Error::custom(format!("{value} is not allowed, only 0 and more")))
    }
}

/// A bound on a figure: not negative, and a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limit(pub(crate) f64);

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(source)?;
        let allowed = value.is_finite() && value >= 0.0;
        let problem = || de::Error::custom(format!("{value} is not allowed, only 0 and more"));
        allowed.then_some(Self(value)).ok_or_else(problem)
    }
}

/// A link's rate in Gbit/s at which a byte takes a whole number of picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gbps(u32);

/// Picoseconds that a byte takes at 1 Gbit/s.
const PS_PER_BYTE: u32 = 8000;
const GBPS_MAX: u32 = 800;

impl Gbps {
    pub(crate) const fn ps_per_byte(self) -> u32 {
        PS_PER_BYTE / self.0
    }

    pub(crate) const fn bytes_per_us(self) -> u32 {
        self.0 * 125
    }
}

impl<'de> Deserialize<'de> for Gbps {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let value = whole_number(source, || "a whole number of Gbit/s".to_owned())?;
        let mut exact = (1..=GBPS_MAX).filter(|gbps| PS_PER_BYTE % gbps == 0);
        if let Some(gbps) = exact.clone().find(|&gbps| i64::from(gbps) == value) {
            return Ok(Self(gbps));
        }
        let first = exact.next().map_or_else(String::new, |gbps| gbps.to_string());
        let allowed = exact.fold(first, |list, gbps| format!("{list}, {gbps}"));
        Err(de::Error::custom(format!("{value} Gbit/s is not allowed, only {allowed}")))
    }
}
