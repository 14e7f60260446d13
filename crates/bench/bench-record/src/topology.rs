//! The pairs of a session's nodes that talk to each other. Node 0 is the client, the others are
//! servers.

/// The most nodes of one session: a set of them fits into one word.
pub const NODES_MAX: usize = 64;

/// The nodes that have endpoints to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// Every server has endpoints to the client.
    Star,
    /// Every node has endpoints to every other one.
    Mesh,
}

impl Topology {
    /// Returns all pairs, the lower number first. Every node connects its pairs in this order: both
    /// nodes of the first pair that is not connected always wait for each other, so that no node
    /// waits for ever.
    pub fn pairs(self, nodes: usize) -> Vec<(usize, usize)> {
        let firsts = match self {
            Self::Star => 0..nodes.min(1),
            Self::Mesh => 0..nodes,
        };
        firsts.flat_map(|first| (first + 1..nodes).map(move |second| (first, second))).collect()
    }

    /// Returns the peers of a node, in the order in which it connects.
    pub fn peers(self, nodes: usize, node: usize) -> Vec<usize> {
        let other = |(first, second): (usize, usize)| match node {
            _ if node == first => Some(second),
            _ if node == second => Some(first),
            _ => None,
        };
        self.pairs(nodes).into_iter().filter_map(other).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_nodes_are_one_pair_in_every_topology() {
        for topology in [Topology::Star, Topology::Mesh] {
            assert_eq!(topology.pairs(2), [(0, 1)]);
            assert_eq!((topology.peers(2, 0), topology.peers(2, 1)), (vec![1], vec![0]));
        }
    }

    #[test]
    fn a_star_has_the_client_in_its_middle_and_a_mesh_has_all_pairs() {
        assert_eq!(Topology::Star.pairs(4), [(0, 1), (0, 2), (0, 3)]);
        assert_eq!(Topology::Star.peers(4, 0), [1, 2, 3]);
        assert_eq!(Topology::Star.peers(4, 3), [0]);
        assert_eq!(Topology::Mesh.pairs(4), [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]);
        assert_eq!(Topology::Mesh.peers(4, 2), [0, 1, 3]);
    }

    #[test]
    fn every_node_can_connect_in_its_own_order() {
        for topology in [Topology::Star, Topology::Mesh] {
            let nodes = 7;
            let mut waiting: Vec<_> = (0..nodes).map(|node| topology.peers(nodes, node)).collect();
            for (first, second) in topology.pairs(nodes) {
                // Both nodes have no other peer before each other.
                assert_eq!((waiting[first].remove(0), waiting[second].remove(0)), (second, first));
            }
            assert!(waiting.iter().all(Vec::is_empty));
        }
    }
}
