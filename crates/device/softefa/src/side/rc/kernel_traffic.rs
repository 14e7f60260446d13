//! Tracks packets that are still in the kernel, so that no packet overtakes another.
//!
//! A peer reads packets from memory before those from its socket. Packets through the kernel must
//! therefore have been received before a packet goes through memory again. Acknowledgements need
//! not: they are repeated instead.

use srd::Instant;

/// Answers are not acknowledged. After this time the peer has read the socket that they went to.
const ANSWERED_NS: u64 = 200_000;

/// A stream that is never empty would stay in the kernel for ever. It pauses for a round trip, at
/// most this often.
const PAUSES_NS: u64 = 1_000_000;

/// The packets that are still in the kernel.
#[derive(Debug, Default)]
pub(super) struct KernelTraffic {
    /// Requests with numbers below this one.
    requests: u64,
    /// Answers, of which the last was sent at this time.
    answers: Option<Instant>,
    /// An acknowledgement.
    has_ack: bool,
    /// The last pause.
    paused: Option<Instant>,
}

impl KernelTraffic {
    /// Returns true if packets may go through memory, given the number up to which requests are
    /// acknowledged.
    #[inline]
    pub(super) fn is_free(&self, now: Instant, acknowledged: u64) -> bool {
        let is_read = |sent: Instant| now.ns_since(sent) >= ANSWERED_NS;
        acknowledged >= self.requests && self.answers.is_none_or(is_read)
    }

    /// Returns true if requests have used the kernel for so long that a pause is worth its time,
    /// which begins now.
    pub(super) fn is_worth_a_pause(&mut self, now: Instant) -> bool {
        let is_worth = self.paused.is_none_or(|last| now.ns_since(last) >= PAUSES_NS);
        if is_worth {
            self.paused = Some(now);
        }
        is_worth
    }

    /// Notes packets through the kernel: requests up to this number, or answers.
    pub(super) fn note_kernel(&mut self, now: Instant, requests: Option<u64>, has_answers: bool) {
        self.requests = requests.unwrap_or(self.requests);
        if has_answers {
            self.answers = Some(now);
        }
    }

    /// Notes that an acknowledgement went through the kernel.
    pub(super) fn note_ack(&mut self) {
        self.has_ack = true;
    }

    /// Returns true if an acknowledgement through the kernel may still be in flight.
    #[inline]
    pub(super) fn has_ack(&self) -> bool {
        self.has_ack
    }

    /// Notes that the acknowledgement is repeated through memory.
    pub(super) fn forget_ack(&mut self) {
        self.has_ack = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_goes_through_memory_before_what_went_through_the_kernel() {
        let (mut traffic, start) = (KernelTraffic::default(), Instant::from_ns(1));
        assert!(traffic.is_free(start, 0));
        traffic.note_kernel(start, Some(7), false);
        assert!(!traffic.is_free(start.plus_ns(ANSWERED_NS), 6) && traffic.is_free(start, 7));
        traffic.note_kernel(start, None, true);
        assert!(!traffic.is_free(start.plus_ns(ANSWERED_NS - 1), 7));
        assert!(traffic.is_free(start.plus_ns(ANSWERED_NS), 7));
    }

    /// An acknowledgement delays nothing, and is remembered until it is repeated.
    #[test]
    fn an_acknowledgement_in_the_kernel_is_remembered() {
        let (mut traffic, start) = (KernelTraffic::default(), Instant::from_ns(1));
        assert!(!traffic.has_ack());
        traffic.note_ack();
        assert!(traffic.has_ack() && traffic.is_free(start, 0));
        traffic.forget_ack();
        assert!(!traffic.has_ack());
    }

    #[test]
    fn pauses_are_rare() {
        let (mut traffic, start) = (KernelTraffic::default(), Instant::from_ns(1));
        assert!(traffic.is_worth_a_pause(start));
        assert!(!traffic.is_worth_a_pause(start.plus_ns(PAUSES_NS - 1)));
        assert!(traffic.is_worth_a_pause(start.plus_ns(PAUSES_NS)));
    }
}
