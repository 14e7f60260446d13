//! Counters of the adapter, or of the system's IP. They are read beside a measurement, never in it;
//! reported beside goodput, never instead of it; and never required.

mod between;
mod device;
mod ip;

use bench_record::counted::Snapshot;
use bench_record::fabric_name::FabricName;

pub(crate) use self::between::CounterReader;
use self::device::Device;

/// The source of the counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// An RDMA device.
    Device(Device),
    /// The IP of this network namespace, with the traffic of all programs.
    Ip,
}

/// Returns the folder of the RDMA device that a domain belongs to.
pub(crate) fn device_folder(domain: &str) -> Option<std::path::PathBuf> {
    device::folder(&device::sysfs(), domain)
}

impl Source {
    /// Returns the source of counters for a fabric in `domain`.
    pub(crate) fn of(fabric: &FabricName, domain: &str) -> Option<Self> {
        if let Some(device) = Device::find(&device::sysfs(), domain) {
            return Some(Self::Device(device));
        }
        let is_ip = match fabric {
            FabricName::Tcp | FabricName::Udp => true,
            FabricName::Libfabric(provider) => {
                ["tcp", "udp", "sockets", "net"].iter().any(|name| provider.starts_with(name))
            }
            FabricName::Verbs(_) | FabricName::Ucx(_) | FabricName::Floor(_) => false,
        };
        is_ip.then_some(Self::Ip)
    }

    /// Reads the counts of all that happened before the call; takes as long as counters may lag
    /// behind.
    pub(crate) fn snapshot(&self) -> Snapshot {
        match self {
            Self::Device(device) => {
                Snapshot { of: format!("device {}", device.name()), counts: device.settled() }
            }
            Self::Ip => {
                Snapshot { of: "IP of the network namespace".to_owned(), counts: ip::read() }
            }
        }
    }
}
