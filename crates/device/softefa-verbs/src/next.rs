//! Functions of the C library that this library stands in front of.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The definition of a function behind ours: the C library's, or another preloaded library's.
pub(crate) struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Not safe in a signal handler.
    pub(crate) fn resolve(&self) {
        // SAFETY: `name` is a C string; an unknown one gives null.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(address, Ordering::Relaxed);
    }

    /// `None` before [`Next::resolve`], and where the C library has no such function.
    pub(crate) fn get(&self) -> Option<*mut c_void> {
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
