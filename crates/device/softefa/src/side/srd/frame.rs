//! Short messages that share a datagram (SRD-14).

use srd::wire::FrameEntry;
use srd::{HEADER_MAX, Instant, Message, Transmit};

use super::rdma::Part;
use super::send::via;
use super::{OP_GONE, SrdSide, socket_addr};
use crate::datagram::{Datagram, Payload};
use crate::memory::{self, Piece};
use crate::status::Status;

/// The longest send that may share a datagram. A longer one costs more to copy than it saves.
pub(super) const SHARED_BYTES_MAX: u32 = 512;

impl SrdSide {
    /// Allows several messages in a datagram, except with faults or `--strict`: then each message
    /// must be seen by itself.
    #[inline]
    pub(super) fn allow_frames(&mut self) {
        self.endpoint.set_frames(!self.shell.has_faults() && !self.shell.device.is_strict);
    }

    /// Adds a frame to the batch.
    pub(super) fn push_frame(&mut self, out: &Transmit, header: &[u8; HEADER_MAX]) {
        let mut bytes = std::mem::take(&mut self.frame);
        bytes.clear();
        bytes.extend_from_slice(&header[..out.header_len]);
        for place in 0..out.framed {
            let message = self.endpoint.framed()[place];
            self.append_message(&message, &mut bytes);
        }
        let to = socket_addr(out.addr.host, out.addr.qpn);
        let pushed = self.shell.push(to, via(out, header), &bytes, std::iter::empty());
        assert!(pushed.is_ok(), "the bytes are a copy of ours");
        if self.shell.is_traced() {
            self.trace_transmit(out, &bytes);
        }
        self.leaving.push(out.peer.map(|peer| (peer, None)));
        self.frame = bytes;
    }

    /// Appends a message. If one cannot be read (any more), the receiver gets a message that it
    /// refuses in its place (SRD-6.7): the message ends with its own error, and the others go on.
    fn append_message(&mut self, message: &Message, bytes: &mut Vec<u8>) {
        let &Message { id, len, op, flags, imm, .. } = message;
        let Part::Send(index) = Part::from_msg(id) else { unreachable!("only sends share") };
        let start = bytes.len();
        #[expect(clippy::cast_possible_truncation, reason = "at most SHARED_BYTES_MAX")]
        let entry = FrameEntry { len: len as u16, op, flags, imm };
        bytes.extend_from_slice(&entry.emit());
        if !self.fail_unreadable(Part::Send(index)) {
            let mut pieces = self.shell.sq.payload(index);
            let mut copy = |piece: Piece| memory::copy_out(piece.addr, piece.len, bytes).is_ok();
            if pieces.all(&mut copy) {
                return;
            }
        }
        if let Some(slot) = self.shell.sq.get_mut(index) {
            slot.fault = Some(Status::LocalInvalidLkey);
        }
        bytes.truncate(start);
        bytes.extend_from_slice(&FrameEntry { op: OP_GONE, ..entry }.emit());
        bytes.resize(start + FrameEntry::LEN + len as usize, 0);
    }

    /// Delivers the messages of a frame.
    pub(super) fn take_frame(&mut self, now: Instant, datagram: &Datagram<'_>) {
        // A frame is all headers, which are memory of ours.
        let (bytes, mut told) = (datagram.head, 0);
        while let Some(framed) = self.endpoint.next_framed(now, bytes) {
            if self.shell.is_traced() {
                self.trace_framed(bytes, told, framed.payload.start);
                told = framed.payload.start;
            }
            self.shell.shared_messages += 1;
            self.take_arrival(now, &framed.arrival, Payload::from(&bytes[framed.payload]));
        }
        if self.shell.is_traced() {
            self.trace_framed(bytes, told, bytes.len() + 1);
        }
    }
}
