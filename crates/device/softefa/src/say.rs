//! Lines for the user.
#![allow(unsafe_code)]

use std::io;

use crate::uncancelled::Uncancelled;

/// Standard error without Rust's lock of it, which a thread of the parent may have held at the
/// fork.
pub(crate) struct Stderr;

impl io::Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _uncancelled = Uncancelled::begin();
        // SAFETY: the bytes live through the call.
        let written =
            unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
        usize::try_from(written).map_err(|_| io::Error::last_os_error())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes `line` to standard error, in one call. Where nobody takes it, nobody hears.
pub fn say(line: &str) {
    let _ = io::Write::write_all(&mut Stderr, format!("{line}\n").as_bytes());
}
