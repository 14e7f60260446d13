//! Requests of readers for records: two words in the counters file of a device.

use std::sync::atomic::{AtomicU64, Ordering};

use srd::Instant;

use crate::mapped::Words;

/// The number of words of a device.
pub(crate) const WORDS: usize = 2;

/// The words of a request, all zero while there is no reader: the monotonic time in nanoseconds
/// until which records are wanted, and the most bytes of a datagram that any reader wants (0 = not
/// stated).
#[derive(Debug)]
pub(crate) struct Request(Words);

impl Request {
    /// Makes a request that no reader can make.
    pub(crate) fn never() -> Self {
        Self::at(Words::own(WORDS))
    }

    /// Uses these [`WORDS`] for the request.
    pub(crate) fn at(words: Words) -> Self {
        Self(words)
    }

    #[inline]
    fn until(&self) -> &AtomicU64 {
        &self.0[0]
    }

    fn snap(&self) -> &AtomicU64 {
        &self.0[1]
    }

    /// Asks for records from the start of a process to its end, or clears the request to a
    /// predecessor.
    pub(crate) fn reset(&self, snap_bytes: Option<u32>) {
        self.snap().store(snap_bytes.unwrap_or_default().into(), Ordering::Relaxed);
        let until = if snap_bytes.is_some() { u64::MAX } else { 0 };
        self.until().store(until, Ordering::Relaxed);
    }

    /// Returns true if there was a request, and its time has not been checked since.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.until().load(Ordering::Relaxed) != 0
    }

    /// Returns true if the time of the request is not over; if it is over, clears the request.
    pub(crate) fn is_current(&self, now: Instant) -> bool {
        let until = self.until().load(Ordering::Relaxed);
        if until >= now.as_ns() {
            return until != 0;
        }
        // The request stays if a reader has just asked for more.
        let (order, failed) = (Ordering::Relaxed, Ordering::Relaxed);
        if self.until().compare_exchange(until, 0, order, failed).is_ok() {
            self.snap().store(0, Ordering::Relaxed);
        }
        false
    }

    /// Returns the number of bytes of a datagram that are wanted, or no limit if it is not stated:
    /// a reader that asked at the moment in which the request was cleared gets too much until it
    /// renews its request, not too little.
    pub(crate) fn snap_bytes(&self) -> usize {
        match self.snap().load(Ordering::Relaxed) {
            0 => usize::MAX,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        }
    }
}

/// Asks for `snap_bytes` of each datagram until `until`, or for more if another reader did.
pub(crate) fn ask(words: &[AtomicU64], until: Instant, snap_bytes: u32) {
    words[1].fetch_max(snap_bytes.into(), Ordering::Relaxed);
    words[0].fetch_max(until.as_ns(), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_unless_it_is_renewed() {
        let words = &Words::own(WORDS);
        let request = Request::at(words.clone());
        let at = Instant::from_ns;
        assert!(!request.is_set() && !request.is_current(at(5)));
        ask(words, at(100), 200);
        ask(words, at(90), 300);
        assert!(request.is_set() && request.is_current(at(100)));
        assert_eq!(request.snap_bytes(), 300, "what suits both");
        assert!(!request.is_current(at(101)));
        assert!(!request.is_set(), "costs nothing any more");
        ask(words, at(200), 64);
        assert!(request.is_current(at(101)));
        assert_eq!(request.snap_bytes(), 64);
        request.reset(None);
        assert!(!request.is_set());
        request.reset(Some(128));
        assert!(request.is_current(at(u64::MAX)));
    }
}
