//! The receiving direction from one peer: what arrived, what to acknowledge and when.

mod dedup;
mod echo;
mod refused;

use crate::wire::ack::{ECHOES_MAX, PlainAck, RANGES_MAX, SACK_WORDS_MAX};
use crate::wire::{AckRepr, DataRepr, DropRange, EchoRepr, Flags};
use crate::{Config, DropReason, Instant, PSN_WINDOW, PathId, Psn, Reject, Status};
use dedup::Dedup;
use echo::{Echo, Echoes};
use refused::RangeList;
pub(crate) use refused::Room;

/// Numbers one SACK bitmap spans.
const SACK_SPAN: u32 = SACK_WORDS_MAX as u32 * 64;
/// Ranges kept back for "try again" while final refusals fill the block.
const RETRY_RANGES_MIN: usize = 4;

/// When the next acknowledgement leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Schedule {
    /// There is nothing to say.
    Idle,
    /// Wait for data to ride on, a flush, or this instant.
    Held(Instant),
    /// As soon as possible.
    Due,
}

/// What an endpoint says in all its acknowledgements, whomever they are for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckExtras {
    pub(crate) hint: u16,
    pub(crate) features: u8,
}

#[derive(Debug)]
pub(crate) struct RecvHalf {
    conn: u64,
    dedup: Dedup,
    /// Final refusals, repeated until the sender has seen them (SRD-6.3).
    refused: RangeList,
    /// "Try again" answers, said once.
    retries: RangeList,
    rcvd_bytes: u64,
    schedule: Schedule,
    packets: u32,
    bytes: u32,
    /// The sender's clock at its latest transmission, and whether more was queued behind that.
    newest: (u32, bool),
    echoes: Echoes,
    /// Lowest number consumed since the last acknowledgement, or before and not told yet.
    news_from: Option<Psn>,
    /// One past the highest of them, while there are any.
    news_end: Psn,
}

impl RecvHalf {
    /// A direction nothing has arrived on.
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
            news_from: None,
            news_end: Psn(0),
        }
    }

    pub(crate) fn conn(&self) -> u64 {
        self.conn
    }

    /// Opens the connection that a data block asks for, in the place of any other (SRD-3.2).
    pub(crate) fn open(&mut self, data: &DataRepr) {
        let oldest = data.psn.plus(u32::from(data.oldest).wrapping_neg());
        *self = Self { conn: data.conn, dedup: Dedup::new(oldest), ..Self::new() };
    }

    /// Takes note of a data block of this connection. True when its message is new; it must be
    /// accepted or rejected then.
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
        Ok(self.is_new(data.psn))
    }

    /// Takes note of a datagram of this connection with so many messages.
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

    /// The message with this number has not been consumed. Else that is said once more, at once.
    #[inline]
    pub(crate) fn is_new(&mut self, psn: Psn) -> bool {
        let is_new = !self.dedup.contains(psn);
        if !is_new {
            self.schedule = Schedule::Due;
            self.note_news(psn);
        }
        is_new
    }

    /// The host took the message. How far it is behind the highest number consumed before.
    #[inline]
    pub(crate) fn accept(&mut self, psn: Psn, bytes: u32) -> u32 {
        let behind = self.dedup.behind(psn);
        let ordered = self.dedup.is_gapless();
        self.dedup.insert(psn);
        self.rcvd_bytes += u64::from(bytes);
        if !self.dedup.is_gapless() {
            self.note_news(psn);
            if ordered {
                self.schedule = Schedule::Due;
            }
        }
        behind
    }

    /// An acknowledgement is wanted by then at the latest. One may have left while the host took
    /// the message.
    #[inline]
    pub(crate) fn hold_ack(&mut self, until: Instant) {
        if self.schedule == Schedule::Idle {
            self.schedule = Schedule::Held(until);
        }
    }

    /// The host refused the message. False when that cannot be remembered (SRD-6.8): then it is as
    /// if the message had not arrived.
    pub(crate) fn reject(&mut self, psn: Psn, why: Reject, final_try: bool, room: Room) -> bool {
        let is_final = why != Reject::Rnr || final_try;
        let list = if is_final { &mut self.refused } else { &mut self.retries };
        if !list.add(psn, why.status(), !is_final, room) {
            return false;
        }
        if is_final {
            self.dedup.insert(psn);
            self.note_news(psn);
        }
        self.schedule = Schedule::Due;
        true
    }

    /// The sender owes packets: some are queued, or missing below others.
    #[inline]
    pub(crate) fn expects_more(&self) -> bool {
        self.newest.1 || !self.dedup.is_gapless()
    }

    /// The next bitmap is to tell of this number, unless `cum` does.
    fn note_news(&mut self, psn: Psn) {
        let (cum, end) = (self.dedup.cum(), psn.plus(1));
        if psn.ahead_of(cum) < 0 {
            return;
        }
        let Some(from) = self.news_from.filter(|_| self.news_end.ahead_of(cum) > 0) else {
            (self.news_from, self.news_end) = (Some(psn), end);
            return;
        };
        if psn.ahead_of(from) < 0 {
            self.news_from = Some(psn);
        }
        if end.ahead_of(self.news_end) > 0 {
            self.news_end = end;
        }
    }

    /// An acknowledgement may ride on a data packet now.
    #[inline]
    pub(crate) fn ack_wanted(&self) -> bool {
        self.schedule != Schedule::Idle
    }

    /// An acknowledgement must leave now.
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

    /// Makes one more acknowledgement due when something arrived since `since`.
    pub(crate) fn repeat_ack(&mut self, since: Instant) -> bool {
        let lately = self.conn != 0 && self.last_rx() >= since;
        if lately {
            self.schedule = Schedule::Due;
        }
        lately
    }

    /// Writes the acknowledgement that is wanted to the start of `out`, which has room; returns its
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
        self.echoes.settle();
        self.note_said(Schedule::Idle);
        len
    }

    /// All is said that was to be said until now.
    #[inline]
    fn note_said(&mut self, next: Schedule) {
        (self.packets, self.bytes, self.news_from) = (0, 0, None);
        self.schedule = next;
    }

    /// Builds the acknowledgement that is wanted, lists included.
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
        let untold = if let Some(limit) = limit.filter(|limit| limit.ahead_of(ack.cum) < 0) {
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
        let is_all = self.retries.is_empty() && untold.is_none();
        self.note_said(if is_all { Schedule::Idle } else { Schedule::Due });
        self.news_from = untold;
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

    /// Fills the bitmap (SRD-5.3): from `cum` when all fits, else around what is new (SRD-5.4).
    /// Returns where the next one must begin, if it does not reach the end of what is new.
    fn fill_sack(&self, ack: &mut AckRepr, limit: Option<Psn>) -> Option<Psn> {
        let span = self.dedup.span();
        let mut from = 0;
        if span > SACK_SPAN {
            if let Some(news) = self.news_from {
                from = news.ahead_of(ack.cum).max(0) as u32;
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
        let is_untold = from < end && self.news_from.is_some() && self.news_end.ahead_of(next) > 0;
        is_untold.then_some(next)
    }

    /// The path that brought the latest packet; acknowledgements return on it (SRD-5.6).
    pub(crate) fn echo_path(&self) -> PathId {
        self.echoes.path()
    }

    pub(crate) fn last_rx(&self) -> Instant {
        self.echoes.last_at()
    }

    /// Frees what an idle direction does not need.
    pub(crate) fn shrink(&mut self) {
        self.dedup.shrink();
        self.refused.shrink();
        self.retries.shrink();
    }

    /// Refusals that there is memory for.
    pub(crate) fn ranges_capacity(&self) -> usize {
        self.refused.capacity() + self.retries.capacity()
    }

    /// Heap bytes in use.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.dedup.heap_bytes() + self.refused.heap_bytes() + self.retries.heap_bytes()
    }
}

fn push_range(ack: &mut AckRepr, range: DropRange) {
    ack.ranges[ack.ranges_len] = range;
    ack.ranges_len += 1;
}
