//! The settings of the port of a RoCE device that a user may choose.

use std::fmt;
use std::str::FromStr;

use super::ConfigError;

/// Path MTU: the payload bytes of a packet. Its value is that of `enum ibv_mtu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes.
    B256 = 1,
    /// 512 bytes.
    B512,
    /// 1,024 bytes.
    B1024,
    /// 2,048 bytes.
    B2048,
    /// 4,096 bytes.
    B4096,
}

impl Mtu {
    /// All MTUs, the shortest first.
    pub const ALL: [Self; 5] = [Self::B256, Self::B512, Self::B1024, Self::B2048, Self::B4096];

    /// Length of all headers that a packet may have around its payload, as rxe counts them.
    const HEADER_MAX_BYTES: u32 = 80;

    /// Returns the payload bytes of a packet.
    #[must_use]
    pub fn bytes(self) -> u32 {
        128 << self.code()
    }

    /// Returns the number that verbs has for it, 1 to 5.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the longest MTU that a link carries, or the shortest if it carries none.
    #[must_use]
    pub fn of_link(link_mtu_bytes: u32) -> Self {
        let room = link_mtu_bytes.saturating_sub(Self::HEADER_MAX_BYTES);
        let fits = Self::ALL.into_iter().rev().find(|mtu| mtu.bytes() <= room);
        fits.unwrap_or(Self::B256)
    }
}

impl FromStr for Mtu {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let known = Self::ALL.into_iter().find(|mtu| mtu.bytes().to_string() == text);
        known.ok_or_else(|| ConfigError::Mtu { value: text.to_owned() })
    }
}

/// The rate of a port, as a number of lanes of one speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The rate of all lanes together in Gb/s.
    pub gbit_per_s: u32,
    /// Number of lanes.
    pub lanes: u8,
    /// The code of the number of lanes in verbs (`active_width`).
    pub width_code: u8,
    /// The name of the speed of a lane.
    pub speed: &'static str,
    /// The code of the speed in verbs (`active_speed`).
    pub speed_code: u8,
}

impl Rate {
    /// The lanes and speeds that the kernel reports for Ethernet of these rates
    /// (`ib_get_eth_speed`).
    pub const ALL: [Self; 7] = [
        Self::new(10, Width::X1, Speed::FDR10),
        Self::new(25, Width::X1, Speed::EDR),
        Self::new(40, Width::X4, Speed::FDR10),
        Self::new(50, Width::X2, Speed::EDR),
        Self::new(100, Width::X4, Speed::EDR),
        Self::new(200, Width::X4, Speed::HDR),
        Self::new(400, Width::X4, Speed::NDR),
    ];

    const fn new(gbit_per_s: u32, width: Width, speed: Speed) -> Self {
        Self {
            gbit_per_s,
            lanes: width.lanes,
            width_code: width.code,
            speed: speed.name,
            speed_code: speed.code,
        }
    }

    /// Returns the rates that a user may write, for messages.
    pub(super) fn names() -> String {
        Self::ALL.map(|rate| rate.gbit_per_s.to_string()).join(", ")
    }
}

/// A number of lanes, and its code in verbs.
#[derive(Clone, Copy)]
struct Width {
    lanes: u8,
    code: u8,
}

impl Width {
    const X1: Self = Self { lanes: 1, code: 1 };
    const X2: Self = Self { lanes: 2, code: 16 };
    const X4: Self = Self { lanes: 4, code: 2 };
}

/// The speed of a lane, and its code in verbs.
#[derive(Clone, Copy)]
struct Speed {
    name: &'static str,
    code: u8,
}

impl Speed {
    const FDR10: Self = Self { name: "FDR10", code: 8 };
    const EDR: Self = Self { name: "EDR", code: 32 };
    const HDR: Self = Self { name: "HDR", code: 64 };
    const NDR: Self = Self { name: "NDR", code: 128 };
}

/// 25 Gb/s on each of four lanes, as an EFA reports.
impl Default for Rate {
    fn default() -> Self {
        Self::ALL[4]
    }
}

/// Writes the rate in the form of `ports/1/rate` in sysfs.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Gb/sec ({}X {})", self.gbit_per_s, self.lanes, self.speed)
    }
}

impl FromStr for Rate {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let known = Self::ALL.into_iter().find(|rate| rate.gbit_per_s.to_string() == text);
        known.ok_or_else(|| ConfigError::Rate { value: text.to_owned() })
    }
}

/// The number of entries of a port's GID table, 1 to 16. Each of them holds the device's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidCount(u8);

impl GidCount {
    /// The longest table.
    pub const MAX: Self = Self(16);

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for GidCount {
    fn default() -> Self {
        Self(1)
    }
}

impl FromStr for GidCount {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let known = (1..=Self::MAX.0).find(|count| count.to_string() == text);
        known.map(Self).ok_or_else(|| ConfigError::GidCount { value: text.to_owned() })
    }
}

/// The settings of a port; a setting that is `None` has its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PortSpec {
    /// The longest path MTU; `None` = that of the link.
    pub mtu: Option<Mtu>,
    /// The rate that the port reports; `None` = 100 Gb/s.
    pub rate: Option<Rate>,
    /// The number of entries of the GID table; `None` = 1.
    pub gids: Option<GidCount>,
    /// The UDP port of the gateway in front of the device; `None` = each queue pair has a port of
    /// its own.
    pub gateway: Option<u16>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_must_fit_beside_the_payload() {
        for (link, mtu) in [
            (65_536, Mtu::B4096),
            (4_176, Mtu::B4096),
            (4_175, Mtu::B2048),
            (2_200, Mtu::B2048),
            (1_500, Mtu::B1024),
            (576, Mtu::B256),
            (0, Mtu::B256),
        ] {
            assert_eq!(Mtu::of_link(link), mtu, "link MTU {link}");
        }
        assert_eq!(Mtu::ALL.map(Mtu::bytes), [256, 512, 1024, 2048, 4096]);
        assert_eq!(Mtu::ALL.map(Mtu::code), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn only_what_ports_have_can_be_chosen() {
        assert_eq!("2048".parse(), Ok(Mtu::B2048));
        assert_eq!("100".parse(), Ok(Rate::default()));
        assert_eq!(Rate::default().to_string(), "100 Gb/sec (4X EDR)");
        for bad in ["", "0", "1500", "04096", "4096 "] {
            assert!(bad.parse::<Mtu>().is_err(), "{bad} was accepted");
        }
        for bad in ["", "1", "100G", "+100"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad} was accepted");
        }
        assert_eq!("16".parse(), Ok(GidCount::MAX));
        for bad in ["", "0", "17", "-1", "04", "256"] {
            assert!(bad.parse::<GidCount>().is_err(), "{bad} was accepted");
        }
    }
}
