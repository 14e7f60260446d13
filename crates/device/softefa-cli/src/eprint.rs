//! Output to standard error.

/// Writes a line to standard error. Perhaps nobody reads it any more
/// (`softefa run ... 2>&1 | head`): that changes nothing else, where `eprintln` would panic and
/// take the program's exit code along.
macro_rules! eprint_line {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($argument)*);
    }};
}

pub(crate) use eprint_line;
