//! Forked processes, and the fork verbs.
//!
//! A child inherits the parent's sockets and rings. If its destructors released them they would
//! send in the parent's name, so objects remember the process that created them and a child only
//! forgets them. What it opens itself is its own.

use std::ffi::{c_int, c_void};

use softefa::Generation;

use crate::errno::Errno;
use crate::sys;

/// The process that created an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    made: Generation,
    /// Detects children that were not made by the C library's `fork`.
    pid: u32,
}

impl Owner {
    pub(crate) fn current() -> Self {
        Self { made: Generation::current(), pid: std::process::id() }
    }

    pub(crate) fn is_current(self) -> bool {
        self.made.is_current() && self.pid == std::process::id()
    }

    /// Refuses to use the object in a child: `ENODEV`, as for a device that was removed.
    pub(crate) fn check(self) -> Result<(), Errno> {
        if self.made.is_usable() && self.is_current() { Ok(()) } else { Err(Errno::ENODEV) }
    }

    /// Drops `object`, or forgets it in a child.
    pub(crate) fn release<T>(self, object: T) {
        if self.is_current() {
            drop(object);
        } else {
            std::mem::forget(object);
        }
    }
}

/// Always succeeds: nothing is pinned, so registered memory needs no protection from copy-on-write.
#[unsafe(no_mangle)]
extern "C" fn ibv_fork_init() -> c_int {
    0
}

/// Returns `IBV_FORK_UNNEEDED`; libfabric aborts on fork for any lesser value.
#[unsafe(no_mangle)]
extern "C" fn ibv_is_fork_initialized() -> c_int {
    sys::IBV_FORK_UNNEEDED
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dontfork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dofork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}
