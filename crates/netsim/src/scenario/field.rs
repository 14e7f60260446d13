//! Numbers of scenario files that know what is allowed.

use serde::{Deserialize, Deserializer, de};

/// A number between two bounds, both allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounded<const MIN: u32, const MAX: u32>(u32);

impl<const MIN: u32, const MAX: u32> Bounded<MIN, MAX> {
    /// The number, or what is allowed.
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
        Self::new(i64::deserialize(source)?).map_err(de::Error::custom)
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
        let value = i64::deserialize(source)?;
        let mut exact = (1..=GBPS_MAX).filter(|gbps| PS_PER_BYTE.is_multiple_of(*gbps));
        if let Some(gbps) = exact.clone().find(|&gbps| i64::from(gbps) == value) {
            return Ok(Self(gbps));
        }
        let first = exact.next().map_or_else(String::new, |gbps| gbps.to_string());
        let allowed = exact.fold(first, |list, gbps| format!("{list}, {gbps}"));
        Err(de::Error::custom(format!("{value} Gbit/s is not allowed, only {allowed}")))
    }
}
