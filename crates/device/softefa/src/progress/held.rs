//! What waits for the program's next post or poll, while the program does something else first.
//!
//! Acknowledgements wait for an answer that may carry them, posts for others to leave with them.
//! Both expect that the program goes on posting and polling. One that makes a queue pair or
//! registers memory instead may be long about it, and its peer would wait for the service thread's
//! next look.

use std::sync::atomic::{AtomicBool, Ordering};

use super::live;
use crate::host;

/// Whether something may wait.
static IS_ANY: AtomicBool = AtomicBool::new(false);

/// Something waits for the program's next post or poll.
#[inline]
pub(crate) fn note() {
    // The line stays shared between those who only look.
    if !IS_ANY.load(Ordering::Relaxed) {
        IS_ANY.store(true, Ordering::Relaxed);
    }
}

/// Sends what waits for the next post or poll. For a program that calls anything else.
#[inline]
pub fn release_held() {
    if IS_ANY.load(Ordering::Relaxed) {
        release();
    }
}

/// What another thread is at stays for the next call.
#[cold]
fn release() {
    IS_ANY.store(false, Ordering::Relaxed);
    let now = host::now();
    let mut is_left = false;
    for qp in live::all().iter() {
        is_left |= !qp.release_held(now);
    }
    if is_left {
        note();
    }
}
