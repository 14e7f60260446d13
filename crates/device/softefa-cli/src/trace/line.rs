//! A line of a trace (docs/TRACE.md).

use softefa::trace::TraceEvent;

/// An event in the words of its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Nanoseconds since 1970.
    pub(super) time_ns: u64,
    pub(super) event: TraceEvent,
    /// The queue pair.
    pub(super) local: &'a str,
    /// The other queue pair and what happened: the rest of the line.
    pub(super) what: &'a str,
}

impl<'a> Line<'a> {
    /// Parses a line; `None` if it has no known event.
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let (time, rest) = line.split_once(' ')?;
        let (event, rest) = rest.split_once(' ')?;
        let (local, what) = rest.split_once(' ')?;
        let time_ns = time.parse().ok()?;
        let event = *TraceEvent::ALL.iter().find(|known| known.name() == event)?;
        let (peer, keys) = what.split_once(' ')?;
        // Control characters, which a terminal would obey, are refused, because the file may come
        // from anywhere.
        let is_text = !line.contains(char::is_control);
        let is_whole = is_text && local.contains(':') && keys.contains('=');
        (is_whole && (peer == "-" || peer.contains(':'))).then_some(Self {
            time_ns,
            event,
            local,
            what,
        })
    }
}

/// Returns the value of `key` in the pairs of `what`.
pub(super) fn value<'a>(what: &'a str, key: &str) -> Option<&'a str> {
    what.split(' ').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
}

/// Returns the number behind `key`, in decimal or as 0x...
pub(super) fn number(what: &str, key: &str) -> Option<u64> {
    let text = value(what, key)?;
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Returns the other queue pair.
pub(super) fn peer(what: &str) -> &str {
    what.split(' ').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_five_columns() {
        let text =
            "1795259766107928497 loss rdmap0s6:21369 127.0.0.1:16740 psn=10 path=0 by=silence";
        let line = Line::parse(text).unwrap();
        assert_eq!((line.time_ns, line.event), (1_795_259_766_107_928_497, TraceEvent::Loss));
        assert_eq!((line.local, peer(line.what)), ("rdmap0s6:21369", "127.0.0.1:16740"));
        assert_eq!((value(line.what, "by"), number(line.what, "psn")), (Some("silence"), Some(10)));
        assert_eq!(number("- op=SEND wr_id=0x1f", "wr_id"), Some(31));
    }

    #[test]
    fn other_lines_are_no_events() {
        for text in [
            "",
            "softefa: rdmap0s6 pid 12: tx_pkts 117",
            "1795259766107928497 loss rdmap0s6:21369 127.0.0.1:16740",
            "1795259766107928497 loss rdmap0s6:21369 127.0.0.1:167",
            "1795259766107928497 lost a:1 - psn=1",
            "179525976610792849799 loss a:1 - psn=1",
            "-1 loss a:1 - psn=1",
            "1 loss a - psn=1",
        ] {
            assert_eq!(Line::parse(text), None, "{text}");
        }
    }
}
