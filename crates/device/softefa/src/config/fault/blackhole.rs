//! Blackholes: paths that lose everything that is sent over them.

use std::fmt;

use super::value::{self, format_time};

/// A path, or all paths, that loses everything sent over it for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blackhole {
    /// Path index; `None` = all paths.
    pub path: Option<u16>,
    /// Start, in nanoseconds after the device was opened.
    pub from_ns: u64,
    /// Duration in nanoseconds; `None` = without end.
    pub for_ns: Option<u64>,
}

impl Blackhole {
    /// Parses `path:3`, `all`, `path:3@1s` or `path:3@1s+500ms`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (what, when) = text.split_once('@').unwrap_or((text, "0s"));
        let path = match what.strip_prefix("path:") {
            Some(number) => Some(number.parse().ok()?),
            None if what == "all" => None,
            None => return None,
        };
        let (from, duration) = match when.split_once('+') {
            Some((from, duration)) => (from, Some(value::time(duration)?)),
            None => (when, None),
        };
        Some(Self { path, from_ns: value::time(from)?, for_ns: duration })
    }

    /// Returns true if a datagram is lost that is sent over `path` at this time after the device
    /// was opened.
    pub(crate) fn swallows(&self, path: u16, since_open_ns: u64) -> bool {
        let in_time = since_open_ns
            .checked_sub(self.from_ns)
            .is_some_and(|into_ns| self.for_ns.is_none_or(|for_ns| into_ns < for_ns));
        in_time && self.path.is_none_or(|swallowing| swallowing == path)
    }
}

impl fmt::Display for Blackhole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path {
            None => f.write_str("all")?,
            Some(path) => write!(f, "path:{path}")?,
        }
        write!(f, "@{}", format_time(self.from_ns))?;
        self.for_ns.map_or(Ok(()), |for_ns| write!(f, "+{}", format_time(for_ns)))
    }
}
