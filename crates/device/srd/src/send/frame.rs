//! Several short messages that leave in one datagram (SRD-14).

use super::ring::{InFrame, State};
use super::{Outgoing, SendHalf, cost};
use crate::context::Context;
use crate::wire::frame::{FRAME_BYTES_MAX, FRAME_MESSAGES_MAX, FrameEntry};
use crate::wire::{DataRepr, Flags};
use crate::{Message, PSN_WINDOW};

/// The queued messages that may leave in one frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FrameBatch {
    pub(super) count: usize,
    /// Bytes of entries and payload.
    body_bytes: usize,
    /// Bytes that they take of the window.
    cost_bytes: u64,
}

impl SendHalf {
    /// Returns the queued messages that may leave in one frame. That needs an open connection whose
    /// peer takes frames, and each message must be leaving for the first time.
    #[inline]
    pub(super) fn frame_batch(&self, cx: &Context<'_>) -> FrameBatch {
        let mut batch = FrameBatch::default();
        if !self.takes_frames
            || !self.fits_frames
            || !cx.has_frames
            || self.probes > 0
            || self.rnr.until.is_some()
        {
            return batch;
        }
        let mut qkey = None;
        // No datagram is longer than one with the longest message.
        let max_bytes = FRAME_BYTES_MAX.min(cx.config.max_message_bytes as usize);
        let numbers = (PSN_WINDOW as usize - self.ring.sent()).min(FRAME_MESSAGES_MAX);
        for msg in self.ring.queued_messages().take(numbers) {
            let body_bytes = batch.body_bytes + FrameEntry::LEN + msg.len as usize;
            let cost_bytes = batch.cost_bytes + cost(msg.len, cx.config);
            if !msg.may_share
                || msg.rnr_retry == 0
                || *qkey.get_or_insert(msg.qkey) != msg.qkey
                || body_bytes > max_bytes
                || self.inflight_bytes + cost_bytes > self.window_bytes
            {
                break;
            }
            batch = FrameBatch { count: batch.count + 1, body_bytes, cost_bytes };
        }
        batch
    }

    /// Transmits messages in one frame: writes its data block to the start of `out`, and leaves the
    /// messages in the context.
    pub(super) fn transmit_frame(
        &mut self,
        batch: FrameBatch,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Outgoing {
        let FrameBatch { count, body_bytes, cost_bytes } = batch;
        let psn = self.ring.next_psn();
        let path = self.pick_path(None, cost_bytes as u32, cx);
        cx.frame.clear();
        let mut payload_bytes = 0;
        let mut place = InFrame::First;
        for slot in self.ring.launch_many(count) {
            (slot.tx, slot.path, slot.state, slot.transmissions) =
                (cx.now, path, State::InFlight, 1);
            slot.in_frame = std::mem::replace(&mut place, InFrame::Behind);
            payload_bytes += u64::from(slot.msg.len);
            cx.frame.push(slot.msg);
        }
        (0..count as u32).for_each(|i| self.recovery.log(psn.plus(i), cx.now));
        self.inflight_bytes += cost_bytes;
        self.queued_bytes -= payload_bytes;
        self.pacer.spend(cx.now, cost_bytes, self.window_bytes, self.rtt.smoothed_ns(), cx.config);
        self.last_activity = cx.now;
        cx.stats.tx_data += count as u64;
        cx.stats.tx_payload_bytes += payload_bytes;
        let flags = Flags::HAS_DATA.with_if(self.check_window_blocked(cx.config), Flags::ACK_REQ);
        let shared = Message {
            len: body_bytes as u32,
            op: count as u8,
            qkey: cx.frame[0].qkey,
            ..Message::default()
        };
        let block: DataRepr = self.block(psn, &shared, cx.now);
        let (msg, len) = (cx.frame[0].id, block.emit(out));
        Outgoing { flags, path, msg, len, payload_len: body_bytes as u32, framed: count }
    }
}
