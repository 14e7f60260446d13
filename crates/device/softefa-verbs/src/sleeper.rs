//! Objects that threads sleep on, which another thread may destroy meanwhile.
//!
//! Threads may be cancelled while they sleep: the stack is then unwound through the function that
//! sleeps, which therefore holds nothing that has to be dropped. Its reference to the object is
//! kept in a thread-local variable, and dropped when the thread ends.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

use crate::panic;

thread_local! {
    /// One object at a time, unless a signal handler sleeps, too.
    static SLEEPS_ON: RefCell<Vec<Arc<dyn Any + Send + Sync>>> = const { RefCell::new(Vec::new()) };
}

/// Returns the object, which stays until [`give_back`].
pub(crate) fn keep<T: Send + Sync + 'static>(object: &Arc<T>) -> *const T {
    let share = Arc::clone(object);
    let address = Arc::as_ptr(&share);
    let is_kept = SLEEPS_ON.try_with(|shares| {
        shares.borrow_mut().push(Arc::clone(&share) as Arc<dyn Any + Send + Sync>);
    });
    if is_kept.is_err() {
        // The thread is ending, and its destructors have run.
        std::mem::forget(share);
    }
    address
}

/// Drops the reference that keeps `object`.
///
/// # Safety
/// `object` came from [`keep`] in this call of the program.
pub(crate) unsafe fn give_back<T: Send + Sync + 'static>(object: *const T) {
    panic::count(|| {
        let share = SLEEPS_ON.try_with(|shares| {
            let mut shares = shares.borrow_mut();
            let is_it =
                |share: &Arc<dyn Any + Send + Sync>| std::ptr::addr_eq(Arc::as_ptr(share), object);
            shares.iter().rposition(is_it).map(|place| shares.swap_remove(place))
        });
        match share {
            Ok(share) => drop(share),
            // SAFETY: where there is no list any more, `keep` forgot the share.
            Err(_) => drop(unsafe { Arc::from_raw(object) }),
        }
        Ok(0)
    });
}
