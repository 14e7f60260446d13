//! The part of a datagram that its check covers.

use std::str::FromStr;

use super::ConfigError;

/// The part of a sent datagram that its check covers. Receivers verify what each datagram says it
/// covers, so the two sides need not agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Integrity {
    /// Headers: nothing is delivered to the wrong place, and nothing twice.
    #[default]
    Headers,
    /// Headers and payload, by CRC32C, or by the ICRC of a RoCE device. It costs a copy of each
    /// payload.
    Crc32c,
}

impl Integrity {
    /// The names that a user may write.
    pub const NAMES: [&'static str; 3] = ["headers", "crc32c", "icrc"];

    /// Returns the name as given to `--integrity`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl FromStr for Integrity {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "headers" => Ok(Self::Headers),
            "crc32c" | "icrc" => Ok(Self::Crc32c),
            _ => Err(ConfigError::Integrity { value: text.to_owned() }),
        }
    }
}
