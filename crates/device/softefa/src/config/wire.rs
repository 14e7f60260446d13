//! What carries datagrams.

use std::str::FromStr;

use super::ConfigError;

/// The carrier of datagrams between programs of one user on one machine. Those of other users,
/// machines and network namespaces are always reached over UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WireChoice {
    /// Shared memory where it is possible.
    #[default]
    Auto,
    /// UDP, also for the bytes of RDMA.
    Udp,
    /// As `Auto`, but programs do not start where memory cannot be shared.
    Shm,
}

impl WireChoice {
    /// Names a user may write.
    pub const NAMES: [&'static str; 3] = ["auto", "udp", "shm"];

    /// Name as given to `--wire`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl FromStr for WireChoice {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "auto" => Ok(Self::Auto),
            "udp" => Ok(Self::Udp),
            "shm" => Ok(Self::Shm),
            _ => Err(ConfigError::Wire { value: text.to_owned() }),
        }
    }
}
