//! The library of the machine, opened once and never closed: providers have threads of their own.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY};

use crate::exported::Functions;
use crate::fi_make_version;

/// File name of the library, which all releases of this ABI have.
const FILE: &str = "libfabric.so.1";

/// Oldest version whose calls and structures these bindings are.
const OLDEST: (u32, u32) = (1, 17);

static OPENED: OnceLock<Result<Functions, NoLibrary>> = OnceLock::new();

/// An error: there is no libfabric, with the loader's message, or it is too old.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoLibrary(String);

impl fmt::Display for NoLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoLibrary {}

/// Opens the library unless it is open; every function needs that.
///
/// # Errors
/// Returns [`NoLibrary`], the same each time.
pub fn open() -> Result<(), NoLibrary> {
    OPENED.get_or_init(|| find(FILE)).as_ref().map(|_| ()).map_err(Clone::clone)
}

/// Returns the functions, if the library was opened.
pub(crate) fn opened() -> Option<&'static Functions> {
    OPENED.get().and_then(|result| result.as_ref().ok())
}

fn find(file: &str) -> Result<Functions, NoLibrary> {
    let library = load(file).map_err(reason)?;
    // It stays: threads of providers may still run in it.
    let library = Box::leak(Box::new(library));
    // The loader returns the newest version of each name, so they go together.
    let mut address = |name: &'static str| {
        // SAFETY: an address is taken and nothing is called.
        unsafe { library.get::<*mut c_void>(name.as_bytes()) }.map(|symbol| *symbol).map_err(reason)
    };
    // SAFETY: its type in `fabric.h`.
    let version = unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> u32>(address("fi_version")?)
    };
    // SAFETY: it takes nothing and reads a constant.
    let version = unsafe { version() };
    if version < fi_make_version(OLDEST.0, OLDEST.1) {
        let (major, minor) = (version >> 16, version & 0xffff);
        return Err(NoLibrary(format!(
            "it is {major}.{minor}, and {}.{} is the oldest that will do",
            OLDEST.0, OLDEST.1
        )));
    }
    // SAFETY: the functions of libfabric by their names.
    unsafe { Functions::find(&mut address) }
}

/// Loads it without what its own libraries do to signals: PSM, which Debian's is linked with, takes
/// SIGINT and SIGTERM when it is loaded, and ends the process by `exit(1)` at Ctrl-C.
fn load(file: &str) -> Result<Library, libloading::Error> {
    // A thread that loads another library at the same time would see signals in between.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = [libc::SIGINT, libc::SIGTERM].map(|signal| (signal, action(signal)));
    // Lazily and for everybody, as a linker would have it: providers that are libraries of their
    // own find it so.
    // SAFETY: its initializers only set up its own data, and what they do to signals is undone.
    let library = unsafe { Library::open(Some(file), RTLD_LAZY | RTLD_GLOBAL) };
    for (signal, action) in before {
        // SAFETY: the action that the signal had.
        unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    }
    library
}

fn action(signal: c_int) -> libc::sigaction {
    // SAFETY: all-zero is a value of this C structure, and the call only fills it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action);
        action
    }
}

/// Converts the loader's message, which names the file or the function, to one line.
#[expect(clippy::needless_pass_by_value, reason = "map_err hands it over")]
fn reason(error: libloading::Error) -> NoLibrary {
    let text =
        std::error::Error::source(&error).map_or_else(|| error.to_string(), |e| e.to_string());
    NoLibrary(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named() {
        let text = find("libfabric-of-nobody.so.1").unwrap_err().to_string();
        assert!(text.contains("libfabric-of-nobody.so.1"), "{text}");
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn another_library_is_refused_by_the_function_it_lacks() {
        let text = find("libc.so.6").unwrap_err().to_string();
        assert!(text.contains("fi_version"), "{text}");
    }

    /// Debian's libfabric is linked with PSM, which takes both when it is loaded.
    #[test]
    fn signals_have_the_actions_they_had_before() {
        let before = [libc::SIGINT, libc::SIGTERM].map(|signal| action(signal).sa_sigaction);
        open().expect("libfabric");
        let after = [libc::SIGINT, libc::SIGTERM].map(|signal| action(signal).sa_sigaction);
        assert_eq!(before, after);
    }
}
