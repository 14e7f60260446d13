//! Opens sealed records (SRD-11.3). Each contains its session and addresses, so that the key is all
//! that is needed, wherever a capture begins.

use softefa::capture::Record;
use softefa::seal::{Envelope, Reader, SealKey};

/// The result of opening a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsealed {
    /// The record was not sealed, or is open now.
    Clear,
    /// The record was altered, or sealed with another key.
    Closed,
    /// The record was captured in part, so that it cannot be verified, and is not decrypted.
    Cut,
}

/// Opens records, or leaves all of them unchanged if it has no key.
#[derive(Debug, Default)]
pub(super) struct Unsealer {
    reader: Option<Reader>,
    pub(super) closed: u64,
    pub(super) cut: u64,
}

impl Unsealer {
    pub(super) fn new(key: Option<&SealKey>) -> Self {
        Self { reader: key.map(Reader::new), ..Self::default() }
    }

    /// Replaces a sealed datagram by its inner one. A record that cannot be opened is left
    /// unchanged.
    pub(super) fn open(&mut self, record: &mut Record) -> Unsealed {
        let Some(reader) = &mut self.reader else { return Unsealed::Clear };
        if Envelope::parse(&record.bytes).is_none() {
            return Unsealed::Clear;
        }
        if record.bytes.len() < usize::from(record.len) {
            self.cut += 1;
            return Unsealed::Cut;
        }
        // A failed attempt overwrites the bytes.
        let mut bytes = record.bytes.clone();
        let Ok(inner) = reader.open(record.src.ip(), record.dst.ip(), &mut bytes) else {
            self.closed += 1;
            return Unsealed::Closed;
        };
        bytes.truncate(inner.end);
        bytes.drain(..inner.start);
        record.len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        record.bytes = bytes;
        Unsealed::Clear
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use softefa::capture::{Fate, Protocol};
    use softefa::seal::{OVERHEAD_BYTES, Sealer};

    use super::*;

    fn key(byte: u8) -> SealKey {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, [byte; 32]).unwrap();
        SealKey::read(&path).unwrap()
    }

    /// Returns a sealed record. Its source port is that of a path, as on the wire.
    fn record() -> Record {
        let [from, to]: [SocketAddr; 2] =
            ["127.0.0.1:16400", "127.0.0.2:16401"].map(|at| at.parse().unwrap());
        let mut bytes = vec![0x10; OVERHEAD_BYTES + 60];
        Sealer::new(&key(1), from, 7).seal(to, &mut bytes).unwrap();
        let src = SocketAddr::new(from.ip(), 10_240);
        let (fate, protocol) = (Fate::Sent, Protocol::Srd);
        Record { time_ns: 1, fate, protocol, src, dst: to, len: 100, bytes }
    }

    #[test]
    fn sealed_records_are_replaced_by_what_is_inside() {
        let mut unsealer = Unsealer::new(Some(&key(1)));
        let mut record = record();
        assert_eq!(unsealer.open(&mut record), Unsealed::Clear);
        assert_eq!((record.len, record.bytes), (60, vec![0x10; 60]));
        assert_eq!((unsealer.closed, unsealer.cut), (0, 0));
    }

    #[test]
    fn what_does_not_open_stays_as_it_is() {
        let sealed = record();
        let cut = Record { bytes: sealed.bytes[..64].to_vec(), ..sealed };
        let clear = Record { bytes: vec![0x10; 100], ..sealed };
        let mut other = Unsealer::new(Some(&key(2)));
        for (record, expected) in
            [(&sealed, Unsealed::Closed), (&cut, Unsealed::Cut), (&clear, Unsealed::Clear)]
        {
            let mut shown = record.clone();
            assert_eq!(other.open(&mut shown), expected);
            assert_eq!(shown, *record);
        }
        assert_eq!((other.closed, other.cut), (1, 1));
        let mut shown = sealed.clone();
        assert_eq!(Unsealer::new(None).open(&mut shown), Unsealed::Clear);
        assert_eq!(shown, sealed);
    }
}
