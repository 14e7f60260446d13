//! The proofs by which the two ends of a ring show each other that they have the key (SRD-12.9).

use std::net::SocketAddr;

use super::SealKey;
use crate::address::octets;

/// Length of a proof, and of the number that the writer draws for a ring.
pub const PROOF_BYTES: usize = 16;

/// One of the two ends of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingEnd {
    /// The queue pair that puts datagrams in.
    Writer,
    /// The queue pair that takes them out.
    Reader,
}

/// The properties that distinguish a ring from all others.
#[derive(Debug, Clone, Copy)]
pub struct RingName {
    /// Address and number of the queue pair that writes the ring.
    pub writer: SocketAddr,
    /// Address and number of the queue pair that reads the ring.
    pub reader: SocketAddr,
    /// The inode of the ring's memory, which the kernel reports to both ends.
    pub inode: u64,
    /// Random bytes drawn by the writer.
    pub nonce: [u8; PROOF_BYTES],
}

impl SealKey {
    /// Returns the proof of the `end` of the ring `name`, which only a holder of the key can
    /// compute.
    #[must_use]
    pub fn ring_proof(&self, end: RingEnd, name: &RingName) -> [u8; PROOF_BYTES] {
        let label: &[u8] = match end {
            RingEnd::Writer => b"ring writer",
            RingEnd::Reader => b"ring reader",
        };
        let RingName { writer, reader, inode, nonce } = name;
        let mut proof = [0; PROOF_BYTES];
        let info = [
            label,
            &octets(writer.ip()),
            &writer.port().to_be_bytes(),
            &octets(reader.ip()),
            &reader.port().to_be_bytes(),
            &inode.to_be_bytes(),
            nonce,
        ];
        self.expand(&info, &mut proof);
        proof
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn key(byte: u8) -> SealKey {
        SealKey::new(Path::new("/k"), &[byte; 32])
    }

    fn name() -> RingName {
        let [writer, reader] = ["127.0.0.1:16385", "127.0.0.2:65535"].map(|at| at.parse().unwrap());
        RingName { writer, reader, inode: 0x0102_0304_0506_0708, nonce: *b"sixteen bytes..." }
    }

    /// The expected bytes were computed with Python's hmac and hashlib (docs/PROTOCOL.md,
    /// SRD-12.9).
    #[test]
    fn bytes_are_those_of_another_implementation() {
        let said = [RingEnd::Writer, RingEnd::Reader].map(|end| {
            let proof = key(7).ring_proof(end, &name());
            proof.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        });
        assert_eq!(said, ["eb61eaa56632cd3fdf3be58d2cd6e53c", "22fd8b721afe19673ac0f9b201ec01df"]);
    }

    #[test]
    fn a_proof_is_good_for_one_end_of_one_ring_and_one_key() {
        let of = |key: &SealKey, end, name| key.ring_proof(end, &name);
        let (ours, end) = (key(7), RingEnd::Writer);
        let proof = of(&ours, end, name());
        assert_eq!(proof, of(&ours, end, name()));
        let (writer, reader) = (name().writer, name().reader);
        let others = [
            of(&key(8), end, name()),
            of(&ours, RingEnd::Reader, name()),
            of(&ours, end, RingName { writer: reader, ..name() }),
            of(&ours, end, RingName { reader: writer, ..name() }),
            of(&ours, end, RingName { inode: 1, ..name() }),
            of(&ours, end, RingName { nonce: [0; PROOF_BYTES], ..name() }),
        ];
        assert!(!others.contains(&proof));
    }
}
