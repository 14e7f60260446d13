//! The names of fabrics, as `--fabric` takes them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::spec::EndpointKind;

/// The kind of queue pair of an RDMA device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// EFA's scalable reliable datagrams.
    Srd,
    /// Unreliable datagrams.
    Ud,
    /// A reliable connection.
    Rc,
}

impl Transport {
    /// Returns the name of the kind in capital letters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Srd => "SRD",
            Self::Ud => "UD",
            Self::Rc => "RC",
        }
    }
}

/// A wire between two threads of one machine without any protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Floor {
    /// A ring in memory that both threads have.
    Memory,
    /// Datagrams over loopback, and streams with the kernel's segmentation and receive offload.
    Udp,
}

impl Floor {
    /// Returns the name of the wire in tables.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Memory => "bare memory",
            Self::Udp => "bare UDP",
        }
    }
}

/// A way to reach the peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum FabricName {
    /// A libfabric provider.
    Libfabric(String),
    /// Queue pairs of an RDMA device, by libibverbs.
    Verbs(Transport),
    /// A TCP connection.
    Tcp,
    /// A pair of UDP sockets.
    Udp,
    /// A wire that no fabric of this machine can exceed.
    Floor(Floor),
    /// A transport of UCX by its name in `UCX_TLS`, which only MPIs run on.
    Ucx(String),
}

const EXPECTED: &str = "libfabric:PROVIDER (libfabric:efa, libfabric:tcp, ...), verbs:srd, verbs:ud, verbs:rc, sockets:tcp, sockets:udp, floor:memory or floor:udp, for MPI ucx:TRANSPORT (ucx:srd, ucx:rc_v, ...)";

impl FabricName {
    /// Returns the kind of endpoint that the fabric has, or has by default.
    pub const fn endpoint(&self) -> EndpointKind {
        match self {
            Self::Verbs(Transport::Ud) | Self::Udp => EndpointKind::Dgram,
            Self::Floor(Floor::Udp) => EndpointKind::Dgram,
            Self::Libfabric(_) | Self::Verbs(_) | Self::Tcp | Self::Ucx(_) => EndpointKind::Rdm,
            Self::Floor(Floor::Memory) => EndpointKind::Rdm,
        }
    }

    /// Returns the name for tables.
    pub fn label(&self) -> String {
        match self {
            Self::Libfabric(provider) => format!("libfabric {provider}"),
            Self::Verbs(transport) => format!("verbs {}", transport.name()),
            Self::Tcp => "TCP sockets".to_owned(),
            Self::Udp => "UDP sockets".to_owned(),
            Self::Floor(floor) => floor.label().to_owned(),
            Self::Ucx(transport) => format!("UCX {transport}"),
        }
    }

    /// Returns true if the fabric may be an RDMA device, by its name.
    #[must_use]
    pub fn is_rdma(&self) -> bool {
        match self {
            Self::Verbs(_) => true,
            Self::Libfabric(provider) => provider == "efa" || provider.starts_with("verbs"),
            Self::Ucx(transport) => {
                !["tcp", "sm", "shm", "posix", "sysv", "cma", "self"].contains(&transport.as_str())
            }
            Self::Tcp | Self::Udp | Self::Floor(_) => false,
        }
    }

    /// Returns true if the fabric needs more than an EFA has: reliable connections, and providers
    /// that ask for them.
    #[must_use]
    pub fn needs_roce(&self) -> bool {
        match self {
            Self::Verbs(transport) => *transport == Transport::Rc,
            Self::Libfabric(provider) => provider.starts_with("verbs"),
            Self::Ucx(transport) => transport.starts_with("rc"),
            Self::Tcp | Self::Udp | Self::Floor(_) => false,
        }
    }

    /// Makes the failure that a floor was given for a fabric with two processes.
    #[must_use]
    pub fn is_a_floor(&self) -> Failure {
        Failure::Usage(format!(
            "{self} is what two threads of one process reach, in latency and bandwidth: \
             efa-bench local latency --fabric {self}"
        ))
    }

    /// Makes the failure that a fabric for MPIs was given for a benchmark without MPI.
    #[must_use]
    pub fn is_for_mpi(&self) -> Failure {
        Failure::Usage(format!("only an MPI runs on {self}: efa-bench mpi latency --fabric {self}"))
    }
}

impl FromStr for FabricName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("libfabric", provider)) if !provider.is_empty() => {
                Ok(Self::Libfabric(provider.to_owned()))
            }
            Some(("ucx", transport)) if !transport.is_empty() => {
                Ok(Self::Ucx(transport.to_owned()))
            }
            Some(("verbs", "srd")) => Ok(Self::Verbs(Transport::Srd)),
            Some(("verbs", "ud")) => Ok(Self::Verbs(Transport::Ud)),
            Some(("verbs", "rc")) => Ok(Self::Verbs(Transport::Rc)),
            Some(("floor", "memory")) => Ok(Self::Floor(Floor::Memory)),
            Some(("floor", "udp")) => Ok(Self::Floor(Floor::Udp)),
            Some(("sockets", "tcp")) => Ok(Self::Tcp),
            Some(("sockets", "udp")) => Ok(Self::Udp),
            // These were the names before libfabric's and MPI's TCP had names, too.
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
            Self::Verbs(transport) => write!(f, "verbs:{}", transport.name().to_lowercase()),
            Self::Tcp => f.write_str("sockets:tcp"),
            Self::Udp => f.write_str("sockets:udp"),
            Self::Floor(Floor::Memory) => f.write_str("floor:memory"),
            Self::Floor(Floor::Udp) => f.write_str("floor:udp"),
            Self::Ucx(transport) => write!(f, "ucx:{transport}"),
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
    /// Returns the text that every version reads.
    fn from(name: FabricName) -> Self {
        match name {
            FabricName::Tcp => "tcp".to_owned(),
            FabricName::Udp => "udp".to_owned(),
            other => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_have_their_old_names_too() {
        for (old, own) in [("tcp", FabricName::Tcp), ("udp", FabricName::Udp)] {
            assert_eq!((old.parse(), String::from(own.clone())), (Ok(own), old.to_owned()));
        }
    }

    #[test]
    fn names_survive_being_printed() {
        for text in [
            "libfabric:efa",
            "libfabric:tcp;ofi_rxm",
            "verbs:srd",
            "verbs:ud",
            "verbs:rc",
            "sockets:tcp",
            "sockets:udp",
            "floor:memory",
            "floor:udp",
            "ucx:rc_v",
        ] {
            let name = text.parse::<FabricName>();
            assert_eq!(name.as_ref().map(FabricName::to_string), Ok(text.to_owned()));
            let again = name.clone().map(String::from).and_then(|own| own.parse());
            assert_eq!(again, name, "as it is recorded");
        }
        for text in ["", "libfabric:", "libfabric", "shm", "verbs:", "tcp:", "ucx:", "ucx"] {
            let error = text.parse::<FabricName>().unwrap_err();
            assert!(error.contains("libfabric:PROVIDER"), "{text}: {error}");
        }
    }
}
