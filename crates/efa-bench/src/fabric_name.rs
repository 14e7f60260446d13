//! Names of fabrics: what `--fabric` takes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::spec::EndpointKind;

/// A way to reach the peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum FabricName {
    /// A libfabric provider.
    Libfabric(String),
    /// A TCP connection.
    Tcp,
    /// A pair of UDP sockets.
    Udp,
}

const EXPECTED: &str = "libfabric:PROVIDER (libfabric:efa, libfabric:tcp, ...), tcp or udp";

impl FabricName {
    /// The kind of endpoint it has, or has by default.
    pub(crate) const fn endpoint(&self) -> EndpointKind {
        match self {
            Self::Libfabric(_) | Self::Tcp => EndpointKind::Rdm,
            Self::Udp => EndpointKind::Dgram,
        }
    }

    /// What tables call it.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Libfabric(provider) => format!("libfabric {provider}"),
            Self::Tcp => "TCP sockets".to_owned(),
            Self::Udp => "UDP sockets".to_owned(),
        }
    }
}

impl FromStr for FabricName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("libfabric", provider)) if !provider.is_empty() => {
                Ok(Self::Libfabric(provider.to_owned()))
            }
            None if text == "tcp" => Ok(Self::Tcp),
            None if text == "udp" => Ok(Self::Udp),
            None if !text.is_empty() => Err(format!(
                "`{text}` is no fabric: write {EXPECTED}; the libfabric provider of that name is \
                 libfabric:{text}"
            )),
            _ => Err(format!("`{text}` is no fabric: write {EXPECTED}")),
        }
    }
}

impl fmt::Display for FabricName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Libfabric(provider) => write!(f, "libfabric:{provider}"),
            Self::Tcp => f.write_str("tcp"),
            Self::Udp => f.write_str("udp"),
        }
    }
}

impl TryFrom<String> for FabricName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<FabricName> for String {
    fn from(name: FabricName) -> Self {
        name.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_being_printed() {
        for text in ["libfabric:efa", "libfabric:tcp;ofi_rxm", "tcp", "udp"] {
            assert_eq!(text.parse::<FabricName>().map(|n| n.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "libfabric:", "libfabric", "shm", "verbs:", "tcp:"] {
            let error = text.parse::<FabricName>().unwrap_err();
            assert!(error.contains("libfabric:PROVIDER"), "{text}: {error}");
        }
    }
}
