//! Which generation of the adapter a device plays.

use std::fmt;
use std::str::FromStr;

use super::ConfigError;

/// Generation of the adapter, by its PCI part id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Profile {
    /// c5n of the thesis: SEND and RECV only (part 0xefa0).
    Efa0,
    /// p4d: adds RDMA READ (part 0xefa1).
    Efa1,
    /// p5: adds RDMA WRITE and unsolicited write receive (part 0xefa2).
    #[default]
    Efa2,
}

impl Profile {
    /// Names a user may write, in order of generation.
    pub const NAMES: [&'static str; 3] = ["efa0", "efa1", "efa2"];

    /// PCI part id.
    #[must_use]
    pub fn part_id(self) -> u32 {
        match self {
            Self::Efa0 => 0xefa0,
            Self::Efa1 => 0xefa1,
            Self::Efa2 => 0xefa2,
        }
    }

    /// Name as given to `--profile`.
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
        match text {
            "efa0" => Ok(Self::Efa0),
            "efa1" => Ok(Self::Efa1),
            "efa2" => Ok(Self::Efa2),
            _ => Err(ConfigError::Profile { value: text.to_owned() }),
        }
    }
}
