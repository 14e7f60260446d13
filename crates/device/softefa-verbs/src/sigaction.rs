//! `sigaction`, `signal` and their variants: the program's handlers for SIGSEGV and SIGBUS run
//! after the adapter's own, which tells a hole in registered memory from a bug of the program.

use std::ffi::{c_int, c_void};
use std::mem::{transmute, zeroed};

use libc::sighandler_t;

use crate::errno::Errno;

type Signal = unsafe extern "C" fn(c_int, sighandler_t) -> sighandler_t;

/// `sigset` blocks the signal instead of setting an action, or says that it was blocked.
const SIG_HOLD: sighandler_t = 2;

/// Looks the next definitions up, which is not safe in a signal handler: before the program runs.
#[used]
#[unsafe(link_section = ".init_array")]
static RESOLVE: extern "C" fn() = resolve;

extern "C" fn resolve() {
    next::ALL.iter().for_each(|next| next.resolve());
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

/// Defines functions that set an action with only a handler. The C library's are used for all
/// signals but two, for which `own` sets the action.
macro_rules! handler_setters {
    ($($name:ident: $own:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(signal: c_int, handler: sighandler_t) -> sighandler_t {
                let is_ours = matches!(signal, libc::SIGSEGV | libc::SIGBUS);
                match next::$name.get().filter(|_| !is_ours) {
                    // SAFETY: the program's arguments, unchanged; the address is that of a function
                    // of this type.
                    Some(next) => unsafe { transmute::<*mut c_void, Signal>(next)(signal, handler) },
                    // Needed for constructors of libraries that run before this one's.
                    None => $own(signal, handler),
                }
            }
        )*

        #[allow(non_upper_case_globals, reason = "named as the functions that they are the next definitions of")]
        mod next {
            use crate::next::{Next, c_name};
            $(pub(super) static $name: Next = Next::new(c_name!($name));)*
            pub(super) static ALL: &[&Next] = &[$(&$name),*];
        }
    };
}

handler_setters! {
    signal: set_as_bsd;
    bsd_signal: set_as_bsd;
    ssignal: set_as_bsd;
    // The variant of `signal` in programs that are built for strict C or X/Open.
    sysv_signal: set_as_system_v;
    __sysv_signal: set_as_system_v;
    sigset: set_or_hold;
}

fn set_as_bsd(signal: c_int, handler: sighandler_t) -> sighandler_t {
    set(signal, handler, libc::SA_RESTART)
}

fn set_as_system_v(signal: c_int, handler: sighandler_t) -> sighandler_t {
    set(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER)
}

fn set_or_hold(signal: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: zero is valid in each member; the calls get valid pointers.
    unsafe {
        let (mut this, mut before): (libc::sigset_t, libc::sigset_t) = (zeroed(), zeroed());
        libc::sigaddset(&raw mut this, signal);
        let hold = handler == SIG_HOLD;
        let old = if hold { current(signal) } else { set(signal, handler, 0) };
        if old == libc::SIG_ERR {
            return old;
        }
        let how = if hold { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
        libc::pthread_sigmask(how, &raw const this, &raw mut before);
        if libc::sigismember(&raw const before, signal) == 1 { SIG_HOLD } else { old }
    }
}

/// Sets an action like the C library, and returns the previous one.
fn set(signal: c_int, handler: sighandler_t, flags: c_int) -> sighandler_t {
    if handler == libc::SIG_ERR {
        Errno::EINVAL.store();
        return libc::SIG_ERR;
    }
    // SAFETY: zero is valid in each member; the calls get valid pointers.
    unsafe {
        let mut new: libc::sigaction = zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = flags;
        if flags & libc::SA_NODEFER == 0 {
            libc::sigaddset(&raw mut new.sa_mask, signal);
        }
        let mut old: libc::sigaction = zeroed();
        let code = softefa::sigaction(signal, &raw const new, &raw mut old);
        if code == 0 { old.sa_sigaction } else { libc::SIG_ERR }
    }
}

fn current(signal: c_int) -> sighandler_t {
    // SAFETY: zero is valid in each member; asks only.
    unsafe {
        let mut now: libc::sigaction = zeroed();
        let code = softefa::sigaction(signal, std::ptr::null(), &raw mut now);
        if code == 0 { now.sa_sigaction } else { libc::SIG_ERR }
    }
}
