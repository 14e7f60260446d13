//! The responder: requests of the peer, in order, and their answers.

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

/// At most this many responses leave in a row while this side has requests to send (RC-6.6).
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
    /// The connection ends with this code.
    Refusal(NakCode, Seq),
}

/// What the peer was told about the expected packet since the previous one arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NakState {
    Nothing,
    /// A NAK reported it missing, at this time; `is_first` for the first such NAK.
    Missing {
        at: Instant,
        is_first: bool,
    },
    /// A NAK reported that it has no receive.
    NotReady,
}

/// The step that follows when the host accepts an arrival.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A packet of a message; the message that is being received afterwards.
    Part(Option<Message>),
    /// A request that is answered by more than an acknowledgement.
    Answer(Answer),
    /// An atomic, whose result the host supplies.
    Atomic,
    /// The connection ends.
    Refuse,
}

/// An arrival that the host is handling.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    kind: Kind,
    /// The numbers that a packet of a message takes.
    numbers: u32,
    wants_ack: bool,
    /// Its message has a receive, now that the host has seen it.
    has_receive: bool,
    /// The shared receive queue that it names; only with XRC.
    srq: Option<u32>,
    step: Step,
}

/// The reason why the responder failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    pub(crate) code: Option<NakCode>,
    pub(crate) receive: Option<Status>,
}

/// The answer that closed the responder, to be repeated for a peer that did not get it.
#[derive(Clone, Copy, Debug)]
struct FinalAnswer {
    /// The code of the refusal; `None` for an acknowledgement.
    code: Option<NakCode>,
    /// The number of the packet that it is about.
    seq: Seq,
    /// The first number that is refused when it arrives again: for an answer whose memory is gone,
    /// the number of its first packet.
    first: Seq,
}

/// When the newest number is to be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AckDue {
    /// There is nothing new that matters to the peer.
    Never,
    /// A message was executed without a request for acknowledgement: acknowledge before this side's
    /// requests (RC-6.5).
    BeforeRequests,
    /// The peer requests it, or repeats what it has not seen acknowledged.
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
    /// The shared receive queue of the last packet taken; only with XRC.
    srq: Option<u32>,
    resources: Resources,
    ack: AckDue,
    nak: Option<Nak>,
    /// What the peer was told about the expected packet.
    nak_state: NakState,
    /// The smoothed time from the NAK about a gap until the gap was closed.
    gap_ns: Option<u64>,
    waiting: Option<Waiting>,
    /// Responses in a row, for which requests of this side wait.
    responses_in_a_row: u32,
    /// The response that was returned last, for a host that cannot supply it.
    handed_out: Option<Seq>,
    /// The responder is closed: it sends only what the peer must still be told.
    is_closed: bool,
    /// The answer that closed it.
    final_answer: Option<FinalAnswer>,
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
            final_answer: None,
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

    /// Forgets the last arrival, which was not answered: it counts as never received.
    pub(crate) fn forget_arrival(&mut self) {
        self.waiting = None;
    }

    /// Accepts nothing any more, and finishes what the peer must be told.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        self.waiting = None;
        self.message = None;
    }

    /// Neither accepts nor sends anything any more.
    pub(crate) fn silence(&mut self) {
        self.close();
        self.resources.clear();
        self.ack = AckDue::Never;
        (self.nak, self.final_answer, self.handed_out) = (None, None, None);
        self.failure = None;
    }

    /// Acknowledges what was executed and accepts nothing any more: a request of this side has
    /// failed, but none of the peer's.
    pub(crate) fn end_acknowledging(&mut self, shared: &Shared) {
        let executed = self.expected.before();
        let is_first = self.expected == Seq::first(self.attr.rq_psn);
        // A request that has its own answer must not be acknowledged without it.
        let is_answered = self.resources.has_waiting() || self.resources.find(executed).is_some();
        let was_due = self.ack != AckDue::Never;
        let was_closed = self.final_answer.is_some();
        self.silence();
        if is_first || is_answered || was_closed || !Self::is_reliable(shared) {
            return;
        }
        if was_due {
            self.ack = AckDue::Now;
        }
        self.final_answer = Some(FinalAnswer { code: None, seq: executed, first: executed });
    }

    /// Returns whether enough responses have left while requests of this side waited; resets the
    /// count if so.
    #[inline]
    pub(crate) fn check_yield(&mut self) -> bool {
        let is_over = self.responses_in_a_row >= RESPONSES_IN_A_ROW_MAX;
        if is_over {
            self.responses_in_a_row = 0;
        }
        is_over
    }

    /// Repeats the last answer when its packet arrives again, or an earlier one, if the host allows
    /// early retransmission (RC-6.3). Call for every request that arrives in error.
    #[cold]
    pub(crate) fn repeat_final_answer(&mut self, psn: Psn, shared: &Shared) {
        if shared.config.rto_floor_ns == 0 {
            return;
        }
        let Some(FinalAnswer { code, seq, first }) = self.final_answer else { return };
        // A requester without any answer repeats only its oldest packet, which may be one that was
        // executed.
        let requested = seq.near(psn);
        if requested > seq {
            return;
        }
        if let Some(code) = code {
            self.nak.get_or_insert_with(|| Nak::Refusal(code, requested.max(first)));
        } else {
            self.ack = AckDue::Now;
        }
    }

    /// Returns whether [`Responder::next_response`] has something to send.
    pub(crate) fn has_work(&self) -> bool {
        self.resources.has_waiting() || self.ack == AckDue::Now || self.nak.is_some()
    }

    /// Returns whether an answer leaves before a request of this side. If none does, the request
    /// ends a row of responses.
    #[inline]
    pub(crate) fn precedes_requests(&mut self) -> bool {
        let has_answer = self.ack != AckDue::Never || self.has_work();
        if !has_answer {
            self.responses_in_a_row = 0;
        }
        has_answer
    }

    /// Ends the connection: the peer is sent `code` for the packet `seq`, or an acknowledgement of
    /// it.
    fn refuse(&mut self, code: Option<NakCode>, seq: Seq, receive: Option<Status>) {
        if let Some(code) = code {
            self.nak = Some(Nak::Refusal(code, seq));
        }
        self.final_answer = Some(FinalAnswer { code, seq, first: seq });
        self.failure = Some(Failure { code, receive });
        self.close();
    }

    /// Returns whether the message that is being received has a receive.
    const fn has_receive(&self) -> bool {
        matches!(self.message, Some(Message::Send { .. }))
    }

    fn is_reliable(shared: &Shared) -> bool {
        shared.service.is_reliable()
    }
}
