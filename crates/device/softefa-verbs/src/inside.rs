//! Keeps a thread that is inside the adapter from entering it again.
//!
//! A signal handler that interrupts a call of the same thread would find locks that are not
//! released before the handler returns. Its call fails or finds nothing.

use std::cell::Cell;
use std::ptr::NonNull;

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread is inside the adapter until this is dropped.
pub(crate) struct Inside {
    /// The flag of this thread; found once, because a library's look-up takes a call.
    is_inside: NonNull<Cell<bool>>,
}

impl Inside {
    /// Returns `None` in a signal handler that interrupted this thread inside the adapter.
    #[inline]
    pub(crate) fn enter() -> Option<Self> {
        let is_inside = IS_INSIDE.with(|is_inside| NonNull::from(is_inside));
        // SAFETY: as in `drop`.
        let is_nested = unsafe { is_inside.as_ref() }.replace(true);
        (!is_nested).then(|| Self { is_inside })
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: it lives as long as the thread, which this value does not leave.
        unsafe { self.is_inside.as_ref() }.set(false);
    }
}

/// Returns a number that is unique among living threads and never 0.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[inline]
pub(crate) fn thread() -> usize {
    let thread: usize;
    // SAFETY: the first word of a thread's control block is its own address, as the ABI for
    // thread-local storage has it; to look up a variable would take a call.
    unsafe {
        std::arch::asm!(
            "mov {}, fs:0",
            out(reg) thread,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    thread
}

/// Returns a number that is unique among living threads and never 0.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
#[inline]
pub(crate) fn thread() -> usize {
    IS_INSIDE.with(|is_inside| std::ptr::from_ref(is_inside).addr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_inside_once_until_it_leaves() {
        let inside = Inside::enter();
        assert!(inside.is_some() && Inside::enter().is_none());
        let elsewhere = std::thread::spawn(|| (Inside::enter().is_some(), thread()));
        let (is_free, other) = elsewhere.join().unwrap();
        assert!(is_free && other != thread());
        drop(inside);
        assert!(Inside::enter().is_some());
    }
}
