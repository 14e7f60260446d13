//! Folded Clos networks: hosts, switches, links, and which link a packet takes next.

mod clos3;
mod leaf_spine;
mod wiring;

pub(crate) use clos3::clos3;
pub(crate) use leaf_spine::leaf_spine;

use crate::link::{Link, Node};
use crate::packet::{FRAME_BYTES, Packet, UDP_BYTES};
use crate::rng::mix;
use std::ops::Range;

/// Bytes of an acknowledgement on the wire (common header, block without bits), for round-trip
/// times of an empty network.
const ACK_BYTES: u32 = FRAME_BYTES + UDP_BYTES + srd::wire::Header::LEN as u32 + 44;

/// What all ports of a network have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortKind {
    pub(crate) ps_per_byte: u32,
    /// Delay of a cable and the switch at its end.
    pub(crate) delay_ps: u32,
    pub(crate) buffer_bytes: u32,
    pub(crate) mark_above_bytes: Option<u32>,
}

/// A switch of a folded Clos network. Below it lie consecutive hosts, evenly spread over its
/// down links; everything else is up.
#[derive(Clone, Copy, Debug)]
struct Switch {
    first_host: u32,
    hosts: u32,
    hosts_per_down_link: u32,
    /// Its links are consecutive: the down links first.
    first_link: u32,
    down_links: u32,
    up_links: u32,
    /// Makes each switch hash in its own way.
    salt: u32,
}

impl Switch {
    fn down_link(&self, host: u32) -> Option<u32> {
        let offset = host.wrapping_sub(self.first_host);
        (offset < self.hosts).then(|| self.first_link + offset / self.hosts_per_down_link)
    }
}

/// A network.
#[derive(Debug)]
pub(crate) struct Fabric {
    pub(crate) links: Vec<Link>,
    /// Both ends of each link.
    ends: Vec<(Node, Node)>,
    switches: Vec<Switch>,
    names: Vec<String>,
    hosts: u32,
    hosts_per_rack: u32,
    /// Links that routing has learnt to avoid.
    avoided: Vec<bool>,
    avoided_count: u32,
}

impl Fabric {
    pub(crate) fn hosts(&self) -> u32 {
        self.hosts
    }

    pub(crate) fn hosts_per_rack(&self) -> u32 {
        self.hosts_per_rack
    }

    pub(crate) fn racks(&self) -> u32 {
        self.hosts / self.hosts_per_rack
    }

    /// The link from a host into the network.
    #[inline]
    pub(crate) fn host_link(&self, host: u32) -> u32 {
        host
    }

    /// The link a packet takes out of a switch: ECMP by the hash of its 5-tuple. `None` when
    /// routing knows of no way.
    #[inline]
    pub(crate) fn next_link(&self, switch: u32, packet: &Packet) -> Option<u32> {
        self.next_hop(switch, packet.dst_host, packet.flow_hash)
    }

    fn next_hop(&self, switch: u32, dst_host: u32, flow_hash: u32) -> Option<u32> {
        let at = &self.switches[switch as usize];
        let hash = mix(u64::from(flow_hash) << 32 | u64::from(at.salt)) >> 32;
        if self.avoided_count > 0 {
            return self.next_around(at, dst_host, hash);
        }
        if let Some(link) = at.down_link(dst_host) {
            return Some(link);
        }
        let choice = (hash * u64::from(at.up_links)) >> 32;
        Some(at.first_link + at.down_links + choice as u32)
    }

    /// The same while routing avoids links: among the ways that lead there.
    fn next_around(&self, at: &Switch, dst_host: u32, hash: u64) -> Option<u32> {
        if let Some(link) = at.down_link(dst_host) {
            return self.leads_to(link, dst_host).then_some(link);
        }
        let first = at.first_link + at.down_links;
        let ups = || (first..first + at.up_links).filter(|&link| self.leads_to(link, dst_host));
        let choice = (hash * ups().count() as u64) >> 32;
        ups().nth(choice as usize)
    }

    fn leads_to(&self, link: u32, dst_host: u32) -> bool {
        if self.avoided[link as usize] {
            return false;
        }
        match self.links[link as usize].to {
            Node::Host(host) => host == dst_host,
            Node::Switch(switch) => {
                self.next_around(&self.switches[switch as usize], dst_host, 0).is_some()
            }
        }
    }

    /// The links from each switch upwards, of those that have any.
    pub(crate) fn uplinks(&self) -> impl Iterator<Item = (Node, Range<u32>)> {
        (0..).zip(&self.switches).filter(|(_, at)| at.up_links > 0).map(|(number, at)| {
            let first = at.first_link + at.down_links;
            (Node::Switch(number), first..first + at.up_links)
        })
    }

    /// Routing learns that a link is (not) to be used.
    pub(crate) fn avoid(&mut self, link: u32, avoid: bool) {
        let before = std::mem::replace(&mut self.avoided[link as usize], avoid);
        self.avoided_count = self.avoided_count + u32::from(avoid) - u32::from(before);
    }

    /// Round-trip time of a packet of `bytes` and its acknowledgement in an empty network.
    pub(crate) fn base_rtt_ps(&self, src_host: u32, dst_host: u32, bytes: u32) -> u64 {
        let way = |from: u32, to: u32, bytes: u32| {
            let mut link = self.host_link(from);
            let mut transit_ps = 0;
            loop {
                transit_ps += self.links[link as usize].transit_ps(bytes);
                let Node::Switch(switch) = self.links[link as usize].to else { break transit_ps };
                match self.next_hop(switch, to, 0) {
                    Some(next) => link = next,
                    None => break transit_ps,
                }
            }
        };
        way(src_host, dst_host, bytes) + way(dst_host, src_host, ACK_BYTES)
    }

    /// Links named by `target`: a node ("spine3") means all links at it, in both directions; two
    /// nodes ("leaf0-spine3") mean the cable between them. `None` when there is none.
    pub(crate) fn links_named(&self, target: &str) -> Option<Vec<u32>> {
        let is = |node: Node, name: &str| self.name(node) == name;
        let ends = (0..).zip(&self.ends);
        let links: Vec<u32> = match target.split_once('-') {
            Some((a, b)) => ends
                .filter(|(_, (x, y))| is(*x, a) && is(*y, b) || is(*x, b) && is(*y, a))
                .map(|(link, _)| link)
                .collect(),
            None => ends
                .filter(|(_, (x, y))| is(*x, target) || is(*y, target))
                .map(|(link, _)| link)
                .collect(),
        };
        (!links.is_empty()).then_some(links)
    }

    /// Kinds of switches, each with its number, for messages: "leaf0..leaf7, spine0..spine15".
    pub(crate) fn node_names(&self) -> String {
        let kind = |name: &str| name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
        let mut kinds = vec![format!("host0..host{}", self.hosts - 1)];
        for group in self.names.chunk_by(|a, b| kind(a) == kind(b)) {
            kinds.push(format!("{}..{}", group[0], group[group.len() - 1]));
        }
        kinds.join(", ")
    }

    pub(crate) fn name(&self, node: Node) -> String {
        match node {
            Node::Host(host) => format!("host{host}"),
            Node::Switch(switch) => self.names[switch as usize].clone(),
        }
    }

    /// A link's name, in its direction.
    pub(crate) fn link_name(&self, link: u32) -> String {
        let (from, to) = self.ends[link as usize];
        format!("{}-{}", self.name(from), self.name(to))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const PORT: PortKind = PortKind {
        ps_per_byte: 80,
        delay_ps: 1_000_000,
        buffer_bytes: 539_500,
        mark_above_bytes: None,
    };

    fn walk(fabric: &Fabric, src: u32, dst: u32, hash: u32) -> Option<Vec<u32>> {
        let mut path = vec![fabric.host_link(src)];
        while let Node::Switch(switch) = fabric.links[path[path.len() - 1] as usize].to {
            path.push(fabric.next_hop(switch, dst, hash)?);
            assert!(path.len() < 10, "a packet does not go in circles");
        }
        let end = fabric.links[path[path.len() - 1] as usize].to;
        assert_eq!(end, Node::Host(dst));
        Some(path)
    }

    fn fabrics() -> [Fabric; 2] {
        [leaf_spine(4, 3, 2, PORT), clos3([3, 2, 4, 2, 2], PORT)]
    }

    #[test]
    fn every_host_reaches_every_other_whatever_the_hash() {
        for fabric in fabrics() {
            for src in 0..fabric.hosts() {
                for dst in (0..fabric.hosts()).filter(|&dst| dst != src) {
                    (0..20).for_each(|hash| assert!(walk(&fabric, src, dst, hash).is_some()));
                }
            }
        }
    }

    #[test]
    fn hashes_spread_over_all_paths() {
        for (fabric, expected) in fabrics().into_iter().zip([2, 8]) {
            let dst = fabric.hosts() - 1;
            let mut paths: Vec<_> =
                (0..1000).filter_map(|hash| walk(&fabric, 0, dst, hash)).collect();
            paths.sort_unstable();
            paths.dedup();
            assert_eq!(paths.len(), expected);
        }
    }

    #[test]
    fn routing_goes_around_what_it_avoids_and_says_when_it_cannot() {
        for (mut fabric, cable) in fabrics().into_iter().zip(["spine0-leaf3", "agg8-core0"]) {
            let dst = fabric.hosts() - 1;
            let cut = fabric.links_named(cable).unwrap();
            assert_eq!(cut.len(), 2, "both directions");
            cut.iter().for_each(|&link| fabric.avoid(link, true));
            for hash in 0..200 {
                let path = walk(&fabric, 0, dst, hash).unwrap();
                assert!(!path.iter().any(|link| cut.contains(link)));
            }
            cut.iter().for_each(|&link| fabric.avoid(link, false));
            assert_eq!(fabric.avoided_count, 0);
            let last = fabric.links_named(&format!("host{dst}")).unwrap();
            last.iter().for_each(|&link| fabric.avoid(link, true));
            assert_eq!(walk(&fabric, 0, dst, 1), None);
        }
    }

    #[test]
    fn names_and_round_trip_times() {
        let [leaf_spine, clos] = fabrics();
        assert_eq!(leaf_spine.node_names(), "host0..host11, leaf0..leaf3, spine0..spine1");
        assert_eq!(clos.node_names(), "host0..host11, edge0..edge5, agg0..agg11, core0..core7");
        assert_eq!(leaf_spine.links_named("spine1").unwrap().len(), 8);
        assert!(leaf_spine.links_named("leaf0-leaf1").is_none());
        let there_and_back = |hops: u64| hops * (2_000_000 + 80 * (4150 + u64::from(ACK_BYTES)));
        assert_eq!(leaf_spine.base_rtt_ps(0, 11, 4150), there_and_back(4));
        assert_eq!(leaf_spine.base_rtt_ps(0, 1, 4150), there_and_back(2));
        assert_eq!(clos.base_rtt_ps(0, 11, 4150), there_and_back(6));
        assert_eq!(clos.base_rtt_ps(0, 2, 4150), there_and_back(4));
    }
}
