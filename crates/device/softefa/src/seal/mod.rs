//! Sealed datagrams (docs/PROTOCOL.md, chapter 11): with a key, every datagram is encrypted and
//! authenticated, and datagrams of senders without the key are dropped before any other code reads
//! them.
//!
//! ```text
//! file -> SealKey -> Sealer  envelope | datagram, encrypted where it lies | tag
//!                 -> Opener  verified, decrypted where it lies, taken once
//!                 -> Reader  the same for captures, without memory of what was taken
//!                 -> RingName proofs that both ends of shared memory have the key
//! ```
//!
//! The module knows addresses and bytes only. Sockets, queue pairs and clocks are those of its
//! caller.

mod cache;
mod complaints;
mod envelope;
mod key_file;
mod keys;
mod notice;
mod opener;
mod reader;
mod replay;
mod ring;
mod sealer;

pub use complaints::Complaints;
pub use envelope::{Envelope, datagram_len};
pub use key_file::KeyFileError;
pub use keys::SealKey;
pub use notice::{NOTICE_BYTES, Notice, Throttle};
pub use opener::{Opener, Refusal};
pub use reader::Reader;
pub use ring::{PROOF_BYTES, RingEnd, RingName};
pub use sealer::{SealError, Sealer};

/// Length of the envelope, which lies in front of the inner datagram.
pub const ENVELOPE_BYTES: usize = 24;
/// Length of the tag, which lies behind the inner datagram.
pub const TAG_BYTES: usize = 16;
/// Number of bytes that sealing adds to a datagram.
pub const OVERHEAD_BYTES: usize = ENVELOPE_BYTES + TAG_BYTES;
/// Length of a key file.
pub const KEY_BYTES: usize = 32;
/// The most datagrams of one session (SRD-11.5): with 2^36 datagrams of 9,000 bytes, the advantage
/// in distinguishing AES from a random function stays below 2^-37.
pub const COUNTER_MAX: u64 = 1 << 36;

/// Length of the shortest datagram: a common header.
const INNER_MIN_BYTES: usize = 12;
