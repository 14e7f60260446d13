//! Pointers typed by ownership: each C structure belongs to exactly one Rust object around it.
//!
//! A program sees the address of the C structure; [`give`] passes it to the program, [`borrow`]
//! finds the object around it, [`take`] gets the object back. C code writes to the structure while
//! Rust holds shared references to the object, so objects keep it in an
//! [`UnsafeCell`](std::cell::UnsafeCell).

use crate::errno::Errno;

/// A Rust object that a program holds by a pointer to the C structure inside it.
///
/// # Safety
/// A `Self::C` (in an `UnsafeCell`) must lie `C_OFFSET` bytes into `Self`.
pub(crate) unsafe trait Handle: Sized {
    /// The structure of the C headers.
    type C;
    /// The offset of the structure in the object.
    const C_OFFSET: usize = 0;
}

/// Passes ownership to the program.
pub(crate) fn give<T: Handle>(object: Box<T>) -> *mut T::C {
    // SAFETY: `C_OFFSET` lies inside the allocation, as the trait demands.
    unsafe { Box::into_raw(object).byte_add(T::C_OFFSET).cast() }
}

/// Returns the address by which the program knows the object.
pub(crate) fn c_of<T: Handle>(object: &T) -> *mut T::C {
    // SAFETY: `C_OFFSET` lies inside the object, as the trait demands; what is there is in an
    // `UnsafeCell`, which makes the mutable pointer legitimate.
    unsafe { std::ptr::from_ref(object).byte_add(T::C_OFFSET).cast_mut().cast() }
}

/// Returns the object around `c`, or `EINVAL` for null.
///
/// # Safety
/// `c` is null or came from [`give`] of the same type and was not taken back; it must not be taken
/// back as long as the reference is used. Programs promise this with every verbs call.
pub(crate) unsafe fn borrow<'a, T: Handle>(c: *mut T::C) -> Result<&'a T, Errno> {
    if c.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: `give` moved the pointer forward by the same offset from a live `Box<T>`.
    Ok(unsafe { &*c.byte_sub(T::C_OFFSET).cast::<T>() })
}

/// Takes ownership back from the program.
///
/// # Safety
/// As for [`borrow`], and the object is no longer used elsewhere.
pub(crate) unsafe fn take<T: Handle>(c: *mut T::C) -> Result<Box<T>, Errno> {
    if c.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: `give` made this pointer from a `Box<T>` and the caller is its last user.
    Ok(unsafe { Box::from_raw(c.byte_sub(T::C_OFFSET).cast::<T>()) })
}
