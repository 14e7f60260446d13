//! The sending direction toward one peer: queue, window, and what to transmit next.

mod answer;
mod ending;
mod frame;
mod measure;
mod opening;
mod recovery;
pub(crate) mod ring;

use crate::congestion::{self, Controller};
use crate::context::Context;
use crate::pacer::Pacer;
use crate::path::PathTable;
use crate::rtt::Rtt;
use crate::wire::data::encode_log;
use crate::wire::{DataRepr, Flags};
use crate::{Config, Instant, Message, MsgId, PathId, Psn};
use recovery::Recovery;
use ring::{InFrame, Ring, State};
use std::collections::VecDeque;

/// The packet to transmit next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    /// The first message that was never transmitted.
    New,
    /// This one is transmitted again.
    Again(Psn),
}

/// A data packet that is being transmitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) flags: Flags,
    pub(crate) path: PathId,
    pub(crate) msg: MsgId,
    /// Length of its data block in bytes.
    pub(crate) len: usize,
    pub(crate) payload_len: u32,
    /// The number of messages in a frame, which are in the context; otherwise 0.
    pub(crate) framed: usize,
}

/// The path that the current burst stays on.
#[derive(Debug, Default)]
struct Burst {
    path: PathId,
    packets_left: u32,
    bytes_left: u32,
}

#[derive(Debug)]
pub(crate) struct SendHalf {
    /// Token of the connection, 0 while there is none.
    conn: u64,
    /// Until the peer has answered, proof that the address is ours (SRD-3.4); then the token.
    cookie: u64,
    /// The number of challenges on this connection.
    challenges: u8,
    /// The peer has answered on this connection.
    established: bool,
    /// The peer has ever answered.
    answered_ever: bool,
    /// The peer announced on this connection that it takes frames.
    takes_frames: bool,
    /// Whether the network carries frames, as far as is known.
    fits_frames: bool,
    /// Whether the network has carried a frame of this connection.
    has_carried_frame: bool,
    ring: Ring,
    /// Numbers to transmit again; entries whose slot is no longer `Due` are skipped.
    due: VecDeque<Psn>,
    queued_bytes: u64,
    /// Wire bytes that the network may still hold.
    inflight_bytes: u64,
    window_bytes: u64,
    /// Packets that may leave regardless of the window.
    probes: u8,
    cc: Box<dyn Controller>,
    rtt: Rtt,
    paths: PathTable,
    pacer: Pacer,
    recovery: Recovery,
    rnr: RnrPause,
    burst: Burst,
    last_activity: Instant,
}

/// The pause after "receiver not ready" (SRD-6.2).
#[derive(Debug, Default)]
struct RnrPause {
    waiting: Vec<Psn>,
    until: Option<Instant>,
    pause_ns: u64,
}

impl SendHalf {
    pub(crate) fn new(config: &Config, first: Psn) -> Self {
        let cc = congestion::controller(config);
        Self {
            conn: 0,
            cookie: 0,
            challenges: 0,
            established: false,
            answered_ever: false,
            takes_frames: false,
            fits_frames: true,
            has_carried_frame: false,
            ring: Ring::new(first),
            due: VecDeque::new(),
            queued_bytes: 0,
            inflight_bytes: 0,
            window_bytes: cc.window_bytes(),
            probes: 0,
            cc,
            rtt: Rtt::new(config.rtt_guess_ns),
            paths: PathTable::default(),
            pacer: Pacer::default(),
            recovery: Recovery::default(),
            rnr: RnrPause::default(),
            burst: Burst::default(),
            last_activity: Instant::ZERO,
        }
    }

    pub(crate) fn conn(&self) -> u64 {
        self.conn
    }

    pub(crate) fn paths(&self) -> &PathTable {
        &self.paths
    }

    pub(crate) fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    /// Returns whether the receiver was not ready and a timer will end the pause. Messages that
    /// need no receive go on meanwhile.
    pub(crate) fn is_paused(&self) -> bool {
        self.rnr.until.is_some()
    }

    /// Returns whether something may be waiting for an answer.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.inflight_bytes > 0 || self.is_paused()
    }

    /// Stops using frames on this connection.
    pub(crate) fn refuse_frames(&mut self) {
        self.fits_frames = false;
    }

    /// Returns the number of messages that are not resolved: those that have not ended, and those
    /// that wait for older ones.
    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }

    #[inline(always)]
    pub(crate) fn enqueue(&mut self, msg: Message) {
        self.queued_bytes += u64::from(msg.len);
        self.ring.push(msg);
    }

    /// Returns whether there may be something to transmit.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.due.is_empty() || self.ring.queued() > 0
    }

    /// Returns the next packet that window, pacer and receiver permit. Ends the burst when there is
    /// none.
    #[inline]
    pub(crate) fn choose(&mut self, cx: &Context<'_>) -> Option<Next> {
        let next = self.next_sendable(cx);
        if next.is_none() {
            self.burst.packets_left = 0;
        }
        next
    }

    /// Like [`SendHalf::choose`], and drops entries of `due` that are out of date.
    #[inline]
    fn next_sendable(&mut self, cx: &Context<'_>) -> Option<Next> {
        while let Some(&psn) = self.due.front() {
            let slot = self.ring.sent_slot(psn).filter(|slot| slot.state == State::Due);
            if let Some(slot) = slot {
                let bytes = cost(slot.msg.len, cx.config);
                if self.is_dead(cx) {
                    // The receiver may have forgotten that it accepted this message (SRD-3.6).
                    return None;
                }
                return (self.probes > 0 || self.may_send(bytes, cx.now))
                    .then_some(Next::Again(psn));
            }
            self.due.pop_front();
        }
        self.probes = 0;
        if self.rnr.until.is_some() {
            self.ring.set_aside();
        }
        let bytes = cost(self.ring.first_queued()?.msg.len, cx.config);
        if !self.established && self.is_dead(cx) {
            // After a standstill the receiver may have forgotten the connection. It would open it
            // again and deliver a second time what it had accepted (SRD-3.6).
            return None;
        }
        self.may_send(bytes, cx.now).then_some(Next::New)
    }

    #[inline]
    fn may_send(&self, bytes: u64, now: Instant) -> bool {
        self.fits_window(bytes) && self.pacer.is_ready(now)
    }

    #[inline]
    fn fits_window(&self, bytes: u64) -> bool {
        self.inflight_bytes == 0 || self.inflight_bytes + bytes <= self.window_bytes
    }

    /// Transmits what [`SendHalf::choose`] chose: writes its data block to the start of `out`.
    #[inline]
    pub(crate) fn transmit(
        &mut self,
        next: Next,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Outgoing {
        if self.ring.sent() == 0 {
            self.forget_idle(cx.now, cx.config);
            self.recovery.start_owing(cx.now);
        }
        if self.conn == 0 {
            self.open(cx);
        }
        let (psn, again) = match next {
            Next::Again(psn) => (psn, true),
            Next::New => {
                let batch = self.frame_batch(cx);
                if batch.count > 1 {
                    return self.transmit_frame(batch, out, cx);
                }
                (self.ring.next_psn(), false)
            }
        };
        if again {
            self.due.pop_front();
        } else {
            self.ring.launch();
        }
        #[expect(clippy::expect_used, reason = "choose() found the slot just before")]
        let slot = self.ring.sent_slot(psn).expect("the chosen slot exists");
        assert!(matches!(slot.state, State::Due | State::Queued), "only these are transmitted");
        slot.tx = cx.now;
        slot.state = State::InFlight;
        slot.transmissions = slot.transmissions.saturating_add(1);
        slot.in_frame = InFrame::Alone;
        let msg = slot.msg;
        let lost_on = again.then_some(slot.path);
        let bytes = cost(msg.len, cx.config);
        let is_probe = self.take_probe();
        let path = self.pick_path(lost_on, bytes as u32, cx);
        self.ring.set_path(psn, path);
        self.inflight_bytes += bytes;
        self.recovery.log(psn, cx.now);
        self.pacer.spend(cx.now, bytes, self.window_bytes, self.rtt.smoothed_ns(), cx.config);
        self.last_activity = cx.now;
        self.count(again, msg.len, cx);
        let flags = Flags::HAS_DATA
            .with_if(again, Flags::RTX)
            .with_if(!self.established, Flags::INIT)
            .with_if(msg.rnr_retry == 0, Flags::FINAL_TRY)
            .with_if(is_probe, Flags::PROBE)
            .with_if(self.check_window_blocked(cx.config), Flags::ACK_REQ);
        let len = self.block(psn, &msg, cx.now).emit(out);
        Outgoing { flags, path, msg: msg.id, len, payload_len: msg.len, framed: 0 }
    }

    #[inline]
    fn block(&self, psn: Psn, msg: &Message, now: Instant) -> DataRepr {
        DataRepr {
            conn: self.conn,
            psn,
            tx_ts: now.as_ticks(),
            oldest: psn.ahead_of(self.ring.base()) as u16,
            backlog: encode_log(self.queued_bytes),
            op: msg.op,
            flags: msg.flags,
            len: msg.len as u16,
            qkey: msg.qkey,
            imm: msg.imm,
            cookie: (!self.established).then_some(self.cookie),
        }
    }

    fn count(&mut self, again: bool, len: u32, cx: &mut Context<'_>) {
        cx.stats.tx_data += 1;
        cx.stats.tx_payload_bytes += u64::from(len);
        if again {
            cx.stats.retrans_pkts += 1;
            cx.stats.retrans_bytes += u64::from(len);
        } else {
            self.queued_bytes -= u64::from(len);
        }
    }

    /// Returns whether more is queued that only an answer will release (SRD-5.2). During an RNR
    /// pause, first sets aside the messages that need a receive.
    fn check_window_blocked(&mut self, config: &Config) -> bool {
        if self.rnr.until.is_some() {
            self.ring.set_aside();
        }
        if !self.has_work() {
            return false;
        }
        match self.ring.first_queued() {
            Some(slot) => !self.fits_window(cost(slot.msg.len, config)),
            None => self.ring.queued() > 0,
        }
    }

    /// Takes one of the probes, if any is left; it leaves on a path of its own.
    #[inline]
    fn take_probe(&mut self) -> bool {
        if self.probes == 0 {
            return false;
        }
        self.probes -= 1;
        self.burst.packets_left = 0;
        true
    }

    /// The burst's path, or the next one when the burst is over or the path lost this packet.
    #[inline]
    fn pick_path(&mut self, avoid: Option<PathId>, bytes: u32, cx: &mut Context<'_>) -> PathId {
        let stay = self.burst.packets_left > 0 && self.burst.bytes_left >= bytes;
        if !stay || avoid == Some(self.burst.path) {
            let choice = self.paths.select(cx.now, avoid, cx.config, cx.rng);
            self.burst.path = choice.path;
            self.burst.packets_left =
                if choice.probing { 1 } else { cx.config.burst_packets_per_path.max(1) };
            self.burst.bytes_left = cx.config.burst_bytes_per_path;
        }
        self.burst.packets_left -= 1;
        self.burst.bytes_left = self.burst.bytes_left.saturating_sub(bytes);
        self.paths.sent_on(self.burst.path);
        self.burst.path
    }

    /// Returns a lower bound of [`SendHalf::deadline`].
    #[inline]
    pub(crate) fn earliest_deadline(&self, config: &Config) -> Instant {
        let at = self.rnr.until.unwrap_or(Instant::FAR).min(self.recovery.earliest_deadline(
            &self.rtt,
            self.established,
            config,
        ));
        if self.has_work() {
            at.min(self.pacer.next_send(Instant::ZERO).unwrap_or(Instant::FAR))
        } else {
            at
        }
    }

    /// Returns when this direction needs attention next; [`Instant::FAR`] for never.
    #[inline]
    pub(crate) fn deadline(&mut self, now: Instant, config: &Config) -> Instant {
        let mut at = self.rnr.until.unwrap_or(Instant::FAR);
        if self.ring.sent() > 0 {
            let loss = self.loss_deadline(config).unwrap_or(Instant::FAR);
            at = at.min(loss).min(self.recovery.dead_at(self.established, config));
        }
        if self.has_work() {
            at = at.min(self.pacer.next_send(now).unwrap_or(Instant::FAR));
        }
        at
    }

    pub(crate) fn on_timeout(&mut self, cx: &mut Context<'_>) {
        self.discount_sleep(cx);
        if self.rnr.until.is_some_and(|until| until <= cx.now) {
            self.resume_after_rnr();
        }
        if self.is_dead(cx) {
            self.give_up(cx);
            return;
        }
        self.on_loss_timer(cx);
    }

    /// Returns whether the peer has owed an answer for too long.
    fn is_dead(&self, cx: &Context<'_>) -> bool {
        self.ring.sent() > 0 && cx.now >= self.recovery.dead_at(self.established, cx.config)
    }

    fn resume_after_rnr(&mut self) {
        self.rnr.until = None;
        self.ring.restore_aside();
        let mut waiting = core::mem::take(&mut self.rnr.waiting);
        for psn in waiting.drain(..) {
            let Some(slot) = self.ring.sent_slot(psn) else { continue };
            if slot.state == State::RnrWait {
                slot.state = State::Due;
                self.due.push_back(psn);
            }
        }
        self.rnr.waiting = waiting;
    }

    /// Returns the time since anything was sent or answered.
    #[inline]
    fn idle_ns(&self, now: Instant) -> u64 {
        now.ns_since(self.last_activity.max(self.recovery.last_answer))
    }

    /// Forgets the connection and the paths if nothing was sent for long (SRD-3.6). Nothing is in
    /// flight.
    #[inline]
    fn forget_idle(&mut self, now: Instant, config: &Config) {
        if self.conn != 0 && self.idle_ns(now) >= config.sender_idle_ns {
            self.disconnect();
            self.paths = PathTable::default();
        }
    }

    /// Forgets what has been idle for long. True when nothing is left that is worth keeping.
    pub(crate) fn expire(&mut self, now: Instant, config: &Config) -> bool {
        if !self.ring.is_empty() {
            return false;
        }
        let idle_ns = self.idle_ns(now);
        self.forget_idle(now, config);
        if self.conn == 0 || idle_ns >= 1_000_000_000 {
            self.ring.shrink();
            self.due.shrink_to_fit();
            self.rnr.waiting.shrink_to_fit();
            self.recovery.shrink();
            self.paths.shrink();
        }
        self.conn == 0
    }

    /// Returns the heap bytes in use.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.ring.heap_bytes()
            + (self.due.capacity() + self.rnr.waiting.capacity()) * size_of::<Psn>()
            + self.recovery.heap_bytes()
            + self.paths.heap_bytes()
            + size_of_val(&*self.cc)
    }
}

/// Returns the wire bytes of a packet with `len` bytes of payload.
#[inline]
fn cost(len: u32, config: &Config) -> u64 {
    u64::from(len) + u64::from(config.overhead_bytes)
}
