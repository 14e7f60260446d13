//! Schedules the operations that wait to pass segments to the engine, in turns of their peers.
//!
//! Each peer has its own budget, so that one that accepts nothing delays only itself.

use std::collections::VecDeque;

use srd::PeerId;

/// A waiting operation: its place, and a number that a successor in that place does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) index: u32,
    pub(super) serial: u32,
}

/// The schedule of one kind of segment.
#[derive(Debug)]
pub(super) struct Lanes {
    /// The number of segments of one peer in the engine from which on its operations wait.
    budget: u32,
    /// The lanes by [`PeerId::index`]. An index is not reused while anything of its peer is left.
    lanes: Vec<Lane>,
    /// The peers with something to send and room for it.
    rotation: VecDeque<u32>,
}

#[derive(Debug, Default)]
struct Lane {
    in_engine: u32,
    is_in_rotation: bool,
    waiting: VecDeque<Waiting>,
}

impl Lanes {
    pub(super) fn new(budget: u32) -> Self {
        Self { budget, lanes: Vec::new(), rotation: VecDeque::new() }
    }

    /// Queues the operation for its next turn, after the others of its peer.
    pub(super) fn push(&mut self, peer: PeerId, waiting: Waiting) {
        self.lane(peer).waiting.push_back(waiting);
        self.rotate(peer.index());
    }

    fn lane(&mut self, peer: PeerId) -> &mut Lane {
        if self.lanes.len() <= peer.index() {
            self.lanes.resize_with(peer.index() + 1, Lane::default);
        }
        &mut self.lanes[peer.index()]
    }

    /// Takes the operation whose turn it is.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        if self.rotation.is_empty() { None } else { self.pop_waiting() }
    }

    fn pop_waiting(&mut self) -> Option<Waiting> {
        while let Some(place) = self.rotation.pop_front() {
            let lane = &mut self.lanes[place as usize];
            lane.is_in_rotation = false;
            if lane.in_engine < self.budget {
                if let Some(waiting) = lane.waiting.pop_front() {
                    self.rotate(place as usize);
                    return Some(waiting);
                }
            }
        }
        None
    }

    /// Notes that the engine has taken a segment for `peer`.
    pub(super) fn entered(&mut self, peer: PeerId) {
        self.lane(peer).in_engine += 1;
    }

    /// Notes that the engine is done with a segment for `peer`.
    pub(super) fn left(&mut self, peer: PeerId) {
        self.lane(peer).in_engine -= 1;
        self.rotate(peer.index());
    }

    fn rotate(&mut self, place: usize) {
        let lane = &mut self.lanes[place];
        let has_turn = lane.in_engine < self.budget && !lane.waiting.is_empty();
        if has_turn && !lane.is_in_rotation {
            lane.is_in_rotation = true;
            #[expect(clippy::cast_possible_truncation, reason = "peers are fewer than 2^32")]
            self.rotation.push_back(place as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use srd::{Address, Config, Endpoint, Instant, Seed};

    fn peers<const N: usize>() -> [PeerId; N] {
        let mut engine = Endpoint::new(Config::socket(), 1, Seed::from_u64(1));
        std::array::from_fn(|i| engine.peer(Instant::ZERO, Address { host: i as u64, qpn: 2 }))
    }

    fn waiting(index: u32) -> Waiting {
        Waiting { index, serial: 0 }
    }

    #[test]
    fn a_peer_without_room_holds_up_only_itself() {
        let [deaf, good] = peers();
        let mut lanes = Lanes::new(1);
        for (peer, index) in [(deaf, 0), (deaf, 1), (good, 2), (good, 3)] {
            lanes.push(peer, waiting(index));
        }
        assert_eq!(lanes.pop(), Some(waiting(0)));
        lanes.entered(deaf);
        for index in [2, 3] {
            assert_eq!(lanes.pop(), Some(waiting(index)));
            lanes.entered(good);
            assert_eq!(lanes.pop(), None);
            lanes.left(good);
        }
        assert_eq!(lanes.pop(), None);
        lanes.left(deaf);
        assert_eq!((lanes.pop(), lanes.pop()), (Some(waiting(1)), None));
    }

    #[test]
    fn a_segment_may_be_given_without_waiting() {
        let [peer] = peers();
        let mut lanes = Lanes::new(1);
        lanes.entered(peer);
        lanes.push(peer, waiting(0));
        assert_eq!(lanes.pop(), None);
        lanes.left(peer);
        assert_eq!(lanes.pop(), Some(waiting(0)));
    }

    #[test]
    fn peers_take_turns_and_so_do_their_operations() {
        let [a, b] = peers();
        let mut lanes = Lanes::new(100);
        for (peer, index) in [(a, 0), (a, 1), (a, 2), (b, 10)] {
            lanes.push(peer, waiting(index));
        }
        let mut seen = Vec::new();
        for _ in 0..8 {
            let next = lanes.pop().unwrap();
            seen.push(next.index);
            lanes.push(if next.index < 10 { a } else { b }, next);
        }
        assert_eq!(seen, [0, 10, 1, 10, 2, 10, 0, 10]);
    }
}
