//! Decides which rings carry datagrams that are not sealed: rings whose two ends have the key
//! (SRD-12.9).
//!
//! The writer puts a random number and its own proof into the head of the ring before it hands the
//! ring over. A reader with the same key answers with another proof, next to it.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::segment::Segment;
use crate::host;
use crate::seal::{PROOF_BYTES, RingEnd, RingName, SealKey};

/// The position of the writer's random number in the head of a ring (SRD-12.2).
const NONCE_AT: usize = 24;
/// The position of the writer's proof.
const WRITER_AT: usize = 26;
/// The position of the reader's proof.
const READER_AT: usize = 28;

/// The key of the device, and the queue pair whose rings it proves.
#[derive(Debug, Clone)]
pub(super) struct RingKey {
    pub(super) key: SealKey,
    pub(super) local: SocketAddr,
}

/// The knowledge of a writer about the reader of its ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReaderProof {
    /// This end has no key, so no proof is asked for.
    NotAsked,
    /// The reader proves it when it accepts the ring, if it has the key.
    Expected([u8; PROOF_BYTES]),
    /// The reader has the key.
    Given,
    /// The reader has another key, or none.
    Missing,
}

impl RingKey {
    /// Prepares a ring that this queue pair is going to write and `reader` to read.
    ///
    /// # Errors
    /// The operating system provides no random bytes.
    pub(super) fn offer(&self, ring: &Segment, reader: SocketAddr) -> io::Result<ReaderProof> {
        let nonce = host::unguessable_bytes()?;
        let name = RingName { writer: self.local, reader, inode: ring.inode(), nonce };
        put(ring.words(), NONCE_AT, nonce);
        put(ring.words(), WRITER_AT, self.key.ring_proof(RingEnd::Writer, &name));
        Ok(ReaderProof::Expected(self.key.ring_proof(RingEnd::Reader, &name)))
    }

    /// Returns true if `writer`, which has handed over `ring`, has the key; then adds the proof of
    /// this end.
    pub(super) fn accept(&self, ring: &Segment, writer: SocketAddr) -> bool {
        let nonce = get(ring.words(), NONCE_AT);
        let name = RingName { writer, reader: self.local, inode: ring.inode(), nonce };
        let said = get(ring.words(), WRITER_AT);
        let is_proven = is_equal(said, self.key.ring_proof(RingEnd::Writer, &name));
        if is_proven {
            put(ring.words(), READER_AT, self.key.ring_proof(RingEnd::Reader, &name));
        }
        is_proven
    }
}

impl ReaderProof {
    /// Returns whether the reader, which has accepted `ring`, has the key.
    #[inline]
    pub(super) fn is_given(&mut self, ring: &Segment) -> bool {
        if let Self::Expected(proof) = *self {
            let is_right = is_equal(get(ring.words(), READER_AT), proof);
            *self = if is_right { Self::Given } else { Self::Missing };
        }
        *self == Self::Given
    }
}

/// Stores a proof. Relaxed order suffices, because the reader's state is stored after it and loaded
/// before it.
fn put(words: &[AtomicU64], at: usize, bytes: [u8; PROOF_BYTES]) {
    let [first, second] = halves(u128::from_ne_bytes(bytes));
    words[at].store(first, Ordering::Relaxed);
    words[at + 1].store(second, Ordering::Relaxed);
}

fn get(words: &[AtomicU64], at: usize) -> [u8; PROOF_BYTES] {
    let [first, second] = [at, at + 1].map(|at| u128::from(words[at].load(Ordering::Relaxed)));
    (first | second << 64).to_ne_bytes()
}

#[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
const fn halves(both: u128) -> [u64; 2] {
    [both as u64, (both >> 64) as u64]
}

/// Compares in constant time, so that a proof cannot be found byte by byte.
fn is_equal(a: [u8; PROOF_BYTES], b: [u8; PROOF_BYTES]) -> bool {
    u128::from_ne_bytes(a) ^ u128::from_ne_bytes(b) == 0
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::path::Path;

    use super::*;

    fn ring_key(byte: u8, port: u16) -> RingKey {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [byte; 32]).unwrap();
        let key = SealKey::read(Path::new(file.path())).unwrap();
        RingKey { key, local: at(port) }
    }

    fn at(port: u16) -> SocketAddr {
        SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), port)
    }

    #[test]
    fn both_ends_prove_that_they_have_the_key() {
        let (a, b) = (ring_key(1, 10), ring_key(1, 20));
        let (written, file) = Segment::create().unwrap();
        let mut proof = a.offer(&written, at(20)).unwrap();
        let read = Segment::open(file).unwrap();
        assert!(b.accept(&read, at(10)));
        assert!(proof.is_given(&written));
        assert_eq!(proof, ReaderProof::Given);
    }

    #[test]
    fn who_has_another_key_or_another_name_proves_nothing() {
        let a = ring_key(1, 10);
        for (reader, writer) in
            [(ring_key(2, 20), at(10)), (ring_key(1, 21), at(10)), (ring_key(1, 20), at(11))]
        {
            let (written, file) = Segment::create().unwrap();
            let mut proof = a.offer(&written, at(20)).unwrap();
            let read = Segment::open(file).unwrap();
            assert!(!reader.accept(&read, writer), "{reader:?} {writer}");
            assert!(!proof.is_given(&written));
            assert_eq!(proof, ReaderProof::Missing);
        }
    }

    /// A process copies the head of a ring, and even its proof, into its own memory.
    #[test]
    fn a_proof_is_of_no_use_in_other_memory() {
        let (a, b) = (ring_key(1, 10), ring_key(1, 20));
        let (written, _file) = Segment::create().unwrap();
        a.offer(&written, at(20)).unwrap();
        let (copy, file) = Segment::create().unwrap();
        for (to, from) in copy.words()[..32].iter().zip(written.words()) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        assert!(!b.accept(&Segment::open(file).unwrap(), at(10)));
    }

    /// The writer sends nothing, and the reader returns what it received.
    #[test]
    fn an_echo_is_no_proof() {
        let (a, b) = (ring_key(1, 10), ring_key(1, 20));
        let (silent, file) = Segment::create().unwrap();
        assert!(!b.accept(&Segment::open(file).unwrap(), at(10)));
        drop(silent);
        let (written, _file) = Segment::create().unwrap();
        let mut proof = a.offer(&written, at(20)).unwrap();
        put(written.words(), READER_AT, get(written.words(), WRITER_AT));
        assert!(!proof.is_given(&written));
    }
}
