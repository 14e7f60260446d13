//! One captured datagram.

use std::net::{Ipv4Addr, SocketAddrV4};

use srd::wire::Header;

use crate::seal::Envelope;

/// What became of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// Handed to the operating system.
    Sent,
    /// Received from it.
    Received,
    /// Dropped on purpose before it was sent (`--fault`).
    LostOnPurpose,
}

/// A captured datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Wall-clock time in nanoseconds since 1970.
    pub time_ns: u64,
    /// What became of it.
    pub fate: Fate,
    /// Sender: the device's address and the UDP port of the path.
    pub src: SocketAddrV4,
    /// Receiver: its port is the queue pair number.
    pub dst: SocketAddrV4,
    /// Bytes it had; more than were captured when it was cut.
    pub len: u16,
    /// Its UDP payload, from the start.
    pub bytes: Vec<u8>,
}

/// Words of a record without its bytes.
pub(super) const HEAD_WORDS: usize = 3;

impl Record {
    /// Queue pair numbers of sender and receiver, when they were captured.
    #[must_use]
    pub fn qpns(&self) -> Option<(u16, u16)> {
        if let Some(envelope) = Envelope::parse(&self.bytes) {
            return Some((envelope.src_qpn, envelope.dst_qpn));
        }
        Header::parse(&self.bytes).ok().map(|header| (header.src_qpn, header.dst_qpn))
    }

    /// Everything but the bytes.
    pub(super) fn head(&self) -> [u64; HEAD_WORDS] {
        let addr = |at: SocketAddrV4| u64::from(u32::from(*at.ip()));
        let fate = match self.fate {
            Fate::Sent => 0,
            Fate::Received => 1,
            Fate::LostOnPurpose => 2,
        };
        let ports = u64::from(self.src.port()) << 16 | u64::from(self.dst.port());
        [
            self.time_ns,
            addr(self.src) << 32 | addr(self.dst),
            u64::from(self.len) << 48 | ports << 16 | fate,
        ]
    }

    /// The inverse of [`Record::head`].
    #[expect(clippy::cast_possible_truncation, reason = "fields are cut out of their words")]
    pub(super) fn from_head(head: &[u64; HEAD_WORDS], bytes: Vec<u8>) -> Option<Self> {
        let [time_ns, addrs, rest] = *head;
        let at = |addr: u64, port: u64| SocketAddrV4::new(Ipv4Addr::from(addr as u32), port as u16);
        let fate = match rest & 0xffff {
            0 => Fate::Sent,
            1 => Fate::Received,
            2 => Fate::LostOnPurpose,
            _ => return None,
        };
        let (src, dst) = (at(addrs >> 32, rest >> 32), at(addrs, rest >> 16));
        Some(Self { time_ns, fate, src, dst, len: (rest >> 48) as u16, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_record_names_its_queue_pairs() {
        let envelope = Envelope { len: 100, src_qpn: 7, dst_qpn: 8, session: 1, counter: 1 };
        let record = Record {
            time_ns: 0,
            fate: Fate::Sent,
            src: "127.0.0.1:10240".parse().unwrap(),
            dst: "127.0.0.1:8".parse().unwrap(),
            len: 100,
            bytes: envelope.emit().to_vec(),
        };
        assert_eq!(record.qpns(), Some((7, 8)));
    }

    #[test]
    fn the_head_survives_a_round_trip() {
        for fate in [Fate::Sent, Fate::Received, Fate::LostOnPurpose] {
            let record = Record {
                time_ns: u64::MAX - 3,
                fate,
                src: "127.0.0.9:12345".parse().unwrap(),
                dst: "10.255.0.1:65535".parse().unwrap(),
                len: 65_000,
                bytes: vec![1, 2, 3],
            };
            assert_eq!(Record::from_head(&record.head(), vec![1, 2, 3]), Some(record));
        }
        assert_eq!(Record::from_head(&[0, 0, 9], Vec::new()), None);
    }
}
