//! Three tiers: pods of edge and aggregation switches below a core.

use super::wiring::{Tier, Wiring};
use super::{Fabric, Node, Tiers};

/// Builds the network from pods, edges per pod, aggregation switches per pod, hosts per edge and
/// cores per aggregation switch, all at least 1. (A fat tree of switches with k ports has k pods
/// and k/2 of everything else.)
pub(crate) fn clos3(sizes: [u32; 5], tiers: impl Into<Tiers>) -> Fabric {
    let tiers = tiers.into();
    let [pods, edges, aggs, hosts, cores] = sizes;
    let first_agg = pods * edges;
    let first_core = first_agg + pods * aggs;
    let edge_tier = Tier {
        kind: "edge",
        count: pods * edges,
        hosts,
        siblings: 1,
        down: (hosts, tiers.host),
        up: (aggs, tiers.rack),
    };
    let agg_tier = Tier {
        kind: "agg",
        count: pods * aggs,
        hosts: edges * hosts,
        siblings: aggs,
        down: (edges, tiers.rack),
        up: (cores, tiers.core),
    };
    let core_tier = Tier {
        kind: "core",
        count: aggs * cores,
        hosts: pods * edges * hosts,
        siblings: aggs * cores,
        down: (pods, tiers.core),
        up: (0, tiers.core),
    };
    // Aggregation switch a of each pod is connected to cores a x cores .. (a + 1) x cores.
    Wiring::new(pods * edges * hosts, hosts, tiers.host)
        .tier(
            edge_tier,
            |i, n| Node::Host(i * hosts + n),
            |i, n| Node::Switch(first_agg + i / edges * aggs + n),
        )
        .tier(
            agg_tier,
            |i, n| Node::Switch(i / aggs * edges + n),
            |i, n| Node::Switch(first_core + i % aggs * cores + n),
        )
        .tier(
            core_tier,
            |i, n| Node::Switch(first_agg + n * aggs + i / cores),
            |_, _| Node::Switch(first_core),
        )
        .finish()
}
