//! Faults that begin at a time and may end at one.

use std::fmt::{self, Write};
use std::net::IpAddr;
use std::str::FromStr;

use super::FaultSpec;
use super::spec::NONE;
use super::value;
use crate::config::ConfigError;

/// A fault, with the time for which it is in force, and the device and the peer that it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedFault {
    /// The faults that are in force. A specification without faults turns off those that the run
    /// was started with.
    pub spec: FaultSpec,
    /// The device that it is for; `None` = all devices.
    pub device: Option<String>,
    /// The address of the only peer that it is for; `None` = all peers.
    pub peer: Option<IpAddr>,
    /// The time at which it begins, on the clock of its owner.
    pub from_ns: u64,
    /// The time for which it is in force; `None` = until another one replaces it.
    pub for_ns: Option<u64>,
}

impl TimedFault {
    /// Parses a specification that may change while a device is in use; `none` is one without
    /// faults.
    ///
    /// # Errors
    /// The errors of [`FaultSpec`], and [`ConfigError::FaultOpening`] for a fault that is decided
    /// when a device is opened.
    pub fn parse_spec(text: &str) -> Result<FaultSpec, ConfigError> {
        if text.trim() == NONE {
            return Ok(FaultSpec::default());
        }
        let mut items = text.split(',').map(str::trim);
        if items.all(|item| item.is_empty() || item.starts_with("seed")) {
            return Err(ConfigError::FaultEmpty);
        }
        let spec: FaultSpec = text.parse()?;
        let decided = [
            ("mtu", spec.mtu_bytes.is_some()),
            ("qpn-reuse", spec.qpn_reuse),
            ("peer-kill", spec.peer_kill_ns.is_some()),
        ];
        match decided.into_iter().find(|(_, is_set)| *is_set) {
            Some((key, _)) => Err(ConfigError::FaultOpening { key }),
            None => Ok(spec),
        }
    }

    /// Returns the text of a specification, or `none`.
    #[must_use]
    pub fn format_spec(spec: &FaultSpec) -> String {
        if spec.is_active() { spec.to_string() } else { NONE.to_owned() }
    }

    /// Parses a time like `2s` or `1.5ms`, at most an hour.
    ///
    /// # Errors
    /// [`ConfigError::FaultTime`].
    pub fn parse_time(text: &str) -> Result<u64, ConfigError> {
        value::time(text).ok_or_else(|| ConfigError::FaultTime { value: text.to_owned() })
    }

    /// Returns when the fault ends; `None` if it does not end by itself.
    #[must_use]
    pub fn until_ns(&self) -> Option<u64> {
        self.for_ns.map(|for_ns| self.from_ns.saturating_add(for_ns))
    }

    /// Returns true if the fault is for the device of this name.
    #[must_use]
    pub fn is_for(&self, device: &str) -> bool {
        self.device.as_deref().is_none_or(|wanted| wanted == device)
    }
}

/// Writes one line that [`FromStr`] can parse.
impl fmt::Display for TimedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from={}", self.from_ns)?;
        self.for_ns.map_or(Ok(()), |for_ns| write!(f, " for={for_ns}"))?;
        self.device.as_ref().map_or(Ok(()), |device| write!(f, " device={device}"))?;
        self.peer.map_or(Ok(()), |peer| write!(f, " peer={peer}"))?;
        f.write_char(' ')?;
        write!(f, "spec={}", Self::format_spec(&self.spec))
    }
}

/// The error for a line that is not a [`TimedFault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAFault;

impl FromStr for TimedFault {
    type Err = NotAFault;

    fn from_str(line: &str) -> Result<Self, NotAFault> {
        let (mut from_ns, mut for_ns, mut device, mut peer, mut spec) =
            (None, None, None, None, None);
        for pair in line.split(' ') {
            let (key, value) = pair.split_once('=').ok_or(NotAFault)?;
            match key {
                "from" => from_ns = Some(value.parse().map_err(|_| NotAFault)?),
                "for" => for_ns = Some(value.parse().map_err(|_| NotAFault)?),
                "device" => device = Some(value.to_owned()),
                "peer" => peer = Some(value.parse().map_err(|_| NotAFault)?),
                "spec" if value == NONE => spec = Some(FaultSpec::default()),
                "spec" if value.is_empty() => return Err(NotAFault),
                "spec" => spec = Some(value.parse().map_err(|_| NotAFault)?),
                _ => return Err(NotAFault),
            }
        }
        let (from_ns, spec) = (from_ns.ok_or(NotAFault)?, spec.ok_or(NotAFault)?);
        Ok(Self { spec, device, peer, from_ns, for_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::fault::FaultKey;

    #[test]
    fn a_line_survives() {
        for spec in ["none", "loss=5%,blackhole=path:3@1s+2s,delay=10us..2ms,rnr=1%,seed=7"] {
            let whole = TimedFault {
                spec: TimedFault::parse_spec(spec).unwrap(),
                device: Some("rdmap0s6".into()),
                peer: Some(IpAddr::from([127, 0, 0, 2])),
                from_ns: u64::MAX,
                for_ns: Some(3),
            };
            assert_eq!(whole.to_string().parse(), Ok(whole.clone()));
            let bare = TimedFault { device: None, peer: None, for_ns: None, ..whole };
            assert_eq!(bare.to_string().parse(), Ok(bare));
        }
    }

    #[test]
    fn what_is_no_line_is_refused() {
        let good = "from=1 spec=loss=5%";
        assert!(good.parse::<TimedFault>().is_ok());
        for bad in ["", "from=1", "spec=loss=5%", "from=-1 spec=none", "from=1 spec=lose=5%"] {
            assert_eq!(bad.parse::<TimedFault>(), Err(NotAFault), "{bad}");
        }
        for end in 0..good.len() - 2 {
            assert!(good[..end].parse::<TimedFault>().is_err(), "{}", &good[..end]);
        }
    }

    #[test]
    fn what_is_decided_at_opening_is_not_changed_later() {
        for (bad, word) in [("mtu=1400", "mtu"), ("qpn-reuse", "qpn"), ("peer-kill@2s", "kill")] {
            let text = TimedFault::parse_spec(&format!("loss=1%,{bad}")).unwrap_err().to_string();
            assert!(text.contains(word) && text.contains("softefa run --fault"), "{text}");
        }
        for nothing in [" ", ",", "seed=7"] {
            assert_eq!(TimedFault::parse_spec(nothing), Err(ConfigError::FaultEmpty));
        }
        for key in FaultKey::ALL.iter().filter(|key| key.name != "seed") {
            assert_eq!(TimedFault::parse_spec(key.example).is_ok(), key.is_live, "{}", key.name);
        }
    }

    #[test]
    fn it_ends_once_and_never_before_it_begins() {
        let spec = FaultSpec::default();
        let fault =
            TimedFault { spec, device: None, peer: None, from_ns: u64::MAX - 1, for_ns: Some(9) };
        assert_eq!(fault.until_ns(), Some(u64::MAX));
        assert_eq!(TimedFault { for_ns: None, ..fault }.until_ns(), None);
    }
}
