//! The process around the adapter: its end and its children.
//!
//! Nothing is torn down in a destructor: libfabric destroys its queue pairs in its own library
//! destructor, which may run after ours would. At exit the last acknowledgements are repeated,
//! because nobody will be there to answer a retransmission (docs/ARCHITECTURE.md, "The end of a peer").

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::service;

static FORKED: AtomicBool = AtomicBool::new(false);

/// This process was forked from one that had opened a device: sockets and files are shared, locks may
/// be held by threads that do not exist here, and the service thread is missing. Objects that were
/// made before do nothing here, and a device cannot be opened.
#[must_use]
pub fn is_forked_child() -> bool {
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

/// Ends this process as SIGKILL does, so long from now; the first caller decides. The kernel does
/// it, whatever the program is at. Children do not inherit it.
#[allow(unsafe_code)]
pub(crate) fn end_after(after_ns: u64) -> io::Result<()> {
    static ARMED: AtomicBool = AtomicBool::new(false);
    if ARMED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    // A timer of 0 would never expire.
    let after = Duration::from_nanos(after_ns.max(1));
    // SAFETY: zero is valid in each member of these structures; the calls get valid pointers to
    // them and copy what they need.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGKILL;
        let mut timer: libc::timer_t = std::mem::zeroed();
        let mut when: libc::itimerspec = std::mem::zeroed();
        when.it_value.tv_sec = libc::time_t::try_from(after.as_secs()).unwrap_or(libc::time_t::MAX);
        when.it_value.tv_nsec = after.subsec_nanos().into();
        if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) != 0
            || libc::timer_settime(timer, 0, &raw const when, std::ptr::null_mut()) != 0
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

extern "C" fn at_exit() {
    if !is_forked_child() {
        service::say_goodbye();
    }
}

extern "C" fn in_child() {
    FORKED.store(true, Ordering::Relaxed);
}

/// For threads of ours: signals are the program's, and its handlers must not run on a small stack.
#[allow(unsafe_code)]
pub(crate) fn block_signals() {
    // SAFETY: `all` is filled before use.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
    }
}
