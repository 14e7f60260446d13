//! Blackholes: paths that lose everything that is sent over them.

use srd::Instant;

use super::Blackhole;

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

    /// Returns true if a datagram that is sent over `path` now is lost.
    pub(crate) fn swallow(&self, now: Instant, path: u16) -> bool {
        let since_open_ns = now.ns_since(self.opened);
        self.holes.iter().any(|hole| hole.swallows(path, since_open_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultSpec;

    fn blackhole(text: &str) -> Blackhole {
        format!("blackhole={text}").parse::<FaultSpec>().unwrap().blackholes[0]
    }

    #[test]
    fn a_blackhole_has_a_place_a_beginning_and_an_end() {
        let holes = |text: &str| {
            let hole = blackhole(text);
            assert_eq!(blackhole(&hole.to_string()), hole);
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
