//! Output for the user. Errors are ignored: a reader that is gone must not prevent the cleanup.

/// Prints a line to standard error.
macro_rules! eprint_line {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($part)*);
    }};
}

/// Prints a line to standard output.
macro_rules! print_line {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($part)*);
    }};
}

pub(crate) use {eprint_line, print_line};
