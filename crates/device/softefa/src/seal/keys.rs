//! Derives the keys of single directions from the key of a file (SRD-11.3).

use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};

use super::{ENVELOPE_BYTES, Envelope, KEY_BYTES, TAG_BYTES};
use crate::address::octets;

const SALT: &[u8] = b"softefa seal 1";
const LABEL_DIRECTION: &[u8] = b"direction";
const LABEL_ID: &[u8] = b"id";

/// The key that all programs of a fabric share, read from a file.
#[derive(Clone)]
pub struct SealKey {
    path: PathBuf,
    /// The key itself, which is overwritten with zeros when the last copy is dropped.
    master: Arc<Prk>,
    id: [u8; 8],
    pub(super) exposed_mode: Option<u32>,
}

/// The source and destination of the datagrams of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Direction {
    pub(super) src: SocketAddr,
    pub(super) dst: SocketAddr,
}

/// A key length in the form that `Prk::expand` requires.
#[derive(Debug, Clone, Copy)]
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl SealKey {
    pub(super) fn new(path: &Path, raw: &[u8; KEY_BYTES]) -> Self {
        let master = Salt::new(HKDF_SHA256, SALT).extract(raw);
        let mut id = [0; 8];
        expand(&master, &[LABEL_ID], &mut id);
        Self { path: path.to_path_buf(), master: Arc::new(master), id, exposed_mode: None }
    }

    /// Returns the absolute path of the file that the key was read from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns an identifier that does not reveal the key: it is equal on two machines if their
    /// files are.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{:016x}", u64::from_be_bytes(self.id))
    }

    /// Fills `out`, of at most 8,160 bytes, with bytes derived from the key and `info`.
    pub(super) fn expand(&self, info: &[&[u8]], out: &mut [u8]) {
        expand(&self.master, info, out);
    }

    /// Derives the key of one session in one direction.
    pub(super) fn derive(&self, session: u64, direction: &Direction) -> DirectionKey {
        let mut raw = [0; KEY_BYTES];
        let Direction { src, dst } = direction;
        let info = [
            LABEL_DIRECTION,
            &session.to_be_bytes(),
            &octets(src.ip()),
            &src.port().to_be_bytes(),
            &octets(dst.ip()),
            &dst.port().to_be_bytes(),
        ];
        expand(&self.master, &info, &mut raw);
        let key = UnboundKey::new(&AES_256_GCM, &raw).expect("32 bytes are a key of AES-256");
        wipe(&mut raw);
        DirectionKey(LessSafeKey::new(key))
    }
}

fn expand(master: &Prk, info: &[&[u8]], out: &mut [u8]) {
    let okm = master.expand(info, Length(out.len()));
    okm.and_then(|okm| okm.fill(out)).expect("HKDF gives up to 8,160 bytes");
}

/// Overwrites a secret that is no longer needed, in a way that the compiler cannot remove.
pub(super) fn wipe(secret: &mut [u8]) {
    secret.fill(0);
    std::hint::black_box(secret);
}

impl PartialEq for SealKey {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, self.id) == (&other.path, other.id)
    }
}

impl Eq for SealKey {}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealKey").field("path", &self.path).field("id", &self.id()).finish()
    }
}

/// Seals or opens the datagrams of one session in one direction. Neither the key nor a nonce can be
/// copied: the side that seals must count (SRD-11.5).
pub(super) struct DirectionKey(LessSafeKey);

impl fmt::Debug for DirectionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DirectionKey")
    }
}

impl DirectionKey {
    /// Writes `envelope` at the front of `datagram`, encrypts the bytes behind it, and writes the
    /// tag at the end. Returns false if the cipher refused.
    pub(super) fn seal(&self, envelope: &Envelope, datagram: &mut [u8]) -> bool {
        let raw = envelope.emit();
        datagram[..ENVELOPE_BYTES].copy_from_slice(&raw);
        let (inner, tag) = datagram[ENVELOPE_BYTES..].split_at_mut(inner_len(envelope));
        let sealed =
            self.0.seal_in_place_separate_tag(nonce(envelope.counter), Aad::from(raw), inner);
        let Ok(made) = sealed else { return false };
        tag.copy_from_slice(made.as_ref());
        true
    }

    /// Verifies and decrypts a datagram, and returns where the inner datagram lies. If it cannot be
    /// verified, everything behind the envelope is overwritten.
    pub(super) fn open(&self, envelope: &Envelope, datagram: &mut [u8]) -> Option<Range<usize>> {
        let (raw, sealed) = datagram.split_at_mut(ENVELOPE_BYTES);
        let aad = Aad::from(&*raw);
        let inner = self.0.open_in_place(nonce(envelope.counter), aad, sealed).ok()?;
        Some(ENVELOPE_BYTES..ENVELOPE_BYTES + inner.len())
    }
}

fn inner_len(envelope: &Envelope) -> usize {
    usize::from(envelope.len) - ENVELOPE_BYTES - TAG_BYTES
}

fn nonce(counter: u64) -> Nonce {
    let mut raw = [0; NONCE_LEN];
    raw[NONCE_LEN - 8..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// The expected bytes were computed with Python's hmac and hashlib (`docs/PROTOCOL.md`
    /// SRD-11.3), and sealed with the `cryptography` package.
    #[test]
    fn bytes_are_those_of_another_implementation() {
        let mut raw = [0; KEY_BYTES];
        raw.iter_mut().zip(0..).for_each(|(byte, number)| *byte = number);
        let key = SealKey::new(Path::new("/k"), &raw);
        assert_eq!(key.id(), "e815afadb3f19b4a");
        let direction = Direction { src: at("10.0.0.1:16385"), dst: at("10.0.0.2:65535") };
        let envelope = Envelope {
            len: 24 + 16 + 16,
            src_qpn: 16385,
            dst_qpn: 65535,
            session: 0x0123_4567_89ab_cdef,
            counter: 7,
        };
        let mut datagram = [[0; 24].as_slice(), b"sixteen bytes...", &[0; 16]].concat();
        assert!(key.derive(envelope.session, &direction).seal(&envelope, &mut datagram));
        let hex: String = datagram[24..].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "77ec90dc653552a3e95b88f42a5cd34e31de9a3e6493105e6f92b10e1ebfc2af");
    }

    #[test]
    fn neither_key_is_told() {
        let key = SealKey::new(Path::new("/k"), b"0123456789abcdef0123456789abcdef");
        let said = format!("{key:?}");
        assert!(!said.contains("0123") && !said.contains("48, 49"), "{said}");
        assert_ne!(key, SealKey::new(Path::new("/k"), &[0; 32]));
    }
}
