//! Threads that the program cancels (`pthread_cancel`).
#![allow(unsafe_code)]

use std::ffi::c_int;

const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// The calling thread is not cancelled until this is dropped. Most system calls of the C library
/// are cancellation points; a thread that was cancelled in one would unwind through frames that
/// cannot be unwound and that hold locks.
#[derive(Debug)]
pub struct Uncancelled {
    before: c_int,
}

impl Uncancelled {
    /// Puts a cancellation off.
    #[inline]
    #[must_use]
    pub fn begin() -> Self {
        let mut before = 0;
        // SAFETY: writes the former state, of this thread alone.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
        Self { before }
    }
}

impl Drop for Uncancelled {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the state of this thread that `begin` found.
        unsafe { pthread_setcancelstate(self.before, std::ptr::null_mut()) };
    }
}
