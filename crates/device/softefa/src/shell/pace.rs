//! Detects a stream, whose reader should poll again instead of sleeping.
//!
//! The window of a stream is read within microseconds, and its next one arrives soon after the
//! acknowledgement has left. Sleeping in between costs a system call and a wake-up for each window:
//! ten times as long as the copy.

use srd::Instant;

/// A turn that receives this many packets through memory is part of a stream.
const STREAM_PKTS: u64 = 16;
/// A turn that receives this many bytes in any way, or sends them, is part of a stream, too.
const STREAM_BYTES: u64 = 64 << 10;
/// A pause this long ends a stream.
const PAUSE_NS: u64 = 30_000;

/// The pace of what arrived last.
#[derive(Debug, Default)]
pub(super) struct Pace {
    is_stream: bool,
    /// The bytes that have been sent since something was received.
    sent_bytes: u64,
    /// The time since which there has been no stream.
    ended_at: Option<Instant>,
}

impl Pace {
    /// Notes the packets that a turn received through memory, and the bytes that it received in
    /// all.
    #[inline]
    pub(super) fn note(&mut self, pkts: u64, bytes: u64) {
        self.is_stream = pkts >= STREAM_PKTS || bytes >= STREAM_BYTES;
        self.sent_bytes = 0;
    }

    /// Notes the bytes that a turn has sent, because a peer's READs are a stream, too.
    #[inline]
    pub(super) fn note_sent(&mut self, bytes: u64) {
        self.sent_bytes += bytes;
    }

    /// Returns true if a stream still goes on after a turn at `now`.
    pub(super) fn goes_on(&mut self, now: Instant) -> bool {
        let has_sent = std::mem::take(&mut self.sent_bytes) >= STREAM_BYTES;
        if std::mem::take(&mut self.is_stream) || has_sent {
            self.ended_at = Some(Instant::ZERO);
            return true;
        }
        // Its turn may have taken longer than a pause.
        let ended_at = match self.ended_at {
            None => return false,
            Some(Instant::ZERO) => now,
            Some(at) => at,
        };
        self.ended_at = (now.ns_since(ended_at) < PAUSE_NS).then_some(ended_at);
        self.ended_at.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_waited_for_and_single_messages_are_not() {
        let (mut pace, at) = (Pace::default(), Instant::from_ns);
        pace.note(STREAM_PKTS - 1, STREAM_BYTES - 1);
        assert!(!pace.goes_on(at(1)));
        for (pkts, bytes) in [(STREAM_PKTS, 0), (1, STREAM_BYTES)] {
            pace.note(pkts, bytes);
            assert!(pace.goes_on(at(1)), "there may be more");
            let late = 1000 * PAUSE_NS;
            assert!(pace.goes_on(at(late)), "the turn took that long");
            assert!(pace.goes_on(at(late + PAUSE_NS - 1)));
            assert!(!pace.goes_on(at(late + PAUSE_NS)) && !pace.goes_on(at(late + PAUSE_NS)));
        }
        pace.note(1, 0);
        (0..2).for_each(|_| pace.note_sent(STREAM_BYTES / 2));
        assert!(pace.goes_on(at(1)), "what leaves is a stream, too");
        assert!(pace.goes_on(at(2)) && !pace.goes_on(at(2 + PAUSE_NS)));
    }
}
