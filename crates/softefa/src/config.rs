//! What a user may choose: devices, profile, faults, paths; carried from `softefa run` to the
//! preloaded library in environment variables.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::str::FromStr;

use crate::fault::{FaultKey, FaultSpec};
use crate::limits::Profile;
use crate::local_copy::UserKey;
use crate::trace::{TraceEvent, TraceSpec};

/// Devices as `NAME=IPV4[,NAME=IPV4...]`.
pub const ENV_DEVICES: &str = "SOFTEFA_DEVICES";
/// Profile name.
pub const ENV_PROFILE: &str = "SOFTEFA_PROFILE";
/// Fault specification.
pub const ENV_FAULT: &str = "SOFTEFA_FAULT";
/// What the check of a datagram covers.
pub const ENV_INTEGRITY: &str = "SOFTEFA_INTEGRITY";
/// Paths per device.
pub const ENV_PATHS: &str = "SOFTEFA_PATHS";
/// Key of the user's programs, 32 hexadecimal digits; without it no memory is copied directly.
pub const ENV_LOCAL_KEY: &str = "SOFTEFA_LOCAL_KEY";
/// Where a trace goes: `1` for standard error, or a file name in which `%p` is the process id.
pub const ENV_TRACE: &str = "SOFTEFA_TRACE";
/// Kinds of events in the trace, separated by commas.
pub const ENV_TRACE_EVENTS: &str = "SOFTEFA_TRACE_EVENTS";
/// Bytes of each datagram to keep for captures, from the first one on.
pub const ENV_CAPTURE: &str = "SOFTEFA_CAPTURE";
/// `1` to refuse what hardware refuses, `0` (or nothing) to be kinder.
pub const ENV_STRICT: &str = "SOFTEFA_STRICT";
/// Directory of the sysfs tree and the counters.
pub const ENV_RUN_DIR: &str = "SOFTEFA_RUN_DIR";
/// What the run has set of the variables for users, as `NAME=VALUE` with spaces between.
pub const ENV_OF_RUN: &str = "SOFTEFA_OF_RUN";

/// All of them: what a run does not set must not be left from another one.
pub const ENV_ALL: [&str; 12] = [
    ENV_DEVICES,
    ENV_PROFILE,
    ENV_FAULT,
    ENV_INTEGRITY,
    ENV_PATHS,
    ENV_LOCAL_KEY,
    ENV_TRACE,
    ENV_TRACE_EVENTS,
    ENV_CAPTURE,
    ENV_STRICT,
    ENV_RUN_DIR,
    ENV_OF_RUN,
];

/// Those that may be set for a run inside a run; their values have no spaces. What the run keeps
/// for itself is not among them, and the trace is for everything below (docs/TRACE.md).
const FOR_USERS: [&str; 6] =
    [ENV_DEVICES, ENV_PROFILE, ENV_FAULT, ENV_INTEGRITY, ENV_PATHS, ENV_STRICT];

/// Upper bound of `--paths`.
pub const MAX_PATHS: u16 = 256;

/// Paths of a device on loopback: batching per path matters more there than diversity.
const PATHS_LOOPBACK: u16 = 4;
/// Paths of a device elsewhere.
const PATHS_NETWORK: u16 = 16;

/// A value the user gave that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Not a known profile.
    #[error("unknown profile '{value}': allowed are {}", Profile::NAMES.join(", "))]
    Profile {
        /// As written.
        value: String,
    },
    /// Not `NAME=IPV4`.
    #[error("device '{value}' is not NAME=IPV4 ({reason}); write for example rdmap0s6=127.0.0.1")]
    Device {
        /// As written.
        value: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Two devices share a name or an address.
    #[error("device '{value}' is given twice: each needs its own name and address")]
    DuplicateDevice {
        /// The repeated name or address.
        value: String,
    },
    /// Not a known extent of the check.
    #[error("unknown integrity '{value}': allowed are {}", Integrity::NAMES.join(", "))]
    Integrity {
        /// As written.
        value: String,
    },
    /// Not a path count.
    #[error("paths '{value}' is not a number from 1 to {MAX_PATHS}")]
    Paths {
        /// As written.
        value: String,
    },
    /// Not a key of a user's programs.
    #[error("local key '{value}' is not 32 hexadecimal digits; unset it to use the wire only")]
    LocalKey {
        /// As written.
        value: String,
    },
    /// Neither strict nor not.
    #[error("{ENV_STRICT}='{value}' is neither 1 nor 0")]
    Strict {
        /// As written.
        value: String,
    },
    /// Not a kind of event.
    #[error("unknown trace event '{value}': allowed are {}", TraceEvent::NAMES.join(", "))]
    TraceEvent {
        /// As written.
        value: String,
    },
    /// Not a known fault.
    #[error("unknown fault '{key}': allowed are {}", FaultKey::names())]
    FaultKey {
        /// As written.
        key: String,
    },
    /// A fault of a path that a device does not have.
    #[error("fault blackhole=path:{path}: device {device} has paths 0 to {}; --paths N gives it N", paths - 1)]
    FaultPath {
        /// As written.
        path: u16,
        /// The device.
        device: String,
        /// Its paths.
        paths: u16,
    },
    /// A fault whose value cannot be read.
    #[error("fault {key}='{value}': {expected}")]
    FaultValue {
        /// The fault.
        key: String,
        /// As written.
        value: String,
        /// What may be written instead.
        expected: &'static str,
    },
}

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

/// What the check of a sent datagram covers. Receivers verify what each datagram says it covers, so
/// the two sides need not agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Integrity {
    /// Headers: nothing is delivered to the wrong place, and nothing twice.
    #[default]
    Headers,
    /// Headers and payload, by CRC32C. Costs a copy of each payload.
    Crc32c,
}

impl Integrity {
    /// Names a user may write.
    pub const NAMES: [&'static str; 2] = ["headers", "crc32c"];

    /// Name as given to `--integrity`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl FromStr for Integrity {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "headers" => Ok(Self::Headers),
            "crc32c" => Ok(Self::Crc32c),
            _ => Err(ConfigError::Integrity { value: text.to_owned() }),
        }
    }
}

/// Everything a process needs to know to bring its devices up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Devices in the order programs list them; never empty.
    pub devices: Vec<DeviceSpec>,
    /// Generation all devices play.
    pub profile: Profile,
    /// Faults on purpose.
    pub faults: FaultSpec,
    /// What the check of a sent datagram covers.
    pub integrity: Integrity,
    /// Paths per device, 0 = chosen by the kind of link.
    pub paths: u16,
    /// Refuse what hardware refuses although this adapter could do it (docs/ARCHITECTURE.md,
    /// "Laxer than the device").
    pub strict: bool,
    /// Shared by the programs of this user on this machine: with it, RDMA between them copies
    /// memory directly where that is faster; `None` = everything goes over the wire.
    pub local_key: Option<UserKey>,
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
            devices: vec![DeviceSpec { name: "rdmap0s6".into(), addr: Ipv4Addr::LOCALHOST }],
            profile: Profile::default(),
            faults: FaultSpec::default(),
            integrity: Integrity::default(),
            paths: 0,
            strict: false,
            local_key: None,
            trace: None,
            capture_bytes: None,
            run_dir: None,
        }
    }
}

impl Config {
    /// Reads the `SOFTEFA_*` variables; what is not set has its default.
    ///
    /// # Errors
    /// The first variable that cannot be read.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_values(|name| std::env::var_os(name))
    }

    fn from_values(value: impl Fn(&str) -> Option<OsString>) -> Result<Self, ConfigError> {
        let value = |name| value(name).filter(|value| !value.is_empty());
        let text = |name| value(name).and_then(|value| value.into_string().ok());
        let mut config = Self::default();
        if let Some(value) = text(ENV_DEVICES) {
            config.devices = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
        }
        if let Some(value) = text(ENV_PROFILE) {
            config.profile = value.parse()?;
        }
        if let Some(value) = text(ENV_FAULT) {
            config.faults = value.parse()?;
        }
        if let Some(value) = text(ENV_INTEGRITY) {
            config.integrity = value.parse()?;
        }
        if let Some(value) = text(ENV_PATHS) {
            config.paths = parse_paths(&value)?;
        }
        config.strict = match text(ENV_STRICT).as_deref() {
            None | Some("0") => false,
            Some("1") => true,
            Some(value) => return Err(ConfigError::Strict { value: value.to_owned() }),
        };
        config.local_key = text(ENV_LOCAL_KEY).map(|value| parse_key(&value)).transpose()?;
        if let Some(target) = text(ENV_TRACE) {
            config.trace = Some(TraceSpec::new(&target, text(ENV_TRACE_EVENTS).as_deref())?);
        }
        // Set by `softefa run` only; what cannot be read is as good as not set.
        config.capture_bytes = text(ENV_CAPTURE).and_then(|value| value.parse().ok());
        config.run_dir = value(ENV_RUN_DIR).map(PathBuf::from);
        config.check()?;
        Ok(config)
    }

    /// What the user asks for in the environment: as [`Config::from_env`], but in a run only the trace
    /// (`SOFTEFA_TRACE` in docs/TRACE.md is meant for everything below) and what has another value
    /// than the run has set.
    ///
    /// # Errors
    /// As [`Config::from_env`].
    pub fn from_user() -> Result<Self, ConfigError> {
        Self::from_user_values(|name| std::env::var_os(name))
    }

    fn from_user_values(value: impl Fn(&str) -> Option<OsString>) -> Result<Self, ConfigError> {
        if value(ENV_RUN_DIR).is_none_or(|dir| dir.is_empty()) {
            return Self::from_values(value);
        }
        let of_run = value(ENV_OF_RUN).and_then(|of_run| of_run.into_string().ok());
        let is_of_run = |name: &str, value: &OsString| {
            let setting = format!("{name}={}", value.display());
            of_run.as_ref().is_none_or(|of_run| of_run.split(' ').any(|of| of == setting))
        };
        Self::from_values(|name| {
            let is_for_all = matches!(name, ENV_TRACE | ENV_TRACE_EVENTS);
            let is_for_user = FOR_USERS.contains(&name);
            value(name).filter(|value| is_for_all || is_for_user && !is_of_run(name, value))
        })
    }

    /// The variables that make [`Config::from_env`] return this configuration in a child.
    #[must_use]
    pub fn to_env(&self) -> Vec<(&'static str, OsString)> {
        let devices: Vec<String> =
            self.devices.iter().map(|d| format!("{}={}", d.name, d.addr)).collect();
        let mut env: Vec<(&str, OsString)> = vec![
            (ENV_DEVICES, devices.join(",").into()),
            (ENV_PROFILE, self.profile.name().into()),
            (ENV_FAULT, self.faults.to_string().into()),
            (ENV_INTEGRITY, self.integrity.name().into()),
        ];
        if self.paths > 0 {
            env.push((ENV_PATHS, self.paths.to_string().into()));
        }
        if self.strict {
            env.push((ENV_STRICT, "1".into()));
        }
        if let Some(key) = &self.local_key {
            env.push((ENV_LOCAL_KEY, format_key(key).into()));
        }
        if let Some(trace) = &self.trace {
            let (target, events) = trace.to_texts();
            env.extend([(ENV_TRACE, target.into()), (ENV_TRACE_EVENTS, events.into())]);
        }
        if let Some(bytes) = self.capture_bytes {
            env.push((ENV_CAPTURE, bytes.to_string().into()));
        }
        if let Some(dir) = &self.run_dir {
            let settings = env.iter().filter(|(name, _)| FOR_USERS.contains(name));
            let settings = settings.map(|(name, value)| format!("{name}={}", value.display()));
            let of_run = settings.collect::<Vec<_>>().join(" ");
            env.extend([(ENV_OF_RUN, of_run.into()), (ENV_RUN_DIR, dir.into())]);
        }
        env
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

/// Reads a key: 32 hexadecimal digits.
///
/// # Errors
/// [`ConfigError::LocalKey`].
pub fn parse_key(text: &str) -> Result<UserKey, ConfigError> {
    let error = || ConfigError::LocalKey { value: text.to_owned() };
    let is_hex = text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).map_err(|_| error())?;
    if text.len() == 32 && is_hex { Ok(number.to_be_bytes()) } else { Err(error()) }
}

/// Writes a key as [`parse_key`] reads it.
#[must_use]
pub fn format_key(key: &UserKey) -> String {
    format!("{:032x}", u128::from_be_bytes(*key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_the_environment() {
        let key = *b"0123456789abcdef";
        assert_eq!(parse_key(&format_key(&key)), Ok(key));
        for bad in ["", "12", "+2345678901234567890123456789012", "zz"] {
            assert!(parse_key(bad).is_err(), "{bad} was accepted");
        }
    }

    /// A configuration that sets all there is.
    fn full() -> Config {
        Config {
            faults: "loss=1%,seed=7".parse().unwrap(),
            integrity: Integrity::Crc32c,
            paths: 3,
            strict: true,
            local_key: Some([7; 16]),
            trace: Some(TraceSpec::new("/dev/null", Some("loss")).unwrap()),
            capture_bytes: Some(64),
            run_dir: Some("/tmp/run".into()),
            ..Config::default()
        }
    }

    fn lookup(env: Vec<(&'static str, OsString)>) -> impl Fn(&str) -> Option<OsString> {
        move |name| env.iter().rev().find(|(of, _)| *of == name).map(|(_, value)| value.clone())
    }

    #[test]
    fn all_variables_are_known_and_read_back() {
        let env = full().to_env();
        let mut names: Vec<_> = env.iter().map(|(name, _)| *name).collect();
        let mut all = ENV_ALL.to_vec();
        names.sort_unstable();
        all.sort_unstable();
        assert_eq!(names, all);
        assert_eq!(Config::from_values(lookup(env)), Ok(full()));
    }

    #[test]
    fn in_a_run_counts_what_is_set_anew() {
        let trace = full().trace;
        let inside = Config { trace, ..Config::default() };
        let mut env = full().to_env();
        assert_eq!(Config::from_user_values(lookup(env.clone())), Ok(inside.clone()));
        env.extend([(ENV_FAULT, "loss=2%".into()), (ENV_PATHS, "".into())]);
        let faults = "loss=2%".parse().unwrap();
        assert_eq!(Config::from_user_values(lookup(env)), Ok(Config { faults, ..inside }));
    }

    #[test]
    fn device_needs_name_and_own_address() {
        let spec: DeviceSpec = "rdmap1s6=127.0.0.2".parse().unwrap();
        assert_eq!(spec.addr, Ipv4Addr::new(127, 0, 0, 2));
        for bad in ["rdmap0", "=127.0.0.1", "a/b=127.0.0.1", "a=localhost", "a=0.0.0.0"] {
            assert!(bad.parse::<DeviceSpec>().is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn two_devices_cannot_share_an_address() {
        let mut config = Config::default();
        config.devices.push(DeviceSpec { name: "other".into(), addr: Ipv4Addr::LOCALHOST });
        assert!(matches!(config.check(), Err(ConfigError::DuplicateDevice { .. })));
    }

    #[test]
    fn path_count_is_bounded() {
        assert_eq!(parse_paths("16"), Ok(16));
        assert!(parse_paths("0").is_err() && parse_paths("257").is_err());
    }
}
