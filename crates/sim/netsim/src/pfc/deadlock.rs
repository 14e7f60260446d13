//! Detection of links that wait for each other for ever.

use super::{BufferedPacket, Pfc, Port};
use crate::id::LinkId;

impl Pfc {
    /// Returns links in a circle, each paused until packets leave by the next; the first once more
    /// at the end. `None` when every pause is going to end.
    ///
    /// A pause lasts for ever when more than XON of the link's share of its switch waits before
    /// ports whose pauses last for ever. So all that are paused are suspects, and those are let go
    /// whose share will shrink, until no more can be.
    pub(super) fn deadlock(&self) -> Option<Vec<LinkId>> {
        let mut stuck: Vec<bool> =
            self.ports.iter().map(|port| port.paused_at.is_some() && port.stopping).collect();
        loop {
            let held_bytes = self.held_before(&stuck);
            let mut let_go = false;
            for ((port, held), stuck) in self.ports.iter().zip(held_bytes).zip(&mut stuck) {
                if *stuck && held <= u64::from(port.thresholds.xon_bytes) {
                    (*stuck, let_go) = (false, true);
                }
            }
            if !let_go {
                return self.circle(&stuck);
            }
        }
    }

    /// Returns for each link the bytes that came by it and wait before stuck ports.
    fn held_before(&self, stuck: &[bool]) -> Vec<u64> {
        let mut held_bytes = vec![0; self.ports.len()];
        for (port, _) in self.ports.iter().zip(stuck).filter(|(_, stuck)| **stuck) {
            for BufferedPacket { from, bytes } in self.queue_of(port) {
                held_bytes[from.index()] += u64::from(bytes);
            }
        }
        held_bytes
    }

    /// Follows stuck links until they close a circle: each leads to a switch with a stuck port that
    /// holds its packets.
    fn circle(&self, stuck: &[bool]) -> Option<Vec<LinkId>> {
        let mut path = vec![LinkId::all().zip(stuck).find(|(_, stuck)| **stuck)?.0];
        loop {
            let link = *path.last()?;
            let holds = |port: &Port| self.queue_of(port).any(|held| held.from == link);
            let mut stuck_ports =
                LinkId::all().zip(&self.ports).zip(stuck).filter(|(_, stuck)| **stuck);
            let ((next, _), _) = stuck_ports.find(|((_, port), _)| holds(port))?;
            if let Some(start) = path.iter().position(|&seen| seen == next) {
                path.drain(..start);
                path.push(next);
                return Some(path);
            }
            path.push(next);
        }
    }
}
