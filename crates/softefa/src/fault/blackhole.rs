//! Paths that swallow what is sent over them.

use std::fmt;

use srd::Instant;

use super::value::{self, format_time};

/// A path, or all, that swallows everything sent over it for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blackhole {
    /// Path index; `None` = every path.
    pub path: Option<u16>,
    /// From so long after the device was opened.
    pub from_ns: u64,
    /// For so long; `None` = for ever.
    pub for_ns: Option<u64>,
}

impl Blackhole {
    /// Reads `path:3`, `all`, `path:3@1s` or `path:3@1s+500ms`.
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

    fn swallows(&self, path: u16, since_open_ns: u64) -> bool {
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

/// The blackholes of one device.
#[derive(Debug, Clone)]
pub(crate) struct Blackholes {
    holes: Vec<Blackhole>,
    opened: Instant,
}

impl Blackholes {
    pub(crate) fn new(holes: Vec<Blackhole>, opened: Instant) -> Self {
        Self { holes, opened }
    }

    /// What is sent over `path` now does not arrive.
    pub(crate) fn swallow(&self, now: Instant, path: u16) -> bool {
        let since_open_ns = now.ns_since(self.opened);
        self.holes.iter().any(|hole| hole.swallows(path, since_open_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blackhole_has_a_place_a_beginning_and_an_end() {
        let holes = |text: &str| {
            let hole = Blackhole::parse(text).unwrap();
            assert_eq!(Blackhole::parse(&hole.to_string()), Some(hole));
            Blackholes::new(vec![hole], Instant::from_ns(1_000))
        };
        let at = |ns| Instant::from_ns(1_000 + ns);
        let one = holes("path:3@1us+500ns");
        for (path, ns, swallowed) in [
            (3, 999, false),
            (3, 1_000, true),
            (2, 1_000, false),
            (3, 1_499, true),
            (3, 1_500, false),
        ] {
            assert_eq!(one.swallow(at(ns), path), swallowed, "path {path} at {ns}");
        }
        assert!(holes("all").swallow(at(0), 7));
        assert!(holes("path:2@1s").swallow(at(u64::MAX / 2), 2));
    }
}
