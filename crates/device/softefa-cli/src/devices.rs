//! Builds a checked configuration from options and environment.

use std::net::UdpSocket;
use std::path::Path;

use softefa::fault::FaultSpec;
use softefa::gateway::Gateway;
use softefa::seal::SealKey;
use softefa::{Adapter, Config, ConfigError, DeviceSpec, Profile, config};

use crate::args::DeviceArgs;
use crate::eprint::eprint_line;
use crate::failure::Failure;

/// Returns the configuration that results from the options and from `config`, which comes from the
/// `SOFTEFA_*` variables.
///
/// # Errors
/// The first option that cannot be used, or a device address that is not local.
pub(crate) fn config(args: &DeviceArgs, mut config: Config) -> Result<Config, Failure> {
    if !args.devices.is_empty() {
        config.devices = args.devices.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    }
    if let Some(profile) = &args.profile {
        config.profile = profile.parse()?;
    }
    if let Some(fault) = &args.fault {
        config.faults = FaultSpec::parse_option(fault)?;
    }
    if let Some(integrity) = &args.integrity {
        config.integrity = integrity.parse()?;
    }
    if let Some(paths) = &args.paths {
        config.paths = config::parse_paths(paths)?;
    }
    if let Some(path) = &args.key_file {
        config.key = Some(key(path)?);
    }
    let is_default = args.devices.is_empty() && config.has_default_devices();
    if args.roce {
        add_roce(&mut config, is_default)?;
    } else if is_default {
        config.settle_default_device();
    }
    config.check()?;
    config.devices.iter().try_for_each(check_local)?;
    Ok(config)
}

/// Adds a RoCE device to the devices that were chosen, or replaces the default one.
fn add_roce(config: &mut Config, is_default: bool) -> Result<(), Failure> {
    let Config { devices, profile, .. } = config;
    let mut roce = DeviceSpec::default_roce();
    if profile.adapter() == Adapter::Roce {
        roce.profile = Some(*profile);
    } else if is_default && *profile != Profile::default() {
        return Err(Failure::new(format!(
            "--roce and --profile {}: the only device would be a RoCE one; name the EFA with --device NAME=IP, or leave out one of both",
            profile.name()
        )));
    }
    if is_default {
        devices.clear();
    }
    devices.push(roce);
    Ok(())
}

/// Reads a key file that was named on the command line.
///
/// # Errors
/// The file is missing, has the wrong length, or cannot be read.
pub(crate) fn key(path: &Path) -> Result<SealKey, Failure> {
    Ok(SealKey::read(path).map_err(ConfigError::from)?)
}

/// Warns when others can read the key that is going to be used.
pub(crate) fn warn_of_exposure(key: Option<&SealKey>) {
    if let Some(warning) = key.and_then(SealKey::warning) {
        eprint_line!("softefa: {warning}");
    }
}

/// Connects to the gateways of devices, because an error would otherwise appear only in the
/// program.
///
/// # Errors
/// A gateway does not exist or is not to be trusted.
pub(crate) fn check_gateways(config: &Config) -> Result<(), Failure> {
    for device in &config.devices {
        if let Some(port) = device.port.gateway {
            let joined = Gateway::connect(device.addr, port);
            joined.map_err(|why| Failure::new(format!("device {}: {why}", device.name)))?;
        }
    }
    Ok(())
}

/// Checks that the address can be bound: a queue pair is a UDP socket on it, so that a wrong
/// address would fail only later, inside the program, without a message.
fn check_local(device: &DeviceSpec) -> Result<(), Failure> {
    match UdpSocket::bind((device.addr, 0)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AddrNotAvailable => {
            Err(Failure::new(format!(
                "address {} of device {} is not local; use one that `ip addr` shows, or 127.0.0.N",
                device.addr, device.name
            )))
        }
        Err(error) => Err(Failure::of_machine(format!(
            "address {} of device {} cannot be used: {error}",
            device.addr, device.name
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(devices: &[&str]) -> DeviceArgs {
        let devices = devices.iter().map(|&text| text.to_owned()).collect();
        DeviceArgs { devices, ..DeviceArgs::default() }
    }

    #[test]
    fn foreign_address_is_named() {
        // 192.0.2.0/24 is reserved for documentation: no machine owns it.
        let failure = config(&args(&["rdmap0s6=192.0.2.1"]), Config::default()).unwrap_err();
        assert!(failure.to_string().contains("192.0.2.1"), "{failure}");
        assert_eq!(failure.code(), 125);
    }

    #[test]
    fn several_devices_keep_their_order() {
        let args = args(&["b=127.0.0.2", "a=127.0.0.1"]);
        let config = config(&args, Config::default()).unwrap();
        assert_eq!(config.devices[0].name, "b");
        assert_eq!(config.devices[1].name, "a");
    }

    #[test]
    fn a_device_plays_its_own_profile_before_that_of_all() {
        let devices = args(&["a=127.0.0.1,profile=efa0", "b=127.0.0.2"]).devices;
        let args = DeviceArgs { devices, profile: Some("efa1".into()), ..DeviceArgs::default() };
        let config = config(&args, Config::default()).unwrap();
        let profiles = config.devices.iter().map(|device| config.profile_of(device).name());
        assert_eq!(profiles.collect::<Vec<_>>(), ["efa0", "efa1"]);
    }

    #[test]
    fn roce_is_a_device_of_its_own_or_one_more() {
        let names = |devices: &[&str]| {
            let args = DeviceArgs { roce: true, ..args(devices) };
            let config = config(&args, Config::default()).unwrap();
            let names = config
                .devices
                .iter()
                .map(|device| format!("{} {}", device.name, config.adapter_of(device).name()));
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), ["roce0 RoCE v2"]);
        assert_eq!(names(&["rdmap0s6=127.0.0.1"]), ["rdmap0s6 EFA", "roce0 RoCE v2"]);
        let twice = DeviceArgs { roce: true, ..args(&["roce0=127.0.0.9,profile=roce"]) };
        let text = config(&twice, Config::default()).unwrap_err().to_string();
        assert!(text.contains("'roce0'") && text.contains("twice"), "{text}");
    }

    #[test]
    fn a_profile_that_no_device_would_have_is_refused() {
        let of = |profile: &str| {
            let profile = Some(profile.to_owned());
            let args = DeviceArgs { roce: true, profile, ..args(&[]) };
            config(&args, Config::default())
        };
        let rxe = of("rxe").unwrap();
        assert_eq!(rxe.profile_of(&rxe.devices[0]), Profile::Rxe);
        let line = of("efa1").unwrap_err().to_string();
        assert!(line.contains("efa1") && line.contains("--device"), "{line}");
    }

    #[test]
    fn a_profile_alone_is_enough_for_a_roce_device() {
        let args = DeviceArgs { profile: Some("rxe".into()), ..DeviceArgs::default() };
        let config = config(&args, Config::default()).unwrap();
        assert_eq!(config.devices[0].name, "roce0");
        assert_eq!(config.profile_of(&config.devices[0]).name(), "rxe");
    }

    #[test]
    fn unknown_profile_lists_the_known_ones() {
        let args = DeviceArgs { profile: Some("efa9".into()), ..DeviceArgs::default() };
        let text = config(&args, Config::default()).unwrap_err().to_string();
        assert!(text.contains("efa9") && text.contains("efa0") && text.contains("rxe"), "{text}");
    }
}
