//! The library of the machine, opened once and never closed: it has a thread of its own.

use std::sync::OnceLock;

use libloading::os::unix::{Library as Opened, RTLD_GLOBAL, RTLD_NOW};

use crate::error::Error;
use crate::sys;

/// File name of the library, which all releases since 2.0 have.
const FILE: &str = "libpmix.so.2";

/// The functions in use.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) init: sys::Init,
    pub(crate) finalize: sys::Finalize,
    pub(crate) put: sys::Put,
    pub(crate) commit: sys::Commit,
    pub(crate) get: sys::Get,
    pub(crate) error_string: sys::ErrorString,
    pub(crate) version: sys::GetVersion,
}

impl Library {
    /// Returns the library, which the first call opens.
    pub(crate) fn get() -> Result<&'static Self, Error> {
        static LIBRARY: OnceLock<Result<Library, Error>> = OnceLock::new();
        LIBRARY.get_or_init(|| Self::open(FILE)).as_ref().map_err(Clone::clone)
    }

    fn open(file: &str) -> Result<Self, Error> {
        // Its plug-ins look for its functions among those of the program.
        // SAFETY: its initializers only set up its own data.
        let opened =
            unsafe { Opened::open(Some(file), RTLD_NOW | RTLD_GLOBAL) }.map_err(no_library)?;
        // It stays: a thread of its own may still run in it.
        let opened = Box::leak(Box::new(opened));
        // SAFETY: the types are those of `pmix.h` for these names.
        unsafe {
            Ok(Self {
                init: function(opened, "PMIx_Init")?,
                finalize: function(opened, "PMIx_Finalize")?,
                put: function(opened, "PMIx_Put")?,
                commit: function(opened, "PMIx_Commit")?,
                get: function(opened, "PMIx_Get")?,
                error_string: function(opened, "PMIx_Error_string")?,
                version: function(opened, "PMIx_Get_version")?,
            })
        }
    }
}

/// # Safety
/// `T` is the function pointer type of the C function `name`.
unsafe fn function<T: Copy>(library: &Opened, name: &str) -> Result<T, Error> {
    // SAFETY: as above.
    unsafe { library.get::<T>(name.as_bytes()) }.map(|symbol| *symbol).map_err(no_library)
}

/// Converts the loader's message, which names the file, to one line.
#[expect(clippy::needless_pass_by_value, reason = "map_err hands it over")]
fn no_library(error: libloading::Error) -> Error {
    let text =
        std::error::Error::source(&error).map_or_else(|| error.to_string(), |e| e.to_string());
    Error::NoLibrary(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named_with_its_package() {
        let text = Library::open("libpmix-of-nobody.so.2").unwrap_err().to_string();
        assert!(text.contains("libpmix-of-nobody.so.2") && text.contains("libpmix2"), "{text}");
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn another_library_is_refused_by_the_function_it_lacks() {
        let text = Library::open("libc.so.6").unwrap_err().to_string();
        assert!(text.contains("PMIx_Init"), "{text}");
    }
}
