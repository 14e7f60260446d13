//! Receive window: it keeps a sender from running ahead of the program that receives.
//!
//! A reliable connection tells its sender how many receives wait for it, so that messages stay away
//! while the program is behind. What the adapter has let in it acknowledges at once, though: a
//! burst is as fast as the adapters, and only what goes on for longer is as slow as the program.

use super::adapter::Work;
use std::collections::VecDeque;

/// The window of a queue pair for packets into the memory of a host.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceiveWindow {
    /// Number of packets let in and not taken by the program.
    inside: u32,
    outside: VecDeque<Work>,
}

impl ReceiveWindow {
    /// Takes a packet that arrives where `max` may be inside. Returns it if the adapter gets it
    /// now; otherwise it waits.
    pub(super) fn arrive(&mut self, work: Work, max: u32) -> Option<Work> {
        if self.inside < max {
            self.inside += 1;
            return Some(work);
        }
        self.outside.push_back(work);
        None
    }

    /// Takes note that the program took a message of so many packets. Returns as many others, which
    /// are let in.
    pub(super) fn take(&mut self, packets: u32) -> impl Iterator<Item = Work> {
        let entering = self.outside.len().min(packets as usize);
        self.inside = self.inside + entering as u32 - packets;
        self.outside.drain(..entering)
    }
}

#[cfg(test)]
mod tests {
    use super::super::adapter::Kind;
    use super::*;
    use crate::id::PairId;

    #[test]
    fn who_comes_too_early_waits_its_turn() {
        let packet = |bytes| Work { pair: PairId(0), kind: Kind::Receive { bytes } };
        let mut window = ReceiveWindow::default();
        let entered: Vec<_> = (0..5).filter_map(|n| window.arrive(packet(n), 2)).collect();
        assert_eq!(entered, [packet(0), packet(1)]);
        assert_eq!(window.take(2).collect::<Vec<_>>(), [packet(2), packet(3)]);
        assert_eq!(window.arrive(packet(5), 2), None);
        assert_eq!(window.take(1).collect::<Vec<_>>(), [packet(4)]);
        assert_eq!(window.take(2).collect::<Vec<_>>(), [packet(5)]);
        assert_eq!(window.arrive(packet(6), 2), Some(packet(6)));
    }
}
