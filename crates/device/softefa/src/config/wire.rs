//! The carriers of datagrams.

use std::str::FromStr;

use super::ConfigError;

/// The carrier of datagrams between programs of one user on one machine. Programs of other users,
/// machines and network namespaces are always reached over UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WireChoice {
    /// Shared memory where possible, UDP otherwise.
    #[default]
    Auto,
    /// UDP, also for the bytes of RDMA.
    Udp,
    /// Shared memory as in `Auto`, but programs do not start if memory cannot be shared.
    Shm,
}

impl WireChoice {
    /// The names that a user may write.
    pub const NAMES: [&'static str; 3] = ["auto", "udp", "shm"];

    /// Returns the name as given to `--wire`.
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
