//! Switches in a circle, each with its hosts, that send one way round: not a network to build, but
//! the smallest in which switches that pause each other can deadlock.

use super::wiring::{Ports, Tier, Wiring};
use super::{Fabric, Node, Tiers};
use crate::id::{HostId, SwitchId};

/// Builds the network. There are at least two switches, with at least one host each.
pub(crate) fn ring(switches: u32, hosts_per_switch: u32, tiers: impl Into<Tiers>) -> Fabric {
    let tiers = tiers.into();
    let tier = Tier {
        kind: "switch",
        count: switches,
        hosts: hosts_per_switch,
        siblings: 1,
        down: Ports { count: hosts_per_switch, kind: tiers.host },
        up: Ports { count: 1, kind: tiers.rack },
    };
    Wiring::new(switches * hosts_per_switch, hosts_per_switch, tiers.host)
        .tier(
            tier,
            |i, n| Node::Host(HostId(i * hosts_per_switch + n)),
            |i, _| Node::Switch(SwitchId((i + 1) % switches)),
        )
        .finish()
}
