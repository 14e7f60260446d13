//! Programs that watch their memory instead of their completion queue, while peers write there.
//!
//! Such a program calls nothing while it waits, so that only the service thread can take in what it
//! waits for. It polls in between, for its own completions, which must not be taken for a promise
//! to poll on.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use srd::Instant;

/// The number of the program's turns, in which it took in what a peer wrote, that show that it
/// polls.
const TURNS: u32 = 64;

/// A moment that finds something pays for so many in vain, and for so many at most are paid ahead.
/// Without credit one poll in so many takes a moment.
const GAIN: u32 = 2;
const CREDIT: u32 = 16;
const SPARED: u32 = 16;

/// How long nobody may have to look: as long as the shortest usual timer of a request.
const LOOK_NS: u64 = 1_000_000;

/// The program's habit, as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct Unseen {
    /// Peers may write.
    is_possible: AtomicBool,
    /// The service thread found what the program did not poll for.
    is_usual: AtomicBool,
    /// Turns of the program since then that found something beside its last completion.
    turns: AtomicU32,
    next_look_ns: AtomicU64,
    dozes: AtomicBool,
    /// Moments that may be in vain.
    credit: AtomicU32,
    /// Polls that could have taken one and did not.
    spared: AtomicU32,
}

impl Unseen {
    /// Whether peers may write from now on.
    pub(crate) fn allow(&self, is_possible: bool) {
        self.is_possible.store(is_possible, Ordering::Relaxed);
        self.is_usual.fetch_and(is_possible, Ordering::Relaxed);
    }

    /// A peer may write without the program polling for it.
    #[inline]
    pub(crate) fn is_possible(&self) -> bool {
        self.is_possible.load(Ordering::Relaxed)
    }

    /// The program does not poll for what peers write: the service thread waits for it all the
    /// time.
    #[inline]
    pub(crate) fn is_usual(&self) -> bool {
        self.is_usual.load(Ordering::Relaxed)
    }

    /// A peer wrote something, whoever took it in. For a while the service thread looks again even
    /// if nothing calls it, so that an answer which the program posts needs no call for its timer.
    pub(crate) fn note_written(&self, now: Instant) {
        self.next_look_ns.store(now.plus_ns(LOOK_NS).as_ns(), Ordering::Relaxed);
    }

    /// When the service thread looks again at the latest after its turn at `now`.
    pub(crate) fn next_look(&self, now: Instant) -> Option<Instant> {
        let next_ns = self.next_look_ns.load(Ordering::Relaxed);
        (self.is_usual() && next_ns > now.as_ns()).then(|| Instant::from_ns(next_ns))
    }

    /// Whether the service thread, which looks at `look_ns` again, is there soon for a program that
    /// stops polling.
    pub(crate) fn is_soon(now: Instant, look_ns: u64) -> bool {
        look_ns <= now.plus_ns(LOOK_NS).as_ns()
    }

    /// The service thread took in what a peer wrote, while the program did not poll.
    pub(crate) fn note_found(&self) {
        self.turns.store(0, Ordering::Relaxed);
        self.is_usual.store(self.is_possible(), Ordering::Relaxed);
    }

    /// Whether acknowledgements may not call the service thread from now on.
    pub(crate) fn set_dozes(&self, dozes: bool) {
        self.dozes.store(dozes, Ordering::SeqCst);
    }

    /// Acknowledgements may not call the service thread.
    #[inline]
    pub(crate) fn dozes(&self) -> bool {
        self.dozes.load(Ordering::SeqCst)
    }

    /// Whether a poll should look on for what a peer writes: it has paid lately, or is to be tried
    /// again.
    pub(crate) fn is_worth_a_moment(&self) -> bool {
        let credit = self.credit.load(Ordering::Relaxed);
        if credit > 0 {
            return true;
        }
        self.spared.fetch_add(1, Ordering::Relaxed) % SPARED == SPARED - 1
    }

    /// A poll looked on, and found what a peer wrote or not.
    pub(crate) fn note_moment(&self, has_found: bool) {
        let credit = self.credit.load(Ordering::Relaxed);
        let credit = if has_found { credit + GAIN } else { credit.saturating_sub(1) };
        let credit = credit.min(CREDIT);
        self.credit.store(credit, Ordering::Relaxed);
    }

    /// The program's own turn did.
    #[inline]
    pub(crate) fn note_polled(&self) {
        if self.is_usual() && self.turns.fetch_add(1, Ordering::Relaxed) >= TURNS {
            self.is_usual.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_polls_for_what_is_written_is_left_alone() {
        let unseen = Unseen::default();
        unseen.note_found();
        assert!(!unseen.is_usual(), "nobody may write");
        unseen.allow(true);
        unseen.note_found();
        assert!(unseen.is_usual());
        (0..TURNS).for_each(|_| unseen.note_polled());
        assert!(unseen.is_usual());
        unseen.note_polled();
        assert!(!unseen.is_usual());
        unseen.note_found();
        unseen.allow(false);
        assert!(!unseen.is_usual());
    }

    #[test]
    fn the_thread_looks_again_for_a_while_after_it_found_something() {
        let (unseen, now) = (Unseen::default(), Instant::from_ns(1));
        unseen.note_written(now);
        assert_eq!(unseen.next_look(now), None, "nobody writes unseen");
        unseen.allow(true);
        unseen.note_found();
        let next = now.plus_ns(LOOK_NS);
        assert_eq!(unseen.next_look(now), Some(next));
        assert_eq!(unseen.next_look(now.plus_ns(LOOK_NS - 1)), Some(next));
        assert_eq!(unseen.next_look(next), None);
    }

    #[test]
    fn polls_look_on_for_as_long_as_it_pays() {
        let unseen = Unseen::default();
        let tries = |count| (0..count).filter(|_| unseen.is_worth_a_moment()).count() as u32;
        assert_eq!(tries(10 * SPARED), 10, "now and then");
        unseen.note_moment(true);
        assert_eq!(tries(10 * SPARED), 10 * SPARED);
        (0..GAIN).for_each(|_| unseen.note_moment(false));
        assert_eq!(tries(10 * SPARED), 10, "what one in three brings is not enough");
        (0..CREDIT).for_each(|_| unseen.note_moment(true));
        (0..CREDIT).for_each(|_| unseen.note_moment(false));
        assert_eq!(tries(10 * SPARED), 10, "no more than that is paid ahead");
    }
}
