//! Whether what comes is a stream, whose reader had better look again than sleep.
//!
//! The window of a stream is taken in some microseconds, and its next one is on its way when the
//! acknowledgement has left. Sleeping in between costs a call and a wake-up for each window: ten
//! times as long as the copy.

use srd::Instant;

/// So many packets through memory in one turn are a stream, or so many bytes by whatever way.
const STREAM_PKTS: u64 = 16;
const STREAM_BYTES: u64 = 64 << 10;
/// A stream that has paused for so long is over.
const PAUSE_NS: u64 = 30_000;

/// How what came last came.
#[derive(Debug, Default)]
pub(super) struct Pace {
    is_stream: bool,
    /// Bytes that have left since something was received.
    sent_bytes: u64,
    /// Since when there was none.
    ended_at: Option<Instant>,
}

impl Pace {
    /// So many packets came through memory in this turn, and so many bytes at all.
    #[inline]
    pub(super) fn note(&mut self, pkts: u64, bytes: u64) {
        self.is_stream = pkts >= STREAM_PKTS || bytes >= STREAM_BYTES;
        self.sent_bytes = 0;
    }

    /// So many bytes have left in this turn: what a peer reads is a stream, too.
    #[inline]
    pub(super) fn note_sent(&mut self, bytes: u64) {
        self.sent_bytes += bytes;
    }

    /// After a turn at `now`: there was a stream a moment ago.
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
