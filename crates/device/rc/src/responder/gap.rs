//! Missing packets, and the NAKs about them (RC-5.2, RC-4.6).

use super::{Nak, NakState, Responder};
use crate::endpoint::Shared;
use crate::{DropReason, Instant};

/// A peer that takes more round trips than this to close a gap was stopped meanwhile.
const STOPPED_ROUND_TRIPS: u64 = 8;

impl Responder {
    /// Handles a missing packet. The peer is told once, and, if the host allows it, again when the
    /// repetition should have arrived and later packets arrive instead.
    pub(super) fn note_gap(&mut self, now: Instant, shared: &Shared) -> DropReason {
        let is_first = match self.nak_state {
            NakState::Nothing => true,
            NakState::Missing { at, .. } if now.ns_since(at) >= self.gap_timeout_ns(shared) => {
                false
            }
            NakState::Missing { .. } | NakState::NotReady => return DropReason::Gap,
        };
        self.nak_state = NakState::Missing { at: now, is_first };
        self.nak = Some(Nak::Sequence);
        DropReason::Gap
    }

    /// Handles the arrival of the expected packet.
    #[inline]
    pub(super) fn note_expected(&mut self, now: Instant, shared: &Shared) {
        if self.nak_state != NakState::Nothing {
            self.end_gap(now, shared);
        }
    }

    #[cold]
    fn end_gap(&mut self, now: Instant, shared: &Shared) {
        // After two NAKs it is unknown which of them was received.
        if let NakState::Missing { at, is_first: true } = self.nak_state {
            // A peer that was stopped meanwhile must not look like a slow network.
            let round_trip_ns = shared.rtt.smoothed_ns().unwrap_or_default();
            let most_ns =
                round_trip_ns.max(shared.config.rto_floor_ns).saturating_mul(STOPPED_ROUND_TRIPS);
            let ns = now.ns_since(at).clamp(1, most_ns.max(1));
            self.gap_ns = Some(self.gap_ns.map_or(ns, |old| old - old / 8 + ns / 8));
        }
        self.nak_state = NakState::Nothing;
    }

    /// Returns how long the peer has to close a gap: two round trips, because a needless second NAK
    /// costs nothing by then.
    fn gap_timeout_ns(&self, shared: &Shared) -> u64 {
        let floor_ns = shared.config.rto_floor_ns;
        if floor_ns == 0 {
            return u64::MAX;
        }
        let round_trip = [shared.rtt.smoothed_ns(), self.gap_ns].into_iter().flatten().max();
        round_trip.map_or(floor_ns, |ns| ns.saturating_mul(2))
    }
}
