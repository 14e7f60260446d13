//! Short messages that share a datagram (SRD-14).

use srd::wire::FrameEntry;
use srd::{HEADER_MAX, Instant, Message, Transmit};

use super::rdma::Part;
use super::send::via;
use super::{SrdSide, socket_addr};
use crate::datagram::{Datagram, Payload};
use crate::memory;

/// Sends up to this long may share a datagram: what is longer has more to copy than to gain.
pub(super) const SHARED_BYTES_MAX: u32 = 512;

impl SrdSide {
    /// Whoever wants to see what faults do to a message, or what hardware does, wants to see each
    /// message by itself.
    #[inline]
    pub(super) fn allow_frames(&mut self) {
        self.endpoint.set_frames(!self.shell.has_faults() && !self.shell.device.is_strict);
    }

    /// Adds a frame to the batch, unless one of its messages cannot be read (any more). That one
    /// ends, and the others are sent again by themselves, as if the frame had been lost.
    pub(super) fn push_frame(&mut self, now: Instant, out: &Transmit, header: &[u8; HEADER_MAX]) {
        let mut bytes = std::mem::take(&mut self.frame);
        bytes.clear();
        bytes.extend_from_slice(&header[..out.header_len]);
        let is_whole = self.append_messages(now, out, &mut bytes);
        if is_whole {
            let to = socket_addr(out.addr.host, out.addr.qpn);
            let pushed = self.shell.push(to, via(out, header), &bytes, std::iter::empty());
            assert!(pushed.is_ok(), "the bytes are a copy of ours");
            if self.shell.is_traced() {
                self.trace_transmit(out, &bytes);
            }
            self.leaving.push(out.peer.map(|peer| (peer, None)));
        }
        self.frame = bytes;
    }

    /// Appends the messages of the frame; whether all of them could be read.
    fn append_messages(&mut self, now: Instant, out: &Transmit, bytes: &mut Vec<u8>) -> bool {
        let mut is_whole = true;
        for place in 0..out.framed {
            let Message { id, len, op, flags, imm, .. } = self.endpoint.framed()[place];
            let part = Part::from_msg(id);
            let Part::Send(index) = part else { unreachable!("only sends share") };
            if self.fail_unreadable(part) {
                is_whole = false;
                if let Some(peer) = out.peer {
                    self.endpoint.withdraw(now, peer, id);
                }
                continue;
            }
            #[expect(clippy::cast_possible_truncation, reason = "at most SHARED_BYTES_MAX")]
            let len = len as u16;
            bytes.extend_from_slice(&FrameEntry { len, op, flags, imm }.emit());
            let mut pieces = self.shell.sq.payload(index);
            is_whole &= pieces.all(|piece| memory::copy_out(piece.addr, piece.len, bytes).is_ok());
        }
        is_whole
    }

    /// Hands the messages of a frame to whom they are for.
    pub(super) fn take_frame(&mut self, now: Instant, datagram: &Datagram<'_>) {
        // A frame is all headers, which are memory of ours.
        let (bytes, mut told) = (datagram.head, 0);
        while let Some(framed) = self.endpoint.next_framed(now, bytes) {
            if self.shell.is_traced() {
                self.trace_framed(bytes, told, framed.payload.start);
                told = framed.payload.start;
            }
            self.take_arrival(now, &framed.arrival, Payload::from(&bytes[framed.payload]));
        }
        if self.shell.is_traced() {
            self.trace_framed(bytes, told, bytes.len() + 1);
        }
    }
}
