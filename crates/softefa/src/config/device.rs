//! The devices of a process.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use super::{ConfigError, Profile};

/// One device: the name programs see and the local address it lives at. As text `NAME=IP` or
/// `NAME=IP,profile=PROFILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Device name, e.g. `rdmap0s6`; letters, digits, `_` and `-`, at most 63 bytes.
    pub name: String,
    /// A local IPv4 address.
    pub addr: Ipv4Addr,
    /// What it plays; `None` = what all devices of the configuration do.
    pub profile: Option<Profile>,
}

impl DeviceSpec {
    /// Reads devices that are separated by commas.
    ///
    /// # Errors
    /// [`ConfigError::Device`], [`ConfigError::Profile`].
    pub fn parse_list(text: &str) -> Result<Vec<Self>, ConfigError> {
        let mut specs: Vec<String> = Vec::new();
        for part in text.split(',') {
            // Commas stand between the settings of a device, too.
            match specs.last_mut().filter(|_| part.starts_with(PROFILE)) {
                Some(spec) => *spec = format!("{spec},{part}"),
                None => specs.push(part.to_owned()),
            }
        }
        specs.iter().map(|spec| spec.parse()).collect()
    }
}

/// Begins the setting of a device.
const PROFILE: &str = "profile=";

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.addr)?;
        self.profile.map_or(Ok(()), |profile| write!(f, ",{PROFILE}{profile}"))
    }
}

impl FromStr for DeviceSpec {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let error = |reason| ConfigError::Device { value: text.to_owned(), reason };
        let (place, settings) = text.split_once(',').map_or((text, None), |(a, b)| (a, Some(b)));
        let profile = settings
            .map(|text| {
                text.strip_prefix(PROFILE).ok_or_else(|| error("the setting is no profile"))
            })
            .transpose()?;
        let (name, addr) = place.split_once('=').ok_or_else(|| error("no '='"))?;
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > 63 || !name.chars().all(fits) {
            return Err(error("the name must be 1 to 63 letters, digits, '_' or '-'"));
        }
        let addr: Ipv4Addr = addr.parse().map_err(|_| error("the address is not IPv4"))?;
        if addr.is_unspecified() || addr.is_multicast() || addr.is_broadcast() {
            return Err(error("the address must be one of this machine's own"));
        }
        let profile = profile.map(str::parse).transpose()?;
        Ok(Self { name: name.to_owned(), addr, profile })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_needs_name_and_own_address() {
        let spec: DeviceSpec = "rdmap1s6=127.0.0.2".parse().unwrap();
        assert_eq!(spec.addr, Ipv4Addr::new(127, 0, 0, 2));
        for bad in ["rdmap0", "=127.0.0.1", "a/b=127.0.0.1", "a=localhost", "a=0.0.0.0"] {
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
        // Twice for one device.
        assert!("a=127.0.0.1,profile=efa0,profile=efa1".parse::<DeviceSpec>().is_err());
    }
}
