//! Putting a network together: nodes first, then the links of each, in order.

use super::routes::Routes;
use super::{Fabric, Node, PortKind, Switch};
use crate::id::{HostId, LinkId, SwitchId};
use crate::link::Link;

/// The links of a switch in one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) count: u32,
    /// Properties of each of the links.
    pub(super) kind: PortKind,
}

/// Switches of one kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tier {
    /// Name of its switches: "leaf" of "leaf3".
    pub(super) kind: &'static str,
    pub(super) count: u32,
    /// Number of hosts below each switch.
    pub(super) hosts: u32,
    /// Number of switches that lie above the same hosts.
    pub(super) siblings: u32,
    /// Links of each switch towards the hosts.
    pub(super) down: Ports,
    /// Links of each switch away from the hosts.
    pub(super) up: Ports,
}

#[derive(Debug)]
pub(super) struct Wiring {
    fabric: Fabric,
}

impl Wiring {
    /// Creates the hosts, each with its link of the given kind to its rack's switch. These switches
    /// are the first ones.
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
        for host in HostId(0).range(hosts) {
            let switch = wiring.fabric.switch_of(wiring.fabric.rack_of(host));
            wiring.push(Node::Host(host), Node::Switch(switch), link.clone());
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
        let (down_link, up_link) = (link(tier.down.kind), link(tier.up.kind));
        for i in 0..tier.count {
            let number = SwitchId::at(self.fabric.switches.len());
            let switch = Switch {
                first_host: HostId(i / tier.siblings * tier.hosts),
                hosts: tier.hosts,
                hosts_per_down_link: tier.hosts / tier.down.count,
                first_link: LinkId::at(self.fabric.links.len()),
                down_links: tier.down.count,
                up_links: tier.up.count,
                salt: number.0,
            };
            self.fabric.switches.push(switch);
            self.fabric.names.push(format!("{}{i}", tier.kind));
            let downs = (0..tier.down.count).map(|n| (down(i, n), &down_link));
            for (to, link) in downs.chain((0..tier.up.count).map(|n| (up(i, n), &up_link))) {
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
