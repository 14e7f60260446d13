//! The lock of a posting or polling session.
//!
//! Programs hold one from `ibv_wr_start` to `ibv_wr_complete`, or from `ibv_start_poll` to
//! `ibv_end_poll`, possibly for long and across other verbs calls. It keeps two threads of the
//! program apart and nothing else: the adapter never takes it.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// State of type `T` that belongs to whoever opened the session.
#[derive(Debug, Default)]
pub(crate) struct Session<T> {
    is_open: AtomicBool,
    state: UnsafeCell<T>,
}

/// Tries before the processor is offered to others: the holder may need it to finish.
const SPINS: u32 = 64;

impl<T> Session<T> {
    /// Waits until no other thread has a session open, and opens one.
    pub(crate) fn open(&self) {
        let mut tries = 0;
        while self.is_open.swap(true, Ordering::Acquire) {
            tries += 1;
            if tries % SPINS == 0 {
                if softefa::is_forked_child() {
                    // The holder is a thread of the parent.
                    return;
                }
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Ends the session. Without one, nothing happens.
    pub(crate) fn close(&self) {
        self.is_open.store(false, Ordering::Release);
    }

    /// Runs `body` on the state, or nothing when no session is open.
    ///
    /// # Safety
    /// Called by the thread that opened the session, as the verbs API demands of programs, and
    /// not from inside `body`.
    pub(crate) unsafe fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.is_open.load(Ordering::Relaxed) {
            return None;
        }
        // SAFETY: only the thread with the session is here, and once, as this function demands.
        Some(body(unsafe { &mut *self.state.get() }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Lets the test share a session as C programs do.
    struct Shared(Session<u64>);

    // SAFETY: the test touches the state only with the session open.
    unsafe impl Sync for Shared {}

    #[test]
    fn sessions_exclude_each_other() {
        const ROUNDS: u64 = 10_000;
        let shared = Arc::new(Shared(Session::default()));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || {
                    let session = &{ shared }.0;
                    for _ in 0..ROUNDS {
                        session.open();
                        // SAFETY: this thread opened the session.
                        unsafe { session.with(|count| *count += 1) };
                        session.close();
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        shared.0.open();
        // SAFETY: this thread opened the session.
        assert_eq!(unsafe { shared.0.with(|count| *count) }, Some(2 * ROUNDS));
    }

    #[test]
    fn without_a_session_nothing_runs() {
        let session = Session::<u64>::default();
        // SAFETY: nothing runs.
        assert_eq!(unsafe { session.with(|count| *count) }, None);
    }
}
