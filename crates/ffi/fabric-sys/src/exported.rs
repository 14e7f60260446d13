//! The few functions that the library exports; all others are reached through tables of objects.

use std::ffi::{c_char, c_int, c_void};

use crate::library::opened;
use crate::{fi_fabric_attr, fi_info, fid_fabric};

/// Defines functions of the library by their C names, with the result where there is no library.
macro_rules! exported {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?, else $none:expr;)*) => {
        /// The address of each function.
        #[derive(Debug)]
        pub(crate) struct Functions {
            $($name: unsafe extern "C" fn($($ty),*) $(-> $ret)?,)*
        }

        impl Functions {
            /// # Safety
            /// `find` returns the C functions of those names.
            pub(crate) unsafe fn find<E>(
                mut find: impl FnMut(&'static str) -> Result<*mut c_void, E>,
            ) -> Result<Self, E> {
                Ok(Self {
                    $(
                        // SAFETY: the type is that of `fabric.h` for this name.
                        $name: unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($ty),*) $(-> $ret)?,
                            >(find(stringify!($name))?)
                        },
                    )*
                })
            }
        }

        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// The pointers must be as the manual page of this function demands.
            pub unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
                match opened() {
                    // SAFETY: promised by the caller.
                    Some(library) => unsafe { (library.$name)($($arg),*) },
                    None => $none,
                }
            }
        )*
    };
}

/// Result without a library: `-FI_ENOSYS`, as a provider returns for what it does not have.
const MISSING: c_int = -38;

exported! {
    /// Lists the fabrics that match `hints`; release the list with [`fi_freeinfo`].
    fn fi_getinfo(version: u32, node: *const c_char, service: *const c_char, flags: u64,
        hints: *const fi_info, info: *mut *mut fi_info) -> c_int, else MISSING;
    /// Releases a list made by [`fi_getinfo`] or one copy made by [`fi_dupinfo`].
    fn fi_freeinfo(info: *mut fi_info), else ();
    /// Copies one entry deeply; a null argument gives an empty entry.
    fn fi_dupinfo(info: *const fi_info) -> *mut fi_info, else std::ptr::null_mut();
    /// Opens a fabric (the root object of a provider).
    fn fi_fabric(attr: *mut fi_fabric_attr, fabric: *mut *mut fid_fabric, context: *mut c_void)
        -> c_int, else MISSING;
    /// Returns the text for a positive libfabric error number; static memory.
    fn fi_strerror(errnum: c_int) -> *const c_char, else c"no libfabric".as_ptr();
    /// Writes a readable form of `data` into `buf`.
    fn fi_tostr_r(buf: *mut c_char, len: usize, data: *const c_void, datatype: c_int)
        -> *mut c_char, else buf;
    /// Returns the version of the loaded library, major in the upper 16 bits; 0 without one.
    fn fi_version() -> u32, else 0;
}
