//! The receiving direction from one peer: duplicates, refusals and the schedule of
//! acknowledgements.

mod dedup;
mod echo;
mod refused;

use crate::wire::ack::{ECHOES_MAX, PlainAck, RANGES_MAX, SACK_WORDS_MAX};
use crate::wire::{AckRepr, DataRepr, DropRange, EchoRepr, Flags};
use crate::{Config, DropReason, Instant, PSN_WINDOW, PathId, Psn, Reject, Status};
use dedup::Dedup;
use echo::{Echo, Echoes};
pub(crate) use refused::ListGrowth;
use refused::RangeList;

/// The number of sequence numbers in one SACK bitmap.
const SACK_SPAN: u32 = SACK_WORDS_MAX as u32 * 64;
/// Ranges reserved for "try again" while final refusals fill the block.
const RETRY_RANGES_MIN: usize = 4;

/// When the next acknowledgement leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Schedule {
    /// There is nothing to acknowledge.
    Idle,
    /// Wait for data to piggyback on, a flush, or this instant.
    Held(Instant),
    /// As soon as possible.
    Due,
}

/// The fields that are the same in all acknowledgements of an endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckExtras {
    pub(crate) hint: u16,
    pub(crate) features: u8,
}

#[derive(Debug)]
pub(crate) struct RecvHalf {
    conn: u64,
    dedup: Dedup,
    /// Final refusals, which are repeated until the sender has seen them (SRD-6.3).
    refused: RangeList,
    /// "Try again" answers, which are sent once.
    retries: RangeList,
    rcvd_bytes: u64,
    schedule: Schedule,
    packets: u32,
    bytes: u32,
    /// The sender's clock at its latest transmission, and whether more was queued behind it.
    newest: (u32, bool),
    echoes: Echoes,
    /// The lowest consumed number that no bitmap has reported yet.
    unreported_from: Option<Psn>,
    /// One past the highest such number; valid while there is a lowest one.
    unreported_end: Psn,
}

impl RecvHalf {
    /// Creates a direction on which nothing has arrived.
    pub(crate) fn new() -> Self {
        Self {
            conn: 0,
            dedup: Dedup::new(Psn(0)),
            refused: RangeList::default(),
            retries: RangeList::default(),
            rcvd_bytes: 0,
            schedule: Schedule::Idle,
            packets: 0,
            bytes: 0,
            newest: (0, false),
            echoes: Echoes::default(),
            unreported_from: None,
            unreported_end: Psn(0),
        }
    }

    pub(crate) fn conn(&self) -> u64 {
        self.conn
    }

    /// Opens the connection that a data block asks for and replaces any other (SRD-3.2).
    pub(crate) fn open(&mut self, data: &DataRepr) {
        let oldest = data.psn.plus(u32::from(data.oldest).wrapping_neg());
        *self = Self { conn: data.conn, dedup: Dedup::new(oldest), ..Self::new() };
    }

    /// Records a data block of this connection. True when its message is new; it must then be
    /// accepted or rejected.
    #[inline]
    pub(crate) fn on_data(
        &mut self,
        now: Instant,
        data: &DataRepr,
        flags: Flags,
        path: PathId,
        config: &Config,
    ) -> Result<bool, DropReason> {
        self.on_packet(now, data, 1, flags, path, config)?;
        Ok(self.check_new(data.psn))
    }

    /// Records a datagram of this connection that carries `messages` messages.
    #[inline]
    pub(crate) fn on_packet(
        &mut self,
        now: Instant,
        data: &DataRepr,
        messages: u32,
        flags: Flags,
        path: PathId,
        config: &Config,
    ) -> Result<(), DropReason> {
        assert_eq!(data.conn, self.conn, "the caller matched the token");
        let oldest = data.psn.plus(u32::from(data.oldest).wrapping_neg());
        if oldest.ahead_of(self.dedup.cum()) > 0 {
            self.dedup.slide_to(oldest);
        }
        if !self.refused.is_empty() || !self.retries.is_empty() {
            self.refused.forget_below(oldest);
            self.retries.forget_below(oldest);
        }
        let last = data.psn.plus(messages - 1);
        if last.ahead_of(self.dedup.cum()) >= PSN_WINDOW as i32 {
            return Err(DropReason::OutOfWindow);
        }
        self.echoes.note(data.psn, Echo { path, tx_ts: data.tx_ts, at: now });
        self.packets += messages;
        if data.tx_ts.wrapping_sub(self.newest.0) as i32 >= 0 || !self.newest.1 {
            self.newest = (data.tx_ts, data.backlog > 0);
        }
        self.bytes = self.bytes.saturating_add(u32::from(data.len));
        let urgent = Flags::ACK_REQ.with(Flags::RTX).with(Flags::PROBE);
        if flags.has(urgent)
            || self.packets >= config.ack_every_packets
            || self.bytes >= config.ack_every_bytes
        {
            self.schedule = Schedule::Due;
        } else if self.schedule == Schedule::Idle {
            self.schedule = Schedule::Held(now.plus_ns(config.ack_hold_ns));
        }
        Ok(())
    }

    /// Returns whether the message with this number is new. A duplicate is acknowledged again at
    /// once.
    #[inline]
    pub(crate) fn check_new(&mut self, psn: Psn) -> bool {
        let is_new = !self.dedup.contains(psn);
        if !is_new {
            self.schedule = Schedule::Due;
            self.note_unreported(psn);
        }
        is_new
    }

    /// Records that the host took the message. Returns how far it is behind the highest number
    /// consumed before.
    #[inline]
    pub(crate) fn accept(&mut self, psn: Psn, bytes: u32) -> u32 {
        let behind = self.dedup.behind(psn);
        let ordered = self.dedup.is_gapless();
        self.dedup.insert(psn);
        self.rcvd_bytes += u64::from(bytes);
        if !self.dedup.is_gapless() {
            self.note_unreported(psn);
            if ordered {
                self.schedule = Schedule::Due;
            }
        }
        behind
    }

    /// Makes an acknowledgement due at `until` at the latest. One may have left while the host took
    /// the message.
    #[inline]
    pub(crate) fn hold_ack(&mut self, until: Instant) {
        if self.schedule == Schedule::Idle {
            self.schedule = Schedule::Held(until);
        }
    }

    /// Records that the host refused the message. False when there is no memory for that (SRD-6.8):
    /// then it is as if the message had not arrived.
    pub(crate) fn reject(
        &mut self,
        psn: Psn,
        why: Reject,
        final_try: bool,
        growth: ListGrowth,
    ) -> bool {
        let is_final = why != Reject::Rnr || final_try;
        let list = if is_final { &mut self.refused } else { &mut self.retries };
        if !list.add(psn, why.status(), !is_final, growth) {
            return false;
        }
        if is_final {
            self.dedup.insert(psn);
            self.note_unreported(psn);
        }
        self.schedule = Schedule::Due;
        true
    }

    /// Returns whether more packets are expected: some are queued at the sender, or missing below
    /// others.
    #[inline]
    pub(crate) fn expects_more(&self) -> bool {
        self.newest.1 || !self.dedup.is_gapless()
    }

    /// Includes this number in the next bitmap, unless it is below `cum`.
    fn note_unreported(&mut self, psn: Psn) {
        let (cum, end) = (self.dedup.cum(), psn.plus(1));
        if psn.ahead_of(cum) < 0 {
            return;
        }
        let Some(from) = self.unreported_from.filter(|_| self.unreported_end.ahead_of(cum) > 0)
        else {
            (self.unreported_from, self.unreported_end) = (Some(psn), end);
            return;
        };
        if psn.ahead_of(from) < 0 {
            self.unreported_from = Some(psn);
        }
        if end.ahead_of(self.unreported_end) > 0 {
            self.unreported_end = end;
        }
    }

    /// Returns whether an acknowledgement may be piggybacked on a data packet now.
    #[inline]
    pub(crate) fn ack_wanted(&self) -> bool {
        self.schedule != Schedule::Idle
    }

    /// Returns whether an acknowledgement must leave now.
    #[inline]
    pub(crate) fn ack_due(&self) -> bool {
        self.schedule == Schedule::Due
    }

    /// Returns when a held acknowledgement is due.
    #[inline]
    pub(crate) fn ack_deadline(&self) -> Option<Instant> {
        match self.schedule {
            Schedule::Held(at) => Some(at),
            Schedule::Idle | Schedule::Due => None,
        }
    }

    /// Makes a held acknowledgement due.
    pub(crate) fn release_ack(&mut self) {
        if self.ack_wanted() {
            self.schedule = Schedule::Due;
        }
    }

    /// Makes one more acknowledgement due if something arrived since `since`.
    pub(crate) fn repeat_ack(&mut self, since: Instant) -> bool {
        let lately = self.conn != 0 && self.last_rx() >= since;
        if lately {
            self.schedule = Schedule::Due;
        }
        lately
    }

    /// Writes the wanted acknowledgement to the start of `out`, which has room, and returns its
    /// length.
    #[inline]
    pub(crate) fn write_ack(&mut self, now: Instant, extras: AckExtras, out: &mut [u8]) -> usize {
        let is_plain = self.dedup.is_gapless()
            && self.refused.is_empty()
            && self.retries.is_empty()
            && self.echoes.has_last_only();
        if !is_plain {
            return self.take_ack(now, extras).emit(out);
        }
        assert!(self.ack_wanted(), "nothing to acknowledge");
        let len = self.plain_ack(now, extras).emit(out);
        self.echoes.mark_echoed();
        self.finish_ack(Schedule::Idle);
        len
    }

    /// Resets what only counts until the next acknowledgement.
    #[inline]
    fn finish_ack(&mut self, next: Schedule) {
        (self.packets, self.bytes, self.unreported_from) = (0, 0, None);
        self.schedule = next;
    }

    /// Builds the wanted acknowledgement, with its lists.
    fn take_ack(&mut self, now: Instant, extras: AckExtras) -> AckRepr {
        assert!(self.ack_wanted(), "nothing to acknowledge");
        let mut ack = self.blank_ack(now, extras);
        let retries = self.retries.len().min(RETRY_RANGES_MIN);
        let listed = self.refused.len().min(RANGES_MAX - retries);
        for range in self.refused.iter().take(listed) {
            push_range(&mut ack, range);
        }
        // A refusal that is not listed must not look like an acceptance (SRD-6.4).
        let limit = self.refused.iter().nth(listed).map(|range| range.psn);
        let unreported = if let Some(limit) = limit.filter(|limit| limit.ahead_of(ack.cum) < 0) {
            ack.cum = limit;
            None
        } else {
            self.fill_sack(&mut ack, limit)
        };
        let room = RANGES_MAX - listed;
        for range in self.retries.iter().take(room) {
            push_range(&mut ack, range);
        }
        self.retries.forget_first(room);
        self.echoes.take_earlier(&mut ack, now);
        let is_all = self.retries.is_empty() && unreported.is_none();
        self.finish_ack(if is_all { Schedule::Idle } else { Schedule::Due });
        self.unreported_from = unreported;
        ack
    }

    #[inline]
    fn plain_ack(&self, now: Instant, extras: AckExtras) -> PlainAck {
        let (ref_psn, echo, rx_ts) = self.echoes.last(now);
        let (&Self { conn, rcvd_bytes, .. }, AckExtras { hint, features }) = (self, extras);
        let cum = self.dedup.cum();
        PlainAck { conn, cum, ref_psn, echo, rx_ts, rcvd_bytes, hint, features }
    }

    fn blank_ack(&self, now: Instant, extras: AckExtras) -> AckRepr {
        let PlainAck { conn, cum, ref_psn, echo, rx_ts, rcvd_bytes, hint, features } =
            self.plain_ack(now, extras);
        AckRepr {
            conn,
            cum,
            ref_psn,
            ref_path: echo.path,
            echo_ts: echo.echo_ts,
            rx_ts,
            rx_delay: echo.rx_delay,
            rcvd_bytes,
            hint,
            features,
            sack_offset: 0,
            words: [0; SACK_WORDS_MAX],
            words_len: 0,
            ranges: [DropRange { psn: Psn(0), count: 0, status: Status::Ok, retry: false };
                RANGES_MAX],
            ranges_len: 0,
            echoes: [EchoRepr::default(); ECHOES_MAX],
            echoes_len: 0,
        }
    }

    /// Fills the bitmap (SRD-5.3): from `cum` when everything fits, otherwise around the unreported
    /// numbers (SRD-5.4). Returns where the next bitmap must begin if this one does not reach their
    /// end.
    fn fill_sack(&self, ack: &mut AckRepr, limit: Option<Psn>) -> Option<Psn> {
        let span = self.dedup.span();
        let mut from = 0;
        if span > SACK_SPAN {
            if let Some(first) = self.unreported_from {
                from = first.ahead_of(ack.cum).max(0) as u32;
            }
        }
        let end = limit.map_or(span, |limit| (limit.ahead_of(ack.cum) as u32).min(span));
        ack.sack_offset = from as u16;
        while from < end && ack.words_len < SACK_WORDS_MAX {
            let mut word = self.dedup.word(from);
            if end - from < 64 {
                word &= (1 << (end - from)) - 1;
            }
            ack.words[ack.words_len] = word;
            ack.words_len += 1;
            from += 64;
        }
        let next = ack.cum.plus(from);
        let is_incomplete =
            from < end && self.unreported_from.is_some() && self.unreported_end.ahead_of(next) > 0;
        is_incomplete.then_some(next)
    }

    /// Returns the path of the latest packet; acknowledgements return on it (SRD-5.6).
    pub(crate) fn echo_path(&self) -> PathId {
        self.echoes.path()
    }

    pub(crate) fn last_rx(&self) -> Instant {
        self.echoes.last_at()
    }

    /// Frees memory that an idle direction does not need.
    pub(crate) fn shrink(&mut self) {
        self.dedup.shrink();
        self.refused.shrink();
        self.retries.shrink();
    }

    /// Returns the number of refusals that memory is allocated for.
    pub(crate) fn ranges_capacity(&self) -> usize {
        self.refused.capacity() + self.retries.capacity()
    }

    /// Returns the heap bytes in use.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.dedup.heap_bytes() + self.refused.heap_bytes() + self.retries.heap_bytes()
    }
}

fn push_range(ack: &mut AckRepr, range: DropRange) {
    ack.ranges[ack.ranges_len] = range;
    ack.ranges_len += 1;
}
