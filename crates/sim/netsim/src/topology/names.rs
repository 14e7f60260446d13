//! Names of nodes and links, in scenarios and messages.

use super::{Fabric, Group, Node};
use crate::id::{HostId, LinkId, SwitchId};
use std::fmt::Write;

/// Picoseconds that a byte takes at 1 Gbit/s.
const PS_PER_BYTE: u32 = 8000;

impl Fabric {
    /// Returns the links named by `target`: a node ("spine3") means all links at it, in both
    /// directions; two nodes ("leaf0-spine3") mean the cable between them. `None` when there is
    /// none.
    pub(crate) fn links_named(&self, target: &str) -> Option<Vec<LinkId>> {
        let ends = LinkId::all().zip(self.cables());
        let links: Vec<LinkId> = match target.split_once('-') {
            Some((a, b)) => {
                let (a, b) = (self.node_named(a)?, self.node_named(b)?);
                ends.filter(|(_, ends)| *ends == (a, b) || *ends == (b, a))
                    .map(|(link, _)| link)
                    .collect()
            }
            None => {
                let node = self.node_named(target)?;
                ends.filter(|(_, (from, to))| *from == node || *to == node)
                    .map(|(link, _)| link)
                    .collect()
            }
        };
        (!links.is_empty()).then_some(links)
    }

    fn node_named(&self, name: &str) -> Option<Node> {
        let host = name.strip_prefix("host").and_then(|number| number.parse().ok());
        let switch =
            || SwitchId::all().zip(&self.names).find(|(_, of)| *of == name).map(|(n, _)| n);
        let node = host.filter(|&host| host < self.hosts).map(|host| Node::Host(HostId(host)));
        node.or_else(|| switch().map(Node::Switch)).filter(|&node| self.name(node) == name)
    }

    /// Names the kinds of nodes, each with its numbers, for messages: "host0..host63, leaf0..leaf7,
    /// spine0..spine15".
    pub(crate) fn node_names(&self) -> String {
        let kind = |name: &str| name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
        let mut kinds = vec![format!("host0..host{}", self.hosts - 1)];
        for group in self.names.chunk_by(|a, b| kind(a) == kind(b)) {
            kinds.push(format!("{}..{}", group[0], group[group.len() - 1]));
        }
        kinds.join(", ")
    }

    /// Describes hosts, and what leads out of racks and pods, with the rate and by how much the
    /// hosts below could exceed it.
    pub(crate) fn describe(&self) -> String {
        let gbps = |group: &Group| PS_PER_BYTE / group.ps_per_byte;
        let [host, above @ ..] = self.groups() else { return String::new() };
        let mut text = format!("{} hosts at {} Gbit/s", self.hosts, gbps(host));
        for (name, group) in ["rack", "pod"].into_iter().zip(above) {
            let below = f64::from(group.hosts) / f64::from(host.ps_per_byte);
            let excess = below * f64::from(group.ps_per_byte) / f64::from(group.links);
            let (hosts, links) = (group.hosts, group.links);
            let _ = write!(text, "; {name}s of {hosts}, {links} x {} Gbit/s up", gbps(group));
            if excess > 1.0 {
                let _ = write!(text, ", oversubscribed {excess:.3} : 1");
            }
        }
        text
    }

    pub(crate) fn name(&self, node: Node) -> String {
        match node {
            Node::Host(host) => format!("host{host}"),
            Node::Switch(switch) => self.names[switch.index()].clone(),
        }
    }

    /// Returns a link's name, in its direction.
    pub(crate) fn link_name(&self, link: LinkId) -> String {
        let (from, to) = (self.begins[link.index()], self.ends[link.index()]);
        format!("{}-{}", self.name(from), self.name(to))
    }
}
