//! What threads sleep on, because another thread may end it meanwhile.
//!
//! Threads may be cancelled in their sleep: then the stack is unwound through the function that
//! sleeps, which therefore holds nothing that has to be dropped. Its share of the object is the
//! thread's, and goes back when the thread ends.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

use crate::panic;

thread_local! {
    /// One at a time, unless a signal handler sleeps, too.
    static SLEEPS_ON: RefCell<Vec<Arc<dyn Any + Send + Sync>>> = const { RefCell::new(Vec::new()) };
}

/// The object, which stays until [`give_back`].
pub(crate) fn keep<T: Send + Sync + 'static>(object: &Arc<T>) -> *const T {
    let share = Arc::clone(object);
    let address = Arc::as_ptr(&share);
    let is_kept = SLEEPS_ON.try_with(|shares| {
        shares.borrow_mut().push(Arc::clone(&share) as Arc<dyn Any + Send + Sync>);
    });
    if is_kept.is_err() {
        // In the last moments of a thread, whose destructors have run.
        std::mem::forget(share);
    }
    address
}

/// The thread does not sleep on `object` any more.
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
