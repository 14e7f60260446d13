//! Output to standard error.

/// Writes a line to standard error. Ignores errors, because the reader may be gone (`softefa run
/// ... 2>&1 | head`): `eprintln` would panic, and the program's exit code would be lost.
macro_rules! eprint_line {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($argument)*);
    }};
}

pub(crate) use eprint_line;
