//! What a device is called on the network, by the kind of its adapter.

use std::hash::Hasher;
use std::net::IpAddr;

use siphasher::sip::SipHasher24;

use crate::config::{Adapter, Config, DeviceSpec};
use crate::gid::Gid;

/// Names of a device that nobody chooses. They follow from what it is, its name and its address, so
/// that they are the same in every process and after every start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Entry 0 of the table of port 1.
    pub gid: Gid,
    /// Identifier of the node, and of the system image.
    pub node_guid: [u8; 8],
}

/// Bytes of an IEEE vendor, locally administered.
const ROCE_VENDOR: [u8; 3] = [0x02, 0x53, 0x45];

impl Identity {
    /// Returns the identity of `device` in `config`.
    #[must_use]
    pub fn of(config: &Config, device: &DeviceSpec) -> Self {
        Self::new(config.adapter_of(device), &device.name, device.addr)
    }

    pub(crate) fn new(adapter: Adapter, name: &str, addr: IpAddr) -> Self {
        match adapter {
            Adapter::Efa => {
                let gid = Gid::of_efa(addr);
                let [_, _, _, _, _, _, _, _, node_guid @ ..] = gid.0;
                Self { gid, node_guid }
            }
            Adapter::Roce => {
                // One address per device tells those of a run apart, the name those of two runs.
                let ([a, b, c], [d, e, f, g]) = (ROCE_VENDOR, short(addr));
                let node_guid = [a, b, c, digest(name.as_bytes()), d, e, f, g];
                Self { gid: Gid::of_roce(addr), node_guid }
            }
        }
    }
}

/// Four bytes of an address: all of IPv4, a digest of IPv6.
fn short(addr: IpAddr) -> [u8; 4] {
    match addr {
        IpAddr::V4(addr) => addr.octets(),
        IpAddr::V6(addr) => {
            let [a, b, c, d, ..] = hash(&addr.octets()).to_le_bytes();
            [a, b, c, d]
        }
    }
}

fn digest(name: &[u8]) -> u8 {
    let [digest, ..] = hash(name).to_le_bytes();
    digest
}

/// Hashes `bytes`. The result is the same on every machine.
fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_efa_is_known_by_its_address_only() {
        let addr = IpAddr::from([127, 0, 0, 2]);
        let identity = Identity::new(Adapter::Efa, "a", addr);
        assert_eq!(identity, Identity::new(Adapter::Efa, "b", addr));
        assert_eq!(identity.gid, Gid::of_efa(addr));
        assert_eq!(identity.node_guid, [0x06, b'E', b'F', b'A', 127, 0, 0, 2]);
    }

    #[test]
    fn roce_devices_differ_by_name_and_by_address() {
        let guid = |name, last| {
            let addr = IpAddr::from([127, 0, 0, last]);
            Identity::new(Adapter::Roce, name, addr).node_guid
        };
        assert_eq!(guid("roce0", 1), [0x02, 0x53, 0x45, digest(b"roce0"), 127, 0, 0, 1]);
        assert_eq!(digest(b"roce0"), 0x55, "stable from build to build");
        assert_ne!(guid("roce0", 1), guid("roce1", 1));
        assert_ne!(guid("roce0", 1), guid("roce0", 2));
    }
}
