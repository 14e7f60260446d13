//! Plain packets on a shorter way into the batch and out of the wire: streams consist of them.

use std::net::SocketAddr;

use rc::wire::Bth;
use rc::{
    PLAIN_HEADER_MAX, Payload, PlainPacket, Range, ShortArrival, Status as RcStatus, Transmit,
};
use srd::Instant;

use super::serve::index_of;
use super::transmit::Leaving;
use super::{RcSide, time};
use crate::datagram::Datagram;
use crate::lint::is_wanted;
use crate::memory::Piece;
use crate::mr::Right;
use crate::wire::Via;

impl RcSide {
    /// Returns true if nobody looks at each packet or alters it, so that packets may take the
    /// shorter way.
    pub(super) fn takes_plain_packets(&self) -> bool {
        let shell = &self.shell;
        shell.framing.has_short_check() && !shell.is_traced() && !shell.faults.lapses.is_active()
    }

    /// Adds the next packet to the batch if it is a plain one; returns false if it is not.
    #[inline]
    pub(super) fn push_plain_packet(&mut self, now: Instant, peer: &SocketAddr) -> bool {
        let mut header = [0; PLAIN_HEADER_MAX];
        let Some(packet) = self.endpoint.poll_plain(time(now), &mut header) else { return false };
        let (index, shell) = (index_of(packet.id), &mut self.shell);
        let slot = shell.sq.get(index);
        let Some(memory) = slot.and_then(|slot| slot.readable_piece(&mut shell.send_mrs)) else {
            self.push_scattered(now, *peer, &packet, &header);
            return true;
        };
        let addr = memory.addr + u64::from(packet.offset);
        let payload = Piece { addr, len: packet.len as usize };
        let via = if self.takes_kernel { Via::Behind(self.path) } else { Via::Stream(self.path) };
        let pushed = match header.first_chunk() {
            Some(bth) if packet.header_len == Bth::LEN => {
                shell.push_plain::<{ Bth::LEN }>(peer, via, bth, payload)
            }
            _ => shell.push_plain(peer, via, &header, payload),
        };
        let leaving = Leaving::Request(index);
        match pushed {
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
        packet: &PlainPacket,
        header: &[u8; PLAIN_HEADER_MAX],
    ) {
        let &PlainPacket { id, offset, len, pad, header_len } = packet;
        let payload = Payload::Request { id, offset, len };
        let out = Transmit { header_len, payload, pad, joined: 0, is_repeated: false };
        self.push(now, peer, &out, &header[..header_len]);
    }

    /// Takes a packet if it is a plain message of one packet that can be put where it belongs: a
    /// SEND into the first receive of the queue pair's own queue, a WRITE into memory. Returns
    /// false if not, or if somebody looks at each packet; then nothing has happened.
    #[inline]
    pub(super) fn take_short(&mut self, now: Instant, datagram: &Datagram<'_>) -> bool {
        let shell = &self.shell;
        if self.is_closing || self.current.is_some() || shell.is_traced() || shell.has_faults() {
            return false;
        }
        let Some(short) = self.endpoint.peek_short(datagram.head, datagram.len()) else {
            return false;
        };
        let is_placed = match short.target {
            None => self.take_short_send(&short, datagram),
            Some(remote) => {
                let range = Range { remote, len: short.len };
                self.take_short_write(range, datagram, short.payload_at())
            }
        };
        if is_placed {
            self.last_accepted = Some(now);
            self.endpoint.accept_short(&short);
        }
        is_placed
    }

    #[inline]
    fn take_short_send(&mut self, short: &ShortArrival, datagram: &Datagram<'_>) -> bool {
        if !self.fits_first_receive(short.len) {
            return false;
        }
        self.takes_receives = true;
        let payload = datagram.payload(short.payload_at());
        self.fill_first_receive(short.len, payload, None, short.is_solicited)
    }

    #[inline]
    fn take_short_write(&mut self, range: Range, datagram: &Datagram<'_>, at: usize) -> bool {
        // The long way says what is wrong with a WRITE.
        if is_wanted() {
            return false;
        }
        let Ok(memory) = self.check(range, Right::Write) else { return false };
        self.place_written(memory, datagram.payload(at).split_at(range.len as usize).0).is_ok()
    }
}
