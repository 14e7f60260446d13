//! What a user may choose: devices, profile, faults, paths, keys.

mod device;
mod env;
mod error;
pub(crate) mod fault;
mod integrity;
mod key;
mod profile;
pub(crate) mod trace;
mod wire;

use std::net::Ipv4Addr;
use std::path::PathBuf;

use crate::local_copy::UserKey;
use crate::seal::SealKey;
use fault::FaultSpec;
use trace::TraceSpec;

pub use device::DeviceSpec;
pub use env::{
    ENV_ALL, ENV_CAPTURE, ENV_DEVICES, ENV_FAULT, ENV_INTEGRITY, ENV_KEY_FILE, ENV_LOCAL_KEY,
    ENV_OF_RUN, ENV_PATHS, ENV_PROFILE, ENV_RUN_DIR, ENV_STRICT, ENV_TRACE, ENV_TRACE_EVENTS,
    ENV_WIRE,
};
pub use error::ConfigError;
pub use integrity::Integrity;
pub use key::{format_key, parse_key};
pub use profile::Profile;
pub use wire::WireChoice;

/// Upper bound of `--paths`.
pub const MAX_PATHS: u16 = 256;

/// Paths of a device on loopback: batching per path matters more there than diversity.
const PATHS_LOOPBACK: u16 = 4;
/// Paths of a device elsewhere.
const PATHS_NETWORK: u16 = 16;

/// Everything a process needs to know to bring its devices up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Devices in the order programs list them; never empty.
    pub devices: Vec<DeviceSpec>,
    /// Generation that devices without a profile of their own play.
    pub profile: Profile,
    /// Faults on purpose.
    pub faults: FaultSpec,
    /// What the check of a sent datagram covers.
    pub integrity: Integrity,
    /// What carries datagrams between programs of this user on this machine.
    pub wire: WireChoice,
    /// Paths per device, 0 = chosen by the kind of link.
    pub paths: u16,
    /// Refuse what hardware refuses although this adapter could do it (docs/ARCHITECTURE.md,
    /// "Laxer than the device").
    pub strict: bool,
    /// Shared by the programs of this user on this machine: with it, RDMA between them copies
    /// memory directly where that is faster; `None` = everything goes over the wire.
    pub local_key: Option<UserKey>,
    /// Seals all datagrams, and lets nothing in that is not sealed with it; `None` = all are in the
    /// clear.
    pub key: Option<SealKey>,
    /// Lines about what happens and why.
    pub trace: Option<TraceSpec>,
    /// Devices keep this many bytes of each datagram for captures all their life; `None` = only
    /// while somebody reads.
    pub capture_bytes: Option<u32>,
    /// Where the sysfs tree and counters live; `None` = no counters on disk.
    pub run_dir: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            devices: vec![DeviceSpec {
                name: "rdmap0s6".into(),
                addr: Ipv4Addr::LOCALHOST,
                profile: None,
            }],
            profile: Profile::default(),
            faults: FaultSpec::default(),
            integrity: Integrity::default(),
            wire: WireChoice::default(),
            paths: 0,
            strict: false,
            local_key: None,
            key: None,
            trace: None,
            capture_bytes: None,
            run_dir: None,
        }
    }
}

impl Config {
    /// What a device plays.
    #[must_use]
    pub fn profile_of(&self, device: &DeviceSpec) -> Profile {
        device.profile.unwrap_or(self.profile)
    }

    /// Paths of a device at `addr`.
    pub(crate) fn paths_at(&self, addr: Ipv4Addr) -> u16 {
        match (self.paths, addr.is_loopback()) {
            (0, true) => PATHS_LOOPBACK,
            (0, false) => PATHS_NETWORK,
            (paths, _) => paths,
        }
    }

    /// Checks what single values cannot show: two devices must not share a name or an address, and
    /// each must have the paths that faults name.
    ///
    /// # Errors
    /// [`ConfigError::DuplicateDevice`], [`ConfigError::FaultPath`].
    pub fn check(&self) -> Result<(), ConfigError> {
        for (i, device) in self.devices.iter().enumerate() {
            for other in &self.devices[..i] {
                if other.name == device.name {
                    return Err(ConfigError::DuplicateDevice { value: device.name.clone() });
                }
                if other.addr == device.addr {
                    return Err(ConfigError::DuplicateDevice { value: device.addr.to_string() });
                }
            }
            let paths = self.paths_at(device.addr);
            let mut named = self.faults.blackholes.iter().filter_map(|hole| hole.path);
            if let Some(path) = named.find(|path| *path >= paths) {
                return Err(ConfigError::FaultPath { path, device: device.name.clone(), paths });
            }
        }
        Ok(())
    }
}

/// Reads a path count: 1 to [`MAX_PATHS`].
///
/// # Errors
/// [`ConfigError::Paths`].
pub fn parse_paths(text: &str) -> Result<u16, ConfigError> {
    match text.parse() {
        Ok(n) if (1..=MAX_PATHS).contains(&n) => Ok(n),
        _ => Err(ConfigError::Paths { value: text.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_devices_cannot_share_an_address() {
        let mut config = Config::default();
        config.devices.push("other=127.0.0.1".parse().unwrap());
        assert!(matches!(config.check(), Err(ConfigError::DuplicateDevice { .. })));
    }

    #[test]
    fn path_count_is_bounded() {
        assert_eq!(parse_paths("16"), Ok(16));
        assert!(parse_paths("0").is_err() && parse_paths("257").is_err());
    }
}
