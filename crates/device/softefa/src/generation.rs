//! Generations of processes: they tell which process made an object. A forked child continues with
//! the memory of its parent, but not with the parent's sockets, files, locks and threads.
//!
//! A handler of `pthread_atfork` counts generations in the child. Objects remember theirs and do
//! nothing in a later one, before they take a lock that a thread of the parent may have held.
//! A value that belongs to a process as a whole is a [`PerProcess`]: a child makes its own.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::say::say;

/// The number of forks between the process that loaded the adapter and this one.
static NOW: AtomicU32 = AtomicU32::new(0);

/// The work around a fork, done by the thread that forks. The last two functions must neither wait
/// nor allocate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AroundFork {
    /// Runs in the parent, before the fork.
    pub(crate) prepare: fn(),
    /// Runs in the parent, after the fork.
    pub(crate) in_parent: fn(),
    /// Runs in the child, in which all inherited objects count as its parent's by then.
    pub(crate) in_child: fn(),
}

static AROUND: OnceLock<AroundFork> = OnceLock::new();
static UNLOCK: OnceLock<fn()> = OnceLock::new();

/// Runs `around` at each fork. Only the first call has an effect.
pub(crate) fn around_fork(around: AroundFork) {
    let _ = AROUND.set(around);
}

/// Calls `unlock` in each child, after everything else. It must neither wait nor allocate. Only the
/// first call has an effect.
pub(crate) fn in_child_last(unlock: fn()) {
    let _ = UNLOCK.set(unlock);
}

/// The identity of a process, which differs from those of the processes that it was forked from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation(u32);

impl Generation {
    /// Returns the generation of this process.
    #[must_use]
    pub fn current() -> Self {
        install();
        Self(NOW.load(Ordering::Relaxed))
    }

    /// Returns true if this process made the object. An object that a parent made must not be
    /// touched: its locks may be taken for ever, and what they guard is the parent's.
    #[inline]
    #[must_use]
    pub fn is_current(self) -> bool {
        self.0 == NOW.load(Ordering::Relaxed)
    }

    /// Returns as [`Generation::is_current`] does, for a program that wants to use the object. The
    /// first time, a child is told in one line why nothing happens.
    #[inline]
    #[must_use]
    pub fn is_usable(self) -> bool {
        let is_current = self.is_current();
        if !is_current {
            warn();
        }
        is_current
    }
}

impl Default for Generation {
    fn default() -> Self {
        Self::current()
    }
}

#[cold]
fn warn() {
    static SAID_IN: AtomicU32 = AtomicU32::new(0);
    // Nothing is inherited in generation 0, so that this process never needs the line.
    let now = NOW.load(Ordering::Relaxed);
    if SAID_IN.swap(now, Ordering::Relaxed) != now {
        say(&format!(
            "softefa: process {} was forked from one that had opened the device: what it inherited does \
             nothing here (polls find nothing, posts are refused); open the device anew in this process",
            std::process::id()
        ));
    }
}

extern "C" fn prepare() {
    if let Some(around) = AROUND.get() {
        (around.prepare)();
    }
}

extern "C" fn in_parent() {
    if let Some(around) = AROUND.get() {
        (around.in_parent)();
    }
}

extern "C" fn in_child() {
    // This comes first: from here on, everything that runs in the child leaves the locks of the
    // parent alone.
    NOW.fetch_add(1, Ordering::Relaxed);
    if let Some(around) = AROUND.get() {
        (around.in_child)();
    }
    if let Some(unlock) = UNLOCK.get() {
        unlock();
    }
}

/// Counts generations from the loading of the library on, before its program can have handlers of
/// its own. Handlers that are registered first run last before a fork and first after it, so that
/// those of the program may use the adapter: they find no lock taken, and in a child no generation
/// but its own.
#[used]
#[unsafe(link_section = ".init_array")]
static INSTALL: extern "C" fn() = install;

/// Counts generations from now on, if that has not begun. It takes no lock, which a thread of the
/// parent might hold at a fork: of two threads that come first, both may install the handler, and a
/// child counts by two.
extern "C" fn install() {
    static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
    if !IS_INSTALLED.load(Ordering::Acquire) {
        // SAFETY: the handlers are plain functions that live as long as the program and do not
        // unwind. When the C library has no room for it a child is not told from its parent.
        unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
        IS_INSTALLED.store(true, Ordering::Release);
    }
}

/// A value that every process makes for itself, when it first needs it. A child forgets the value
/// of its parent without touching it.
#[derive(Debug)]
pub struct PerProcess<T>(AtomicPtr<Slot<T>>);

#[derive(Debug)]
struct Slot<T> {
    of: Generation,
    value: OnceLock<T>,
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> PerProcess<T> {
    /// Makes an empty cell.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }
}

impl<T: Send + Sync + 'static> PerProcess<T> {
    /// Returns the value of this process, if there is one.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<&'static T> {
        self.latest().filter(|slot| slot.of.is_current())?.value.get()
    }

    /// Returns the value of this process, and makes it first if there is none.
    #[inline]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &'static T {
        match self.get() {
            Some(value) => value,
            None => self.slot().value.get_or_init(make),
        }
    }

    /// Returns the value that this process or one before it has made, and makes it first if there
    /// is none. It is for values that a child may share with its parent.
    pub fn inherit_or_init(&self, make: impl FnOnce() -> T) -> &'static T {
        let inherited = self.latest().and_then(|slot| slot.value.get());
        inherited.unwrap_or_else(|| self.get_or_init(make))
    }

    /// Returns the slot that was made last, by this process or one before it.
    #[inline]
    fn latest(&self) -> Option<&'static Slot<T>> {
        // SAFETY: null, or a leaked box of `slot`.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the slot of this process. A thread of the parent may have been using the slot of the
    /// parent.
    #[cold]
    fn slot(&self) -> &'static Slot<T> {
        let of = Generation::current();
        loop {
            let before = self.0.load(Ordering::Acquire);
            // SAFETY: null, or a leaked box, as below.
            if let Some(slot) = unsafe { before.as_ref() }.filter(|slot| slot.of == of) {
                return slot;
            }
            let fresh = Box::into_raw(Box::new(Slot { of, value: OnceLock::new() }));
            let order = (Ordering::AcqRel, Ordering::Acquire);
            if self.0.compare_exchange(before, fresh, order.0, order.1).is_err() {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result of `body` in a child, 0 to 255.
    fn in_child(body: impl FnOnce() -> u8) -> u8 {
        // SAFETY: the child runs `body` and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = body();
            // SAFETY: ends the process without destructors.
            unsafe { libc::_exit(code.into()) };
        }
        let mut status = 0;
        // SAFETY: a child of ours and a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status), "{status:#x}");
        libc::WEXITSTATUS(status) as u8
    }

    #[test]
    fn children_and_grandchildren_are_generations_of_their_own() {
        let mine = Generation::current();
        assert!(mine.is_current());
        let code = in_child(|| {
            let childs = Generation::current();
            let grandchild = in_child(|| {
                let its = Generation::current();
                u8::from(its == mine || its == childs || mine.is_current() || childs.is_current())
            });
            grandchild + 2 * u8::from(childs == mine || mine.is_current() || !childs.is_current())
        });
        assert_eq!(code, 0);
        assert!(mine.is_current(), "the parent's is as it was");
    }

    /// A thread of the parent is making the value at the fork, and is not there in the child.
    #[test]
    fn a_child_does_not_wait_for_a_value_that_its_parent_is_making() {
        static OWN: PerProcess<u8> = PerProcess::new();
        let (begun, has_begun) = std::sync::mpsc::channel();
        let (end, may_end) = std::sync::mpsc::channel();
        let maker = std::thread::spawn(move || {
            *OWN.get_or_init(|| {
                begun.send(()).unwrap();
                may_end.recv().unwrap();
                1
            })
        });
        has_begun.recv().unwrap();
        assert_eq!(OWN.get(), None);
        let made = in_child(|| {
            // SAFETY: ends a child that hangs.
            unsafe { libc::alarm(20) };
            assert_eq!(OWN.get(), None);
            *OWN.get_or_init(|| 2) + *OWN.inherit_or_init(|| 3)
        });
        end.send(()).unwrap();
        assert_eq!((made, maker.join().unwrap(), OWN.get()), (4, 1, Some(&1)));
        let (inherited, own) =
            (in_child(|| *OWN.inherit_or_init(|| 5)), in_child(|| *OWN.get_or_init(|| 5)));
        assert_eq!((inherited, own), (1, 5));
    }
}
