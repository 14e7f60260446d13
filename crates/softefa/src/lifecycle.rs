//! The process around the adapter: its end and its children.
//!
//! Nothing is torn down in a destructor: libfabric destroys its queue pairs in its own library
//! destructor, which may run after ours would. At exit the last acknowledgements are repeated,
//! because nobody will be there to answer a retransmission (docs/ARCHITECTURE.md, "The end of a peer").

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::service;

static FORKED: AtomicBool = AtomicBool::new(false);

/// This process was forked from the one that owns the devices: sockets are shared and the service
/// thread is missing, so nothing may be touched.
pub(crate) fn is_forked_child() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Installs the handlers once per process.
#[allow(unsafe_code)]
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: both handlers are plain functions that live as long as the program; they do not
        // unwind. When the C library has no room for them the exit is merely less polite.
        unsafe {
            libc::atexit(at_exit);
            libc::pthread_atfork(None, None, Some(in_child));
        }
    });
}

extern "C" fn at_exit() {
    if !is_forked_child() {
        service::say_goodbye();
    }
}

extern "C" fn in_child() {
    FORKED.store(true, Ordering::Relaxed);
}
