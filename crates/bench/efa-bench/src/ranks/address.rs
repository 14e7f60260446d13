//! The address of a server, which it tells to rank 0.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use bench_engine::host;
use serde::{Deserialize, Serialize};

/// An address for documentation (RFC 5737): asking for the route to it sends nothing.
const ELSEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RankAddress {
    /// The name that the server's host gives itself.
    pub(super) host: String,
    /// A text that is the same for processes that reach each other by the loopback address.
    machine: String,
    /// The addresses by which the server may be reached, the likeliest first.
    addresses: Vec<String>,
    /// The control port of the server.
    pub(super) port: u16,
    /// The port of the server's lifeline.
    pub(super) leash_port: u16,
    /// A number that tells this server from another one that has its port later.
    pub(super) token: u64,
}

impl RankAddress {
    /// Returns the address of this process, whose sockets listen on `address` only if that is
    /// given.
    pub(super) fn here(address: Option<IpAddr>, port: u16, leash_port: u16) -> Self {
        let host = host::name();
        let addresses = match address {
            Some(address) => vec![address.to_string()],
            None => route().into_iter().map(|ip| ip.to_string()).chain([host.clone()]).collect(),
        };
        let machine = if address.is_some() { String::new() } else { machine() };
        Self { host, machine, addresses, port, leash_port, token: host::seed() }
    }

    /// Returns the addresses by which this process may reach the server.
    pub(super) fn addresses(&self) -> Vec<String> {
        if !self.machine.is_empty() && self.machine == machine() {
            return vec![Ipv4Addr::LOCALHOST.to_string()];
        }
        self.addresses.clone()
    }
}

/// Returns this host's address on the way to others.
fn route() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(ELSEWHERE).ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_unspecified())
}

/// Returns the start of this machine and the network that it shows to this process; empty if
/// unknown.
fn machine() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let network = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    if boot.is_empty() { String::new() } else { format!("{} {}", boot.trim(), network.display()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_machine_is_reached_by_loopback_and_another_by_its_addresses() {
        let here = RankAddress::here(None, 1, 2);
        assert_eq!(here.addresses(), ["127.0.0.1"]);
        let there = RankAddress { machine: "another".to_owned(), ..here.clone() };
        assert_eq!(there.addresses(), here.addresses);
        assert!(!there.addresses().is_empty());
        let told = RankAddress::here(Some(IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3))), 1, 2);
        assert_eq!(told.addresses(), ["10.1.2.3"]);
    }
}
