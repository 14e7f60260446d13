//! Owning pointer to a libfabric object: closes it exactly once.

use std::ptr::NonNull;

use fabric_sys::fid;

use crate::error::{Error, check};

/// Types whose first field is the common `fid` header.
///
/// # Safety
/// Implement only for `repr(C)` structures that start with a [`fid`].
pub(crate) unsafe trait Fid {}

macro_rules! fids {
    ($($name:ident),*) => {$(
        // SAFETY: libfabric declares the structure with a `struct fid` as its first field
        // (asserted by fabric-sys' layout tables).
        unsafe impl Fid for fabric_sys::$name {}
    )*};
}
fids!(fid_fabric, fid_domain, fid_mr, fid_av, fid_cq, fid_ep);

/// A live object of type `T`, closed on drop.
#[derive(Debug)]
pub(crate) struct Owned<T: Fid> {
    pointer: NonNull<T>,
}

impl<T: Fid> Owned<T> {
    /// Runs an opening call that stores the object through its argument.
    pub(crate) fn open(
        call: &'static str,
        open: impl FnOnce(*mut *mut T) -> i32,
    ) -> Result<Self, Error> {
        let mut raw = std::ptr::null_mut();
        check(call, open(&raw mut raw))?;
        let pointer = NonNull::new(raw).ok_or_else(|| Error::call(call, -22))?;
        Ok(Self { pointer })
    }

    /// Returns the raw pointer, valid as long as `self`.
    pub(crate) const fn raw(&self) -> *mut T {
        self.pointer.as_ptr()
    }

    /// Returns the common header.
    pub(crate) const fn fid(&self) -> *mut fid {
        self.pointer.as_ptr().cast()
    }

    /// Closes now; returns whether the provider agreed.
    pub(crate) fn close(self) -> Result<(), Error> {
        let fid = self.fid();
        std::mem::forget(self);
        // SAFETY: the object is alive and, since `self` was forgotten, is closed only here.
        check("fi_close", unsafe { fabric_sys::call::fi_close(fid) })
    }
}

impl<T: Fid> Drop for Owned<T> {
    fn drop(&mut self) {
        // A refused close leaves the object to the provider: there is nothing better to do.
        // SAFETY: the object is alive and is closed only here.
        let _ = unsafe { fabric_sys::call::fi_close(self.fid()) };
    }
}
