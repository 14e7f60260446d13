//! The devices of a process.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use super::{ConfigError, PortSpec, Profile};
use crate::address::is_of_a_link;
use crate::interface;

/// A device: the name that programs see, and its local address. Its text is `NAME=IP`, followed by
/// settings: `,profile=PROFILE`, and for a RoCE device `,mtu=BYTES`, `,rate=GBIT_PER_S`,
/// `,gids=N` and `,gateway=PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Device name, e.g. `rdmap0s6`: letters, digits, `_` and `-`, at most 63 bytes.
    pub name: String,
    /// The local address: one of IPv4, or for a RoCE device also one of IPv6 that other links know.
    pub addr: IpAddr,
    /// The adapter that the device plays; `None` = the one that the configuration has for all
    /// devices.
    pub profile: Option<Profile>,
    /// The settings of the port, if it is a RoCE device.
    pub port: PortSpec,
}

/// The beginnings of the settings of a device.
const SETTINGS: [&str; 5] = [PROFILE, MTU, RATE, GIDS, GATEWAY];
const PROFILE: &str = "profile=";
const MTU: &str = "mtu=";
const RATE: &str = "rate=";
const GIDS: &str = "gids=";
const GATEWAY: &str = "gateway=";

impl DeviceSpec {
    /// Makes a device with the settings that the configuration has for all devices.
    #[must_use]
    pub fn new(name: &str, addr: IpAddr) -> Self {
        Self { name: name.to_owned(), addr, profile: None, port: PortSpec::default() }
    }

    /// Returns the RoCE device of a user who names none: `roce0` at the address that other machines
    /// know.
    #[must_use]
    pub fn default_roce() -> Self {
        Self { profile: Some(Profile::Roce), ..Self::new("roce0", interface::default_addr()) }
    }

    /// Parses devices that are separated by commas.
    ///
    /// # Errors
    /// The errors of parsing a single device.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, ConfigError> {
        let mut specs: Vec<String> = Vec::new();
        for part in text.split(',') {
            // The settings of a device are separated by commas, too.
            let is_setting = SETTINGS.iter().any(|setting| part.starts_with(setting));
            match specs.last_mut().filter(|_| is_setting) {
                Some(spec) => *spec = format!("{spec},{part}"),
                None => specs.push(part.to_owned()),
            }
        }
        specs.iter().map(|spec| spec.parse()).collect()
    }

    /// Parses one setting.
    fn set(&mut self, setting: &str) -> Result<(), SettingError> {
        if let Some(value) = setting.strip_prefix(PROFILE) {
            set_once(&mut self.profile, value)
        } else if let Some(value) = setting.strip_prefix(MTU) {
            set_once(&mut self.port.mtu, value)
        } else if let Some(value) = setting.strip_prefix(RATE) {
            set_once(&mut self.port.rate, value)
        } else if let Some(value) = setting.strip_prefix(GIDS) {
            set_once(&mut self.port.gids, value)
        } else if let Some(value) = setting.strip_prefix(GATEWAY) {
            let port = value.parse::<u16>().ok().filter(|port| *port > 0);
            let port = port.ok_or_else(|| ConfigError::Gateway { value: value.to_owned() });
            set_once_to(&mut self.port.gateway, port.map_err(SettingError::Value)?)
        } else {
            Err(SettingError::Reason(
                "a setting is none of profile=, mtu=, rate=, gids= and gateway=",
            ))
        }
    }
}

/// The reason why a setting is wrong: the device, or the value.
enum SettingError {
    Reason(&'static str),
    Value(ConfigError),
}

fn set_once<T: FromStr<Err = ConfigError>>(
    to: &mut Option<T>,
    value: &str,
) -> Result<(), SettingError> {
    let value = value.parse().map_err(SettingError::Value)?;
    set_once_to(to, value)
}

fn set_once_to<T>(to: &mut Option<T>, value: T) -> Result<(), SettingError> {
    if to.is_some() {
        return Err(SettingError::Reason("a setting is given twice"));
    }
    *to = Some(value);
    Ok(())
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.addr)?;
        self.profile.map_or(Ok(()), |profile| write!(f, ",{PROFILE}{profile}"))?;
        self.port.mtu.map_or(Ok(()), |mtu| write!(f, ",{MTU}{}", mtu.bytes()))?;
        self.port.rate.map_or(Ok(()), |rate| write!(f, ",{RATE}{}", rate.gbit_per_s))?;
        self.port.gids.map_or(Ok(()), |own| write!(f, ",{GIDS}{}", own.get()))?;
        self.port.gateway.map_or(Ok(()), |port| write!(f, ",{GATEWAY}{port}"))
    }
}

impl FromStr for DeviceSpec {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let error = |reason| ConfigError::Device { value: text.to_owned(), reason };
        let mut parts = text.split(',');
        let place = parts.next().unwrap_or_default();
        let (name, addr) = place.split_once('=').ok_or_else(|| error("no '='"))?;
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > 63 || !name.chars().all(fits) {
            return Err(error("the name must be 1 to 63 letters, digits, '_' or '-'"));
        }
        let addr: IpAddr =
            unbracketed(addr).parse().map_err(|_| error("the address is none of IPv4 or IPv6"))?;
        let addr = addr.to_canonical();
        let is_broadcast = addr == IpAddr::V4(Ipv4Addr::BROADCAST);
        if addr.is_unspecified() || addr.is_multicast() || is_broadcast {
            return Err(error("the address must be one of this machine's own"));
        }
        if addr.is_ipv6() && is_of_a_link(addr) {
            return Err(error("an address of a single link (fe80::) cannot be used; give another"));
        }
        let mut spec = Self::new(name, addr);
        for setting in parts {
            spec.set(setting).map_err(|wrong| match wrong {
                SettingError::Reason(reason) => error(reason),
                SettingError::Value(wrong) => wrong,
            })?;
        }
        Ok(spec)
    }
}

/// Strips the brackets that some users write around an address of IPv6.
fn unbracketed(addr: &str) -> &str {
    addr.strip_prefix('[').and_then(|addr| addr.strip_suffix(']')).unwrap_or(addr)
}

#[cfg(test)]
mod tests {
    use super::super::Mtu;
    use super::*;

    #[test]
    fn device_needs_name_and_own_address() {
        let spec: DeviceSpec = "rdmap1s6=127.0.0.2".parse().unwrap();
        assert_eq!(spec.addr, IpAddr::from([127, 0, 0, 2]));
        for six in ["a=2001:db8::7", "a=[2001:db8::7]"] {
            let spec: DeviceSpec = six.parse().unwrap();
            assert_eq!(spec.to_string(), "a=2001:db8::7");
        }
        let mapped: DeviceSpec = "a=::ffff:127.0.0.2".parse().unwrap();
        assert_eq!(mapped.to_string(), "a=127.0.0.2");
        for bad in [
            "rdmap0",
            "=127.0.0.1",
            "a/b=127.0.0.1",
            "a=localhost",
            "a=0.0.0.0",
            "a=::",
            "a=ff02::1",
            "a=fe80::1",
            "a=fe80::1%lo",
            "a=[::1",
        ] {
            assert!(bad.parse::<DeviceSpec>().is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn a_device_may_have_a_profile_of_its_own() {
        let text = "a=127.0.0.1,profile=efa0,b=127.0.0.2,c=127.0.0.3,profile=efa2";
        let specs = DeviceSpec::parse_list(text).unwrap();
        let profiles: Vec<_> = specs.iter().map(|spec| spec.profile).collect();
        assert_eq!(profiles, [Some(Profile::Efa0), None, Some(Profile::Efa2)]);
        let back: Vec<String> = specs.iter().map(ToString::to_string).collect();
        assert_eq!(back.join(","), text);
        for bad in
            ["a=127.0.0.1,profile=efa9", "a=127.0.0.1,speed=9", "profile=efa0", "a=127.0.0.1,"]
        {
            assert!(DeviceSpec::parse_list(bad).is_err(), "{bad} was accepted");
        }
        // A setting given twice for one device is refused.
        assert!("a=127.0.0.1,profile=efa0,profile=efa1".parse::<DeviceSpec>().is_err());
    }

    #[test]
    fn the_port_of_a_device_may_have_settings() {
        let text = "a=127.0.0.1,profile=roce,mtu=1024,rate=25,b=127.0.0.2,profile=rxe,rate=400,gids=3,gateway=4791";
        let specs = DeviceSpec::parse_list(text).unwrap();
        assert_eq!(specs[0].port.mtu, Some(Mtu::B1024));
        assert_eq!(specs[1].port.rate.map(|rate| rate.gbit_per_s), Some(400));
        assert_eq!([specs[0].port.gateway, specs[1].port.gateway], [None, Some(4791)]);
        let back: Vec<String> = specs.iter().map(ToString::to_string).collect();
        assert_eq!(back.join(","), text);
        let reordered = "a=127.0.0.1,rate=25,mtu=1024,profile=roce".parse();
        assert_eq!(reordered.as_ref(), Ok(&specs[0]), "in any order");
        for bad in [
            "mtu=1500",
            "mtu=",
            "mtu=256,mtu=256",
            "rate=99",
            "rate=25,rate=25",
            "mtu",
            "gids=17",
            "gids=0",
            "gids=1,gids=1",
            "gateway=",
            "gateway=0",
            "gateway=65536",
            "gateway=yes",
            "gateway=1,gateway=1",
        ] {
            assert!(format!("a=127.0.0.1,{bad}").parse::<DeviceSpec>().is_err(), "{bad}");
        }
    }
}
