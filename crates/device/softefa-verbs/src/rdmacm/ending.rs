//! The end of a process, and children that share the memory of their parent.

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::manager;
use super::marks::HIDDEN;

/// The number of copies of the last messages, because nobody will repeat them.
const DISCONNECT_COPIES: usize = 3;
/// The time between copies, so that one full buffer does not drop all of them.
const COPY_INTERVAL: Duration = Duration::from_micros(100);
/// How long an exiting process waits for a thread that holds the manager.
const WAIT_MAX: Duration = Duration::from_millis(1);

/// After the program's own handlers and destructors, which may still end connections and wait for
/// events.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = at_exit;

/// Makes children release the sockets.
pub(super) fn prepare() {
    static IS_PREPARED: AtomicBool = AtomicBool::new(false);
    if !IS_PREPARED.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler is a plain function that lives as long as the program and does not
        // unwind. Where the C library has no room for it peers hear later that nobody is there.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}

/// Releases the sockets in a child, which must not keep the ports of its parent: peers must get an
/// error once the parent is gone. The child has the parent's objects, too, but never touches them.
extern "C" fn in_child() {
    for fd in HIDDEN.all() {
        HIDDEN.remove(fd);
        // SAFETY: a descriptor of ours.
        unsafe { libc::syscall(libc::SYS_close, fd) };
    }
}

extern "C" fn at_exit() {
    // A panic must not turn the end of the process into an abort.
    let _ = catch_unwind(disconnect_peers);
}

/// Ends all connections, as if the program disconnected them.
fn disconnect_peers() {
    let Some(manager) = manager::current() else { return };
    let begin = Instant::now();
    // With a limit, because a thread that was ended inside a call never releases the lock.
    let mut state = loop {
        match manager.try_lock() {
            Some(state) => break state,
            None if begin.elapsed() > WAIT_MAX => return,
            None => std::thread::yield_now(),
        }
    };
    let now = manager.now();
    state.ids.disconnect_all(now);
    let said = state.messages();
    for round in 0..DISCONNECT_COPIES {
        if round > 0 && !said.is_empty() {
            std::thread::sleep(COPY_INTERVAL);
        }
        for message in &said {
            state.transmit(now, message);
        }
    }
    state.settle(now);
}
