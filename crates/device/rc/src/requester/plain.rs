//! Plain packets: those of SENDs and WRITEs without immediate data, of which streams consist.

use super::queue::Entry;
use super::{Pause, Requester};
use crate::endpoint::Shared;
use crate::wire::{Bth, Kind, Reth, pad_of};
use crate::{Instant, Operation, PLAIN_HEADER_MAX, PlainPacket, Remote, Service};

impl Requester {
    /// Returns the next packet if it is plain, has payload, leaves for the first time, and nothing
    /// holds it back. The packet is the one that [`Requester::next_packet`] would return.
    #[inline]
    pub(crate) fn next_plain(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        header: &mut [u8; PLAIN_HEADER_MAX],
    ) -> Option<PlainPacket> {
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
        let (kind, target) = kind_of(entry, index)?;
        let request = &entry.request;
        let (id, dma_len, is_last) = (request.id, request.len, index + 1 == entry.packets);
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
        let header_len = match target {
            None => Bth::LEN,
            Some(Remote { va, rkey }) => {
                Reth { va, rkey, dma_len }.write(&mut header[Bth::LEN..]);
                Bth::LEN + Reth::LEN
            }
        };
        Some(PlainPacket { id, offset, len, pad, header_len })
    }
}

/// Returns the kind of packet `index` of a work request, and the target that it names, if it is
/// plain and need not wait for READs.
#[inline]
fn kind_of(entry: &Entry, index: u32) -> Option<(Kind, Option<Remote>)> {
    let (is_first, is_last) = (index == 0, index + 1 == entry.packets);
    if is_first && entry.request.is_fenced {
        return None;
    }
    let (kind, target) = match (entry.request.op, is_first, is_last) {
        (Operation::Send, true, true) => (Kind::SendOnly, None),
        (Operation::Send, true, false) => (Kind::SendFirst, None),
        (Operation::Send, false, true) => (Kind::SendLast, None),
        (Operation::Send, false, false) => (Kind::SendMiddle, None),
        (Operation::Write(to), true, true) => (Kind::WriteOnly, Some(to)),
        (Operation::Write(to), true, false) => (Kind::WriteFirst, Some(to)),
        (Operation::Write(_), false, true) => (Kind::WriteLast, None),
        (Operation::Write(_), false, false) => (Kind::WriteMiddle, None),
        _ => return None,
    };
    Some((kind, target))
}
