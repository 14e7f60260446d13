//! Peers with which local copies have failed recently.

use srd::{Instant, PeerId};

/// The time for which operations with such a peer use the wire at once. A refused WRITE does not
/// say why: the peer may belong to another user, which does not change, or one of the programs had
/// only unmapped these bytes. Asking again costs a round trip.
const FAR_NS: u64 = 100_000_000;

/// The time until which each peer is far, by [`PeerId::index`].
#[derive(Debug, Default)]
pub(super) struct FarPeers(Vec<Option<(PeerId, Instant)>>);

impl FarPeers {
    /// Notes that a copy has failed.
    pub(super) fn note(&mut self, now: Instant, peer: PeerId) {
        if self.0.len() <= peer.index() {
            self.0.resize(peer.index() + 1, None);
        }
        self.0[peer.index()] = Some((peer, now.plus_ns(FAR_NS)));
    }

    /// Returns true if nothing is to be copied with this peer.
    pub(super) fn contains(&self, now: Instant, peer: PeerId) -> bool {
        let noted = self.0.get(peer.index()).copied().flatten();
        noted.is_some_and(|(far, until)| far == peer && now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use srd::{Address, Config, Endpoint, Seed};

    #[test]
    fn a_peer_is_far_for_a_while_and_alone() {
        let mut endpoint = Endpoint::new(Config::socket(), 1, Seed::from_u64(1));
        let start = Instant::from_ns(5);
        let [first, second] = [2, 3].map(|qpn| endpoint.peer(start, Address { host: 1, qpn }));
        let mut far = FarPeers::default();
        assert!(!far.contains(start, first));
        far.note(start, second);
        let end = start.plus_ns(FAR_NS);
        assert!(far.contains(start, second) && !far.contains(start, first));
        assert!(!far.contains(end, second), "for good");
    }
}
