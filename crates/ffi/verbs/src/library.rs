//! The libraries of the machine, opened on the first request for a device and never closed.

use std::ffi::c_void;
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY};

use crate::error::Error;

/// The functions that a library exports.
pub(crate) trait Functions: Sized + 'static {
    /// The name of the library's file.
    const FILE: &str;

    /// Returns the place where they are kept once they were looked for.
    fn place() -> &'static OnceLock<Result<Self, Error>>;

    /// Finds each by its name.
    ///
    /// # Safety
    /// `find` returns the C functions of those names.
    unsafe fn find(
        find: impl FnMut(&'static str) -> Result<*mut c_void, Error>,
    ) -> Result<Self, Error>;

    /// Opens the library unless it is open.
    fn open() -> Result<&'static Self, Error> {
        Self::place().get_or_init(|| search::<Self>(Self::FILE)).as_ref().map_err(Clone::clone)
    }

    /// Returns the functions, if the library was opened.
    fn opened() -> Option<&'static Self> {
        Self::place().get().and_then(|result| result.as_ref().ok())
    }
}

/// Finds the functions among all that programs see, so that a library that was preloaded comes
/// first, as it does for a program that is linked with this one.
fn search<F: Functions>(file: &'static str) -> Result<F, Error> {
    // SAFETY: its initializers only set up its own data.
    let opened = unsafe { Library::open(Some(file), RTLD_LAZY | RTLD_GLOBAL) };
    let refused = match opened {
        // It stays: providers have threads of their own.
        Ok(library) => {
            std::mem::forget(library);
            None
        }
        // A preloaded library may have all of it.
        Err(error) => Some(no_library(file, error)),
    };
    let all = Library::this();
    let find = |name: &'static str| {
        // SAFETY: an address is taken and nothing is called.
        let found = unsafe { all.get::<*mut c_void>(name.as_bytes()) };
        found
            .map(|symbol| *symbol)
            .map_err(|error| refused.clone().unwrap_or_else(|| no_library(file, error)))
    };
    // SAFETY: C functions are the only ones of those names.
    unsafe { F::find(find) }
}

/// Converts the loader's message, which names the file or the function, to one line.
#[expect(clippy::needless_pass_by_value, reason = "map_err hands it over")]
fn no_library(file: &'static str, error: libloading::Error) -> Error {
    let reason =
        std::error::Error::source(&error).map_or_else(|| error.to_string(), |e| e.to_string());
    Error::NoLibrary { file, reason }
}

/// Defines functions of a library by their C names, with the result while it is not open.
macro_rules! exported {
    ($functions:ident of $file:literal: $(
        fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?, else $none:expr;
    )*) => {
        /// The address of each function.
        pub(crate) struct $functions {
            $($name: unsafe extern "C" fn($($ty),*) $(-> $ret)?,)*
        }

        impl Functions for $functions {
            const FILE: &str = $file;

            fn place() -> &'static std::sync::OnceLock<Result<Self, crate::error::Error>> {
                static PLACE: std::sync::OnceLock<Result<$functions, crate::error::Error>> =
                    std::sync::OnceLock::new();
                &PLACE
            }

            unsafe fn find(
                mut find: impl FnMut(&'static str) -> Result<*mut c_void, crate::error::Error>,
            ) -> Result<Self, crate::error::Error> {
                Ok(Self {
                    $(
                        // SAFETY: the type is that of the header for this name.
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
            pub(crate) unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
                match $functions::opened() {
                    // SAFETY: promised by the caller.
                    Some(library) => unsafe { (library.$name)($($arg),*) },
                    None => $none,
                }
            }
        )*
    };
}

pub(crate) use exported;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Efa;

    #[test]
    fn a_library_that_is_not_there_is_named_with_its_package() {
        struct Nothing;
        impl Functions for Nothing {
            const FILE: &str = "libibverbs-of-nobody.so.1";

            fn place() -> &'static OnceLock<Result<Self, Error>> {
                static PLACE: OnceLock<Result<Nothing, Error>> = OnceLock::new();
                &PLACE
            }

            unsafe fn find(
                mut find: impl FnMut(&'static str) -> Result<*mut c_void, Error>,
            ) -> Result<Self, Error> {
                find("ibv_of_nobody").map(|_| Self)
            }
        }
        let text = Nothing::open().err().expect("an error").to_string();
        assert!(text.contains(Nothing::FILE) && text.contains("ibverbs-providers"), "{text}");
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn what_is_open_is_found() {
        assert!(Efa::open().is_ok() && Efa::opened().is_some());
    }
}
