//! READs that a queue pair serves, and each peer's share of them.

use std::sync::Arc;

use srd::PeerId;

use super::Block;
use crate::lease::Lease;
use crate::mr::Region;

/// The most READs that one queue pair serves at a time, for all peers together.
const JOBS_MAX: usize = 8192;
/// The READs that every peer may always have, because others may never end theirs.
const JOBS_OF_PEER_MIN: usize = 16;

/// A READ being served.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) peer: PeerId,
    pub(super) qkey: u32,
    pub(super) block: Block,
    pub(super) region: Option<Arc<Region>>,
    pub(super) next: u32,
    pub(super) in_engine: u32,
    pub(super) is_dead: bool,
    pub(super) serial: u32,
}

impl Job {
    /// Returns for how long the requester may copy.
    pub(super) fn lease(&self) -> Option<&Lease> {
        self.region.as_ref().map(|region| region.lease())
    }

    pub(super) fn is_readable(&self) -> bool {
        self.region.as_ref().is_some_and(|region| region.is_live())
    }

    /// Nothing more of it is passed to the engine.
    pub(super) fn is_fed(&self) -> bool {
        self.is_dead || self.next == self.block.total
    }
}

/// The READs of all peers. A peer may have as many as leave room for others, and always some: one
/// alone gets half of all places, and one that comes later always finds some.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    places: Vec<Option<Job>>,
    free: Vec<u32>,
    /// The number of jobs of each peer, by [`PeerId::index`]. An index is not reused while anything
    /// of its peer is left.
    of_peer: Vec<u32>,
}

impl Jobs {
    /// Finds a place for a job; `None` if its peer has its share, and should ask again.
    pub(super) fn insert(&mut self, job: Job) -> Option<u32> {
        let peer = job.peer.index();
        if self.of_peer.len() <= peer {
            self.of_peer.resize(peer + 1, 0);
        }
        let vacant = JOBS_MAX.saturating_sub(self.places.len() - self.free.len());
        if self.of_peer[peer] as usize >= vacant.max(JOBS_OF_PEER_MIN) {
            return None;
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.places.push(None);
                u32::try_from(self.places.len() - 1).ok()?
            }
        };
        self.of_peer[peer] += 1;
        self.places[index as usize] = Some(job);
        Some(index)
    }

    pub(super) fn remove(&mut self, index: u32) {
        if let Some(job) = self.places.get_mut(index as usize).and_then(Option::take) {
            self.of_peer[job.peer.index()] -= 1;
            self.free.push(index);
        }
    }

    pub(super) fn get(&self, index: u32) -> Option<&Job> {
        self.places.get(index as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Job> {
        self.places.get_mut(index as usize)?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Job> {
        self.places.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use srd::{Address, Config, Endpoint, Instant, Seed};

    fn job(peer: PeerId) -> Job {
        let block = Block::default();
        Job { peer, qkey: 0, block, region: None, next: 0, in_engine: 0, is_dead: false, serial: 0 }
    }

    #[test]
    fn shares_leave_room_for_later_peers() {
        let mut engine = Endpoint::new(Config::socket(), 1, Seed::from_u64(1));
        let mut peer = |host| engine.peer(Instant::ZERO, Address { host, qpn: 2 });
        let mut jobs = Jobs::default();
        let mut fill = |peer| std::iter::from_fn(|| jobs.insert(job(peer))).count();
        let counts = [1, 2, 3].map(|host| fill(peer(host)));
        assert_eq!(counts, [JOBS_MAX / 2, JOBS_MAX / 4, JOBS_MAX / 8]);
        assert_eq!(fill(peer(1)), 0, "it has its share");
        for index in 0..counts[0] {
            jobs.remove(u32::try_from(index).unwrap());
        }
        assert_eq!(jobs.iter().count(), counts[1] + counts[2]);
        let again = std::iter::from_fn(|| jobs.insert(job(peer(1)))).count();
        assert_eq!(again, (JOBS_MAX - counts[1] - counts[2]) / 2);
    }

    /// Peers that end none of their jobs leave room: each gets half of the rest, until all is used.
    #[test]
    fn the_last_peer_finds_a_place_whatever_others_took() {
        let mut engine = Endpoint::new(Config::socket(), 1, Seed::from_u64(1));
        let mut peer = |host| engine.peer(Instant::ZERO, Address { host, qpn: 2 });
        let mut jobs = Jobs::default();
        let mut fill = |peer| std::iter::from_fn(|| jobs.insert(job(peer))).count();
        let counts: Vec<usize> = (0..40).map(|host| fill(peer(host))).collect();
        assert!(counts.iter().all(|&count| count >= JOBS_OF_PEER_MIN), "{counts:?}");
        assert_eq!(counts[39], JOBS_OF_PEER_MIN);
    }
}
