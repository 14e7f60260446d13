//! Packets in the network, in a slab: no allocation per packet. What a hop needs travels with the
//! event of the packet's arrival ([`Transit`]), so that a hop touches no memory of the packet.

use crate::id::{FlowId, HostId, MessageId, SocketId};
use crate::transport::tcp::Segment;
use srd::HEADER_MAX;

/// Ethernet (18 bytes with its check sum) and IPv4 (20) around a transport's header.
pub(crate) const FRAME_BYTES: u32 = 38;
/// UDP's header.
pub(crate) const UDP_BYTES: u32 = 8;
/// Headers up to this length lie beside the packet; longer ones are rare (acknowledgements with a
/// long bitmap) and lie elsewhere.
const SHORT_BYTES: usize = 64;
const NOWHERE: u32 = u32::MAX;

/// The name of a packet while it is in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketId(u32);

impl PacketId {
    /// Returns a small number, for tables by packet.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The payload: it stands for the bytes of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    pub(crate) flow: FlowId,
    pub(crate) message: MessageId,
}

impl Payload {
    /// Returns it as the name that an engine hands back.
    pub(crate) const fn to_u64(self) -> u64 {
        (self.flow.0 as u64) << 32 | self.message.0 as u64
    }

    pub(crate) const fn from_u64(name: u64) -> Self {
        Self { flow: FlowId((name >> 32) as u32), message: MessageId(name as u32) }
    }
}

/// A packet on its way, with all that switches and links look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transit {
    pub(crate) id: PacketId,
    /// Hash of the 5-tuple.
    pub(crate) flow_hash: u32,
    pub(crate) dst_host: HostId,
    /// Length on the wire, which scenarios bound to 9,000.
    wire_bytes: u16,
    /// Number of times that its present link had been cut when it took the packet.
    pub(crate) link_cuts: u16,
    /// Whether a switch marked it: congestion experienced.
    pub(crate) marked: bool,
}

impl Transit {
    #[inline]
    pub(crate) fn wire_bytes(&self) -> u32 {
        u32::from(self.wire_bytes)
    }
}

/// The part of a packet that both ends know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// Length on the wire, in bytes.
    pub(crate) wire_bytes: u32,
    /// Hash of the 5-tuple.
    pub(crate) flow_hash: u32,
    pub(crate) src_host: HostId,
    pub(crate) dst_host: HostId,
    /// Socket at the destination, which stands for the destination port.
    pub(crate) dst_socket: SocketId,
    pub(crate) payload: Option<Payload>,
    /// Whether a switch marked it; known when it has arrived.
    pub(crate) marked: bool,
}

/// The content that transports put into a packet: their header, in the form they exchange it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body<'a> {
    /// An engine's header as it would be on the wire, at most [`HEADER_MAX`] bytes.
    Engine(&'a [u8]),
    Tcp(Segment),
}

/// A [`Body`] in a slot.
#[derive(Debug)]
enum Stored {
    Free { next: u32 },
    Short { len: u8, bytes: [u8; SHORT_BYTES] },
    Long { len: u16, place: u32 },
    Tcp(Segment),
}

#[repr(align(64))]
#[derive(Debug)]
struct Slot {
    packet: Packet,
    stored: Stored,
}

/// All packets in the network.
#[derive(Debug)]
pub(crate) struct Packets {
    slots: Vec<Slot>,
    first_free: u32,
    long: Vec<[u8; HEADER_MAX]>,
    long_free: Vec<u32>,
    live: usize,
}

impl Packets {
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            first_free: NOWHERE,
            long: Vec::new(),
            long_free: Vec::new(),
            live: 0,
        }
    }

    /// Returns the number of packets in the network.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Adds a packet with what its transport put into it.
    pub(crate) fn insert(&mut self, packet: Packet, body: Body<'_>) -> Transit {
        let id = self.put(packet, body);
        let Packet { wire_bytes, flow_hash, dst_host, .. } = packet;
        let wire_bytes = wire_bytes as u16;
        Transit { id, flow_hash, dst_host, wire_bytes, link_cuts: 0, marked: false }
    }

    fn put(&mut self, packet: Packet, body: Body<'_>) -> PacketId {
        let stored = match body {
            Body::Engine(header) => self.store(header),
            Body::Tcp(segment) => Stored::Tcp(segment),
        };
        self.live += 1;
        let Some(slot) = self.slots.get_mut(self.first_free as usize) else {
            self.slots.push(Slot { packet, stored });
            return PacketId(self.slots.len() as u32 - 1);
        };
        let id = PacketId(self.first_free);
        if let Stored::Free { next } = slot.stored {
            self.first_free = next;
        }
        *slot = Slot { packet, stored };
        id
    }

    fn store(&mut self, header: &[u8]) -> Stored {
        let mut bytes = [0; SHORT_BYTES];
        if let Some(short) = bytes.get_mut(..header.len()) {
            short.copy_from_slice(header);
            return Stored::Short { len: header.len() as u8, bytes };
        }
        let place = self.long_free.pop().unwrap_or_else(|| {
            self.long.push([0; HEADER_MAX]);
            self.long.len() as u32 - 1
        });
        self.long[place as usize][..header.len()].copy_from_slice(header);
        Stored::Long { len: header.len() as u16, place }
    }

    /// Returns a packet that has arrived, and its content.
    pub(crate) fn open(&mut self, transit: Transit) -> (&Packet, Body<'_>) {
        let slot = &mut self.slots[transit.id.index()];
        slot.packet.marked = transit.marked;
        let body = match &slot.stored {
            Stored::Free { .. } => unreachable!("{transit:?} has left the network"),
            Stored::Short { len, bytes } => Body::Engine(&bytes[..usize::from(*len)]),
            Stored::Long { len, place } => {
                Body::Engine(&self.long[*place as usize][..usize::from(*len)])
            }
            Stored::Tcp(segment) => Body::Tcp(*segment),
        };
        (&slot.packet, body)
    }

    /// Takes a packet out: delivered, or lost.
    pub(crate) fn remove(&mut self, id: PacketId) {
        let slot = &mut self.slots[id.index()];
        if let Stored::Long { place, .. } = slot.stored {
            self.long_free.push(place);
        }
        slot.stored = Stored::Free { next: self.first_free };
        self.first_free = id.0;
        self.live -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(n: u32) -> Packet {
        Packet {
            wire_bytes: n,
            flow_hash: 0,
            src_host: HostId(0),
            dst_host: HostId(0),
            dst_socket: SocketId(0),
            payload: None,
            marked: false,
        }
    }

    #[test]
    fn keeps_headers_of_all_lengths_and_reuses_its_memory() {
        let mut packets = Packets::new();
        let header: Vec<u8> = (0..HEADER_MAX).map(|i| i as u8).collect();
        for round in 0..3 {
            let lens = [0, 40, SHORT_BYTES, SHORT_BYTES + 1, HEADER_MAX];
            let ids =
                lens.map(|len| packets.insert(packet(len as u32), Body::Engine(&header[..len])));
            for (id, len) in ids.into_iter().zip(lens) {
                let (packet, Body::Engine(bytes)) = packets.open(id) else {
                    panic!("what was put in")
                };
                assert_eq!((packet.wire_bytes, bytes), (len as u32, &header[..len]), "{round}");
            }
            assert_eq!(packets.live(), lens.len());
            ids.into_iter().rev().for_each(|transit| packets.remove(transit.id));
        }
        assert_eq!((packets.live(), packets.slots.len(), packets.long.len()), (0, 5, 2));
        assert_eq!(size_of::<Slot>(), 128, "two cache lines");
    }
}
