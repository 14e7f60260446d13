//! Putting a network together: nodes first, then the links of each, in order.

use super::routes::Routes;
use super::{Fabric, Node, PortKind, Switch};
use crate::link::Link;

/// Switches of one kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tier {
    /// "leaf" of "leaf3".
    pub(super) kind: &'static str,
    pub(super) count: u32,
    /// Hosts below each of them.
    pub(super) hosts: u32,
    /// Switches that lie above the same hosts.
    pub(super) siblings: u32,
    /// Links down, and what they are like;
    pub(super) down: (u32, PortKind),
    /// links up.
    pub(super) up: (u32, PortKind),
}

#[derive(Debug)]
pub(super) struct Wiring {
    fabric: Fabric,
}

impl Wiring {
    /// Hosts, each with its link of the given kind to its rack's switch, which are the first
    /// switches.
    pub(super) fn new(hosts: u32, hosts_per_rack: u32, port: PortKind) -> Self {
        let fabric = Fabric {
            links: Vec::new(),
            begins: Vec::new(),
            ends: Vec::new(),
            switches: Vec::new(),
            names: Vec::new(),
            hosts,
            hosts_per_rack,
            groups: Vec::new(),
            routes: Routes::default(),
        };
        let mut wiring = Self { fabric };
        // A host's adapter waits for its link: it queues nothing and loses nothing.
        let link = Link::new(port.ps_per_byte, port.delay_ps);
        for host in 0..hosts {
            wiring.push(Node::Host(host), Node::Switch(host / hosts_per_rack), link.clone());
        }
        wiring
    }

    /// Adds a tier; `down(i, n)` and `up(i, n)` say where the n-th such link of its i-th switch
    /// leads.
    pub(super) fn tier(
        mut self,
        tier: Tier,
        down: impl Fn(u32, u32) -> Node,
        up: impl Fn(u32, u32) -> Node,
    ) -> Self {
        let link = |port: PortKind| {
            let link = Link::new(port.ps_per_byte, port.delay_ps);
            link.with_queue(port.buffer_bytes, port.marking)
        };
        let (down_link, up_link) = (link(tier.down.1), link(tier.up.1));
        for i in 0..tier.count {
            let number = self.fabric.switches.len() as u32;
            let switch = Switch {
                first_host: i / tier.siblings * tier.hosts,
                hosts: tier.hosts,
                hosts_per_down_link: tier.hosts / tier.down.0,
                first_link: self.fabric.links.len() as u32,
                down_links: tier.down.0,
                up_links: tier.up.0,
                salt: number,
            };
            self.fabric.switches.push(switch);
            self.fabric.names.push(format!("{}{i}", tier.kind));
            let downs = (0..tier.down.0).map(|n| (down(i, n), &down_link));
            for (to, link) in downs.chain((0..tier.up.0).map(|n| (up(i, n), &up_link))) {
                self.push(Node::Switch(number), to, link.clone());
            }
        }
        self
    }

    fn push(&mut self, from: Node, to: Node, link: Link) {
        self.fabric.begins.push(from);
        self.fabric.ends.push(to);
        self.fabric.links.push(link);
        self.fabric.routes.add_link();
    }

    pub(super) fn finish(mut self) -> Fabric {
        self.fabric.groups = self.fabric.find_groups();
        self.fabric
    }
}
