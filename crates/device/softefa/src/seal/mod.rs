//! Sealed datagrams (docs/PROTOCOL.md, chapter 11): with a key, every datagram is encrypted and
//! authenticated, and what others send is dropped before anything else looks at it.
//!
//! ```text
//! file -> SealKey -> Sealer  envelope | datagram, encrypted where it lies | tag
//!                 -> Opener  verified, decrypted where it lies, taken once
//!                 -> Reader  the same for captures, without memory of what was taken
//!                 -> RingName proofs that both ends of shared memory have the key
//! ```
//!
//! The room knows addresses and bytes; sockets, queue pairs and clocks are its caller's.

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

/// Bytes of the envelope, in front of the datagram it holds.
pub const ENVELOPE_BYTES: usize = 24;
/// Bytes of the tag, behind it.
pub const TAG_BYTES: usize = 16;
/// What sealing adds to a datagram.
pub const OVERHEAD_BYTES: usize = ENVELOPE_BYTES + TAG_BYTES;
/// Bytes of a key file.
pub const KEY_BYTES: usize = 32;
/// Datagrams of one session (SRD-11.5): 2^36 of 9,000 bytes keep the advantage of who tells AES
/// from a random function below 2^-37.
pub const COUNTER_MAX: u64 = 1 << 36;

/// Shortest datagram there is: a common header.
const INNER_MIN_BYTES: usize = 12;
