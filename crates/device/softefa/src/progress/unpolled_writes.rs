//! Writes of peers that the program does not poll for, because it watches its memory instead of its
//! completion queue.
//!
//! Such a program makes no calls while it waits, so only the service thread can receive the write
//! for it. The program polls in between for its own completions, which must not be taken for a sign
//! that it keeps polling.
//!
//! ```text
//!                 the service thread receives a write while the program does not poll
//!            +------------------------------------------------------------------------+
//!            |                                                                        v
//!   the program polls                                                 the program watches its memory
//!            ^                                                                        |
//!            +------------------------------------------------------------------------+
//!              the program's own turns receive more than POLLED_WRITES_MAX writes,
//!              or peers may not write any more
//! ```
//! While the program watches its memory, the service thread waits on the socket and sleeps lightly:
//! acknowledgements do not wake it. It sleeps deeply, so that everything wakes it, while something
//! waits for an acknowledgement or the program sleeps on a channel. A poll that found a completion
//! is extended by a moment (an extra poll), as long as that has found writes often enough.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use srd::Instant;

/// How many writes the program's own turns must receive to show that it polls.
const POLLED_WRITES_MAX: u32 = 64;

/// How many unsuccessful extra polls one successful extra poll pays for.
const CREDIT_PER_HIT: u32 = 2;
/// The most unsuccessful extra polls that can be paid for in advance.
const CREDIT_MAX: u32 = 16;
/// Without credit, one eligible poll in this many is extended.
const PROBE_EVERY: u32 = 16;

/// The longest time after a write until the next turn of the service thread: as long as the
/// shortest usual timer of a request.
const RECHECK_NS: u64 = 1_000_000;

/// What is known of how the program waits for writes of peers.
#[derive(Debug, Default)]
pub(crate) struct UnpolledWrites {
    /// Peers may write.
    is_possible: AtomicBool,
    /// The service thread has received a write that the program did not poll for.
    watches_memory: AtomicBool,
    /// The number of the program's own turns that have received a write since then.
    polled_writes: AtomicU32,
    recheck_at_ns: AtomicU64,
    sleeps_lightly: AtomicBool,
    /// The number of unsuccessful extra polls that are paid for.
    credit: AtomicU32,
    /// The number of eligible polls without credit.
    skipped: AtomicU32,
}

impl UnpolledWrites {
    /// Sets whether peers may write from now on.
    pub(crate) fn allow(&self, is_possible: bool) {
        self.is_possible.store(is_possible, Ordering::Relaxed);
        self.watches_memory.fetch_and(is_possible, Ordering::Relaxed);
    }

    /// Returns true if a peer may write without the program polling for it.
    #[inline]
    pub(crate) fn is_possible(&self) -> bool {
        self.is_possible.load(Ordering::Relaxed)
    }

    /// Returns true if the program does not poll for writes: then the service thread always waits
    /// on the socket.
    #[inline]
    pub(crate) fn watches_memory(&self) -> bool {
        self.watches_memory.load(Ordering::Relaxed)
    }

    /// Notes a write of a peer, whichever thread received it. For a while the service thread then
    /// takes turns without being woken, so that the timer of an answer that the program posts does
    /// not need to wake it.
    pub(crate) fn note_write(&self, now: Instant) {
        self.recheck_at_ns.store(now.plus_ns(RECHECK_NS).as_ns(), Ordering::Relaxed);
    }

    /// Returns the latest time of the service thread's turn after its turn at `now`.
    pub(crate) fn next_turn(&self, now: Instant) -> Option<Instant> {
        let next_ns = self.recheck_at_ns.load(Ordering::Relaxed);
        (self.watches_memory() && next_ns > now.as_ns()).then(|| Instant::from_ns(next_ns))
    }

    /// Returns true if the service thread, whose next turn is at `next_turn_ns`, is due soon enough
    /// for a program that stops polling.
    pub(crate) fn is_recheck_soon(now: Instant, next_turn_ns: u64) -> bool {
        next_turn_ns <= now.plus_ns(RECHECK_NS).as_ns()
    }

    /// Notes that the service thread received a write while the program did not poll.
    pub(crate) fn note_unpolled_write(&self) {
        self.polled_writes.store(0, Ordering::Relaxed);
        self.watches_memory.store(self.is_possible(), Ordering::Relaxed);
    }

    /// Sets whether acknowledgements leave the service thread asleep from now on.
    pub(crate) fn set_light_sleep(&self, sleeps_lightly: bool) {
        self.sleeps_lightly.store(sleeps_lightly, Ordering::SeqCst);
    }

    /// Returns true if acknowledgements leave the service thread asleep.
    #[inline]
    pub(crate) fn sleeps_lightly(&self) -> bool {
        self.sleeps_lightly.load(Ordering::SeqCst)
    }

    /// Decides whether a poll is extended to wait for a write: extra polls have paid recently, or
    /// one is due as a probe. Counts the polls between probes.
    pub(crate) fn decide_extra_poll(&self) -> bool {
        let credit = self.credit.load(Ordering::Relaxed);
        if credit > 0 {
            return true;
        }
        self.skipped.fetch_add(1, Ordering::Relaxed) % PROBE_EVERY == PROBE_EVERY - 1
    }

    /// Notes an extra poll, and whether it found a write.
    pub(crate) fn note_extra_poll(&self, has_found: bool) {
        let credit = self.credit.load(Ordering::Relaxed);
        let credit = if has_found { credit + CREDIT_PER_HIT } else { credit.saturating_sub(1) };
        let credit = credit.min(CREDIT_MAX);
        self.credit.store(credit, Ordering::Relaxed);
    }

    /// Notes that the program's own turn received a write.
    #[inline]
    pub(crate) fn note_polled_write(&self) {
        if self.watches_memory()
            && self.polled_writes.fetch_add(1, Ordering::Relaxed) >= POLLED_WRITES_MAX
        {
            self.watches_memory.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_polls_for_what_is_written_is_left_alone() {
        let unpolled_writes = UnpolledWrites::default();
        unpolled_writes.note_unpolled_write();
        assert!(!unpolled_writes.watches_memory(), "nobody may write");
        unpolled_writes.allow(true);
        unpolled_writes.note_unpolled_write();
        assert!(unpolled_writes.watches_memory());
        (0..POLLED_WRITES_MAX).for_each(|_| unpolled_writes.note_polled_write());
        assert!(unpolled_writes.watches_memory());
        unpolled_writes.note_polled_write();
        assert!(!unpolled_writes.watches_memory());
        unpolled_writes.note_unpolled_write();
        unpolled_writes.allow(false);
        assert!(!unpolled_writes.watches_memory());
    }

    #[test]
    fn the_thread_looks_again_for_a_while_after_it_found_something() {
        let (unpolled_writes, now) = (UnpolledWrites::default(), Instant::from_ns(1));
        unpolled_writes.note_write(now);
        assert_eq!(unpolled_writes.next_turn(now), None, "nobody writes unseen");
        unpolled_writes.allow(true);
        unpolled_writes.note_unpolled_write();
        let next = now.plus_ns(RECHECK_NS);
        assert_eq!(unpolled_writes.next_turn(now), Some(next));
        assert_eq!(unpolled_writes.next_turn(now.plus_ns(RECHECK_NS - 1)), Some(next));
        assert_eq!(unpolled_writes.next_turn(next), None);
    }

    #[test]
    fn polls_look_on_for_as_long_as_it_pays() {
        let unpolled_writes = UnpolledWrites::default();
        let tries =
            |count| (0..count).filter(|_| unpolled_writes.decide_extra_poll()).count() as u32;
        assert_eq!(tries(10 * PROBE_EVERY), 10, "now and then");
        unpolled_writes.note_extra_poll(true);
        assert_eq!(tries(10 * PROBE_EVERY), 10 * PROBE_EVERY);
        (0..CREDIT_PER_HIT).for_each(|_| unpolled_writes.note_extra_poll(false));
        assert_eq!(tries(10 * PROBE_EVERY), 10, "what one in three brings is not enough");
        (0..CREDIT_MAX).for_each(|_| unpolled_writes.note_extra_poll(true));
        (0..CREDIT_MAX).for_each(|_| unpolled_writes.note_extra_poll(false));
        assert_eq!(tries(10 * PROBE_EVERY), 10, "no more than that is paid ahead");
    }
}
