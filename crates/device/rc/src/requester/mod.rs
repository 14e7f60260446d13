//! The requester: work requests, their packets and the answers.
//!
//! Everything in flight lies between `una`, the oldest number that is not acknowledged, and `sent`,
//! the first that was never sent. `next` is the number to send next; to go back means to set it to
//! `una`.

mod acknowledge;
mod early;
mod local;
mod plain;
mod queue;
mod response;
mod retry;
mod transmit;
mod window;

use std::collections::VecDeque;

use crate::endpoint::Shared;
use crate::id::Seq;
use crate::{Event, Instant, Operation, PostError, SendAttr, SendRequest, Status, WrId};

use queue::Entry;
use retry::Retry;
use window::Window;

/// A pause that the host requested (RC-3.14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pause {
    #[default]
    None,
    /// It begins after the next new packet.
    Next,
    /// Nothing new leaves until all that was sent is acknowledged.
    Begun,
}

#[derive(Debug)]
pub(crate) struct Requester {
    attr: SendAttr,
    /// Everything posted and not ended, in order. The first entry holds `una`.
    queue: VecDeque<Entry>,
    /// The number with which the next work request will begin.
    end: Seq,
    una: Seq,
    next: Seq,
    sent: Seq,
    /// The index in `queue` of the work request that holds `next`.
    cursor: usize,
    /// The ends of READs and atomics that were sent and not answered, in order.
    reads: VecDeque<Seq>,
    window: Window,
    /// Bytes of the packets between `una` and `next`.
    flight_bytes: u64,
    /// Packets sent since one requested an acknowledgement.
    since_ack_request: u32,
    /// Messages sent since then.
    messages_since_ack_request: u32,
    retry: Retry,
    pause: Pause,
    /// No work request from this number on is begun.
    drain_at: Option<Seq>,
    /// The host has been notified that all earlier ones have ended.
    is_drained: bool,
    /// Numbers from `una` on whose answer the host is handling, 0 for none.
    answering: u64,
    /// The status with which the oldest work request failed; the endpoint has yet to handle it.
    failure: Option<Status>,
}

impl Requester {
    pub(crate) fn new(attr: SendAttr, shared: &Shared) -> Self {
        let first = Seq::first(attr.sq_psn);
        Self {
            attr,
            queue: VecDeque::new(),
            end: first,
            una: first,
            next: first,
            sent: first,
            cursor: 0,
            reads: VecDeque::new(),
            window: Window::new(&shared.config),
            flight_bytes: 0,
            since_ack_request: 0,
            messages_since_ack_request: 0,
            retry: Retry::new(),
            pause: Pause::None,
            drain_at: None,
            is_drained: false,
            answering: 0,
            failure: None,
        }
    }

    /// Queues a work request.
    #[inline]
    pub(crate) fn post(&mut self, request: SendRequest, shared: &Shared) -> Result<(), PostError> {
        let op = request.op;
        let is_known = shared.service.is_reliable() || op.is_unreliable();
        if !is_known || (op.is_answered() && self.attr.max_rd_atomic == 0) {
            return Err(PostError::Operation);
        }
        if !op.allows_len(request.len) {
            return Err(PostError::Length);
        }
        let packets = match op {
            Operation::Local => 0,
            Operation::Flush(..) => 1,
            _ => shared.mtu.packets(request.len),
        };
        let first = self.end;
        self.end = first.plus(u64::from(packets));
        self.queue.push_back(Entry::VACANT);
        if let Some(entry) = self.queue.back_mut() {
            entry.set(&request, first, packets);
        }
        Ok(())
    }

    /// Marks a work request that the host cannot perform. It ends with `status` once all earlier
    /// ones have ended. False when it has ended before.
    pub(crate) fn withdraw(&mut self, id: WrId, status: Status, shared: &mut Shared) -> bool {
        let found = self.queue.iter().rposition(|entry| entry.request.id == id);
        let Some(place) = found else { return false };
        self.withdraw_notifications(place, shared);
        self.fail_in_turn(place, status);
        if place > 0 {
            // Earlier packets may have left the acknowledgement request to it, and now need their
            // own. Later packets must not be sent.
            self.go_back();
        }
        true
    }

    /// Lets the work request at `place` fail with `status` when it is the oldest.
    fn fail_in_turn(&mut self, place: usize, status: Status) {
        self.queue[place].fault = Some(status);
        if place == 0 {
            self.failure = Some(status);
        }
    }

    /// Fails the oldest work request because the peer is gone.
    pub(crate) fn on_peer_unreachable(&mut self) {
        if !self.queue.is_empty() {
            self.failure = Some(Status::RetryExceeded);
        }
    }

    /// Returns, once, the status with which the oldest work request has failed.
    pub(crate) fn take_failure(&mut self) -> Option<Status> {
        self.failure.take()
    }

    /// Ends everything: the oldest work request with `first`, the others as flushed.
    pub(crate) fn end_all(&mut self, first: Option<Status>, shared: &mut Shared) {
        self.withdraw_notifications(0, shared);
        let mut status = first.unwrap_or(Status::Flushed);
        for entry in self.queue.drain(..) {
            shared.events.push_back(Event::Completed { id: entry.request.id, status });
            status = Status::Flushed;
        }
        self.clear();
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.reads.clear();
        (self.una, self.next, self.sent) = (self.end, self.end, self.end);
        self.cursor = 0;
        self.flight_bytes = 0;
        (self.retry, self.pause) = (Retry::new(), Pause::None);
        (self.answering, self.failure) = (0, None);
    }

    /// Begins no further work request.
    pub(crate) fn drain(&mut self, shared: &mut Shared) {
        let begun = self.queue.iter().rev().find(|entry| entry.first < self.sent);
        let end = begun.map_or(self.una, Entry::end);
        self.drain_at = Some(end);
        let is_all_sent = self.next == self.sent && end == self.sent;
        if is_all_sent && self.una < self.sent && self.since_ack_request > 0 {
            // The last of them left the acknowledgement request to one that stays here now.
            self.go_back();
        }
        self.is_drained = false;
        self.note_drained(shared);
    }

    /// Returns whether a work request that was begun before the drain has not ended.
    pub(crate) fn is_draining(&self) -> bool {
        self.drain_at.is_some() && !self.is_drained
    }

    /// Begins work requests again.
    pub(crate) fn resume(&mut self) {
        self.drain_at = None;
    }

    /// Reports once that everything begun before the drain has ended.
    fn note_drained(&mut self, shared: &mut Shared) {
        if self.drain_at == Some(self.una) && !self.is_drained {
            self.is_drained = true;
            shared.events.push_back(Event::Drained);
        }
    }

    /// Requests one pause, in which everything in flight is acknowledged before anything new
    /// leaves.
    pub(crate) fn pause_once(&mut self) {
        if self.pause == Pause::None && self.una < self.sent {
            self.pause = Pause::Next;
        }
    }

    pub(crate) fn set_attr(&mut self, attr: SendAttr) {
        self.attr = SendAttr { sq_psn: self.attr.sq_psn, ..attr };
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.retry.next()
    }

    /// See [`crate::Endpoint::discard_timing`].
    pub(crate) fn discard_timing(&mut self) {
        self.retry.early.discard_timing();
    }

    /// Returns whether packets of a work request have not been sent, or are to be sent again.
    pub(crate) fn has_unsent(&self) -> bool {
        self.cursor < self.queue.len()
    }

    /// Returns the number of work requests that have not ended.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns the marks up to which numbers were sent at least once, and were acknowledged.
    pub(crate) fn sent_and_acknowledged(&self) -> (u64, u64) {
        (self.sent.mark(), self.una.mark())
    }

    pub(crate) fn window_packets(&self) -> u32 {
        self.window.packets()
    }
}
