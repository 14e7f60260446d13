//! The configuration that a user may choose: devices, profile, faults, paths, keys.

mod device;
mod env;
mod error;
pub(crate) mod fault;
mod integrity;
mod key;
mod port;
mod profile;
pub(crate) mod trace;
mod wire;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use crate::local_copy::UserKey;
use crate::seal::SealKey;
use fault::FaultSpec;
use trace::TraceSpec;

pub use device::DeviceSpec;
pub use env::{
    ENV_ALL, ENV_CAPTURE, ENV_DEVICES, ENV_FAULT, ENV_INTEGRITY, ENV_KEY_FILE, ENV_LINT,
    ENV_LOCAL_KEY, ENV_OF_RUN, ENV_PATHS, ENV_PROFILE, ENV_RUN_DIR, ENV_SEND_AT_ONCE, ENV_STRICT,
    ENV_TRACE, ENV_TRACE_EVENTS, ENV_WIRE,
};
pub use error::ConfigError;
pub use integrity::Integrity;
pub use key::{format_key, parse_key};
pub use port::{GidCount, Mtu, PortSpec, Rate};
pub use profile::{Adapter, Profile};
pub use wire::WireChoice;

/// The upper bound of `--paths`.
pub const MAX_PATHS: u16 = 256;

/// Number of paths of a device on loopback, where batching per path matters more than diversity.
const PATHS_LOOPBACK: u16 = 4;
/// Number of paths of any other device.
const PATHS_NETWORK: u16 = 16;

/// Everything that a process needs to know to open its devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Devices in the order programs list them; never empty.
    pub devices: Vec<DeviceSpec>,
    /// The profile of devices that have none of their own.
    pub profile: Profile,
    /// The faults that the run starts with.
    pub faults: FaultSpec,
    /// The part of a sent datagram that its check covers.
    pub integrity: Integrity,
    /// The carrier of datagrams between programs of this user on this machine.
    pub wire: WireChoice,
    /// Number of paths per device; 0 = chosen by the kind of link.
    pub paths: u16,
    /// Refuse what hardware refuses although this adapter could do it (docs/ARCHITECTURE.md, "Laxer
    /// than the device").
    pub strict: bool,
    /// Report mistakes of programs on standard error (`Pitfall`).
    pub lint: bool,
    /// Send each post at once, instead of letting the posts of a program that polls wait for its
    /// next poll.
    pub send_at_once: bool,
    /// The key that the programs of this user on this machine share, with which RDMA between them
    /// copies memory directly where that is faster; `None` = everything goes over the wire.
    pub local_key: Option<UserKey>,
    /// The key that seals all datagrams, and without which nothing is accepted; `None` = all
    /// datagrams are in the clear.
    pub key: Option<SealKey>,
    /// The trace: lines about what happens and why.
    pub trace: Option<TraceSpec>,
    /// The number of bytes of each datagram that devices always keep for captures; `None` = only
    /// while there is a reader.
    pub capture_bytes: Option<u32>,
    /// The directory of the sysfs tree and of the counters; `None` = no counters on disk.
    pub run_dir: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            devices: vec![DeviceSpec::new("rdmap0s6", IpAddr::V4(Ipv4Addr::LOCALHOST))],
            profile: Profile::default(),
            faults: FaultSpec::default(),
            integrity: Integrity::default(),
            wire: WireChoice::default(),
            paths: 0,
            strict: false,
            lint: false,
            send_at_once: false,
            local_key: None,
            key: None,
            trace: None,
            capture_bytes: None,
            run_dir: None,
        }
    }
}

impl Config {
    /// Returns the profile that a device plays.
    #[must_use]
    pub fn profile_of(&self, device: &DeviceSpec) -> Profile {
        device.profile.unwrap_or(self.profile)
    }

    /// Returns the number of paths of a device at `addr`.
    pub(crate) fn paths_at(&self, addr: IpAddr) -> u16 {
        match (self.paths, addr.is_loopback()) {
            (0, true) => PATHS_LOOPBACK,
            (0, false) => PATHS_NETWORK,
            (paths, _) => paths,
        }
    }

    /// Returns the kind of adapter that a device is.
    #[must_use]
    pub fn adapter_of(&self, device: &DeviceSpec) -> Adapter {
        self.profile_of(device).adapter()
    }

    /// Replaces all devices by the default RoCE device if the profile is that of one, because the
    /// default device has the name of an EFA. It is for a user who chose no device, which the
    /// caller checks.
    pub fn settle_default_device(&mut self) {
        if self.profile.adapter() == Adapter::Roce {
            let profile = Some(self.profile);
            self.devices = vec![DeviceSpec { profile, ..DeviceSpec::default_roce() }];
        }
    }

    /// Returns true if the user chose no devices.
    #[must_use]
    pub fn has_default_devices(&self) -> bool {
        self.devices == Self::default().devices
    }

    /// Checks the values against each other: two devices must not share a name, two of one kind
    /// must not share an address, and each must have the paths that faults name and be able to do
    /// what is asked of it.
    ///
    /// # Errors
    /// [`ConfigError::DuplicateDevice`], [`ConfigError::FaultPath`], [`ConfigError::VendorName`],
    /// [`ConfigError::EfaAddress`], [`ConfigError::EfaPort`], [`ConfigError::Unsealable`].
    pub fn check(&self) -> Result<(), ConfigError> {
        for (i, device) in self.devices.iter().enumerate() {
            for other in &self.devices[..i] {
                if other.name == device.name {
                    return Err(ConfigError::DuplicateDevice { value: device.name.clone() });
                }
                if other.addr == device.addr && self.adapter_of(other) == self.adapter_of(device) {
                    return Err(ConfigError::DuplicateDevice { value: device.addr.to_string() });
                }
            }
            match self.adapter_of(device) {
                Adapter::Efa => check_efa(device)?,
                Adapter::Roce => self.check_roce(device)?,
            }
            let paths = self.paths_at(device.addr);
            let mut named = self.faults.blackholes.iter().filter_map(|hole| hole.path);
            if let Some(path) = named.find(|path| *path >= paths) {
                return Err(ConfigError::FaultPath { path, device: device.name.clone(), paths });
            }
        }
        Ok(())
    }

    fn check_roce(&self, device: &DeviceSpec) -> Result<(), ConfigError> {
        let name = || device.name.clone();
        let mut prefixes = VENDOR_PREFIXES.iter();
        if let Some(prefix) = prefixes.find(|prefix| device.name.starts_with(**prefix)) {
            return Err(ConfigError::VendorName { value: name(), prefix });
        }
        // Datagrams that are meant to be sealed are never sent in the clear.
        if self.key.is_some() && device.port.gateway.is_some() {
            return Err(ConfigError::Unsealable { device: name() });
        }
        Ok(())
    }
}

/// The prefixes of the names of other adapters. libfabric, UCX and PSM3 tell the kind of a device
/// by its name.
const VENDOR_PREFIXES: [&str; 10] =
    ["mlx", "mthca", "bnxt", "efa", "rdmap", "hfi1", "irdma", "hns", "qedr", "cxgb"];

fn check_efa(device: &DeviceSpec) -> Result<(), ConfigError> {
    if device.addr.is_ipv6() {
        return Err(ConfigError::EfaAddress { device: device.name.clone(), addr: device.addr });
    }
    if device.port == PortSpec::default() {
        return Ok(());
    }
    Err(ConfigError::EfaPort { device: device.name.clone() })
}

/// Parses a path count: 1 to [`MAX_PATHS`].
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

    fn with(devices: &str) -> Config {
        Config { devices: DeviceSpec::parse_list(devices).unwrap(), ..Config::default() }
    }

    #[test]
    fn an_efa_and_a_roce_device_may_share_an_address() {
        assert_eq!(with("a=127.0.0.1,b=127.0.0.1,profile=roce").check(), Ok(()));
        let both = with("a=127.0.0.1,profile=roce,b=127.0.0.1,profile=rxe").check();
        assert_eq!(both, Err(ConfigError::DuplicateDevice { value: "127.0.0.1".into() }));
    }

    #[test]
    fn a_roce_device_does_not_go_by_the_name_of_another_vendor() {
        for name in ["mlx5_0", "rdmap0s6", "efa0", "bnxt_re0", "hfi1_0", "mthca0"] {
            let refused = with(&format!("{name}=127.0.0.1,profile=roce")).check();
            assert!(matches!(refused, Err(ConfigError::VendorName { .. })), "{name}: {refused:?}");
            assert_eq!(with(&format!("{name}=127.0.0.1")).check(), Ok(()), "an EFA may");
        }
        assert_eq!(with("roce0=127.0.0.1,profile=roce,x=127.0.0.2,profile=rxe").check(), Ok(()));
    }

    #[test]
    fn settings_of_a_port_are_for_roce_devices() {
        let error = with("a=127.0.0.1,mtu=1024").check().unwrap_err().to_string();
        assert!(error.contains("device a") && error.contains("profile=roce"), "{error}");
        let by_default = Config { profile: Profile::Rxe, ..with("a=127.0.0.1,mtu=1024") };
        assert_eq!(by_default.check(), Ok(()));
    }

    #[test]
    fn nobody_is_given_a_device_in_the_clear_who_asked_for_a_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, [7; 32]).unwrap();
        let key = Some(SealKey::read(&path).unwrap());
        let config = Config { key, ..with("a=127.0.0.1,b=127.0.0.2,profile=roce") };
        assert_eq!(config.check(), Ok(()));
        let Config { devices, .. } = with("a=127.0.0.1,b=127.0.0.2,profile=roce,gateway=4791");
        let config = Config { devices, ..config };
        assert_eq!(config.check(), Err(ConfigError::Unsealable { device: "b".into() }));
    }

    #[test]
    fn the_default_device_is_of_the_default_profile() {
        let mut config = Config { profile: Profile::Rxe, ..Config::default() };
        config.settle_default_device();
        assert_eq!((config.devices.len(), config.devices[0].name.as_str()), (1, "roce0"));
        assert_eq!(config.profile_of(&config.devices[0]), Profile::Rxe);
        assert_eq!(config.check(), Ok(()));
        let mut efa = Config { profile: Profile::Efa1, ..Config::default() };
        efa.settle_default_device();
        assert!(efa.has_default_devices());
    }

    #[test]
    fn path_count_is_bounded() {
        assert_eq!(parse_paths("16"), Ok(16));
        assert!(parse_paths("0").is_err() && parse_paths("257").is_err());
    }
}
