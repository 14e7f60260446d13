//! SENDs of one packet, on a shorter way into the batch and out of the wire: streams of short
//! messages consist of them.

use std::net::SocketAddr;

use rc::wire::Bth;
use rc::{Payload, ShortSend, Status as RcStatus, Transmit};
use srd::Instant;

use super::serve::index_of;
use super::transmit::Leaving;
use super::{RcSide, time};
use crate::datagram::Datagram;
use crate::wire::Via;

impl RcSide {
    /// Returns true if nobody looks at each packet or alters it, so that SENDs of one packet may
    /// take the shorter way.
    pub(super) fn takes_short_sends(&self) -> bool {
        let shell = &self.shell;
        shell.framing.has_short_check() && !shell.is_traced() && !shell.faults.lapses.is_active()
    }

    /// Adds the next packet to the batch if it is a SEND of one packet; returns false if it is not.
    #[inline]
    pub(super) fn push_short_send(&mut self, now: Instant, peer: &SocketAddr) -> bool {
        let mut header = [0; Bth::LEN];
        let Some(short) = self.endpoint.poll_short_send(time(now), &mut header) else {
            return false;
        };
        let (index, shell) = (index_of(short.id), &mut self.shell);
        let slot = shell.sq.get(index);
        let piece = slot.and_then(|slot| slot.readable_piece(&mut shell.send_mrs));
        let Some(piece) = piece.filter(|piece| shell.batch().is_copied(piece.len)) else {
            self.push_scattered(now, *peer, &short, &header);
            return true;
        };
        let via = if self.takes_kernel { Via::Behind(self.path) } else { Via::Stream(self.path) };
        let leaving = Leaving::Request(index);
        match shell.push_short(peer, via, &header, piece) {
            Ok(place) => {
                assert_eq!(place, self.leaving.len(), "one entry for each packet of the batch");
                self.carried.sent_bytes += u64::from(short.len);
                self.leaving.push(leaving);
            }
            Err(_) => self.give_up(now, leaving, RcStatus::LocalProtection),
        }
        true
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

    /// Adds a SEND of one packet whose payload is long, lies in several places, or cannot be read.
    #[cold]
    fn push_scattered(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        short: &ShortSend,
        header: &[u8; Bth::LEN],
    ) {
        let &ShortSend { id, len, pad } = short;
        let payload = Payload::Request { id, offset: 0, len };
        let header_len = header.len();
        let out = Transmit { header_len, payload, pad, joined: 0, is_repeated: false };
        self.push(now, peer, &out, header);
    }
}
