//! Packets with a base transport header only, on a shorter way into the batch and out of the wire:
//! streams consist of them.

use std::net::SocketAddr;

use rc::wire::Bth;
use rc::{BarePacket, Payload, Status as RcStatus, Transmit};
use srd::Instant;

use super::serve::index_of;
use super::transmit::Leaving;
use super::{RcSide, time};
use crate::datagram::Datagram;
use crate::memory::Piece;
use crate::wire::Via;

impl RcSide {
    /// Returns true if nobody looks at each packet or alters it, so that packets may take the
    /// shorter way.
    pub(super) fn takes_bare_packets(&self) -> bool {
        let shell = &self.shell;
        shell.framing.has_short_check() && !shell.is_traced() && !shell.faults.lapses.is_active()
    }

    /// Adds the next packet to the batch if it has a base transport header only; returns false if
    /// it has others.
    #[inline]
    pub(super) fn push_bare_packet(&mut self, now: Instant, peer: &SocketAddr) -> bool {
        let mut header = [0; Bth::LEN];
        let Some(packet) = self.endpoint.poll_bare(time(now), &mut header) else { return false };
        let (index, shell) = (index_of(packet.id), &mut self.shell);
        let slot = shell.sq.get(index);
        let Some(memory) = slot.and_then(|slot| slot.readable_piece(&mut shell.send_mrs)) else {
            self.push_scattered(now, *peer, &packet, &header);
            return true;
        };
        let addr = memory.addr + u64::from(packet.offset);
        let payload = Piece { addr, len: packet.len as usize };
        let via = if self.takes_kernel { Via::Behind(self.path) } else { Via::Stream(self.path) };
        let leaving = Leaving::Request(index);
        match shell.push_bare(peer, via, &header, payload) {
            Ok(place) => {
                assert_eq!(place, self.leaving.len(), "one entry for each packet of the batch");
                self.carried.sent_bytes += u64::from(packet.len);
                self.leaving.push(leaving);
            }
            Err(_) => self.give_up(now, leaving, RcStatus::LocalProtection),
        }
        true
    }

    /// Adds a packet of a work request whose payload lies in several places, or cannot be read.
    #[cold]
    fn push_scattered(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        packet: &BarePacket,
        header: &[u8; Bth::LEN],
    ) {
        let &BarePacket { id, offset, len, pad } = packet;
        let payload = Payload::Request { id, offset, len };
        let header_len = header.len();
        let out = Transmit { header_len, payload, pad, joined: 0, is_repeated: false };
        self.push(now, peer, &out, header);
    }

    /// Takes a packet if it is a SEND of one packet that goes into the first receive of the queue
    /// pair's own queue, and nobody looks at each packet. Returns false if not; then nothing has
    /// happened.
    #[inline]
    pub(super) fn take_short_send(&mut self, now: Instant, datagram: &Datagram<'_>) -> bool {
        let shell = &self.shell;
        if self.is_closing || self.current.is_some() || shell.is_traced() || shell.has_faults() {
            return false;
        }
        let peeked = self.endpoint.peek_short_send(datagram.head, datagram.len());
        let Some(short) = peeked.filter(|short| self.fits_first_receive(short.len)) else {
            return false;
        };
        self.takes_receives = true;
        let (len, payload) = (short.len, datagram.payload(Bth::LEN));
        let is_placed = self.fill_first_receive(len, payload, None, short.is_solicited);
        if is_placed {
            self.last_accepted = Some(now);
            self.endpoint.accept_short_send(&short);
        }
        is_placed
    }
}
