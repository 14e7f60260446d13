//! The responder: requests of the peer, in order, and what they are answered with.

mod accept;
mod check;
mod duplicate;
mod gap;
mod order;
mod resources;
mod respond;
mod unreliable;

use crate::endpoint::Shared;
use crate::id::Seq;
use crate::wire::{Kind, NakCode};
use crate::{Access, Instant, Psn, Range, ReceiveAttr, Status};

use resources::{Answer, Resources};

/// So many responses leave in a row while this side has requests to send (RC-6.6).
const RESPONSES_IN_A_ROW_MAX: u32 = 16;

/// A message of several packets that is being received.
#[derive(Clone, Copy, Debug)]
enum Message {
    Send { offset: u32 },
    Write { range: Range, offset: u32 },
}

/// A negative acknowledgement that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nak {
    /// The expected packet is missing.
    Sequence,
    /// No receive for the expected packet.
    NotReady,
    /// The end.
    Refusal(NakCode, Seq),
}

/// The news that the peer has had of the expected packet since the one before it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NakState {
    Nothing,
    /// The peer was told that it is missing; when, and whether that was the first time.
    Missing {
        at: Instant,
        is_first: bool,
    },
    /// The peer was told that there is no receive for it.
    NotReady,
}

/// The step that an arrival leads to when the host accepts it.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A packet of a message: what is being received afterwards.
    Part(Option<Message>),
    /// A request that is answered by more than an acknowledgement.
    Answer(Answer),
    /// An atomic, whose answer the host gives.
    Atomic,
    /// Nothing but the end.
    Refuse,
}

/// An arrival in the host's hands.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    kind: Kind,
    /// Numbers that a packet of a message takes.
    numbers: u32,
    wants_ack: bool,
    /// Its message has a receive, now that the host has seen it.
    has_receive: bool,
    /// Shared receive queue that it names; of XRC only.
    srq: Option<u32>,
    step: Step,
}

/// The reason why the responder failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    pub(crate) code: Option<NakCode>,
    pub(crate) receive: Option<Status>,
}

/// The answer that has closed the responder, for a peer that asks again because it was lost.
#[derive(Clone, Copy, Debug)]
struct LastWord {
    /// The code of the refusal; `None` for an acknowledgement.
    code: Option<NakCode>,
    /// The number of the packet that it is about.
    seq: Seq,
    /// The first number that is refused when it comes again: of an answer whose memory is gone, the
    /// number of its first packet.
    first: Seq,
}

/// When the newest number is to be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AckDue {
    /// Nothing is new to the peer that matters to it.
    Never,
    /// A message was executed that asks for nothing: before this side requests something (RC-6.5).
    BeforeRequests,
    /// The peer asks for it, or repeats what it has not seen acknowledged.
    Now,
}

#[derive(Debug)]
pub(crate) struct Responder {
    attr: ReceiveAttr,
    /// The number of the next packet.
    expected: Seq,
    /// Messages completed, 24 bits.
    msn: u32,
    message: Option<Message>,
    /// Shared receive queue that the last packet taken has named; of XRC only.
    srq: Option<u32>,
    resources: Resources,
    ack: AckDue,
    nak: Option<Nak>,
    /// The news that the peer has had of the expected packet.
    nak_state: NakState,
    /// The time from telling the peer of a gap until it was closed, smoothed.
    gap_ns: Option<u64>,
    waiting: Option<Waiting>,
    /// Responses since the last one that had none before it: requests of this side wait meanwhile.
    responses_in_a_row: u32,
    /// The response that was handed out last, for a host that cannot supply it.
    handed_out: Option<Seq>,
    /// The responder is closed: it sends only what the peer must still be told.
    is_closed: bool,
    /// The answer that has closed it.
    last_word: Option<LastWord>,
    failure: Option<Failure>,
}

impl Responder {
    pub(crate) fn new(attr: ReceiveAttr) -> Self {
        Self {
            attr,
            expected: Seq::first(attr.rq_psn),
            msn: 0,
            message: None,
            srq: None,
            resources: Resources::new(attr.max_dest_rd_atomic),
            ack: AckDue::Never,
            nak: None,
            nak_state: NakState::Nothing,
            gap_ns: None,
            waiting: None,
            responses_in_a_row: 0,
            handed_out: None,
            is_closed: false,
            last_word: None,
            failure: None,
        }
    }

    pub(crate) fn set_access(&mut self, access: Access) {
        self.attr.access = access;
    }

    pub(crate) fn set_min_rnr_timer(&mut self, code: u8) {
        self.attr.min_rnr_timer = code;
    }

    pub(crate) fn set_max_dest_rd_atomic(&mut self, count: u8) {
        self.attr.max_dest_rd_atomic = count;
        self.resources.set_capacity(count);
    }

    /// Returns, once, why the responder has failed.
    pub(crate) fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// Forgets what came last, which was not answered: it counts as never received.
    pub(crate) fn forget_arrival(&mut self) {
        self.waiting = None;
    }

    /// Takes nothing any more, and finishes what the peer must be told.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        self.waiting = None;
        self.message = None;
    }

    /// Neither takes nor sends anything any more.
    pub(crate) fn silence(&mut self) {
        self.close();
        self.resources.clear();
        self.ack = AckDue::Never;
        (self.nak, self.last_word, self.handed_out) = (None, None, None);
        self.failure = None;
    }

    /// Says of what was executed only that it was, and takes nothing any more: a request of this
    /// side has failed, and the peer's have not.
    pub(crate) fn end_acknowledging(&mut self, shared: &Shared) {
        let executed = self.expected.before();
        let is_first = self.expected == Seq::first(self.attr.rq_psn);
        // What is answered by more than an acknowledgement is not acknowledged by less.
        let is_answered = self.resources.has_waiting() || self.resources.find(executed).is_some();
        let was_due = self.ack != AckDue::Never;
        let had_word = self.last_word.is_some();
        self.silence();
        if is_first || is_answered || had_word || !Self::is_reliable(shared) {
            return;
        }
        if was_due {
            self.ack = AckDue::Now;
        }
        self.last_word = Some(LastWord { code: None, seq: executed, first: executed });
    }

    /// Responses have left in front of requests of this side for long enough; asked once.
    #[inline]
    pub(crate) fn gives_way(&mut self) -> bool {
        let gives_way = self.responses_in_a_row >= RESPONSES_IN_A_ROW_MAX;
        if gives_way {
            self.responses_in_a_row = 0;
        }
        gives_way
    }

    /// Says the last word again when the packet that it was about comes again, or one before it, on
    /// a host that repeats what is overdue (RC-6.3). Call for every request that arrives in error.
    #[cold]
    pub(crate) fn repeat_last_word(&mut self, psn: Psn, shared: &Shared) {
        if shared.config.rto_floor_ns == 0 {
            return;
        }
        let Some(LastWord { code, seq, first }) = self.last_word else { return };
        // A requester that heard nothing repeats its oldest packet alone, which may be one that was
        // executed.
        let asked = seq.near(psn);
        if asked > seq {
            return;
        }
        if let Some(code) = code {
            self.nak.get_or_insert_with(|| Nak::Refusal(code, asked.max(first)));
        } else {
            self.ack = AckDue::Now;
        }
    }

    /// [`Responder::next_response`] has something to send.
    pub(crate) fn has_work(&self) -> bool {
        self.resources.has_waiting() || self.ack == AckDue::Now || self.nak.is_some()
    }

    /// The connection cannot go on: the peer is told `code` for the packet `seq`, or that it was
    /// executed.
    fn refuse(&mut self, code: Option<NakCode>, seq: Seq, receive: Option<Status>) {
        if let Some(code) = code {
            self.nak = Some(Nak::Refusal(code, seq));
        }
        self.last_word = Some(LastWord { code, seq, first: seq });
        self.failure = Some(Failure { code, receive });
        self.close();
    }

    /// Whether what is received at present has a receive.
    const fn has_receive(&self) -> bool {
        matches!(self.message, Some(Message::Send { .. }))
    }

    fn is_reliable(shared: &Shared) -> bool {
        shared.service.is_reliable()
    }
}
