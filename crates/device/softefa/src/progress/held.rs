//! Packets that wait for the program's next post or poll, while the program calls something else.
//!
//! Acknowledgements wait for an answer that may carry them, and posts wait to leave together. Both
//! assume that the program keeps posting and polling. A program that creates a queue pair or
//! registers memory instead may take long, and its peer would wait until the service thread's next
//! tick.

use std::sync::atomic::{AtomicBool, Ordering};

use super::live;
use crate::host;

/// Something may be waiting.
static IS_ANY: AtomicBool = AtomicBool::new(false);

/// Notes that something waits for the program's next post or poll.
#[inline]
pub(crate) fn note() {
    // The cache line stays shared while the value does not change.
    if !IS_ANY.load(Ordering::Relaxed) {
        IS_ANY.store(true, Ordering::Relaxed);
    }
}

/// Sends what waits for the next post or poll. Every other call of the program begins with this.
#[inline]
pub fn release_held() {
    if IS_ANY.load(Ordering::Relaxed) {
        release();
    }
}

/// A queue pair whose lock another thread holds is left for the next call.
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
