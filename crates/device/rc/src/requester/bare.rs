//! Packets of SENDs and WRITEs with a base transport header only, of which streams consist.

use super::queue::Entry;
use super::{Pause, Requester};
use crate::endpoint::Shared;
use crate::wire::{Bth, Kind, pad_of};
use crate::{BarePacket, Instant, Operation, Service};

impl Requester {
    /// Returns the next packet if it belongs to a SEND or WRITE, has payload and no header but a
    /// base transport header, leaves for the first time, and nothing holds it back. The packet is
    /// the one that [`Requester::next_packet`] would return.
    #[inline]
    pub(crate) fn next_bare(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        header: &mut [u8; Bth::LEN],
    ) -> Option<BarePacket> {
        let is_free = self.next == self.sent
            && self.pause == Pause::None
            && self.failure.is_none()
            && self.drain_at.is_none()
            && !self.retry.is_paused();
        if !is_free || shared.service != Service::Rc {
            return None;
        }
        let entry = self.queue.get(self.cursor)?;
        let index = self.next.since(entry.first) as u32;
        let kind = kind_of(entry, index)?;
        let request = &entry.request;
        let (id, is_last) = (request.id, index + 1 == entry.packets);
        // Below the length of the message.
        let offset = index * shared.mtu.bytes();
        let len = if is_last { request.len - offset } else { shared.mtu.bytes() };
        let (flight, bytes) = (self.next.since(self.una), u64::from(len));
        let is_admitted = self.window.admits(flight, self.flight_bytes, 1, bytes);
        if len == 0 || entry.fault.is_some() || !is_admitted {
            return None;
        }
        let is_solicited = request.is_solicited && is_last;
        let (seq, end, pad) = (self.next, self.next.plus(1), pad_of(len));
        let wants_ack = self.decide_ack_request(end, bytes, is_last, shared);
        Bth { is_solicited, pad, wants_ack, ..shared.bth(kind, seq) }.emit(header);
        shared.stats.tx_packets += 1;
        self.flight_bytes += bytes;
        (self.next, self.sent) = (end, end);
        self.cursor += usize::from(is_last);
        if wants_ack {
            self.retry.early.start_timing(now, seq, shared);
        }
        self.retry.note_sent(now, &self.attr, shared);
        Some(BarePacket { id, offset, len, pad })
    }
}

/// Returns the kind of packet `index` of a work request, if it has a base transport header only and
/// need not wait for READs.
#[inline]
fn kind_of(entry: &Entry, index: u32) -> Option<Kind> {
    let is_last = index + 1 == entry.packets;
    match entry.request.op {
        Operation::Send if index > 0 => {
            Some(if is_last { Kind::SendLast } else { Kind::SendMiddle })
        }
        Operation::Send if entry.request.is_fenced => None,
        Operation::Send => Some(if is_last { Kind::SendOnly } else { Kind::SendFirst }),
        Operation::Write(_) if index > 0 => {
            Some(if is_last { Kind::WriteLast } else { Kind::WriteMiddle })
        }
        _ => None,
    }
}
