//! The short ways of packets with a base transport header only.

use super::{Endpoint, State};
use crate::wire::{Bth, Kind, Opcode, Transport, icrc, pad_of};
use crate::{BarePacket, Instant, Psn, Service, ShortArrival};

/// The first byte of a SEND of one packet.
const SEND_ONLY: u8 = Opcode { transport: Transport::Rc, kind: Kind::SendOnly }.to_byte();

impl Endpoint {
    /// Returns the next packet if it belongs to a SEND or WRITE over a reliable connection, has
    /// payload and no header but a base transport header, leaves for the first time, and no answer
    /// is to leave before it. The header is written to `header`. Anything else is left to
    /// [`Endpoint::poll_transmit`], which returns the same packet at a higher price.
    #[inline]
    pub fn poll_bare(&mut self, now: Instant, header: &mut [u8; Bth::LEN]) -> Option<BarePacket> {
        if self.state != State::Sending || self.responder.precedes_requests() {
            return None;
        }
        self.requester.next_bare(now, &mut self.shared, header)
    }

    /// Returns the message of a packet that [`Endpoint::handle_packet`] would take as a SEND of one
    /// packet with payload over a reliable connection, if it is expected next; `None` for anything
    /// else. Nothing has happened yet. Put the payload, which begins after the base transport
    /// header, into the next receive and call [`Endpoint::accept_short_send`], or pass the packet
    /// to [`Endpoint::handle_packet`].
    #[inline]
    #[must_use]
    pub fn peek_short_send(&self, bytes: &[u8], len: usize) -> Option<ShortArrival> {
        let header: &[u8; Bth::LEN] = bytes.first_chunk()?;
        let [kind, flags, pkey @ .., _, _, _, _, marks, p, s, n] = *header;
        let is_short = kind == SEND_ONLY && flags & 0x0F == 0 && marks & Bth::JOINED_BITS == 0;
        let receives = matches!(self.state, State::Receiving | State::Sending | State::Draining);
        if !is_short || !receives || self.shared.service != Service::Rc || self.arrival.is_some() {
            return None;
        }
        self.check_destination(be24(header), u16::from_be_bytes(pkey)).ok()?;
        let pad = flags >> 4 & 3;
        let payload_len = len.checked_sub(Bth::LEN + icrc::LEN + usize::from(pad))?;
        let payload_len = u32::try_from(payload_len).ok()?;
        let has_length = (1..=self.shared.mtu.bytes()).contains(&payload_len);
        if !has_length || pad != pad_of(payload_len) {
            return None;
        }
        let seq = self.responder.expects_short(Psn::new(u32::from_be_bytes([0, p, s, n])))?;
        let (is_solicited, wants_ack) = (flags & 0x80 != 0, marks & 0x80 != 0);
        Some(ShortArrival { len: payload_len, is_solicited, wants_ack, seq })
    }

    /// Accepts the message that [`Endpoint::peek_short_send`] has just returned and that the host
    /// has put into a receive: it is acknowledged and never arrives again.
    #[inline]
    pub fn accept_short_send(&mut self, short: &ShortArrival) {
        if self.responder.accept_short(short) {
            self.shared.stats.rx_packets += 1;
            self.note_established();
        }
    }
}

/// Returns the queue pair that a base transport header names.
#[inline]
fn be24(header: &[u8; Bth::LEN]) -> u32 {
    u32::from_be_bytes([0, header[5], header[6], header[7]])
}
