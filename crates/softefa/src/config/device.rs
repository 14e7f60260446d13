//! The devices of a process.

use std::net::Ipv4Addr;
use std::str::FromStr;

use super::ConfigError;

/// One device: the name programs see and the local address it lives at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Device name, e.g. `rdmap0s6`; letters, digits, `_` and `-`, at most 63 bytes.
    pub name: String,
    /// A local IPv4 address.
    pub addr: Ipv4Addr,
}

impl FromStr for DeviceSpec {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let error = |reason| ConfigError::Device { value: text.to_owned(), reason };
        let (name, addr) = text.split_once('=').ok_or_else(|| error("no '='"))?;
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > 63 || !name.chars().all(fits) {
            return Err(error("the name must be 1 to 63 letters, digits, '_' or '-'"));
        }
        let addr: Ipv4Addr = addr.parse().map_err(|_| error("the address is not IPv4"))?;
        if addr.is_unspecified() || addr.is_multicast() || addr.is_broadcast() {
            return Err(error("the address must be one of this machine's own"));
        }
        Ok(Self { name: name.to_owned(), addr })
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
}
