//! Loss detection by time, and the retransmission timer (SRD-7).

use super::ring::{InFrame, State};
use super::{SendHalf, cost};
use crate::congestion::LossSample;
use crate::context::Context;
use crate::loss::LossShare;
use crate::rtt::Rtt;
use crate::{Config, Event, Instant, Psn};
use std::collections::VecDeque;

/// The retransmission timeout is doubled at most this often before the peer's first answer.
const BACKOFF_MAX: u32 = 3;
/// The same limit after the first answer, when the timeout is no longer a guess.
const BACKOFF_ANSWERED_MAX: u32 = 1;

/// The largest number of probes after a silence.
const PROBES_MAX: u16 = 3;

#[derive(Debug, Default)]
pub(super) struct Recovery {
    /// Transmissions in the order of time; those that were answered or repeated since are skipped.
    log: VecDeque<(Psn, Instant)>,
    /// The latest transmission known to have arrived: the tick in which it left, and its number if
    /// the answer named it.
    answered: (Instant, Option<Psn>),
    pub(super) last_answer: Instant,
    /// The time since which the peer has owed an answer.
    pub(super) owed_since: Instant,
    /// The same time, moved on by the time in which this host slept.
    pub(super) silent_since: Instant,
    last_probe: Instant,
    /// The number of silences in a row, at most [`BACKOFF_MAX`].
    silences: u32,
    /// The host has been notified that the peer is hard to reach.
    pub(super) impaired: bool,
    pub(super) last_echo: Option<(Psn, u32)>,
    pub(super) loss_share: LossShare,
}

impl Recovery {
    #[inline]
    pub(super) fn log(&mut self, psn: Psn, now: Instant) {
        self.log.push_back((psn, now));
    }

    /// Returns a time before which neither a loss nor the death of the peer is detected.
    #[inline]
    pub(super) fn earliest_deadline(
        &self,
        rtt: &Rtt,
        established: bool,
        config: &Config,
    ) -> Instant {
        let dead = self.dead_at(established, config);
        match self.log.front() {
            Some((_, tx)) => dead.min(tx.plus_ns(rtt.rto_ns(config))),
            None => dead,
        }
    }

    /// Starts the time in which the peer owes an answer.
    #[inline]
    pub(super) fn start_owing(&mut self, now: Instant) {
        (self.owed_since, self.silent_since) = (now, now);
    }

    /// Returns when the peer has owed an answer for too long (SRD-7.5). A connection that the peer
    /// may have opened and forgotten since is not opened again, even if this host slept (SRD-3.6).
    #[inline]
    pub(super) fn dead_at(&self, established: bool, config: &Config) -> Instant {
        let at = self.silent_since.plus_ns(config.dead_after_ns);
        if established { at } else { at.min(self.owed_since.plus_ns(config.sender_idle_ns)) }
    }

    pub(super) fn note_answer(&mut self, now: Instant) {
        self.last_answer = now;
        self.start_owing(now);
        self.silences = 0;
    }

    /// Records that the transmission at `tx` has arrived.
    #[inline]
    pub(super) fn note_arrival(&mut self, tx: Instant, psn: Option<Psn>) {
        let (tick, (latest, latest_psn)) = (tx.start_of_tick(), self.answered);
        if tick < latest {
            return;
        }
        let is_behind = || psn.is_some_and(|psn| latest_psn.is_none_or(|at| psn.ahead_of(at) > 0));
        if tick > latest || is_behind() {
            self.answered = (tick, psn);
        }
    }

    /// Returns whether a later transmission was answered. What a host sends in one turn leaves at
    /// one instant, in the order of the numbers.
    #[inline]
    fn is_overtaken(&self, psn: Psn, tx: Instant) -> bool {
        let (tick, (latest, latest_psn)) = (tx.start_of_tick(), self.answered);
        tick < latest || tick == latest && latest_psn.is_some_and(|at| psn.ahead_of(at) < 0)
    }

    /// Returns whether a transmission at `tx` or later was answered.
    fn is_answered_since(&self, tx: Instant) -> bool {
        tx.start_of_tick() <= self.answered.0
    }

    pub(super) fn clear(&mut self) {
        self.log.clear();
        self.silences = 0;
        self.impaired = false;
    }

    pub(super) fn shrink(&mut self) {
        self.log.shrink_to_fit();
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.log.capacity() * size_of::<(Psn, Instant)>()
    }
}

/// A host whose timer fires later than this was asleep.
const ASLEEP_NS: u64 = 250_000_000;

/// The losses that were detected together.
#[derive(Debug, Default)]
struct Lost {
    packets: u32,
    bytes: u64,
    /// Nothing was answered at all.
    by_silence: bool,
    /// Nothing was answered that left at the instant of the oldest one or later.
    is_silent: bool,
}

impl SendHalf {
    /// Returns the oldest transmission without an answer, and drops settled ones from the log.
    #[inline]
    fn oldest_open(&mut self) -> Option<(Psn, Instant)> {
        while let Some(&(psn, tx)) = self.recovery.log.front() {
            let slot = self.ring.sent_slot(psn);
            if slot.is_some_and(|slot| slot.state == State::InFlight && slot.tx == tx) {
                return Some((psn, tx));
            }
            self.recovery.log.pop_front();
        }
        None
    }

    /// Returns how long it takes without any answer until that counts as silence.
    fn silence_ns(&self, config: &Config) -> u64 {
        let max = if self.established { BACKOFF_ANSWERED_MAX } else { BACKOFF_MAX };
        self.rtt.rto_ns(config) << self.recovery.silences.min(max)
    }

    /// Returns when the oldest transmission counts as lost unless it is answered before.
    pub(super) fn loss_deadline(&mut self, config: &Config) -> Option<Instant> {
        let (psn, tx) = self.oldest_open()?;
        if self.recovery.is_overtaken(psn, tx) {
            return Some(tx.plus_ns(self.rtt.rto_ns(config)));
        }
        let since = if config.probe_on_silence {
            tx.max(self.recovery.last_answer).max(self.recovery.last_probe)
        } else {
            tx
        };
        Some(since.plus_ns(self.silence_ns(config)))
    }

    /// Returns about when the host should have transmitted, if everything that has not ended is to
    /// be repeated.
    fn stalled_since(&self) -> Option<Instant> {
        let since = self.last_activity.max(self.recovery.last_answer).max(self.recovery.last_probe);
        (self.ring.sent() > 0).then_some(since)
    }

    /// Does not count the time in which this host slept as silence of the peer (SRD-7.5): a host
    /// that missed its timer, or was late to send what was due, neither sent nor read anything
    /// meanwhile.
    pub(super) fn discount_sleep(&mut self, cx: &Context<'_>) {
        let timers = [self.rnr.until, self.loss_deadline(cx.config)];
        let due = timers.into_iter().flatten().min().or_else(|| self.stalled_since());
        let Some(due) = due.filter(|&at| at <= cx.now) else { return };
        let slept_ns = cx.now.ns_since(due).saturating_sub(ASLEEP_NS);
        let since = self.recovery.silent_since.plus_ns(slept_ns);
        self.recovery.silent_since = since.min(cx.now);
    }

    /// Declares lost what is old enough although later transmissions were answered (SRD-7.2).
    pub(super) fn detect_losses(&mut self, cx: &mut Context<'_>) {
        let mut lost = Lost::default();
        while let Some((psn, tx)) = self.oldest_open() {
            let is_old = cx.now.ns_since(tx) >= self.rtt.rto_ns(cx.config);
            if !is_old || !self.recovery.is_overtaken(psn, tx) {
                break;
            }
            self.mark_lost(psn, &mut lost, cx);
        }
        if lost.packets > 0 || self.recovery.impaired {
            self.apply_losses(&lost, cx);
            self.check_health(cx);
        }
    }

    /// Handles the timer of the oldest transmission (SRD-7.3).
    pub(super) fn on_loss_timer(&mut self, cx: &mut Context<'_>) {
        self.detect_losses(cx);
        let Some(deadline) = self.loss_deadline(cx.config).filter(|&at| at <= cx.now) else {
            return;
        };
        assert!(deadline <= cx.now, "the timer has expired");
        cx.stats.retrans_timeout_events += 1;
        let oldest = self.oldest_open();
        let is_silent = oldest.is_none_or(|(_, tx)| !self.recovery.is_answered_since(tx));
        let mut lost = Lost { by_silence: true, is_silent, ..Lost::default() };
        let horizon_ns = self.silence_ns(cx.config);
        let probes_max = self.probes_max(cx.config);
        while let Some((psn, tx)) = self.oldest_open() {
            let is_enough = if cx.config.probe_on_silence {
                lost.packets >= u32::from(probes_max)
            } else {
                cx.now.ns_since(tx) < horizon_ns
            };
            if is_enough {
                break;
            }
            self.mark_lost(psn, &mut lost, cx);
        }
        self.probes = probes_max;
        if cx.config.probe_on_silence {
            self.paths.begin_round(cx.rng);
        }
        self.recovery.last_probe = cx.now;
        self.recovery.silences = (self.recovery.silences + 1).min(BACKOFF_MAX);
        self.apply_losses(&lost, cx);
        self.check_health(cx);
    }

    /// Returns the number of probes after a silence: one for each path but the silent one, because
    /// several may have died at once. If no probe was answered, or nothing ever, it is rather the
    /// peer that is gone, and one is enough.
    fn probes_max(&self, config: &Config) -> u8 {
        let is_first = self.established && self.recovery.silences == 0;
        let is_to_spread = config.probe_on_silence && is_first;
        let others = if is_to_spread { config.paths.saturating_sub(1) } else { 1 };
        others.clamp(1, PROBES_MAX) as u8
    }

    /// Notifies the host once when a peer becomes hard to reach (SRD-7.6).
    pub(super) fn check_health(&mut self, cx: &mut Context<'_>) {
        let impaired = self.recovery.silences == BACKOFF_MAX || self.paths.is_impaired();
        if impaired && !self.recovery.impaired {
            cx.stats.impaired_remote_conn_events += 1;
            cx.events.push_back(Event::PeerImpaired { peer: cx.peer });
        }
        self.recovery.impaired = impaired;
    }

    /// Marks one transmission as lost and its packet as due.
    fn mark_lost(&mut self, psn: Psn, lost: &mut Lost, cx: &mut Context<'_>) {
        self.recovery.log.pop_front();
        let Some(slot) = self.ring.sent_slot(psn) else { return };
        assert_eq!(slot.state, State::InFlight, "only what is in flight gets lost");
        slot.state = State::Due;
        let (path, bytes, in_frame) = (slot.path, cost(slot.msg.len, cx.config), slot.in_frame);
        self.inflight_bytes -= bytes;
        self.due.push_back(psn);
        if in_frame != InFrame::Behind {
            self.recovery.loss_share.note_lost();
            let congested = self.recovery.loss_share.is_connection_wide();
            self.paths.lost_on(cx.now, path, congested, cx.config);
        }
        if in_frame != InFrame::Alone && !self.has_carried_frame {
            // The frame may exceed the MTU of the path, and no router reports it.
            self.fits_frames = false;
        }
        lost.packets += 1;
        lost.bytes += bytes;
        if cx.config.report_losses {
            let by_silence = lost.by_silence;
            cx.events.push_back(Event::Lost { peer: cx.peer, psn, path, by_silence });
        }
    }

    fn apply_losses(&mut self, lost: &Lost, cx: &Context<'_>) {
        if lost.packets == 0 {
            return;
        }
        let silent_ns = cx.now.ns_since(self.recovery.last_answer);
        self.cc.on_loss(&LossSample {
            now: cx.now,
            lost_bytes: lost.bytes,
            connection_wide: self.recovery.loss_share.is_connection_wide(),
            silent: lost.is_silent && silent_ns >= self.rtt.rto_ns(cx.config),
            min_gap_ns: self.rtt.max_ns() + self.rtt.base_ns(),
        });
        self.window_bytes = self.cc.window_bytes();
    }
}
