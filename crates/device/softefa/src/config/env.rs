//! The configuration in environment variables, which `softefa run` hands to the preloaded library,
//! and the user to both.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::trace::TraceSpec;
use super::{Config, ConfigError, DeviceSpec, format_key, parse_key, parse_paths};
use crate::seal::SealKey;

/// Devices as `NAME=IP`, each with its settings ([`DeviceSpec`]), separated by commas.
pub const ENV_DEVICES: &str = "SOFTEFA_DEVICES";
/// Profile name.
pub const ENV_PROFILE: &str = "SOFTEFA_PROFILE";
/// Fault specification.
pub const ENV_FAULT: &str = "SOFTEFA_FAULT";
/// Chooses what the check of a datagram covers.
pub const ENV_INTEGRITY: &str = "SOFTEFA_INTEGRITY";
/// Chooses what carries datagrams on this machine.
pub const ENV_WIRE: &str = "SOFTEFA_WIRE";
/// Number of paths per device.
pub const ENV_PATHS: &str = "SOFTEFA_PATHS";
/// Key of the user's programs, 32 hexadecimal digits. Without it no memory is copied directly.
pub const ENV_LOCAL_KEY: &str = "SOFTEFA_LOCAL_KEY";
/// File with the key that seals all datagrams. Without it they are sent in the clear.
pub const ENV_KEY_FILE: &str = "SOFTEFA_KEY_FILE";
/// The target of a trace: `1` for standard error, or a file name in which `%p` is the process id.
pub const ENV_TRACE: &str = "SOFTEFA_TRACE";
/// Kinds of events in the trace, separated by commas.
pub const ENV_TRACE_EVENTS: &str = "SOFTEFA_TRACE_EVENTS";
/// Number of bytes of each datagram to keep for captures, from the first datagram on.
pub const ENV_CAPTURE: &str = "SOFTEFA_CAPTURE";
/// `1` to refuse what hardware refuses, `0` (or nothing) to permit more.
pub const ENV_STRICT: &str = "SOFTEFA_STRICT";
/// `1` to report mistakes of programs, `0` (or nothing) not to.
pub const ENV_LINT: &str = "SOFTEFA_LINT";
/// `1` to send each post at once, `0` (or nothing) to let some wait for the next poll.
pub const ENV_SEND_AT_ONCE: &str = "SOFTEFA_SEND_AT_ONCE";
/// Directory of the sysfs tree and the counters.
pub const ENV_RUN_DIR: &str = "SOFTEFA_RUN_DIR";
/// The variables for users that the run has set, as `NAME=VALUE` with spaces between.
pub const ENV_OF_RUN: &str = "SOFTEFA_OF_RUN";

/// All variables: what a run does not set must not be left from another run.
pub const ENV_ALL: [&str; 16] = [
    ENV_DEVICES,
    ENV_PROFILE,
    ENV_FAULT,
    ENV_INTEGRITY,
    ENV_WIRE,
    ENV_PATHS,
    ENV_LOCAL_KEY,
    ENV_KEY_FILE,
    ENV_TRACE,
    ENV_TRACE_EVENTS,
    ENV_CAPTURE,
    ENV_STRICT,
    ENV_LINT,
    ENV_SEND_AT_ONCE,
    ENV_RUN_DIR,
    ENV_OF_RUN,
];

/// The variables that may be set for a run inside a run; their values have no spaces. Variables
/// that the run keeps for itself are not among them. The trace is for everything below
/// (docs/TRACE.md), and so is the key: a run that is started inside a sealed run must not send in
/// the clear unless the user asks for that.
const FOR_USERS: [&str; 9] = [
    ENV_DEVICES,
    ENV_PROFILE,
    ENV_FAULT,
    ENV_INTEGRITY,
    ENV_WIRE,
    ENV_PATHS,
    ENV_STRICT,
    ENV_LINT,
    ENV_SEND_AT_ONCE,
];

/// The variables that [`Config::remember_env`] has found.
static REMEMBERED: OnceLock<Vec<(&'static str, OsString)>> = OnceLock::new();

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some()
}

/// Returns the value of variable `name` as text, which all values but file names are.
fn utf8(name: &'static str, value: OsString) -> Result<String, ConfigError> {
    value.into_string().map_err(|value| {
        let value = Path::new(&value).display().to_string();
        ConfigError::NotText { name, value }
    })
}

impl Config {
    /// Reads the `SOFTEFA_*` variables. A variable that is not set has its default.
    ///
    /// # Errors
    /// The first variable that cannot be read.
    pub fn from_env() -> Result<Self, ConfigError> {
        let remembered = REMEMBERED.get().filter(|_| ENV_ALL.iter().all(|name| !is_set(name)));
        Self::from_values(|name| {
            let mut remembered = remembered.into_iter().flatten();
            std::env::var_os(name)
                .or_else(|| remembered.find(|(other, _)| *other == name).map(|(_, v)| v.clone()))
        })
    }

    /// Remembers the present values of the `SOFTEFA_*` variables: [`Config::from_env`] uses them if
    /// the program has removed all of the variables meanwhile, as daemons do.
    pub fn remember_env() {
        REMEMBERED.get_or_init(|| {
            let values = ENV_ALL.iter().map(|name| (*name, std::env::var_os(name)));
            values.filter_map(|(name, value)| Some((name, value?))).collect()
        });
    }

    fn from_values(value: impl Fn(&str) -> Option<OsString>) -> Result<Self, ConfigError> {
        let value = |name| value(name).filter(|value| !value.is_empty());
        let text = |name| value(name).map(|value| utf8(name, value)).transpose();
        let mut config = Self::default();
        if let Some(value) = text(ENV_PROFILE)? {
            config.profile = value.parse()?;
        }
        match text(ENV_DEVICES)? {
            Some(value) => config.devices = DeviceSpec::parse_list(&value)?,
            None => config.settle_default_device(),
        }
        if let Some(value) = text(ENV_FAULT)? {
            config.faults = value.parse()?;
        }
        if let Some(value) = text(ENV_INTEGRITY)? {
            config.integrity = value.parse()?;
        }
        if let Some(value) = text(ENV_WIRE)? {
            config.wire = value.parse()?;
        }
        if let Some(value) = text(ENV_PATHS)? {
            config.paths = parse_paths(&value)?;
        }
        let switch = |name| match text(name)?.as_deref() {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(value) => Err(ConfigError::Switch { name, value: value.to_owned() }),
        };
        (config.strict, config.lint) = (switch(ENV_STRICT)?, switch(ENV_LINT)?);
        config.send_at_once = switch(ENV_SEND_AT_ONCE)?;
        config.local_key = text(ENV_LOCAL_KEY)?.map(|value| parse_key(&value)).transpose()?;
        config.key = value(ENV_KEY_FILE).map(|path| SealKey::read(Path::new(&path))).transpose()?;
        if let Some(target) = text(ENV_TRACE)? {
            config.trace = Some(TraceSpec::new(&target, text(ENV_TRACE_EVENTS)?.as_deref())?);
        }
        // Only `softefa run` sets it, and a value that is not a number counts as not set.
        config.capture_bytes = text(ENV_CAPTURE)?.and_then(|value| value.parse().ok());
        config.run_dir = value(ENV_RUN_DIR).map(PathBuf::from);
        config.check()?;
        Ok(config)
    }

    /// Reads what the user asks for in the environment, as [`Config::from_env`] does. In a run it
    /// reads only the trace and the key, which are meant for everything below, and variables whose
    /// value is not the one that the run has set.
    ///
    /// # Errors
    /// The errors of [`Config::from_env`].
    pub fn from_user() -> Result<Self, ConfigError> {
        Self::from_user_values(|name| std::env::var_os(name))
    }

    fn from_user_values(value: impl Fn(&str) -> Option<OsString>) -> Result<Self, ConfigError> {
        if value(ENV_RUN_DIR).is_none_or(|dir| dir.is_empty()) {
            return Self::from_values(value);
        }
        let of_run = value(ENV_OF_RUN).map(|of_run| utf8(ENV_OF_RUN, of_run)).transpose()?;
        let is_of_run = |name: &str, value: &OsString| {
            let setting = format!("{name}={}", Path::new(value).display());
            of_run.as_ref().is_none_or(|of_run| of_run.split(' ').any(|of| of == setting))
        };
        Self::from_values(|name| {
            let is_for_all = matches!(name, ENV_TRACE | ENV_TRACE_EVENTS | ENV_KEY_FILE);
            let is_for_user = FOR_USERS.contains(&name);
            value(name).filter(|value| is_for_all || is_for_user && !is_of_run(name, value))
        })
    }

    /// Returns the variables that make [`Config::from_env`] return this configuration in a child.
    #[must_use]
    pub fn to_env(&self) -> Vec<(&'static str, OsString)> {
        let devices: Vec<String> = self.devices.iter().map(ToString::to_string).collect();
        let mut env: Vec<(&str, OsString)> = vec![
            (ENV_DEVICES, devices.join(",").into()),
            (ENV_PROFILE, self.profile.name().into()),
            (ENV_FAULT, self.faults.to_string().into()),
            (ENV_INTEGRITY, self.integrity.name().into()),
            (ENV_WIRE, self.wire.name().into()),
        ];
        if self.paths > 0 {
            env.push((ENV_PATHS, self.paths.to_string().into()));
        }
        let switches = [
            (ENV_STRICT, self.strict),
            (ENV_LINT, self.lint),
            (ENV_SEND_AT_ONCE, self.send_at_once),
        ];
        env.extend(
            switches.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| (*name, "1".into())),
        );
        if let Some(key) = &self.local_key {
            env.push((ENV_LOCAL_KEY, format_key(key).into()));
        }
        if let Some(key) = &self.key {
            env.push((ENV_KEY_FILE, key.path().into()));
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
            let settings =
                settings.map(|(name, value)| format!("{name}={}", Path::new(value).display()));
            let of_run = settings.collect::<Vec<_>>().join(" ");
            env.extend([(ENV_OF_RUN, of_run.into()), (ENV_RUN_DIR, dir.into())]);
        }
        env
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::super::{Integrity, WireChoice};
    use super::*;

    /// Makes a directory with a key file.
    fn key_file() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a key");
        std::fs::write(&path, [7; 32]).unwrap();
        (dir, path)
    }

    /// Returns a configuration that sets all there is.
    fn full(key: &Path) -> Config {
        Config {
            faults: "loss=1%,seed=7".parse().unwrap(),
            integrity: Integrity::Crc32c,
            wire: WireChoice::Udp,
            paths: 3,
            strict: true,
            lint: true,
            send_at_once: true,
            local_key: Some([7; 16]),
            key: Some(SealKey::read(key).unwrap()),
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
        let (_dir, key) = key_file();
        let env = full(&key).to_env();
        let mut names: Vec<_> = env.iter().map(|(name, _)| *name).collect();
        let mut all = ENV_ALL.to_vec();
        names.sort_unstable();
        all.sort_unstable();
        assert_eq!(names, all);
        assert_eq!(Config::from_values(lookup(env)), Ok(full(&key)));
    }

    #[test]
    fn in_a_run_counts_what_is_set_anew() {
        let (_dir, path) = key_file();
        let Config { trace, key, .. } = full(&path);
        let inside = Config { trace, key, ..Config::default() };
        let mut env = full(&path).to_env();
        assert_eq!(Config::from_user_values(lookup(env.clone())), Ok(inside.clone()));
        env.extend([(ENV_FAULT, "loss=2%".into()), (ENV_PATHS, "".into())]);
        let faults = "loss=2%".parse().unwrap();
        assert_eq!(Config::from_user_values(lookup(env.clone())), Ok(Config { faults, ..inside }));
        env.push((ENV_KEY_FILE, "".into()));
        let config = Config::from_user_values(lookup(env)).unwrap();
        assert_eq!(config.key, None, "in the clear on purpose");
    }

    #[test]
    fn a_profile_alone_chooses_the_device() {
        let config = Config::from_values(|name| (name == ENV_PROFILE).then(|| "roce".into()));
        let config = config.unwrap();
        assert_eq!(config.devices[0].name, "roce0");
        assert_eq!(Config::from_values(lookup(config.to_env())), Ok(config));
        let named = [(ENV_PROFILE, "roce".into()), (ENV_DEVICES, "rdmap0s6=127.0.0.1".into())];
        let refused = Config::from_values(lookup(named.to_vec()));
        assert!(matches!(refused, Err(ConfigError::VendorName { .. })), "{refused:?}");
    }

    /// Ignoring the variable would run without the faults that the user asked for.
    #[test]
    fn a_variable_that_is_no_text_is_an_error() {
        let bad = || OsString::from_vec(b"loss=1%\xff".to_vec());
        let texts = ENV_ALL.into_iter().filter(|name| ![ENV_KEY_FILE, ENV_RUN_DIR].contains(name));
        for name in texts.filter(|name| ![ENV_TRACE_EVENTS, ENV_OF_RUN].contains(name)) {
            let refused = Config::from_values(|asked| (asked == name).then(bad)).unwrap_err();
            let expected = "loss=1%\u{fffd}".to_owned();
            assert_eq!(refused, ConfigError::NotText { name, value: expected });
            assert!(refused.to_string().contains(name), "{refused}");
        }
        for name in [ENV_FAULT, ENV_OF_RUN] {
            let refused = Config::from_user_values(|asked| match asked {
                _ if asked == name => Some(bad()),
                ENV_RUN_DIR => Some("/tmp/run".into()),
                ENV_OF_RUN => Some("SOFTEFA_WIRE=udp".into()),
                _ => None,
            });
            let is_it = matches!(refused, Err(ConfigError::NotText { name: of, .. }) if of == name);
            assert!(is_it, "{refused:?}");
        }
    }

    /// Datagrams that are meant to be sealed are never sent in the clear because of a mistake.
    #[test]
    fn a_key_file_that_cannot_be_used_is_an_error() {
        let config = Config::from_values(|name| (name == ENV_KEY_FILE).then(|| "/missing".into()));
        assert!(matches!(config, Err(ConfigError::KeyFile(_))), "{config:?}");
    }
}
