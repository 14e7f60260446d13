//! Two tiers: racks with a leaf each, every leaf connected to every spine.

use super::wiring::{Ports, Tier, Wiring};
use super::{Fabric, Node, Tiers};
use crate::id::{HostId, SwitchId};

/// Builds the network. All counts are at least 1.
pub(crate) fn leaf_spine(
    racks: u32,
    hosts_per_rack: u32,
    spines: u32,
    tiers: impl Into<Tiers>,
) -> Fabric {
    let tiers = tiers.into();
    let leaf = |i: u32| Node::Switch(SwitchId(i));
    let spine = |i: u32| Node::Switch(SwitchId(racks + i));
    let leaves = Tier {
        kind: "leaf",
        count: racks,
        hosts: hosts_per_rack,
        siblings: 1,
        down: Ports { count: hosts_per_rack, kind: tiers.host },
        up: Ports { count: spines, kind: tiers.rack },
    };
    let hosts = racks * hosts_per_rack;
    let spines = Tier {
        kind: "spine",
        count: spines,
        hosts,
        siblings: spines,
        down: Ports { count: racks, kind: tiers.rack },
        up: Ports { count: 0, kind: tiers.core },
    };
    Wiring::new(hosts, hosts_per_rack, tiers.host)
        .tier(leaves, |i, n| Node::Host(HostId(i * hosts_per_rack + n)), |_, n| spine(n))
        .tier(spines, |_, n| leaf(n), |_, _| leaf(0))
        .finish()
}
