//! Why a configuration is refused.

use std::net::IpAddr;

use super::fault::FaultKey;
use super::profile::Profile;
use super::trace::TraceEvent;
use super::{Integrity, MAX_PATHS, Mtu, Rate, WireChoice};
use crate::seal::KeyFileError;

/// A value the user gave that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Not a known profile.
    #[error("unknown profile '{value}': allowed are {}", Profile::NAMES.join(", "))]
    Profile {
        /// The value as it was written.
        value: String,
    },
    /// Not `NAME=IP`.
    #[error(
        "device '{value}' is not NAME=IP[,profile=NAME][,mtu=BYTES][,rate=GBIT_PER_S][,gateway=PORT] ({reason}); write for example rdmap0s6=127.0.0.1"
    )]
    Device {
        /// The value as it was written.
        value: String,
        /// The reason why it is wrong.
        reason: &'static str,
    },
    /// Not a path MTU.
    #[error("mtu '{value}': allowed are {}", Mtu::ALL.map(|mtu| mtu.bytes().to_string()).join(", "))]
    Mtu {
        /// The value as it was written.
        value: String,
    },
    /// Not a rate of ports.
    #[error("rate '{value}': allowed are, in Gb/s, {}", Rate::names())]
    Rate {
        /// The value as it was written.
        value: String,
    },
    /// Not a UDP port of the network.
    #[error("gateway '{value}': write the UDP port of the network, which is 4791 for RoCE v2")]
    Gateway {
        /// The value as it was written.
        value: String,
    },
    /// A RoCE device under a name by which programs take it for the adapter of a vendor.
    #[error(
        "device '{value}' is a RoCE device, but programs take names with {prefix} for another vendor's; write for example roce0"
    )]
    VendorName {
        /// The name.
        value: String,
        /// The prefix that it begins with.
        prefix: &'static str,
    },
    /// Settings of a port for a device whose link chooses them.
    #[error(
        "device {device}: mtu=, rate= and gateway= are for RoCE devices, and it is an EFA; add profile=roce or leave them out"
    )]
    EfaPort {
        /// The device.
        device: String,
    },
    /// An EFA at an address that its identifier has no room for.
    #[error(
        "device {device}: {addr} is an IPv6 address, and an EFA has one of IPv4; give one, or add profile=roce"
    )]
    EfaAddress {
        /// The device.
        device: String,
        /// The address.
        addr: IpAddr,
    },
    /// A key beside a device that cannot use it.
    #[error(
        "device {device}: a gateway cannot judge what is sealed, and a key file is given; leave gateway= or the key out"
    )]
    Unsealable {
        /// The device.
        device: String,
    },
    /// Two devices share a name, or two of one kind an address.
    #[error(
        "device '{value}' is given twice: each needs its own name, and each of its kind its own address"
    )]
    DuplicateDevice {
        /// The repeated name or address.
        value: String,
    },
    /// Not a known extent of the check.
    #[error("unknown integrity '{value}': allowed are {}", Integrity::NAMES.join(", "))]
    Integrity {
        /// The value as it was written.
        value: String,
    },
    /// Not a known wire.
    #[error("unknown wire '{value}': allowed are {}", WireChoice::NAMES.join(", "))]
    Wire {
        /// The value as it was written.
        value: String,
    },
    /// Not a path count.
    #[error("paths '{value}' is not a number from 1 to {MAX_PATHS}")]
    Paths {
        /// The value as it was written.
        value: String,
    },
    /// Not a key of a user's programs.
    #[error("local key '{value}' is not 32 hexadecimal digits; unset it to use the wire only")]
    LocalKey {
        /// The value as it was written.
        value: String,
    },
    /// A key file that cannot be used.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// A switch that is neither on nor off.
    #[error("{name}='{value}' is neither 1 nor 0")]
    Switch {
        /// Name of the variable.
        name: &'static str,
        /// The value as it was written.
        value: String,
    },
    /// A variable of the environment that is not text.
    #[error("{name}='{value}' is not UTF-8; set it again, or unset it")]
    NotText {
        /// Name of the variable.
        name: &'static str,
        /// The value as far as it can be shown.
        value: String,
    },
    /// Not a kind of event.
    #[error("unknown trace event '{value}': allowed are {}", TraceEvent::NAMES.join(", "))]
    TraceEvent {
        /// The value as it was written.
        value: String,
    },
    /// Not a known fault.
    #[error("unknown fault '{key}': allowed are {}", FaultKey::names())]
    FaultKey {
        /// The value as it was written.
        key: String,
    },
    /// A fault of a path that a device does not have.
    #[error("fault blackhole=path:{path}: device {device} has paths 0 to {}; --paths N gives it N", paths - 1)]
    FaultPath {
        /// The value as it was written.
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
        /// The value as it was written.
        value: String,
        /// The values that may be written instead.
        expected: &'static str,
    },
    /// No fault where one is needed.
    #[error("no fault given; write for example loss=5%, or 'none' for no fault at all")]
    FaultEmpty,
    /// A fault that cannot begin while a device is in use.
    #[error("fault {key} is decided when a device is opened; give it to softefa run --fault")]
    FaultOpening {
        /// The fault.
        key: &'static str,
    },
    /// Not a time.
    #[error("time '{value}': write 2s, 500ms, 50us or 10ns, at most 3600s")]
    FaultTime {
        /// The value as it was written.
        value: String,
    },
}
