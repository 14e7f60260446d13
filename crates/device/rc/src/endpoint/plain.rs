//! The short ways of plain packets.

use super::{Endpoint, State};
use crate::wire::{Bth, Kind, Opcode, Reth, Transport, icrc, pad_of};
use crate::{Instant, PLAIN_HEADER_MAX, PlainPacket, Psn, Remote, Service, ShortArrival};

const SEND_ONLY: u8 = Opcode { transport: Transport::Rc, kind: Kind::SendOnly }.to_byte();
const WRITE_ONLY: u8 = Opcode { transport: Transport::Rc, kind: Kind::WriteOnly }.to_byte();

impl Endpoint {
    /// Returns the next packet if it is a plain one: it belongs to a SEND or WRITE without
    /// immediate data over a reliable connection, has payload, and leaves for the first time. Its
    /// headers are written to `header`. When this returns `None`, call [`Endpoint::poll_transmit`]:
    /// it returns any packet, plain ones at a higher price.
    #[inline]
    pub fn poll_plain(
        &mut self,
        now: Instant,
        header: &mut [u8; PLAIN_HEADER_MAX],
    ) -> Option<PlainPacket> {
        if self.state != State::Sending || self.responder.precedes_requests() {
            return None;
        }
        self.requester.next_plain(now, &mut self.shared, header)
    }

    /// Returns the message of a packet that [`Endpoint::handle_packet`] would take as a plain SEND
    /// or WRITE of one packet, if it is expected next; `None` for anything else. Nothing has
    /// happened yet. Put the payload where it belongs and call [`Endpoint::accept_short`], or pass
    /// the packet to [`Endpoint::handle_packet`], with the same arguments.
    #[inline]
    #[must_use]
    pub fn peek_short(&self, bytes: &[u8], len: usize) -> Option<ShortArrival> {
        let header: &[u8; Bth::LEN] = bytes.first_chunk()?;
        let [kind, flags, pkey @ .., _, _, _, _, marks, p, s, n] = *header;
        let receives = matches!(self.state, State::Receiving | State::Sending | State::Draining);
        if !receives || self.shared.service != Service::Rc || self.arrival.is_some() {
            return None;
        }
        let is_write = kind == WRITE_ONLY;
        let is_plain = is_write || kind == SEND_ONLY;
        if !is_plain || flags & 0x0F != 0 || marks & Bth::JOINED_BITS != 0 {
            return None;
        }
        self.check_destination(dest_qpn_of(header), u16::from_be_bytes(pkey)).ok()?;
        let headers_len = if is_write { PLAIN_HEADER_MAX } else { Bth::LEN };
        let pad = flags >> 4 & 3;
        let payload_len = len.checked_sub(headers_len + icrc::LEN + usize::from(pad))?;
        let payload_len = u32::try_from(payload_len).ok()?;
        let has_length = (1..=self.shared.mtu.bytes()).contains(&payload_len);
        if !has_length || pad != pad_of(payload_len) {
            return None;
        }
        let target = if is_write { Some(self.target_of(bytes, payload_len)?) } else { None };
        let seq = self.responder.expects_short(Psn::new(u32::from_be_bytes([0, p, s, n])))?;
        let (is_solicited, wants_ack) = (flags & 0x80 != 0, marks & 0x80 != 0);
        Some(ShortArrival { len: payload_len, target, is_solicited, wants_ack, seq })
    }

    /// Returns the target of a WRITE of one packet that may be and has that length.
    #[inline]
    fn target_of(&self, bytes: &[u8], payload_len: u32) -> Option<Remote> {
        let reth = Reth::read(bytes.get(Bth::LEN..PLAIN_HEADER_MAX)?);
        let is_right = self.responder.may_write() && reth.dma_len == payload_len;
        is_right.then_some(Remote { va: reth.va, rkey: reth.rkey })
    }

    /// Accepts the message that [`Endpoint::peek_short`] has just returned and that the host has
    /// put where it belongs: it is acknowledged and never arrives again.
    #[inline]
    pub fn accept_short(&mut self, short: &ShortArrival) {
        if self.responder.accept_short(short) {
            self.shared.stats.rx_packets += 1;
            self.note_established();
        }
    }
}

/// Returns the queue pair that a base transport header names.
#[inline]
fn dest_qpn_of(header: &[u8; Bth::LEN]) -> u32 {
    u32::from_be_bytes([0, header[5], header[6], header[7]])
}
