//! Three tiers: pods of edge and aggregation switches below a core.

use super::wiring::{Ports, Tier, Wiring};
use super::{Fabric, Node, Tiers};
use crate::id::{HostId, SwitchId};

/// Dimensions of the network; each is at least 1. (A fat tree of switches with k ports has k pods
/// and k/2 of everything else.)
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clos3Size {
    pub(crate) pods: u32,
    pub(crate) edges_per_pod: u32,
    pub(crate) aggs_per_pod: u32,
    pub(crate) hosts_per_edge: u32,
    pub(crate) cores_per_agg: u32,
}

/// Builds the network.
pub(crate) fn clos3(size: Clos3Size, tiers: impl Into<Tiers>) -> Fabric {
    let tiers = tiers.into();
    let Clos3Size {
        pods,
        edges_per_pod: edges,
        aggs_per_pod: aggs,
        hosts_per_edge: hosts,
        cores_per_agg: cores,
    } = size;
    let first_agg = pods * edges;
    let first_core = first_agg + pods * aggs;
    let edge_tier = Tier {
        kind: "edge",
        count: pods * edges,
        hosts,
        siblings: 1,
        down: Ports { count: hosts, kind: tiers.host },
        up: Ports { count: aggs, kind: tiers.rack },
    };
    let agg_tier = Tier {
        kind: "agg",
        count: pods * aggs,
        hosts: edges * hosts,
        siblings: aggs,
        down: Ports { count: edges, kind: tiers.rack },
        up: Ports { count: cores, kind: tiers.core },
    };
    let core_tier = Tier {
        kind: "core",
        count: aggs * cores,
        hosts: pods * edges * hosts,
        siblings: aggs * cores,
        down: Ports { count: pods, kind: tiers.core },
        up: Ports { count: 0, kind: tiers.core },
    };
    // Aggregation switch a of each pod is connected to cores a x cores .. (a + 1) x cores.
    Wiring::new(pods * edges * hosts, hosts, tiers.host)
        .tier(
            edge_tier,
            |i, n| Node::Host(HostId(i * hosts + n)),
            |i, n| Node::Switch(SwitchId(first_agg + i / edges * aggs + n)),
        )
        .tier(
            agg_tier,
            |i, n| Node::Switch(SwitchId(i / aggs * edges + n)),
            |i, n| Node::Switch(SwitchId(first_core + i % aggs * cores + n)),
        )
        .tier(
            core_tier,
            |i, n| Node::Switch(SwitchId(first_agg + n * aggs + i / cores)),
            |_, _| Node::Switch(SwitchId(first_core)),
        )
        .finish()
}
