//! Profiles: the kind of adapter that a device plays, and its generation.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::ConfigError;
use crate::gid::Gid;

/// The kind of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Adapter {
    /// An EFA: SRD and UD queue pairs.
    Efa,
    /// A RoCEv2 adapter: RC, XRC, UC and UD queue pairs.
    Roce,
}

impl Adapter {
    /// Returns the name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Efa => "EFA",
            Self::Roce => "RoCE v2",
        }
    }
}

impl Adapter {
    /// Returns the identifier of a device of this kind at `addr`.
    #[must_use]
    pub fn gid(self, addr: IpAddr) -> Gid {
        match self {
            Self::Efa => Gid::of_efa(addr),
            Self::Roce => Gid::of_roce(addr),
        }
    }

    /// Returns the address of the device of this kind that has `gid`; `None` if no address has it.
    #[must_use]
    pub fn addr_of(self, gid: Gid) -> Option<IpAddr> {
        match self {
            Self::Efa => gid.efa_addr(),
            Self::Roce => gid.roce_addr(),
        }
    }
}

/// The adapter that a device plays. An EFA has generations, which differ in their PCI part ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Profile {
    /// The EFA of the c5n, which the thesis describes: SEND and RECV only (part 0xefa0).
    Efa0,
    /// The EFA of the p4d, which adds RDMA READ (part 0xefa1).
    Efa1,
    /// The EFA of the p5, which adds RDMA WRITE and unsolicited write receive (part 0xefa2).
    #[default]
    Efa2,
    /// A RoCEv2 adapter under a vendor id of its own.
    Roce,
    /// A RoCEv2 adapter under the vendor id of Linux' rxe.
    Rxe,
}

impl Profile {
    /// The names that a user may write.
    pub const NAMES: [&'static str; 5] = ["efa0", "efa1", "efa2", "roce", "rxe"];
    const ALL: [Self; 5] = [Self::Efa0, Self::Efa1, Self::Efa2, Self::Roce, Self::Rxe];

    /// Returns the kind of adapter.
    #[must_use]
    pub fn adapter(self) -> Adapter {
        match self {
            Self::Efa0 | Self::Efa1 | Self::Efa2 => Adapter::Efa,
            Self::Roce | Self::Rxe => Adapter::Roce,
        }
    }

    /// Returns the vendor id: Amazon's PCI vendor id for an EFA, otherwise 24 bits as IEEE assigns
    /// them. The id of `roce` is locally administered, so that no vendor has it. Programs do not
    /// treat 0 and rxe's as a full adapter, and apply quirks to the vendors they know.
    #[must_use]
    pub fn vendor_id(self) -> u32 {
        match self {
            Self::Efa0 | Self::Efa1 | Self::Efa2 => 0x1d0f,
            Self::Roce => 0x02_5345,
            Self::Rxe => 0xff_ffff,
        }
    }

    /// Returns the part id, which is the PCI device id for an EFA.
    #[must_use]
    pub fn part_id(self) -> u32 {
        match self {
            Self::Efa0 => 0xefa0,
            Self::Efa1 => 0xefa1,
            Self::Efa2 => 0xefa2,
            Self::Roce => 1,
            Self::Rxe => 0,
        }
    }

    /// Returns the version of the firmware, which is that of this program for a RoCE device.
    #[must_use]
    pub fn fw_ver(self) -> &'static str {
        match self.adapter() {
            Adapter::Efa => "0.0.0.0",
            Adapter::Roce => env!("CARGO_PKG_VERSION"),
        }
    }

    /// Returns the name as given to `--profile`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let known = Self::ALL.into_iter().find(|profile| profile.name() == text);
        known.ok_or_else(|| ConfigError::Profile { value: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back() {
        for (profile, name) in Profile::ALL.into_iter().zip(Profile::NAMES) {
            assert_eq!(name.parse(), Ok(profile));
            assert_eq!(profile.to_string(), name);
        }
        for bad in ["", "ROCE", "roce ", "efa", "efa9"] {
            assert!(bad.parse::<Profile>().is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn only_rxe_has_the_vendor_id_of_rxe() {
        let ids: Vec<_> = Profile::ALL.iter().map(|p| (p.vendor_id(), p.part_id())).collect();
        let efa = [(0x1d0f, 0xefa0), (0x1d0f, 0xefa1), (0x1d0f, 0xefa2)];
        assert_eq!(ids[..3], efa);
        assert_eq!(ids[3..], [(0x02_5345, 1), (0xff_ffff, 0)]);
    }
}
