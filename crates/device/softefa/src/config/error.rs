//! The errors of a configuration.

use std::net::IpAddr;

use super::fault::FaultKey;
use super::profile::Profile;
use super::trace::TraceEvent;
use super::{GidCount, Integrity, MAX_PATHS, Mtu, Rate, WireChoice};
use crate::seal::KeyFileError;

/// A value given by the user that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The profile is unknown.
    #[error("unknown profile '{value}': allowed are {}", Profile::NAMES.join(", "))]
    Profile {
        /// The value as it was written.
        value: String,
    },
    /// The device is not of the form `NAME=IP`.
    #[error(
        "device '{value}' is not NAME=IP[,profile=NAME][,mtu=BYTES][,rate=GBIT_PER_S][,gids=N][,gateway=PORT] ({reason}); write for example rdmap0s6=127.0.0.1"
    )]
    Device {
        /// The value as it was written.
        value: String,
        /// The reason why it is wrong.
        reason: &'static str,
    },
    /// The value is not a path MTU.
    #[error("mtu '{value}': allowed are {}", Mtu::ALL.map(|mtu| mtu.bytes().to_string()).join(", "))]
    Mtu {
        /// The value as it was written.
        value: String,
    },
    /// The value is not a rate of ports.
    #[error("rate '{value}': allowed are, in Gb/s, {}", Rate::names())]
    Rate {
        /// The value as it was written.
        value: String,
    },
    /// The value is not a number of entries of a GID table.
    #[error("gids '{value}': allowed are 1 to {}", GidCount::MAX.get())]
    GidCount {
        /// The value as it was written.
        value: String,
    },
    /// The value is not a UDP port of the network.
    #[error("gateway '{value}': write the UDP port of the network, which is 4791 for RoCE v2")]
    Gateway {
        /// The value as it was written.
        value: String,
    },
    /// A RoCE device has a name by which programs take it for the adapter of a vendor.
    #[error(
        "device '{value}' is a RoCE device, but programs take names with {prefix} for another vendor's; write for example roce0"
    )]
    VendorName {
        /// The name.
        value: String,
        /// The prefix that it begins with.
        prefix: &'static str,
    },
    /// A device has settings of a port, but its link chooses them.
    #[error(
        "device {device}: mtu=, rate=, gids= and gateway= are for RoCE devices, and it is an EFA; add profile=roce or leave them out"
    )]
    EfaPort {
        /// The device.
        device: String,
    },
    /// An EFA is at an address that does not fit into its identifier.
    #[error(
        "device {device}: {addr} is an IPv6 address, and an EFA has one of IPv4; give one, or add profile=roce"
    )]
    EfaAddress {
        /// The device.
        device: String,
        /// The address.
        addr: IpAddr,
    },
    /// There is a key and a device that cannot use one.
    #[error(
        "device {device}: a gateway cannot judge what is sealed, and a key file is given; leave gateway= or the key out"
    )]
    Unsealable {
        /// The device.
        device: String,
    },
    /// Two devices share a name, or two of one kind share an address.
    #[error(
        "device '{value}' is given twice: each needs its own name, and each of its kind its own address"
    )]
    DuplicateDevice {
        /// The repeated name or address.
        value: String,
    },
    /// The extent of the check is unknown.
    #[error("unknown integrity '{value}': allowed are {}", Integrity::NAMES.join(", "))]
    Integrity {
        /// The value as it was written.
        value: String,
    },
    /// The wire is unknown.
    #[error("unknown wire '{value}': allowed are {}", WireChoice::NAMES.join(", "))]
    Wire {
        /// The value as it was written.
        value: String,
    },
    /// The value is not a path count.
    #[error("paths '{value}' is not a number from 1 to {MAX_PATHS}")]
    Paths {
        /// The value as it was written.
        value: String,
    },
    /// The value is not a key of a user's programs.
    #[error("local key '{value}' is not 32 hexadecimal digits; unset it to use the wire only")]
    LocalKey {
        /// The value as it was written.
        value: String,
    },
    /// The key file cannot be used.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// The value of a switch is neither on nor off.
    #[error("{name}='{value}' is neither 1 nor 0")]
    Switch {
        /// Name of the variable.
        name: &'static str,
        /// The value as it was written.
        value: String,
    },
    /// The value of an environment variable is not text.
    #[error("{name}='{value}' is not UTF-8; set it again, or unset it")]
    NotText {
        /// Name of the variable.
        name: &'static str,
        /// The value as far as it can be shown.
        value: String,
    },
    /// The kind of event is unknown.
    #[error("unknown trace event '{value}': allowed are {}", TraceEvent::NAMES.join(", "))]
    TraceEvent {
        /// The value as it was written.
        value: String,
    },
    /// The fault is unknown.
    #[error("unknown fault '{key}': allowed are {}", FaultKey::names())]
    FaultKey {
        /// The value as it was written.
        key: String,
    },
    /// A fault names a path that a device does not have.
    #[error("fault blackhole=path:{path}: device {device} has paths 0 to {}; --paths N gives it N", paths - 1)]
    FaultPath {
        /// The path.
        path: u16,
        /// The device.
        device: String,
        /// The number of its paths.
        paths: u16,
    },
    /// The value of a fault cannot be parsed.
    #[error("fault {key}='{value}': {expected}")]
    FaultValue {
        /// The fault.
        key: String,
        /// The value as it was written.
        value: String,
        /// The values that may be written instead.
        expected: &'static str,
    },
    /// There is no fault where one is needed.
    #[error("no fault given; write for example loss=5%, or 'none' for no fault at all")]
    FaultEmpty,
    /// The fault cannot begin while a device is in use.
    #[error("fault {key} is decided when a device is opened; give it to softefa run --fault")]
    FaultOpening {
        /// The fault.
        key: &'static str,
    },
    /// The value is not a time.
    #[error("time '{value}': write 2s, 500ms, 50us or 10ns, at most 3600s")]
    FaultTime {
        /// The value as it was written.
        value: String,
    },
}
