//! Answers that are kept until their requester cannot ask again (RC-5.6, RC-6).

use std::collections::VecDeque;

use crate::Range;
use crate::id::Seq;

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The bytes of this range.
    Read(Range),
    /// The value that an atomic found.
    Original(u64),
    /// A response without bytes, to a FLUSH or an ATOMIC WRITE.
    Empty,
}

/// A request that is answered by more than an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resource {
    pub(super) first: Seq,
    pub(super) end: Seq,
    /// Messages completed when it was executed, including itself.
    pub(super) msn: u32,
    pub(super) answer: Answer,
    /// The shared receive queue that it named; only with XRC.
    pub(super) srq: Option<u32>,
    /// The number of the next response to send; `None` when all are sent.
    pub(super) next: Option<Seq>,
    /// The first response to the latest copy of the request is still to be sent.
    pub(super) is_begin: bool,
    /// All responses have been sent, at least once.
    is_answered: bool,
    /// The responses are being repeated, or were.
    pub(super) is_repeated: bool,
}

/// The latest resources, as many as the requester may have outstanding, in order.
#[derive(Debug, Default)]
pub(super) struct Resources {
    list: VecDeque<Resource>,
    capacity: usize,
    /// The number of requests with responses to send.
    waiting: usize,
    /// The number of requests whose responses were never all sent.
    unanswered: usize,
}

impl Resources {
    pub(super) fn new(capacity: u8) -> Self {
        Self { capacity: usize::from(capacity), ..Self::default() }
    }

    /// Changes how many requests may be outstanding. Resources that are kept stay.
    pub(super) fn set_capacity(&mut self, capacity: u8) {
        self.capacity = usize::from(capacity);
    }

    /// Returns whether one more request would exceed what the requester may have outstanding: none
    /// of these were even answered yet. Repeated answers do not count, because late copies of
    /// requests cause them, too.
    pub(super) fn is_full(&self) -> bool {
        self.unanswered >= self.capacity
    }

    pub(super) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Stores a new request, whose responses are to be sent.
    pub(super) fn push(
        &mut self,
        packets: std::ops::Range<Seq>,
        msn: u32,
        answer: Answer,
        srq: Option<u32>,
    ) {
        let (first, end) = (packets.start, packets.end);
        while self.list.len() >= self.capacity {
            let Some(oldest) = self.list.pop_front() else { break };
            self.waiting -= usize::from(oldest.next.is_some());
            self.unanswered -= usize::from(!oldest.is_answered);
        }
        self.waiting += 1;
        self.unanswered += 1;
        self.list.push_back(Resource {
            first,
            end,
            msn,
            answer,
            srq,
            next: Some(first),
            is_begin: true,
            is_answered: false,
            is_repeated: false,
        });
    }

    /// Returns the request that `seq` belongs to.
    pub(super) fn find(&self, seq: Seq) -> Option<Resource> {
        self.list.iter().find(|resource| resource.first <= seq && seq < resource.end).copied()
    }

    /// Sends the responses from `seq` on again, unless they are still to be sent anyway.
    pub(super) fn rewind(&mut self, seq: Seq) {
        let found =
            self.list.iter_mut().find(|resource| resource.first <= seq && seq < resource.end);
        let Some(resource) = found else { return };
        if resource.next.is_some_and(|next| next <= seq) {
            return;
        }
        self.waiting += usize::from(resource.next.is_none());
        resource.next = Some(seq);
        resource.is_begin = true;
        resource.is_repeated = resource.is_answered;
    }

    /// Ends the repetition that `seq` belongs to; false when it is the first answer.
    pub(super) fn end_repetition(&mut self, seq: Seq) -> bool {
        let is_match = |resource: &&mut Resource| {
            resource.first <= seq && seq < resource.end && resource.is_repeated
        };
        let Some(resource) = self.list.iter_mut().find(is_match) else { return false };
        self.waiting -= usize::from(resource.next.take().is_some());
        true
    }

    /// Returns the oldest request with responses to send.
    #[inline]
    pub(super) fn waiting(&self) -> Option<Resource> {
        if self.waiting == 0 {
            return None;
        }
        self.list.iter().find(|resource| resource.next.is_some()).copied()
    }

    /// Advances the oldest request with responses to send by `count` responses.
    pub(super) fn step(&mut self, count: u64) {
        let found = self.list.iter_mut().find(|resource| resource.next.is_some());
        let Some(resource) = found else { return };
        let next = resource.next.map(|next| next.plus(count)).filter(|&next| next < resource.end);
        resource.next = next;
        resource.is_begin = false;
        if next.is_none() {
            self.waiting -= 1;
            self.unanswered -= usize::from(!resource.is_answered);
            resource.is_answered = true;
        }
    }

    /// Discards all responses.
    pub(super) fn clear(&mut self) {
        self.list.clear();
        (self.waiting, self.unanswered) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Psn;

    fn seq(n: u64) -> Seq {
        Seq::first(Psn::new(0)).plus(n)
    }

    fn two() -> Resources {
        let mut resources = Resources::new(2);
        resources.push(seq(0)..seq(3), 1, Answer::Empty, None);
        resources.push(seq(5)..seq(6), 2, Answer::Original(9), None);
        resources
    }

    fn sent(resources: &mut Resources) -> Vec<Seq> {
        let mut sent = Vec::new();
        while let Some(next) = resources.waiting().and_then(|resource| resource.next) {
            sent.push(next);
            resources.step(1);
        }
        sent
    }

    #[test]
    fn responses_leave_in_order_of_their_requests() {
        let mut resources = two();
        assert!(resources.is_full());
        assert_eq!(sent(&mut resources), [seq(0), seq(1), seq(2), seq(5)]);
        assert!(!resources.has_waiting() && !resources.is_full());
    }

    /// RC-5.6.
    #[test]
    fn a_repeated_request_repeats_from_where_it_asks() {
        let mut resources = two();
        resources.step(1);
        resources.rewind(seq(2));
        assert_eq!(sent(&mut resources).len(), 3, "what is still to be sent is not sent twice");
        resources.push(seq(6)..seq(9), 3, Answer::Empty, None);
        (0..2).for_each(|_| resources.step(1));
        resources.rewind(seq(6));
        assert_eq!(sent(&mut resources), [seq(6), seq(7), seq(8)], "in the middle of it");
        let mut resources = two();
        sent(&mut resources);
        resources.rewind(seq(1));
        resources.rewind(seq(4));
        assert_eq!(sent(&mut resources), [seq(1), seq(2)]);
    }

    #[test]
    fn the_oldest_is_forgotten() {
        let mut resources = two();
        sent(&mut resources);
        resources.push(seq(6)..seq(7), 3, Answer::Empty, None);
        assert!(resources.find(seq(1)).is_none());
        assert!(resources.find(seq(5)).is_some() && resources.find(seq(4)).is_none());
        assert_eq!(sent(&mut resources), [seq(6)]);
    }

    #[test]
    fn as_many_are_kept_as_are_allowed_now() {
        let seq = |n| Seq::first(Psn::new(0)).plus(n);
        let mut resources = Resources::new(0);
        assert!(resources.is_full());
        resources.set_capacity(3);
        for n in 0..3 {
            assert!(!resources.is_full());
            resources.push(seq(n)..seq(n + 1), 0, Answer::Empty, None);
            resources.step(1);
        }
        assert!((0..3).all(|n| resources.find(seq(n)).is_some()));
        resources.set_capacity(1);
        resources.push(seq(3)..seq(4), 0, Answer::Empty, None);
        assert!(resources.is_full() && resources.find(seq(2)).is_none());
        assert!(resources.find(seq(3)).is_some());
    }
}
