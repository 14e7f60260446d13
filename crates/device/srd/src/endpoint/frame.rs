//! The messages of a frame, one after the other (SRD-14).

use super::Endpoint;
use super::receive::Unanswered;
use crate::wire::frame::FrameEntry;
use crate::wire::{DataRepr, Flags};
use crate::{Arrival, DropReason, Framed, Instant, PathId, PeerId, Psn, Reject};

/// A received frame that the host is still taking messages from.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFrame {
    peer: PeerId,
    /// The number of the next message.
    psn: Psn,
    /// The offset of its entry in the datagram.
    at: usize,
    qkey: u32,
    left: u8,
    /// The next message is the oldest one that its sender has not resolved.
    is_oldest: bool,
}

impl Endpoint {
    /// Starts on a valid frame whose body begins at `at` in its datagram.
    #[inline]
    pub(super) fn open_frame(
        &mut self,
        now: Instant,
        index: u32,
        (flags, path): (Flags, PathId),
        data: &DataRepr,
        at: usize,
    ) -> Result<(), DropReason> {
        let Some(peer) = self.peers.by_index_mut(index) else {
            return Err(DropReason::UnknownConn);
        };
        if peer.recv.conn() != data.conn || data.conn == 0 {
            // Without a cookie the frame opens no connection, but its sender gets an answer.
            let addr = peer.addr;
            return self.admit(now, addr, path, data).map(|_| ());
        }
        let config = &self.shared.config;
        peer.recv.on_packet(now, data, u32::from(data.op), flags, path, config)?;
        let (peer, psn, qkey, left) = (peer.id, data.psn, data.qkey, data.op);
        let is_oldest = data.oldest == 0;
        self.frame = Some(OpenFrame { peer, psn, at, qkey, left, is_oldest });
        Ok(())
    }

    #[inline]
    pub(super) fn next_frame_message(&mut self, now: Instant, datagram: &[u8]) -> Option<Framed> {
        loop {
            let frame = self.frame.as_mut()?;
            self.arrival = None;
            let entry = datagram.get(frame.at..).and_then(FrameEntry::parse);
            let Some(entry) = entry.filter(|_| frame.left > 0) else {
                self.end_frame(now);
                return None;
            };
            let OpenFrame { peer: id, psn, qkey, is_oldest, .. } = *frame;
            let start = frame.at + FrameEntry::LEN;
            let payload = start..start + usize::from(entry.len);
            (frame.psn, frame.at, frame.is_oldest) = (psn.plus(1), payload.end, false);
            frame.left -= 1;
            let Some(peer) = self.peers.get_mut(id) else { continue };
            if !peer.recv.check_new(psn) {
                self.shared.stats.rx_duplicates += 1;
                continue;
            }
            let len = u32::from(entry.len);
            let bytes = len + self.shared.config.overhead_bytes;
            self.arrival = Some(Unanswered { peer: id, psn, bytes, final_try: false, is_oldest });
            if self.closing {
                self.answer(now, id, psn, Some(Reject::BadDestQpn));
                continue;
            }
            let FrameEntry { op, flags, imm, .. } = entry;
            let arrival = Arrival { peer: id, psn, op, flags, qkey, imm, len };
            return Some(Framed { arrival, payload });
        }
    }

    /// Schedules the acknowledgement of the messages taken from the frame.
    #[inline]
    pub(super) fn end_frame(&mut self, now: Instant) {
        if let Some(frame) = self.frame.take() {
            self.schedule_ack(now, frame.peer.index);
        }
    }
}
