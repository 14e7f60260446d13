//! The lock of a posting or polling session.
//!
//! Programs hold one from `ibv_wr_start` to `ibv_wr_complete`, or from `ibv_start_poll` to
//! `ibv_end_poll`, possibly for long and across other verbs calls. It keeps two threads of the
//! program apart and nothing else: the adapter never takes it.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use softefa::Generation;

use crate::inside::thread;

const NOBODY: usize = 0;

/// State of type `T` that belongs to the thread that opened the session.
#[derive(Debug, Default)]
pub(crate) struct CallSession<T> {
    /// The [`thread`] that opened it, or [`NOBODY`].
    opener: AtomicUsize,
    /// The thread inside [`CallSession::enter`], or [`NOBODY`].
    entered: AtomicUsize,
    /// A thread entered while another one was inside.
    is_shared: AtomicBool,
    made: Generation,
    state: UnsafeCell<T>,
}

/// The reason why a session cannot be entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnterError {
    /// No session is open.
    Closed,
    /// Another thread is inside.
    Shared,
}

/// Leaves the session, and perhaps ends it, even on a panic.
struct Leave<'a, T> {
    session: &'a CallSession<T>,
    is_last: bool,
}

impl<T> Drop for Leave<'_, T> {
    fn drop(&mut self) {
        self.session.entered.store(NOBODY, Ordering::Release);
        if self.is_last {
            self.session.close();
        }
    }
}

/// Warns once that queue pair `qpn` is shared without a lock. A signal handler counts as another
/// thread.
#[cold]
pub(crate) fn warn_of_shared(qpn: u32) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if WARNED.swap(true, Ordering::Relaxed) {
        return;
    }
    softefa::say(&format!(
        "softefa: two threads of the program post to queue pair {qpn} at once, one of them without an \
         ibv_wr_start of its own: ibv_wr_complete fails with EINVAL; let each thread start a session, \
         or lock the endpoint (libfabric's FI_THREAD_COMPLETION and FI_THREAD_DOMAIN ask for that)"
    ));
}

/// Tries before the processor is offered to others: the holder may need it to finish.
const SPINS: u32 = 64;

impl<T> CallSession<T> {
    /// Waits until no other thread has a session open, and opens one; `false` when this thread
    /// already has one, for which it would wait for ever: it is in a signal handler, or has not
    /// ended it.
    pub(crate) fn open(&self) -> bool {
        let (me, mut tries) = (thread(), 0);
        let (taken, free) = (Ordering::Acquire, Ordering::Relaxed);
        while let Err(opener) = self.opener.compare_exchange(NOBODY, me, taken, free) {
            if opener == me {
                return false;
            }
            tries += 1;
            if tries % SPINS == 0 {
                if !self.made.is_current() {
                    // The session is held by a thread of the parent.
                    return true;
                }
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        self.is_shared.store(false, Ordering::Relaxed);
        true
    }

    /// Opens a session for posting. If this thread already has one open, the session fails like a
    /// shared one, because their work requests cannot be told apart.
    pub(crate) fn open_or_mark_shared(&self) {
        if !self.open() {
            self.is_shared.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether two threads were in the session at once, which is a bug of the program.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    /// Ends the session. Without one, nothing happens.
    pub(crate) fn close(&self) {
        self.opener.store(NOBODY, Ordering::Release);
    }

    /// Runs `body` on the state of the open session. Only one thread gets in at a time, whatever
    /// the program does: our memory stays intact even if its threads share a session by mistake.
    pub(crate) fn enter<R>(&self, body: impl FnOnce(&mut T) -> R) -> Result<R, EnterError> {
        let leave = self.try_enter(false)?;
        // SAFETY: whoever sets `entered` is alone here until `leave` is dropped.
        let result = body(unsafe { &mut *self.state.get() });
        drop(leave);
        Ok(result)
    }

    /// Like [`CallSession::enter`], but waits for a thread that is inside, and ends the session;
    /// `None` without one.
    pub(crate) fn finish<R>(&self, body: impl FnOnce(&mut T) -> R) -> Option<R> {
        let leave = loop {
            match self.try_enter(true) {
                Ok(leave) => break leave,
                Err(EnterError::Closed) => return None,
                // The thread that is inside belongs to the parent.
                Err(EnterError::Shared) if !self.made.is_current() => return None,
                // A signal handler interrupted it.
                Err(EnterError::Shared) if self.entered.load(Ordering::Relaxed) == thread() => {
                    return None;
                }
                Err(EnterError::Shared) => std::thread::yield_now(),
            }
        };
        // SAFETY: as in `enter`.
        let result = body(unsafe { &mut *self.state.get() });
        drop(leave);
        Some(result)
    }

    fn is_open(&self) -> bool {
        self.opener.load(Ordering::Relaxed) != NOBODY
    }

    fn try_enter(&self, is_last: bool) -> Result<Leave<'_, T>, EnterError> {
        if !self.is_open() {
            return Err(EnterError::Closed);
        }
        let (taken, free) = (Ordering::Acquire, Ordering::Relaxed);
        if self.entered.compare_exchange(NOBODY, thread(), taken, free).is_err() {
            self.is_shared.store(true, Ordering::Relaxed);
            return Err(EnterError::Shared);
        }
        Ok(Leave { session: self, is_last })
    }

    /// Runs `body` on the state of the current session, or of the last one.
    ///
    /// # Safety
    /// No other thread has a session open, or opens one meanwhile.
    pub(crate) unsafe fn peek<R>(&self, body: impl FnOnce(&T) -> R) -> R {
        // SAFETY: nobody else is here, as this function demands.
        body(unsafe { &*self.state.get() })
    }

    /// Runs `body` on the state, if a session is open. For state that two threads at once may mix
    /// up but not corrupt.
    ///
    /// # Safety
    /// Called by the thread that opened the session, as the verbs API demands of programs, and
    /// not from inside `body`.
    pub(crate) unsafe fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.is_open() {
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
    struct Shared(CallSession<u64>);

    // SAFETY: the test touches the state only with the session open.
    unsafe impl Sync for Shared {}

    #[test]
    fn sessions_exclude_each_other() {
        const ROUNDS: u64 = 10_000;
        let shared = Arc::new(Shared(CallSession::default()));
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
    fn second_one_inside_is_kept_out_and_remembered() {
        let session = CallSession::<u64>::default();
        session.open();
        let inner = session.enter(|_| session.enter(|count| *count += 1));
        assert_eq!(inner, Ok(Err(EnterError::Shared)));
        assert!(session.is_shared());
        assert_eq!(session.finish(|count| *count), Some(0), "free again");
        session.open();
        assert!(!session.is_shared(), "that was another session");
    }

    #[test]
    fn panic_ends_the_session() {
        let session = CallSession::<u64>::default();
        session.open();
        let inside = || session.finish(|_| panic!("on purpose"));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(inside));
        assert!(panicked.is_err());
        session.open();
        assert_eq!(session.enter(|count| *count), Ok(0));
    }

    #[test]
    fn what_a_session_left_can_be_looked_at() {
        let session = CallSession::<u64>::default();
        session.open();
        // SAFETY: this thread opened the session.
        unsafe { session.with(|state| *state = 7) };
        session.close();
        // SAFETY: there is no other thread.
        assert_eq!(unsafe { session.peek(|state| *state) }, 7);
    }

    #[test]
    fn without_a_session_nothing_runs() {
        let session = CallSession::<u64>::default();
        assert_eq!(session.enter(|count| *count), Err(EnterError::Closed));
        // SAFETY: nothing runs.
        assert_eq!(unsafe { session.with(|count| *count) }, None);
    }
}
