//! One captured datagram.

use std::net::SocketAddr;

use rc::wire::{Headers, Transport};
use srd::wire::Header;

use crate::address;
use crate::seal::Envelope;

/// The fate of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The datagram was handed to the operating system, or put into a ring.
    Sent,
    /// The datagram was received from the operating system, or taken out of a ring.
    Received,
    /// The datagram was dropped on purpose before it was sent (`--fault`).
    LostOnPurpose,
}

/// The protocol that the datagrams of a device carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// SRD and UD of an EFA.
    Srd,
    /// Packets of RoCEv2.
    Roce,
}

/// The queue pair numbers of a datagram, as far as it contains them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Qpns {
    /// The number of the sender, which packets of a connection do not contain.
    pub src: Option<u32>,
    /// The number of the receiver.
    pub dst: u32,
}

/// A captured datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Wall-clock time in nanoseconds since 1970.
    pub time_ns: u64,
    /// The fate of the datagram.
    pub fate: Fate,
    /// The protocol that the datagram carries, in the clear or sealed.
    pub protocol: Protocol,
    /// The sender: the device's address and the UDP port of the path.
    pub src: SocketAddr,
    /// The receiver. Its port is the queue pair number on an EFA; on a RoCE device it is a part of
    /// that number, or the port of a gateway or of groups.
    pub dst: SocketAddr,
    /// Length of the datagram in bytes, which exceeds that of `bytes` if the datagram was cut.
    pub len: u16,
    /// The first bytes of the UDP payload.
    pub bytes: Vec<u8>,
}

/// The position of the protocol in the last word of a head, above the fate.
const PROTOCOL_SHIFT: u32 = 8;
/// The number of words of a record without its bytes.
pub(super) const HEAD_WORDS: usize = 2 + 2 * address::WORDS;

impl Record {
    /// Returns the queue pair numbers, if they were captured. Those of a sealed datagram of a RoCE
    /// device are not visible.
    #[must_use]
    pub fn qpns(&self) -> Option<Qpns> {
        let of_ports = |src: u16, dst: u16| Qpns { src: Some(src.into()), dst: dst.into() };
        match (self.protocol, Envelope::parse(&self.bytes)) {
            (Protocol::Srd, Some(envelope)) => Some(of_ports(envelope.src_qpn, envelope.dst_qpn)),
            (Protocol::Srd, None) => {
                let header = Header::parse(&self.bytes).ok()?;
                Some(of_ports(header.src_qpn, header.dst_qpn))
            }
            (Protocol::Roce, Some(_)) => None,
            (Protocol::Roce, None) => {
                let headers = Headers::parse(&self.bytes).ok()?;
                let is_datagram = headers.bth.opcode.transport == Transport::Ud;
                let src = is_datagram.then_some(headers.deth.src_qpn);
                Some(Qpns { src, dst: headers.bth.dest_qpn })
            }
        }
    }

    /// Returns true if the datagram is a packet of RoCEv2 in the clear, which every tool can read
    /// if it is shown on RoCE's own port, whatever port it was sent to.
    #[must_use]
    pub fn is_roce_packet(&self) -> bool {
        self.protocol == Protocol::Roce && Envelope::parse(&self.bytes).is_none()
    }

    /// Returns everything but the bytes as words.
    pub(super) fn head(&self) -> [u64; HEAD_WORDS] {
        let fate = match self.fate {
            Fate::Sent => 0,
            Fate::Received => 1,
            Fate::LostOnPurpose => 2,
        };
        let protocol = match self.protocol {
            Protocol::Srd => 0,
            Protocol::Roce => 1 << PROTOCOL_SHIFT,
        };
        let ports = u64::from(self.src.port()) << 16 | u64::from(self.dst.port());
        let [src, dst] = [self.src, self.dst].map(|at| address::to_words(at.ip()));
        let rest = u64::from(self.len) << 48 | ports << 16 | protocol | fate;
        [self.time_ns, src[0], src[1], dst[0], dst[1], rest]
    }

    /// The inverse of [`Record::head`].
    #[expect(clippy::cast_possible_truncation, reason = "fields are cut out of their words")]
    pub(super) fn from_head(head: &[u64; HEAD_WORDS], bytes: Vec<u8>) -> Option<Self> {
        let [time_ns, src_high, src_low, dst_high, dst_low, rest] = *head;
        let at = |addr, port: u64| SocketAddr::new(address::of_words(addr), port as u16);
        let protocol = match rest >> PROTOCOL_SHIFT & 0xff {
            0 => Protocol::Srd,
            1 => Protocol::Roce,
            _ => return None,
        };
        let fate = match rest & 0xff {
            0 => Fate::Sent,
            1 => Fate::Received,
            2 => Fate::LostOnPurpose,
            _ => return None,
        };
        let src = at([src_high, src_low], rest >> 32);
        let dst = at([dst_high, dst_low], rest >> 16);
        Some(Self { time_ns, fate, protocol, src, dst, len: (rest >> 48) as u16, bytes })
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
            protocol: Protocol::Srd,
            src: "127.0.0.1:10240".parse().unwrap(),
            dst: "127.0.0.1:8".parse().unwrap(),
            len: 100,
            bytes: envelope.emit().to_vec(),
        };
        assert_eq!(record.qpns(), Some(Qpns { src: Some(7), dst: 8 }));
        let record = Record { protocol: Protocol::Roce, ..record };
        assert!(record.qpns().is_none() && !record.is_roce_packet());
    }

    #[test]
    fn the_head_survives_a_round_trip() {
        let fates = [Fate::Sent, Fate::Received, Fate::LostOnPurpose];
        for (fate, protocol) in
            fates.into_iter().zip([Protocol::Roce, Protocol::Srd, Protocol::Roce])
        {
            let record = Record {
                time_ns: u64::MAX - 3,
                fate,
                protocol,
                src: "[2001:db8::7]:12345".parse().unwrap(),
                dst: "10.255.0.1:65535".parse().unwrap(),
                len: 65_000,
                bytes: vec![1, 2, 3],
            };
            assert_eq!(Record::from_head(&record.head(), vec![1, 2, 3]), Some(record));
        }
        assert_eq!(Record::from_head(&[0, 0, 0, 0, 0, 9], Vec::new()), None);
    }
}
