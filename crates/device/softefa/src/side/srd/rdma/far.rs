//! Peers with whom nothing could be copied a moment ago.

use srd::{Instant, PeerId};

/// The time for which operations with such a peer take the wire at once. A WRITE that is refused
/// does not say why: the peer may be a stranger, which it stays, or one of the two programs had
/// only unmapped these bytes. To ask again costs a round trip.
const FAR_NS: u64 = 100_000_000;

/// The peers that are far, with the time until which they are, by [`PeerId::index`].
#[derive(Debug, Default)]
pub(super) struct FarPeers(Vec<Option<(PeerId, Instant)>>);

impl FarPeers {
    /// Nothing could be copied.
    pub(super) fn note(&mut self, now: Instant, peer: PeerId) {
        if self.0.len() <= peer.index() {
            self.0.resize(peer.index() + 1, None);
        }
        self.0[peer.index()] = Some((peer, now.plus_ns(FAR_NS)));
    }

    /// Nothing is to be copied.
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
