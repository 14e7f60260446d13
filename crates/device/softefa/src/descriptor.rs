//! File descriptors, of which a process may run out.

use std::io;
use std::sync::OnceLock;

use rustix::process::{Resource, getrlimit, setrlimit};

/// Gives descriptors up that are dispensable; whether there were any.
static MAKE_ROOM: OnceLock<fn() -> bool> = OnceLock::new();

/// Registers somebody who can give descriptors up; the first one is asked.
pub(crate) fn on_shortage(make_room: fn() -> bool) {
    let _ = MAKE_ROOM.set(make_room);
}

/// Runs `open`, which needs a file descriptor. When the process has none left, gives up those of
/// destroyed queue pairs, then raises its soft limit as far as that takes and is allowed. Not
/// before: a program that waits with `select` cannot use descriptors above 1,023, and every queue
/// pair is one.
///
/// # Errors
/// Those of `open`.
pub fn with_descriptor<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let make_room = || MAKE_ROOM.get().is_some_and(|make_room| make_room()) || raise_limit();
    loop {
        match open() {
            Err(error) if error.raw_os_error() == Some(libc::EMFILE) && make_room() => {}
            result => return result,
        }
    }
}

/// Doubles the soft limit of open files; `false` when the hard limit is reached.
fn raise_limit() -> bool {
    let mut limit = getrlimit(Resource::Nofile);
    let (Some(soft), hard) = (limit.current, limit.maximum.unwrap_or(u64::MAX)) else {
        return false;
    };
    let raised = soft.saturating_mul(2).max(64).min(hard);
    limit.current = Some(raised);
    raised > soft && setrlimit(Resource::Nofile, limit).is_ok()
}
