//! SIGSEGV and SIGBUS: first a look whether a copy of ours met a hole, then the program's action.
//!
//! The adapter's handler must stay in front of the program's. Programs and their libraries set
//! actions at any time (UCX and Open MPI print backtraces), so whoever interposes `sigaction` hands
//! it to [`sigaction`], which keeps the program's action here and tells of it as the kernel would.
//! An action that a program sets by a system call of its own replaces the handler: then a hole ends
//! the program, as it would without the adapter's care.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, transmute, zeroed};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::copy;
use crate::generation::{self, PerProcess};

type Real = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
type WithInfo = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
type Plain = unsafe extern "C" fn(c_int);

/// The program's action for one signal, while the adapter's handler stands in front of it.
struct Action {
    is_guarded: AtomicBool,
    is_locked: AtomicBool,
    action: UnsafeCell<MaybeUninit<libc::sigaction>>,
}

// SAFETY: `action` is touched under `is_locked` only.
unsafe impl Sync for Action {}

static SEGV: Action = Action::new();
static BUS: Action = Action::new();

impl Action {
    const fn new() -> Self {
        Self {
            is_guarded: AtomicBool::new(false),
            is_locked: AtomicBool::new(false),
            action: UnsafeCell::new(MaybeUninit::zeroed()),
        }
    }

    fn of(signal: c_int) -> Option<&'static Self> {
        match signal {
            libc::SIGSEGV => Some(&SEGV),
            libc::SIGBUS => Some(&BUS),
            _ => None,
        }
    }

    /// Lets `change` at the action. Short and without calls, so that a handler may wait for it.
    fn with<T>(&self, change: impl FnOnce(&mut libc::sigaction) -> T) -> T {
        while self.is_locked.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        // SAFETY: the lock is held, and all bytes were initialised as zero, which is valid.
        let result = change(unsafe { (*self.action.get()).assume_init_mut() });
        self.is_locked.store(false, Ordering::Release);
        result
    }
}

/// Puts the adapter's handler in front of the program's actions, once per process.
pub(crate) fn install() {
    static ONCE: PerProcess<()> = PerProcess::new();
    generation::in_child_last(unlock_in_child);
    ONCE.get_or_init(|| {
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            let Some(action) = Action::of(signal) else { continue };
            // SAFETY: both structures live through the calls, and the handler for ever.
            unsafe {
                let mut before: libc::sigaction = zeroed();
                if real()(signal, std::ptr::null(), &raw mut before) != 0 {
                    continue;
                }
                if before.sa_sigaction == handle as WithInfo as usize {
                    // Inherited, with the program's action behind it.
                    action.is_guarded.store(true, Ordering::Release);
                    continue;
                }
                action.with(|action| *action = before);
                let ours = in_front_of(&before);
                let is_set = real()(signal, &raw const ours, std::ptr::null_mut()) == 0;
                action.is_guarded.store(is_set, Ordering::Release);
            }
        }
    });
}

/// `sigaction(2)` for a program: what it sets for SIGSEGV and SIGBUS comes after the adapter's
/// look, and what it asks for is what it set.
///
/// # Safety
/// As `sigaction(2)`: `new` and `old` are null or valid.
pub unsafe fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    let guarded = Action::of(signal).filter(|action| action.is_guarded.load(Ordering::Acquire));
    let Some(action) = guarded else {
        // SAFETY: as this function demands.
        return unsafe { real()(signal, new, old) };
    };
    // SAFETY: null or valid, as this function demands.
    let new = unsafe { new.as_ref() }.copied();
    let before = action.with(|action| match new {
        Some(new) => std::mem::replace(action, new),
        None => *action,
    });
    if !old.is_null() {
        // SAFETY: not null, so valid.
        unsafe { old.write(before) };
    }
    let Some(new) = new else { return 0 };
    let ours = in_front_of(&new);
    // SAFETY: the structure lives through the call.
    unsafe { real()(signal, &raw const ours, std::ptr::null_mut()) }
}

/// The adapter's handler with the flags and the mask that `action` asks for.
fn in_front_of(action: &libc::sigaction) -> libc::sigaction {
    let mut ours = *action;
    ours.sa_sigaction = handle as WithInfo as usize;
    ours.sa_flags &= !libc::SA_RESETHAND;
    ours.sa_flags |= libc::SA_SIGINFO | libc::SA_ONSTACK;
    ours
}

/// The C library's `sigaction`, which a library that interposes it hides.
fn real() -> Real {
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let mut found = FOUND.load(Ordering::Relaxed);
    if found.is_null() {
        // SAFETY: the name is a C string.
        found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"sigaction".as_ptr()) };
        // Whoever looks at the same time finds the same.
        FOUND.store(found, Ordering::Relaxed);
    }
    if found.is_null() {
        // Statically linked programs have the one they are linked with.
        return libc::sigaction;
    }
    // SAFETY: a definition of that name has that type.
    unsafe { transmute::<*mut c_void, Real>(found) }
}

/// A thread of the parent may have been at the actions at the fork.
fn unlock_in_child() {
    [&SEGV, &BUS].iter().for_each(|action| action.is_locked.store(false, Ordering::Release));
}

unsafe extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the interrupted thread's context, for this handler to change.
    if !copy::end_faulted(unsafe { &mut *context.cast() }) {
        // SAFETY: the arguments are the kernel's.
        unsafe { pass_on(signal, info, context) };
    }
}

/// Does what the kernel would have done without the adapter.
///
/// # Safety
/// With the arguments of a signal handler, from one.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(of) = Action::of(signal) else { return };
    let action = of.with(|action| {
        let now = *action;
        if now.sa_flags & libc::SA_RESETHAND != 0 {
            action.sa_sigaction = libc::SIG_DFL;
        }
        now
    });
    // SAFETY: the kernel's, as this function demands. A positive code means a fault of this thread.
    let is_fault = unsafe { (*info).si_code } > 0;
    match action.sa_sigaction {
        libc::SIG_IGN if !is_fault => {}
        // A fault that is ignored ends the program, too.
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: zero is valid in each member, and means the default action.
            unsafe {
                let default: libc::sigaction = zeroed();
                real()(signal, &raw const default, std::ptr::null_mut());
            }
            of.is_guarded.store(false, Ordering::Release);
            if !is_fault {
                // Delivered when this handler returns; a fault repeats itself.
                // SAFETY: no precondition.
                unsafe { libc::raise(signal) };
            }
        }
        // SAFETY: what a program sets as a handler is a function of the kind that the flag says.
        handler if action.sa_flags & libc::SA_SIGINFO != 0 => unsafe {
            transmute::<usize, WithInfo>(handler)(signal, info, context);
        },
        // SAFETY: as above.
        handler => unsafe { transmute::<usize, Plain>(handler)(signal) },
    }
}
