//! What the user is told. Whoever reads it may have gone, which must not keep anybody from cleaning
//! up.

/// A line on standard error.
macro_rules! say {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($part)*);
    }};
}

/// A line on standard output.
macro_rules! print_line {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($part)*);
    }};
}

pub(crate) use {print_line, say};
