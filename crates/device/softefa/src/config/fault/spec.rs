//! The specification of faults by a user.

use std::fmt;
use std::str::FromStr;

use super::Blackhole;
use super::value::{self, format_share, format_time};
use crate::config::ConfigError;

/// The narrowest and the widest link that can be asked for. The messages of the narrowest have room
/// for verbs' smallest MTU of 256 bytes behind the longest headers; the widest has the longest
/// packet.
const MTU_BYTES: std::ops::RangeInclusive<u32> = 640..=65_535;

/// A specification of faults, like `loss=1%,reorder=20%,dup=1%,delay=50us,seed=1`; [`FaultKey`] has
/// all.
///
/// [`FaultKey`]: super::FaultKey
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FaultSpec {
    /// Share of sent datagrams that are dropped, per million.
    pub loss_ppm: u32,
    /// Share of sent datagrams held back behind later ones, per million.
    pub reorder_ppm: u32,
    /// Share of sent datagrams that are sent twice, per million.
    pub dup_ppm: u32,
    /// Share of sent datagrams with altered headers, per million.
    pub mangle_ppm: u32,
    /// Share of sent datagrams with altered payload, per million.
    pub corrupt_ppm: u32,
    /// Shortest delay added to each datagram.
    pub delay_min_ns: u64,
    /// Longest delay added to each datagram.
    pub delay_max_ns: u64,
    /// Paths that lose everything that is sent over them.
    pub blackholes: Vec<Blackhole>,
    /// Share of arriving messages refused as if no receive were posted, per million.
    pub rnr_ppm: u32,
    /// Share of posted sends that end with an internal error, per million.
    pub internal_ppm: u32,
    /// Share of a connection's acknowledgements and NAKs that are not sent, per million.
    pub ack_loss_ppm: u32,
    /// Share of a connection's acknowledgements that report a missing packet, per million.
    pub nak_ppm: u32,
    /// Share of a connection's requests whose packet number jumps ahead, per million.
    pub psn_gap_ppm: u32,
    /// The device behaves as on a link of this MTU.
    pub mtu_bytes: Option<u32>,
    /// New queue pairs take the number of the one destroyed last.
    pub qpn_reuse: bool,
    /// The time at which the process ends, in nanoseconds after it first opened a device.
    pub peer_kill_ns: Option<u64>,
    /// Seed of the random decisions.
    pub seed: u64,
}

/// The only fault that may be given several times, because each time adds one.
const SEVERAL: &str = "blackhole";
/// The text of a specification without faults.
pub(super) const NONE: &str = "none";

impl FaultSpec {
    /// Parses the specification that a run begins with; `none` is one without faults.
    ///
    /// # Errors
    /// The errors of [`FromStr`], and [`ConfigError::FaultEmpty`].
    pub fn parse_option(text: &str) -> Result<Self, ConfigError> {
        if text.trim() == NONE {
            return Ok(Self::default());
        }
        if text.split(',').all(|item| item.trim().is_empty()) {
            return Err(ConfigError::FaultEmpty);
        }
        text.parse()
    }

    /// Returns true if any fault was asked for.
    #[must_use]
    pub fn is_active(&self) -> bool {
        *self != Self { seed: self.seed, ..Self::default() }
    }

    /// Returns true if any fault acts on datagrams.
    pub(crate) fn is_on_the_wire(&self) -> bool {
        let shares =
            [self.loss_ppm, self.reorder_ppm, self.dup_ppm, self.mangle_ppm, self.corrupt_ppm];
        shares != [0; 5] || self.delay_max_ns > 0 || !self.blackholes.is_empty()
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let error = |expected| ConfigError::FaultValue {
            key: key.to_owned(),
            value: value.to_owned(),
            expected,
        };
        let share =
            || value::share(value).ok_or_else(|| error("write a share like 1%, 0.01 or 100%"));
        match key {
            "loss" => self.loss_ppm = share()?,
            "reorder" => self.reorder_ppm = share()?,
            "dup" => self.dup_ppm = share()?,
            "mangle" => self.mangle_ppm = share()?,
            "corrupt" => self.corrupt_ppm = share()?,
            "rnr" => self.rnr_ppm = share()?,
            "internal" => self.internal_ppm = share()?,
            "ack-loss" => self.ack_loss_ppm = share()?,
            "nak" => self.nak_ppm = share()?,
            "psn-gap" => self.psn_gap_ppm = share()?,
            "delay" => {
                let expected =
                    "write 50us, 10us..2ms or 50us+-20us, at most 3600s, not falling below 0";
                let range = value::range(value).ok_or_else(|| error(expected))?;
                (self.delay_min_ns, self.delay_max_ns) = range;
            }
            SEVERAL => {
                let expected = "write path:3, all, path:3@1s or path:3@1s+500ms";
                self.blackholes.push(Blackhole::parse(value).ok_or_else(|| error(expected))?);
            }
            "mtu" => {
                let mtu = value.parse().ok().filter(|mtu| MTU_BYTES.contains(mtu));
                self.mtu_bytes = Some(mtu.ok_or_else(|| error("write bytes from 640 to 65535"))?);
            }
            "peer-kill" => {
                let at = value::time(value).ok_or_else(|| error("write peer-kill@2s"))?;
                self.peer_kill_ns = Some(at);
            }
            "qpn-reuse" if value.is_empty() => self.qpn_reuse = true,
            "qpn-reuse" => return Err(error("it takes no value")),
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
        let mut seen = Vec::new();
        for item in text.split(',').filter(|item| !item.trim().is_empty()) {
            let parts = item.split_once('=').or_else(|| item.split_once('@'));
            let (key, value) = parts.unwrap_or((item, ""));
            let (key, value) = (key.trim(), value.trim());
            if seen.contains(&key) && key != SEVERAL {
                let (key, value) = (key.to_owned(), value.to_owned());
                return Err(ConfigError::FaultValue {
                    key,
                    value,
                    expected: "given twice; give it once",
                });
            }
            seen.push(key);
            spec.set(key, value)?;
        }
        Ok(spec)
    }
}

impl fmt::Display for FaultSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, ppm) in [
            ("loss", self.loss_ppm),
            ("dup", self.dup_ppm),
            ("reorder", self.reorder_ppm),
            ("mangle", self.mangle_ppm),
            ("corrupt", self.corrupt_ppm),
            ("rnr", self.rnr_ppm),
            ("internal", self.internal_ppm),
            ("ack-loss", self.ack_loss_ppm),
            ("nak", self.nak_ppm),
            ("psn-gap", self.psn_gap_ppm),
        ] {
            if ppm > 0 {
                write!(f, "{key}={},", format_share(ppm))?;
            }
        }
        if self.delay_max_ns > 0 {
            let (min, max) = (format_time(self.delay_min_ns), format_time(self.delay_max_ns));
            write!(f, "delay={min}..{max},")?;
        }
        for hole in &self.blackholes {
            write!(f, "blackhole={hole},")?;
        }
        if let Some(mtu_bytes) = self.mtu_bytes {
            write!(f, "mtu={mtu_bytes},")?;
        }
        if self.qpn_reuse {
            f.write_str("qpn-reuse,")?;
        }
        if let Some(at) = self.peer_kill_ns {
            write!(f, "peer-kill@{},", format_time(at))?;
        }
        write!(f, "seed={}", self.seed)
    }
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
    fn blackholes_add_up() {
        let spec: FaultSpec = "blackhole=path:1,blackhole=all@2s+1s".parse().unwrap();
        assert_eq!(spec.blackholes.len(), 2);
        assert!(spec.is_active() && spec.is_on_the_wire());
    }

    #[test]
    fn a_seed_alone_is_no_fault() {
        let spec: FaultSpec = "seed=9".parse().unwrap();
        assert!(!spec.is_active() && !spec.is_on_the_wire());
        let spec: FaultSpec = "rnr=1%".parse().unwrap();
        assert!(spec.is_active() && !spec.is_on_the_wire());
    }

    #[test]
    fn mistakes_are_named() {
        for bad in [
            "los=1%",
            "loss=101%",
            "loss=x",
            "delay=5",
            "delay=3us..1us",
            "seed=",
            "dup",
            "mtu=500",
            "mtu=x",
            "qpn-reuse=1",
            "peer-kill",
            "peer-kill@x",
            "blackhole=3",
            "blackhole=path:x@1s",
            "rnr=5",
            "corrupt",
            "mangle=-1%",
            "internal=2",
        ] {
            let error = bad.parse::<FaultSpec>().unwrap_err().to_string();
            assert!(error.contains(&bad[..3]), "{bad}: {error}");
        }
        let error = "x=1".parse::<FaultSpec>().unwrap_err().to_string();
        assert!(error.contains("'x'") && error.contains("qpn-reuse"), "{error}");
    }
}
