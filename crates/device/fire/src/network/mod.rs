//! Hosts and switches made of network namespaces: eight hosts under two leaves and four spines.
//!
//! Routing is the kernel's, with a hash over addresses and ports (ECMP). Every host sends single
//! packets: trains are cut where they leave it, as an adapter would, so that switches lose packets
//! and not trains.

mod faults;
mod ip_batch;
mod names;

use std::process::Command;

use anyhow::{Context, Result};

use crate::output::eprint_line;
use crate::tool;

pub(crate) use names::remove_stale;

/// Hosts per leaf.
const HOSTS: usize = 4;
const LEAVES: usize = 2;
/// The number of spines.
pub(crate) const SPINES: usize = 4;

/// Rates and sizes of a network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// The MTU of all links.
    pub(crate) mtu_bytes: u32,
    /// The rate between hosts and leaves.
    pub(crate) host_mbps: u32,
    /// The rate between leaves and spines.
    pub(crate) core_mbps: u32,
}

impl Shape {
    /// Chooses rates such that three spines carry what four hosts send and two processors can
    /// emulate everything: long packets cost them no more than short ones.
    pub(crate) fn of(mtu_bytes: u32) -> Self {
        // Eight hosts and six switches share the processors of one machine, and traffic that waits
        // for a processor looks as if its link were dead.
        let host_mbps = if mtu_bytes > 4000 { 120 } else { 30 };
        Self { mtu_bytes, host_mbps, core_mbps: 2 * host_mbps }
    }

    /// Returns the packets that a host's link carries in 4 ms. More packets under way would queue
    /// in front of it and make round trips as long as that queue.
    pub(crate) fn packets_under_way(self) -> u32 {
        self.host_mbps * 125 * 4 / self.mtu_bytes
    }
}

/// A network; dropping it removes it.
#[derive(Debug)]
pub(crate) struct Network {
    prefix: String,
    made: Vec<String>,
}

/// An end of a cable: a member of the network and the name of the link there.
#[derive(Clone, Copy, Debug)]
struct End<'a> {
    member: &'a str,
    link: &'a str,
}

impl<'a> End<'a> {
    const fn new(member: &'a str, link: &'a str) -> Self {
        Self { member, link }
    }
}

impl Network {
    /// Creates the network and brings it up.
    ///
    /// # Errors
    /// The system refuses; what was made is removed.
    pub(crate) fn clos(shape: Shape) -> Result<Self> {
        let mut network = Self { prefix: names::fresh(), made: Vec::new() };
        for leaf in 0..LEAVES {
            network.add(&format!("l{leaf}"))?;
            (0..HOSTS).try_for_each(|host| network.add(&host_name(leaf, host)))?;
        }
        (0..SPINES).try_for_each(|spine| network.add(&format!("s{spine}")))?;
        for leaf in 0..LEAVES {
            (0..HOSTS).try_for_each(|host| network.link_host(leaf, host, shape))?;
            (0..SPINES).try_for_each(|spine| network.link_spine(leaf, spine, shape))?;
            network.route(leaf, &(0..SPINES).collect::<Vec<_>>())?;
        }
        network.warm_neighbours()?;
        Ok(network)
    }

    /// Creates two hosts with a forwarding box between them.
    ///
    /// # Errors
    /// As [`Network::clos`].
    pub(crate) fn line() -> Result<Self> {
        let mut network = Self { prefix: names::fresh(), made: Vec::new() };
        for name in ["inside", "box", "outside"] {
            network.add(name)?;
        }
        for (host, net) in [("inside", "10.50.0"), ("outside", "10.60.0")] {
            let ends = [End::new(host, "up0"), End::new("box", host)];
            network.cable(ends[0], ends[1], 1500)?;
            network.ip(host, &format!("addr add {net}.2/24 dev up0"))?;
            network.ip("box", &format!("addr add {net}.1/24 dev {host}"))?;
            network.up(ends)?;
            network.ip(host, &format!("route add default via {net}.1"))?;
        }
        Ok(network)
    }

    /// Returns the name of a member's namespace.
    pub(crate) fn namespace(&self, member: &str) -> String {
        format!("{}-{member}", self.prefix)
    }

    /// Returns a command that runs `program` on a member.
    pub(crate) fn command(&self, member: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(member), program]);
        command
    }

    fn add(&mut self, member: &str) -> Result<()> {
        let name = self.namespace(member);
        tool::run("ip", &format!("netns add {name}"))?;
        self.made.push(name);
        self.ip(member, "link set lo up")?;
        // A switch hashes fields of the packet. Here it would also see the hash by which Linux's
        // TCP changes its path, which IPv4 does not carry.
        for (key, value) in
            [("ipv4/ip_forward", 1), ("ipv4/fib_multipath_hash_policy", 1), ("core/txrehash", 0)]
        {
            self.set(member, key, value)?;
        }
        Ok(())
    }

    /// Sets a value below `/proc/sys/net` on a member.
    pub(crate) fn set(&self, member: &str, key: &str, value: u32) -> Result<()> {
        let name = self.namespace(member);
        let script = format!("echo {value} > /proc/sys/net/{key}");
        tool::run_words("ip", &["netns", "exec", &name, "sh", "-c", &script]).map(drop)
    }

    /// Runs `ip` on a member.
    pub(crate) fn ip(&self, member: &str, line: &str) -> Result<String> {
        tool::run("ip", &format!("-n {} {line}", self.namespace(member)))
    }

    fn tc(&self, member: &str, line: &str) -> Result<()> {
        tool::run("tc", &format!("-n {} {line}", self.namespace(member))).map(drop)
    }

    fn cable(&self, a: End<'_>, b: End<'_>, mtu: u32) -> Result<()> {
        let (a_ns, b_ns) = (self.namespace(a.member), self.namespace(b.member));
        let line = format!(
            "link add {} netns {a_ns} mtu {mtu} type veth peer name {} netns {b_ns} mtu {mtu}",
            a.link, b.link
        );
        tool::run("ip", &line).map(drop)
    }

    fn up(&self, ends: [End<'_>; 2]) -> Result<()> {
        ends.iter().try_for_each(|End { member, link }| {
            self.ip(member, &format!("link set {link} up")).map(drop)
        })
    }

    fn link_host(&self, leaf: usize, host: usize, shape: Shape) -> Result<()> {
        let (name, switch, port) = (host_name(leaf, host), format!("l{leaf}"), format!("h{host}"));
        let (below, above) = (End::new(&name, "up0"), End::new(&switch, &port));
        self.cable(below, above, shape.mtu_bytes)?;
        self.ip(&name, "link set up0 gso_max_segs 1")?;
        self.ip(&name, &format!("addr add {}/24 dev up0", host_addr(leaf, host)))?;
        self.ip(&switch, &format!("addr add 10.1{leaf}.{host}.1/24 dev {port}"))?;
        self.up([below, above])?;
        self.ip(&name, &format!("route add default via 10.1{leaf}.{host}.1"))?;
        self.rate(&name, "up0", shape.host_mbps)?;
        self.rate(&switch, &port, shape.host_mbps)
    }

    fn link_spine(&self, leaf: usize, spine: usize, shape: Shape) -> Result<()> {
        let (switch, above) = (format!("l{leaf}"), format!("s{spine}"));
        let (lower, upper) = (End::new(&switch, &above), End::new(&above, &switch));
        self.cable(lower, upper, shape.mtu_bytes)?;
        self.ip(&switch, &format!("addr add 10.2{leaf}.{spine}.1/30 dev {above}"))?;
        self.ip(&above, &format!("addr add 10.2{leaf}.{spine}.2/30 dev {switch}"))?;
        self.up([lower, upper])?;
        self.ip(&above, &format!("route add 10.1{leaf}.0.0/16 via 10.2{leaf}.{spine}.1"))?;
        self.rate(&switch, &above, shape.core_mbps)?;
        self.rate(&above, &switch, shape.core_mbps)
    }

    /// Routes what a leaf sends to the other leaf over these spines.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn route(&self, leaf: usize, spines: &[usize]) -> Result<()> {
        let hops: Vec<String> =
            spines.iter().map(|spine| format!("nexthop via 10.2{leaf}.{spine}.2")).collect();
        let line = format!("route replace 10.1{}.0.0/16 {}", 1 - leaf, hops.join(" "));
        self.ip(&format!("l{leaf}"), &line).map(drop)
    }

    /// Enters every neighbour from the start, so that no experiment measures address resolution.
    fn warm_neighbours(&self) -> Result<()> {
        for leaf in 0..LEAVES {
            for host in 0..HOSTS {
                let (name, switch, port) =
                    (host_name(leaf, host), format!("l{leaf}"), format!("h{host}"));
                let (below, above) = (End::new(&name, "up0"), End::new(&switch, &port));
                self.neighbour(above, below, &host_addr(leaf, host))?;
                self.neighbour(below, above, &format!("10.1{leaf}.{host}.1"))?;
            }
            for spine in 0..SPINES {
                let (switch, above) = (format!("l{leaf}"), format!("s{spine}"));
                let (lower, upper) = (End::new(&switch, &above), End::new(&above, &switch));
                self.neighbour(lower, upper, &format!("10.2{leaf}.{spine}.2"))?;
                self.neighbour(upper, lower, &format!("10.2{leaf}.{spine}.1"))?;
            }
        }
        Ok(())
    }

    /// Enters `addr` as the neighbour behind link `of` at `at`.
    fn neighbour(&self, at: End<'_>, of: End<'_>, addr: &str) -> Result<()> {
        let text = self.ip(of.member, &format!("-br link show {}", of.link))?;
        let mac = text.split_whitespace().nth(2).context("a link without an address")?;
        let line = format!("neigh replace {addr} lladdr {mac} dev {} nud permanent", at.link);
        self.ip(at.member, &line).map(drop)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in self.made.iter().rev() {
            if let Err(error) = tool::run("ip", &format!("netns del {name}")) {
                eprint_line!("fire: {error:#}");
            }
        }
    }
}

/// Returns the name of a host.
pub(crate) fn host_name(leaf: usize, host: usize) -> String {
    format!("h{}", leaf * HOSTS + host)
}

/// Returns the address of a host.
pub(crate) fn host_addr(leaf: usize, host: usize) -> String {
    format!("10.1{leaf}.{host}.2")
}
