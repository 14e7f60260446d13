//! The envelope: the header of a sealed datagram (SRD-11.2).

use super::{ENVELOPE_BYTES, INNER_MIN_BYTES, NOTICE_BYTES, TAG_BYTES};

/// Version of the protocol, in the high half of the first byte.
pub(super) const VERSION: u8 = 1;
/// Kind of a sealed datagram.
pub(super) const KIND_SEALED: u8 = 8;
/// Kind of a notice (SRD-11.9).
pub(super) const KIND_NOTICE: u8 = 9;

/// The envelope, all of which is authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    /// Length of the sealed datagram in bytes, envelope and tag included.
    pub len: u16,
    /// Number of the queue pair that sent it.
    pub src_qpn: u16,
    /// Number of the queue pair that receives it.
    pub dst_qpn: u16,
    /// The session, which selects the sender's keys.
    pub session: u64,
    /// Number of the datagram in its session, from 1.
    pub counter: u64,
}

impl Envelope {
    /// Parses the envelope at the front of `bytes`, which may be truncated behind it. Returns
    /// `None` if there is no envelope or its length is invalid.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let raw = bytes.first_chunk::<ENVELOPE_BYTES>()?;
        let is_sealed = raw[0] == VERSION << 4 | KIND_SEALED && raw[1] == 0;
        let envelope = Self {
            len: half(raw, 2),
            src_qpn: half(raw, 4),
            dst_qpn: half(raw, 6),
            session: word(raw, 8),
            counter: word(raw, 16),
        };
        let is_long_enough =
            usize::from(envelope.len) >= ENVELOPE_BYTES + INNER_MIN_BYTES + TAG_BYTES;
        (is_sealed && is_long_enough).then_some(envelope)
    }

    /// Returns the bytes of the envelope.
    #[must_use]
    pub fn emit(&self) -> [u8; ENVELOPE_BYTES] {
        let mut raw = [0; ENVELOPE_BYTES];
        raw[0] = VERSION << 4 | KIND_SEALED;
        raw[2..4].copy_from_slice(&self.len.to_be_bytes());
        raw[4..6].copy_from_slice(&self.src_qpn.to_be_bytes());
        raw[6..8].copy_from_slice(&self.dst_qpn.to_be_bytes());
        raw[8..16].copy_from_slice(&self.session.to_be_bytes());
        raw[16..24].copy_from_slice(&self.counter.to_be_bytes());
        raw
    }
}

/// Returns the length that the sealed datagram or notice at the front of `bytes` claims (SRD-11.2);
/// `None` if there is neither.
#[must_use]
pub fn datagram_len(bytes: &[u8]) -> Option<usize> {
    match bytes.first()? ^ (VERSION << 4) {
        KIND_SEALED => Envelope::parse(bytes).map(|envelope| usize::from(envelope.len)),
        KIND_NOTICE => Some(NOTICE_BYTES),
        _ => None,
    }
}

/// Returns the queue pair numbers of source and destination, which every kind of datagram has in
/// the same place.
pub(super) fn qpns(bytes: &[u8]) -> Option<(u16, u16)> {
    (bytes.len() >= 8).then(|| (half(bytes, 4), half(bytes, 6)))
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8; ENVELOPE_BYTES], at: usize) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENVELOPE: Envelope =
        Envelope { len: 1000, src_qpn: 0x4001, dst_qpn: 0xffff, session: u64::MAX - 2, counter: 3 };

    #[test]
    fn bytes_are_those_of_the_document() {
        let raw = ENVELOPE.emit();
        assert_eq!(raw[..8], [0x18, 0, 0x03, 0xe8, 0x40, 0x01, 0xff, 0xff]);
        assert_eq!(raw[8..16], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfd]);
        assert_eq!(raw[16..], [0, 0, 0, 0, 0, 0, 0, 3]);
        assert_eq!(Envelope::parse(&raw), Some(ENVELOPE));
        assert_eq!(datagram_len(&raw), Some(1000));
    }

    /// A receiver without sealing refuses both kinds, because neither is one of SRD-2.1.
    #[test]
    fn the_engine_takes_neither_kind_for_its_own() {
        for kind in [KIND_SEALED, KIND_NOTICE] {
            let mut raw = ENVELOPE.emit();
            raw[0] = VERSION << 4 | kind;
            assert!(srd::wire::Header::parse(&raw).is_err());
        }
    }

    #[test]
    fn what_is_no_envelope_is_refused() {
        let raw = ENVELOPE.emit();
        for len in 0..raw.len() {
            assert_eq!(Envelope::parse(&raw[..len]), None, "{len} bytes");
        }
        for (at, value) in [(0, 0x10), (0, 0x28), (1, 1)] {
            let mut other = raw;
            other[at] = value;
            assert_eq!(Envelope::parse(&other), None);
            assert_eq!(datagram_len(&other), None);
        }
        let short = Envelope { len: 51, ..ENVELOPE };
        assert_eq!(Envelope::parse(&short.emit()), None, "no room for a header and a tag");
        assert_eq!(datagram_len(&[]), None);
    }
}
