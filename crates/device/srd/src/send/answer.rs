//! Handling of acknowledgements.

use super::ring::{InFrame, Slot, State};
use super::{SendHalf, cost};
use crate::congestion::AckSample;
use crate::context::Context;
use crate::wire::ack::TAKES_FRAMES;
use crate::wire::{AckView, DropRange};
use crate::{DropReason, MsgId, Psn, Status};

/// The effect of one acknowledgement block.
#[derive(Debug, Default)]
pub(super) struct Settled {
    bytes: u64,
    pub(super) packets: u32,
    /// The number of datagrams that carried them, as a sample of the network's losses.
    datagrams: u32,
    /// A packet that was declared lost had arrived.
    spurious: bool,
    /// The receiver was ready for a message that it had refused before.
    ready: bool,
    /// The latest transmission of one of them was in a frame.
    in_frame: bool,
}

/// The other results of an answer; the fields are those of [`AckSample`].
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerSignals {
    pub(super) delay_ns: Option<u64>,
    pub(super) app_limited: bool,
    pub(super) rcvd_bytes: Option<u64>,
    pub(super) hint: u16,
}

impl SendHalf {
    /// Handles an acknowledgement of the current connection (SRD-5.5).
    pub(crate) fn on_ack(
        &mut self,
        ack: &AckView<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), DropReason> {
        assert_eq!(ack.conn(), self.conn, "the caller matched the token");
        let ahead = ack.cum().ahead_of(self.ring.base());
        if ahead > self.ring.sent() as i32 {
            return Err(DropReason::Malformed);
        }
        cx.stats.rx_acks += 1;
        self.establish();
        self.takes_frames = ack.features() & TAKES_FRAMES != 0;
        self.recovery.note_answer(cx.now);
        let app_limited = self.is_app_limited();
        let mut settled = Settled { spurious: self.detect_spurious(ack, cx), ..Settled::default() };
        let delay_ns = self.measure(ack, cx);
        self.apply(ack, ahead, &mut settled, cx);
        self.has_carried_frame |= settled.in_frame;
        let (rcvd_bytes, hint) = (Some(ack.rcvd_bytes()), ack.hint());
        let signals = AnswerSignals { delay_ns, app_limited, rcvd_bytes, hint };
        self.update_window(&settled, signals, cx);
        Ok(())
    }

    /// Updates the window and the loss detection from what the network has carried.
    #[inline]
    pub(super) fn update_window(
        &mut self,
        settled: &Settled,
        signals: AnswerSignals,
        cx: &mut Context<'_>,
    ) {
        let AnswerSignals { delay_ns, app_limited, rcvd_bytes, hint } = signals;
        if settled.spurious {
            self.cc.on_spurious();
        }
        self.recovery.loss_share.note_acked(settled.datagrams);
        self.cc.on_ack(&AckSample {
            now: cx.now,
            acked_bytes: settled.bytes,
            delay_ns,
            base_ns: self.rtt.base_ns(),
            smoothed_ns: self.rtt.smoothed_ns(),
            rcvd_bytes,
            app_limited,
            hint,
        });
        self.detect_losses(cx);
        self.window_bytes = self.cc.window_bytes();
        self.pacer.reschedule(self.window_bytes, self.rtt.smoothed_ns(), cx.config);
    }

    /// Returns whether so little of the window is used that answers say nothing about its size.
    #[inline]
    pub(super) fn is_app_limited(&self) -> bool {
        self.inflight_bytes < self.window_bytes / 2
    }

    /// Returns whether the echo names a transmission that was declared lost (SRD-7.4). Counts those
    /// that were repeated.
    fn detect_spurious(&mut self, ack: &AckView<'_>, cx: &mut Context<'_>) -> bool {
        let Some(slot) = self.ring.sent_slot(ack.ref_psn()) else { return false };
        let is_repeated = slot.state == State::InFlight && slot.tx.as_ticks() != ack.echo_ts();
        cx.stats.spurious_retrans += u64::from(is_repeated);
        is_repeated || slot.state == State::Due
    }

    fn apply(
        &mut self,
        ack: &AckView<'_>,
        ahead: i32,
        settled: &mut Settled,
        cx: &mut Context<'_>,
    ) {
        if !ack.is_plain() {
            // Final refusals first, because the bits below cover them, too.
            for range in ack.ranges().filter(|range| !range.retry) {
                self.for_sent(&range, |this, psn| this.settle(psn, range.status, settled, cx));
            }
        }
        for _ in 0..ahead {
            let Some(slot) = self.ring.pop_sent() else { break };
            self.account(&slot, Status::Ok, settled, cx);
        }
        if !ack.is_plain() {
            self.apply_lists(ack, settled, cx);
        }
        if settled.ready && self.rnr.until.is_none() {
            self.rnr.pause_ns = 0;
        }
        self.start_rnr_pause(cx);
        self.ring.pop_done();
    }

    /// Applies the SACK words and the refusals that ask to try again.
    fn apply_lists(&mut self, ack: &AckView<'_>, settled: &mut Settled, cx: &mut Context<'_>) {
        for (first, mut word) in ack.words() {
            while word != 0 {
                let bit = word.trailing_zeros();
                word &= word - 1;
                self.settle(first.plus(bit), Status::Ok, settled, cx);
            }
        }
        for range in ack.ranges().filter(|range| range.retry) {
            self.for_sent(&range, |this, psn| this.hold_for_receiver(psn, cx));
        }
    }

    /// Calls `f` for each transmitted number of a range.
    pub(super) fn for_sent(&mut self, range: &DropRange, mut f: impl FnMut(&mut Self, Psn)) {
        let skip = self.ring.base().ahead_of(range.psn).max(0) as u32;
        let sent_end = self.ring.base().plus(self.ring.sent() as u32);
        for i in skip..u32::from(range.count) {
            let psn = range.psn.plus(i);
            if psn.ahead_of(sent_end) >= 0 {
                break;
            }
            f(self, psn);
        }
    }

    #[inline]
    pub(super) fn settle(
        &mut self,
        psn: Psn,
        status: Status,
        settled: &mut Settled,
        cx: &mut Context<'_>,
    ) {
        let Some(slot) = self.ring.sent_slot(psn) else { return };
        let copy = *slot;
        slot.state = State::Done;
        self.account(&copy, status, settled, cx);
    }

    /// Gives up a transmitted message whose bytes the host cannot supply again.
    pub(crate) fn withdraw(&mut self, id: MsgId, cx: &mut Context<'_>) {
        let base = self.ring.base();
        for i in 0..self.ring.sent() as u32 {
            let psn = base.plus(i);
            let is_it = |slot: &mut Slot| slot.msg.id == id && slot.state != State::Done;
            if self.ring.sent_slot(psn).is_some_and(is_it) {
                self.settle(psn, Status::Flushed, &mut Settled::default(), cx);
                break;
            }
        }
        self.ring.pop_done();
    }

    /// Completes a message unless it was complete.
    #[inline]
    fn account(
        &mut self,
        slot: &Slot,
        status: Status,
        settled: &mut Settled,
        cx: &mut Context<'_>,
    ) {
        let bytes = cost(slot.msg.len, cx.config);
        match slot.state {
            State::Done => return,
            State::InFlight => self.inflight_bytes -= bytes,
            State::RnrWait => {}
            State::Due => settled.spurious |= slot.transmissions == 1,
            State::Queued => unreachable!("only transmitted slots are settled"),
        }
        settled.bytes += bytes;
        settled.packets += 1;
        settled.datagrams += u32::from(slot.in_frame != InFrame::Behind);
        settled.in_frame |= slot.in_frame != InFrame::Alone;
        settled.ready |= status == Status::Ok && (!slot.msg.is_one_sided || slot.was_refused);
        cx.complete(slot.msg.id, status);
    }

    /// The receiver was not ready: the message waits, unless this was its last try.
    fn hold_for_receiver(&mut self, psn: Psn, cx: &mut Context<'_>) {
        let Some(slot) = self.ring.sent_slot(psn) else { return };
        if slot.state != State::InFlight || slot.msg.rnr_retry == 0 {
            return;
        }
        if slot.msg.rnr_retry < 7 {
            slot.msg.rnr_retry -= 1;
        }
        slot.state = State::RnrWait;
        slot.was_refused = true;
        self.inflight_bytes -= cost(slot.msg.len, cx.config);
        self.rnr.waiting.push(psn);
        cx.stats.rnr_received += 1;
    }

    fn start_rnr_pause(&mut self, cx: &mut Context<'_>) {
        if self.rnr.waiting.is_empty() || self.rnr.until.is_some() {
            return;
        }
        let pause_ns = (self.rnr.pause_ns * 2)
            .clamp(cx.config.rnr_pause_ns, cx.config.rnr_pause_max_ns.max(cx.config.rnr_pause_ns));
        self.rnr.pause_ns = pause_ns;
        let jitter_ns = cx.rng.below(pause_ns / 4 + 1);
        self.rnr.until = Some(cx.now.plus_ns(pause_ns + jitter_ns));
    }
}
