//! `sigaction` and `signal`: what a program sets for SIGSEGV and SIGBUS comes after the adapter's
//! own look, which tells a hole in registered memory from a mistake of the program.

use std::ffi::{c_int, c_void};
use std::mem::{transmute, zeroed};

use crate::next::Next;

type Signal = unsafe extern "C" fn(c_int, libc::sighandler_t) -> libc::sighandler_t;

static SIGNAL: Next = Next::new(c"signal");

/// Looks the next definitions up, which is not safe in a signal handler: before the program runs.
#[used]
#[unsafe(link_section = ".init_array")]
static RESOLVE: extern "C" fn() = resolve;

extern "C" fn resolve() {
    SIGNAL.resolve();
    // SAFETY: asks for nothing.
    unsafe { softefa::sigaction(libc::SIGSEGV, std::ptr::null(), std::ptr::null_mut()) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the program's arguments, unchanged.
    unsafe { softefa::sigaction(signal, new, old) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn signal(signal: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    let is_ours = matches!(signal, libc::SIGSEGV | libc::SIGBUS);
    if let Some(next) = SIGNAL.get().filter(|_| !is_ours) {
        // SAFETY: the program's arguments, unchanged; the address is that of a function of this
        // type.
        return unsafe { transmute::<*mut c_void, Signal>(next)(signal, handler) };
    }
    // As the C library does (BSD semantics), also for constructors of libraries that run before
    // this one's.
    // SAFETY: zero is valid in each member; the calls get valid pointers.
    unsafe {
        let mut new: libc::sigaction = zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = libc::SA_RESTART;
        libc::sigaddset(&raw mut new.sa_mask, signal);
        let mut old: libc::sigaction = zeroed();
        let code = softefa::sigaction(signal, &raw const new, &raw mut old);
        if code == 0 { old.sa_sigaction } else { libc::SIG_ERR }
    }
}
