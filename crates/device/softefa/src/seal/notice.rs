//! Notices, which say "I cannot open this" (SRD-11.9): the only datagrams that a sealed device
//! sends and accepts in the clear.

use super::ENVELOPE_BYTES;
use super::envelope::{self, KIND_NOTICE, KIND_SEALED, VERSION};

/// Length of a notice.
pub const NOTICE_BYTES: usize = HEAD_BYTES + ENVELOPE_BYTES;
const HEAD_BYTES: usize = 8;
/// The kinds that open a conversation and may be answered; others are answers themselves.
const ANSWERED: [u8; 3] = [0, 2, KIND_SEALED];

/// The notice of a receiver that cannot open a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// The first bytes of the datagram: its envelope, or the bytes in its place.
    pub quote: [u8; ENVELOPE_BYTES],
}

impl Notice {
    /// Returns the answer to `datagram`, which could not be opened; `None` if its kind is not
    /// answered, or it is not longer than the answer, so that nobody can use this device to amplify
    /// a flood.
    #[must_use]
    pub fn about(datagram: &[u8]) -> Option<Self> {
        let quote = *datagram.first_chunk()?;
        let is_answered = ANSWERED.iter().any(|kind| quote[0] == VERSION << 4 | kind);
        (is_answered && datagram.len() > NOTICE_BYTES).then_some(Self { quote })
    }

    /// Returns the bytes of the notice.
    #[must_use]
    pub fn emit(&self) -> [u8; NOTICE_BYTES] {
        let mut raw = [0; NOTICE_BYTES];
        raw[0] = VERSION << 4 | KIND_NOTICE;
        raw[3] = NOTICE_BYTES as u8;
        // The notice goes in the opposite direction.
        raw[4..6].copy_from_slice(&self.quote[6..8]);
        raw[6..8].copy_from_slice(&self.quote[4..6]);
        raw[HEAD_BYTES..].copy_from_slice(&self.quote);
        raw
    }

    /// Parses a datagram that consists of a notice and nothing else.
    #[must_use]
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        let raw: &[u8; NOTICE_BYTES] = datagram.try_into().ok()?;
        let notice = Self { quote: *raw.last_chunk()? };
        (notice.emit() == *raw).then_some(notice)
    }

    /// Returns the number of the queue pair that received the quoted datagram, and sent the notice.
    #[must_use]
    pub fn src_qpn(&self) -> u16 {
        envelope::qpns(&self.quote).map_or(0, |(_, dst)| dst)
    }

    /// Returns the number of the queue pair that sent the quoted datagram, and receives the notice.
    #[must_use]
    pub fn dst_qpn(&self) -> u16 {
        envelope::qpns(&self.quote).map_or(0, |(src, _)| src)
    }
}

/// Lets at most 1,000 notices a second pass, 100 of them at once (SRD-11.9).
#[derive(Debug, Default)]
pub struct Throttle {
    /// The time in nanoseconds at which the notices so far would have passed at an even rate.
    busy_until_ns: u64,
}

impl Throttle {
    const INTERVAL_NS: u64 = 1_000_000;
    const BURST: u64 = 100;

    /// Returns true if one more notice may be sent at `now_ns`, on a monotonic clock.
    pub fn allows(&mut self, now_ns: u64) -> bool {
        let from = self.busy_until_ns.max(now_ns);
        let is_free = from - now_ns < Self::BURST * Self::INTERVAL_NS;
        if is_free {
            self.busy_until_ns = from + Self::INTERVAL_NS;
        }
        is_free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(kind: u8, len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
        bytes[0] = VERSION << 4 | kind;
        bytes
    }

    /// SRD-11.9: a notice goes back, is shorter than what it answers, and is never answered.
    #[test]
    fn a_notice_quotes_and_returns() {
        for kind in ANSWERED {
            let bytes = datagram(kind, 33);
            let notice = Notice::about(&bytes).unwrap();
            let raw = notice.emit();
            assert_eq!(raw[..8], [0x19, 0, 0, 32, 6, 7, 4, 5]);
            assert_eq!(raw[8..], bytes[..24]);
            assert_eq!(Notice::parse(&raw), Some(notice));
            assert_eq!(notice.dst_qpn(), 0x0405);
            assert_eq!(Notice::about(&bytes[..32]), None, "not shorter");
        }
        for kind in [1, 3, 4, 7, KIND_NOTICE, 15] {
            assert_eq!(Notice::about(&datagram(kind, 100)), None, "kind {kind}");
        }
        let mut other = datagram(0, 100);
        other[0] = 0x20;
        assert_eq!(Notice::about(&other), None, "another version");
    }

    #[test]
    fn what_only_looks_like_a_notice_is_none() {
        let raw = Notice::about(&datagram(KIND_SEALED, 60)).unwrap().emit();
        for at in 0..raw.len() {
            let mut bent = raw;
            bent[at] ^= 1;
            // The quote is chosen by the sender, except for the numbers, which are in the notice
            // twice.
            let is_quote = at >= 8 && !(12..16).contains(&at);
            assert_eq!(Notice::parse(&bent).is_some(), is_quote, "byte {at}");
        }
        assert_eq!(Notice::parse(&raw[..31]), None);
        assert_eq!(Notice::parse(&[&raw[..], &[0]].concat()), None);
    }

    #[test]
    fn notices_are_limited() {
        let mut throttle = Throttle::default();
        let second = |throttle: &mut Throttle, start: u64| {
            (0..100_000).filter(|step| throttle.allows(start + step * 10_000)).count()
        };
        let first = second(&mut throttle, 5_000_000_000);
        assert!((1_000..=1_100).contains(&first), "{first}");
        assert!((999..=1_001).contains(&second(&mut throttle, 6_000_000_000)));
        assert!(throttle.allows(u64::MAX - 1_000_000), "no overflow at the end of time");
    }
}
