//! Two tiers: racks with a leaf each, every leaf connected to every spine.

use super::wiring::{Tier, Wiring};
use super::{Fabric, Node, PortKind};

/// Builds the network. All counts are at least 1.
pub(crate) fn leaf_spine(racks: u32, hosts_per_rack: u32, spines: u32, port: PortKind) -> Fabric {
    let leaf = |i: u32| Node::Switch(i);
    let spine = |i: u32| Node::Switch(racks + i);
    let leaves = Tier {
        kind: "leaf",
        count: racks,
        hosts: hosts_per_rack,
        siblings: 1,
        down_links: hosts_per_rack,
        up_links: spines,
    };
    let hosts = racks * hosts_per_rack;
    let spines = Tier {
        kind: "spine",
        count: spines,
        hosts,
        siblings: spines,
        down_links: racks,
        up_links: 0,
    };
    Wiring::new(hosts, hosts_per_rack, port)
        .tier(leaves, |i, n| Node::Host(i * hosts_per_rack + n), |_, n| spine(n))
        .tier(spines, |_, n| leaf(n), |_, _| leaf(0))
        .finish()
}
