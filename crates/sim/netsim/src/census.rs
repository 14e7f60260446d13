//! Bytes in every queue and on every cable, counted as packets come and go.
//!
//! Links reckon their queues by time. This knows nothing of times and rates, so it finds where that
//! reckoning is wrong.

use crate::id::LinkId;
use crate::link::Link;

/// Length of the longest packet of any scenario; the cable may hold the rest of one more than its
/// length says.
const PACKET_BYTES_MAX: u32 = 9000;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Bytes taken by the link and not yet at its end.
    there_bytes: u32,
    /// Maximum number of bytes that buffer and cable hold.
    most_bytes: u32,
}

/// A link that holds more than it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overfull {
    pub(crate) link: LinkId,
    pub(crate) held_bytes: u32,
}

#[derive(Debug)]
pub(crate) struct Census {
    /// Entries, indexed by link.
    entries: Vec<Entry>,
    /// The first link that held more than it can.
    pub(crate) overfull: Option<Overfull>,
}

impl Census {
    /// Starts the count for links that have their best rate.
    pub(crate) fn new(links: &[Link]) -> Self {
        let entry = |link: &Link| {
            let cable_bytes = link.delay_ps().div_ceil(link.ps_per_byte());
            let most_bytes =
                link.buffer_bytes().saturating_add(cable_bytes).saturating_add(PACKET_BYTES_MAX);
            Entry { there_bytes: 0, most_bytes }
        };
        Self { entries: links.iter().map(entry).collect(), overfull: None }
    }

    /// Counts a packet that the link has taken and that is going to reach its end.
    #[inline]
    pub(crate) fn enters(&mut self, link: LinkId, bytes: u32) {
        let entry = &mut self.entries[link.index()];
        entry.there_bytes += bytes;
        if entry.there_bytes > entry.most_bytes {
            let held_bytes = entry.there_bytes;
            self.overfull.get_or_insert(Overfull { link, held_bytes });
        }
    }

    /// Counts a packet that is at a link's end.
    #[inline]
    pub(crate) fn leaves(&mut self, link: LinkId, bytes: u32) {
        self.entries[link.index()].there_bytes -= bytes;
    }

    /// Takes note that a cable was cut: everything on it is lost.
    pub(crate) fn empties(&mut self, link: LinkId) {
        self.entries[link.index()].there_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Marking;

    const SECOND: LinkId = LinkId(1);

    #[test]
    fn more_than_buffer_and_cable_hold_is_noticed() {
        let link = Link::new(80, 1_000_000).with_queue(50_000, Marking::NONE);
        let mut census = Census::new(&[link.clone(), link]);
        for _ in 0..2 {
            (0..71).for_each(|_| census.enters(SECOND, 1000));
            assert_eq!(census.overfull, None, "50,000 queued, 12,500 on the cable, a packet");
            census.leaves(SECOND, 1000);
            census.empties(SECOND);
        }
        (0..72).for_each(|_| census.enters(SECOND, 1000));
        let overfull = Overfull { link: SECOND, held_bytes: 72_000 };
        assert_eq!(census.overfull, Some(overfull));
    }
}
