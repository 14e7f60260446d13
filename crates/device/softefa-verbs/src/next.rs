//! Functions of the C library that this library interposes.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The next definition of an interposed function: the C library's, or another preloaded library's.
pub(crate) struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
    /// Whether its first caller may wait for the dynamic linker.
    is_found_by_callers: bool,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        let address = AtomicPtr::new(std::ptr::null_mut());
        Self { name, address, is_found_by_callers: false }
    }

    /// Returns the same for a function that signal handlers may not call: the first call before
    /// [`Next::resolve`] looks it up. Constructors of the program's libraries make such calls; they
    /// run before those of a preloaded library.
    pub(crate) const fn found_by_callers(self) -> Self {
        Self { is_found_by_callers: true, ..self }
    }

    /// Looks the function up. Not safe in a signal handler.
    pub(crate) fn resolve(&self) {
        // SAFETY: `name` is a C string; an unknown one gives null.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(address, Ordering::Relaxed);
    }

    /// Returns `None` where the C library has no such function, and before [`Next::resolve`] if
    /// callers do not look it up.
    #[inline]
    pub(crate) fn get(&self) -> Option<*mut c_void> {
        let address = self.address.load(Ordering::Relaxed);
        if address.is_null() { self.look_up() } else { Some(address) }
    }

    #[cold]
    fn look_up(&self) -> Option<*mut c_void> {
        if self.is_found_by_callers {
            self.resolve();
        }
        let address = self.address.load(Ordering::Relaxed);
        (!address.is_null()).then_some(address)
    }
}

/// The name of a function as a C string.
macro_rules! c_name {
    ($name:ident) => {
        const {
            match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("an identifier has no zero byte"),
            }
        }
    };
}

pub(crate) use c_name;
