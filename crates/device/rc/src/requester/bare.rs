//! SENDs of one packet, of which streams of short messages consist.

use super::{Pause, Requester};
use crate::endpoint::Shared;
use crate::wire::{Bth, Kind, Opcode, Transport, pad_of};
use crate::{Instant, Operation, Service, ShortSend};

impl Requester {
    /// Returns the next packet if it is a SEND of one packet that leaves for the first time and
    /// that nothing holds back. The packet is the one that [`Requester::next_packet`] would return.
    #[inline]
    pub(crate) fn next_short(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        header: &mut [u8; Bth::LEN],
    ) -> Option<ShortSend> {
        let is_free = self.next == self.sent
            && self.pause == Pause::None
            && self.failure.is_none()
            && self.drain_at.is_none()
            && !self.retry.is_paused();
        if !is_free || shared.service != Service::Rc {
            return None;
        }
        let entry = self.queue.get(self.cursor)?;
        let (id, len) = (entry.request.id, entry.request.len);
        let is_short = matches!(entry.request.op, Operation::Send)
            && entry.packets == 1
            && len > 0
            && !entry.request.is_fenced
            && entry.fault.is_none();
        let flight = self.next.since(self.una);
        let bytes = u64::from(len);
        if !is_short || !self.window.admits(flight, self.flight_bytes, 1, bytes) {
            return None;
        }
        let is_solicited = entry.request.is_solicited;
        let (seq, end) = (self.next, self.next.plus(1));
        let wants_ack = self.decide_ack_request(end, bytes, true, shared);
        let pad = pad_of(len);
        let opcode = Opcode { transport: Transport::Rc, kind: Kind::SendOnly };
        Bth { opcode, is_solicited, pad, wants_ack, ..shared.bth(Kind::SendOnly, seq) }
            .emit(header);
        shared.stats.tx_packets += 1;
        self.flight_bytes += bytes;
        (self.next, self.sent) = (end, end);
        self.cursor += 1;
        if wants_ack {
            self.retry.early.start_timing(now, seq, shared);
        }
        self.retry.note_sent(now, &self.attr, shared);
        Some(ShortSend { id, len, pad })
    }
}
