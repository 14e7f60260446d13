//! Programs that watch their memory instead of their completion queue, while peers write there.
//!
//! Such a program calls nothing while it waits, so that only the service thread can take in what it
//! waits for. It polls in between, for its own completions, which must not be taken for a promise
//! to poll on.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The number of the program's turns, in which it took in what a peer wrote, that show that it
/// polls.
const TURNS: u32 = 64;

/// The program's habit, as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct Unseen {
    /// Peers may write.
    is_possible: AtomicBool,
    /// The service thread found what the program did not poll for.
    is_usual: AtomicBool,
    /// Turns of the program since then that found something themselves.
    turns: AtomicU32,
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

    /// The service thread took in what a peer wrote, while the program did not poll.
    pub(crate) fn note_found(&self) {
        self.turns.store(0, Ordering::Relaxed);
        self.is_usual.store(self.is_possible(), Ordering::Relaxed);
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
}
