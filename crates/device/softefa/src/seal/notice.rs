//! "I cannot open this" (SRD-11.9): the only datagram that a sealed device sends and takes in the
//! clear.

use super::ENVELOPE_BYTES;
use super::envelope::{self, KIND_NOTICE, KIND_SEALED, VERSION};

/// Length of a notice.
pub const NOTICE_BYTES: usize = HEAD_BYTES + ENVELOPE_BYTES;
const HEAD_BYTES: usize = 8;
/// Kinds that open a conversation and may be answered; the others are answers themselves.
const ANSWERED: [u8; 3] = [0, 2, KIND_SEALED];

/// What somebody who cannot open a datagram says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// The first bytes of the datagram: its envelope, or what stood in its place.
    pub quote: [u8; ENVELOPE_BYTES],
}

impl Notice {
    /// The answer to `datagram`, which could not be opened; `None` when it is none that is
    /// answered, or not longer than the answer, so that nobody can be flooded by a detour over us.
    #[must_use]
    pub fn about(datagram: &[u8]) -> Option<Self> {
        let quote = *datagram.first_chunk()?;
        let is_answered = ANSWERED.iter().any(|kind| quote[0] == VERSION << 4 | kind);
        (is_answered && datagram.len() > NOTICE_BYTES).then_some(Self { quote })
    }

    /// Its bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; NOTICE_BYTES] {
        let mut raw = [0; NOTICE_BYTES];
        raw[0] = VERSION << 4 | KIND_NOTICE;
        raw[3] = NOTICE_BYTES as u8;
        // It goes the other way.
        raw[4..6].copy_from_slice(&self.quote[6..8]);
        raw[6..8].copy_from_slice(&self.quote[4..6]);
        raw[HEAD_BYTES..].copy_from_slice(&self.quote);
        raw
    }

    /// Reads a datagram that is a notice, and nothing but a notice.
    #[must_use]
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        let raw: &[u8; NOTICE_BYTES] = datagram.try_into().ok()?;
        let notice = Self { quote: *raw.last_chunk()? };
        (notice.emit() == *raw).then_some(notice)
    }

    /// Queue pair that what is quoted was for: whom the notice is from.
    #[must_use]
    pub fn src_qpn(&self) -> u16 {
        envelope::qpns(&self.quote).map_or(0, |(_, dst)| dst)
    }

    /// Queue pair that sent what is quoted: whom the notice is for.
    #[must_use]
    pub fn dst_qpn(&self) -> u16 {
        envelope::qpns(&self.quote).map_or(0, |(src, _)| src)
    }
}

/// Lets at most 1,000 notices a second pass, 100 of them at once (SRD-11.9).
#[derive(Debug, Default)]
pub struct Throttle {
    /// When all that has passed would have passed evenly, in nanoseconds.
    busy_until_ns: u64,
}

impl Throttle {
    const INTERVAL_NS: u64 = 1_000_000;
    const BURST: u64 = 100;

    /// Whether one more may be sent at `now_ns`, by a clock that does not go back.
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
            // The quote is the sender's business, except for the numbers that stand twice.
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
