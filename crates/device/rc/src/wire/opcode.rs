//! Opcodes: the first byte of every packet.

/// The transport service in the upper three bits of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Transport {
    /// Reliable connection.
    Rc = 0x00,
    /// Unreliable connection.
    Uc = 0x20,
    /// Unreliable datagram.
    Ud = 0x60,
    /// Extended reliable connection.
    Xrc = 0xA0,
}

/// The operation in the lower five bits of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The first of several packets of a SEND.
    SendFirst = 0x00,
    /// A packet in the middle of a SEND.
    SendMiddle = 0x01,
    /// The last packet of a SEND.
    SendLast = 0x02,
    /// The last packet of a SEND with immediate data.
    SendLastImm = 0x03,
    /// The only packet of a SEND.
    SendOnly = 0x04,
    /// The only packet of a SEND with immediate data.
    SendOnlyImm = 0x05,
    /// The first of several packets of a WRITE.
    WriteFirst = 0x06,
    /// A packet in the middle of a WRITE.
    WriteMiddle = 0x07,
    /// The last packet of a WRITE.
    WriteLast = 0x08,
    /// The last packet of a WRITE with immediate data.
    WriteLastImm = 0x09,
    /// The only packet of a WRITE.
    WriteOnly = 0x0A,
    /// The only packet of a WRITE with immediate data.
    WriteOnlyImm = 0x0B,
    /// A request to read.
    ReadRequest = 0x0C,
    /// The first of several packets of an answer to a READ.
    ReadResponseFirst = 0x0D,
    /// A packet in the middle of an answer to a READ.
    ReadResponseMiddle = 0x0E,
    /// The last packet of an answer to a READ.
    ReadResponseLast = 0x0F,
    /// The only packet of an answer to a READ, a FLUSH or an ATOMIC WRITE.
    ReadResponseOnly = 0x10,
    /// An acknowledgement or a negative one.
    Acknowledge = 0x11,
    /// The answer to an atomic.
    AtomicAcknowledge = 0x12,
    /// A request to compare and swap 8 bytes.
    CompareSwap = 0x13,
    /// A request to fetch 8 bytes and add to them.
    FetchAdd = 0x14,
    /// The last packet of a SEND that invalidates a key.
    SendLastInvalidate = 0x16,
    /// The only packet of a SEND that invalidates a key.
    SendOnlyInvalidate = 0x17,
    /// A request to make what was written visible or persistent.
    Flush = 0x1C,
    /// A request to write 8 bytes at once.
    AtomicWrite = 0x1D,
}

impl Kind {
    /// All kinds in the order of their codes.
    pub const ALL: [Self; 25] = [
        Self::SendFirst,
        Self::SendMiddle,
        Self::SendLast,
        Self::SendLastImm,
        Self::SendOnly,
        Self::SendOnlyImm,
        Self::WriteFirst,
        Self::WriteMiddle,
        Self::WriteLast,
        Self::WriteLastImm,
        Self::WriteOnly,
        Self::WriteOnlyImm,
        Self::ReadRequest,
        Self::ReadResponseFirst,
        Self::ReadResponseMiddle,
        Self::ReadResponseLast,
        Self::ReadResponseOnly,
        Self::Acknowledge,
        Self::AtomicAcknowledge,
        Self::CompareSwap,
        Self::FetchAdd,
        Self::SendLastInvalidate,
        Self::SendOnlyInvalidate,
        Self::Flush,
        Self::AtomicWrite,
    ];

    /// Returns the kind with this code; `None` for reserved codes.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x00..=0x14 => Self::ALL[code as usize],
            0x16 => Self::SendLastInvalidate,
            0x17 => Self::SendOnlyInvalidate,
            0x1C => Self::Flush,
            0x1D => Self::AtomicWrite,
            _ => return None,
        })
    }

    /// Returns whether it comes from a requester.
    #[must_use]
    pub const fn is_request(self) -> bool {
        !matches!(self as u8, 0x0D..=0x12)
    }

    /// Returns whether it is part of a SEND.
    #[must_use]
    pub const fn is_send(self) -> bool {
        matches!(self as u8, 0x00..=0x05 | 0x16 | 0x17)
    }

    /// Returns whether it is part of a WRITE.
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(self as u8, 0x06..=0x0B)
    }

    /// Returns whether it is part of an answer to a READ.
    #[must_use]
    pub const fn is_read_response(self) -> bool {
        matches!(self as u8, 0x0D..=0x10)
    }

    /// Returns whether it is an atomic with a result.
    #[must_use]
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::CompareSwap | Self::FetchAdd)
    }

    /// Returns whether it is answered by more than an acknowledgement, and the answer is kept for
    /// repetitions.
    #[must_use]
    pub const fn takes_resource(self) -> bool {
        self.is_atomic() || matches!(self, Self::ReadRequest | Self::Flush | Self::AtomicWrite)
    }

    /// Returns whether a message begins with it.
    #[must_use]
    pub const fn is_start(self) -> bool {
        matches!(self, Self::SendFirst | Self::WriteFirst | Self::ReadResponseFirst)
            || self.is_only()
    }

    /// Returns whether a message ends with it.
    #[must_use]
    pub const fn is_end(self) -> bool {
        matches!(self, Self::SendLast | Self::SendLastImm | Self::SendLastInvalidate)
            || matches!(self, Self::WriteLast | Self::WriteLastImm | Self::ReadResponseLast)
            || self.is_only()
    }

    const fn is_only(self) -> bool {
        matches!(self, Self::SendOnly | Self::SendOnlyImm | Self::SendOnlyInvalidate)
            || matches!(self, Self::WriteOnly | Self::WriteOnlyImm | Self::ReadResponseOnly)
            || matches!(self as u8, 0x0C | 0x11..=0x14 | 0x1C | 0x1D)
    }

    /// Returns whether it has a RETH.
    #[must_use]
    pub const fn has_reth(self) -> bool {
        matches!(self, Self::WriteFirst | Self::WriteOnly | Self::WriteOnlyImm)
            || matches!(self, Self::ReadRequest | Self::Flush | Self::AtomicWrite)
    }

    /// Returns whether it has an AETH.
    #[must_use]
    pub const fn has_aeth(self) -> bool {
        matches!(self as u8, 0x0D | 0x0F..=0x12)
    }

    /// Returns whether it carries immediate data.
    #[must_use]
    pub const fn has_imm(self) -> bool {
        matches!(self, Self::SendLastImm | Self::SendOnlyImm)
            || matches!(self, Self::WriteLastImm | Self::WriteOnlyImm)
    }

    /// Returns whether it names a key to invalidate.
    #[must_use]
    pub const fn has_ieth(self) -> bool {
        matches!(self, Self::SendLastInvalidate | Self::SendOnlyInvalidate)
    }

    /// Returns whether payload may follow its headers.
    #[must_use]
    pub const fn has_payload(self) -> bool {
        self.is_send()
            || self.is_write()
            || self.is_read_response()
            || matches!(self, Self::AtomicWrite)
    }

    /// Returns whether the service has packets of this kind.
    #[must_use]
    pub const fn exists_in(self, transport: Transport) -> bool {
        match transport {
            Transport::Rc | Transport::Xrc => true,
            Transport::Uc => (self as u8) < 0x0C,
            Transport::Ud => matches!(self, Self::SendOnly | Self::SendOnlyImm),
        }
    }
}

/// Service and operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Opcode {
    /// The service.
    pub transport: Transport,
    /// The operation.
    pub kind: Kind,
}

impl Opcode {
    /// Returns the opcode in a packet's first byte; `None` when it is reserved or of another
    /// service.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        let transport = match byte & 0xE0 {
            0x00 => Transport::Rc,
            0x20 => Transport::Uc,
            0x60 => Transport::Ud,
            0xA0 => Transport::Xrc,
            _ => return None,
        };
        match Kind::from_code(byte & 0x1F) {
            Some(kind) if kind.exists_in(transport) => Some(Self { transport, kind }),
            _ => None,
        }
    }

    /// Returns a packet's first byte.
    #[must_use]
    pub const fn to_byte(self) -> u8 {
        self.transport as u8 | self.kind as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_opcodes_match_both_ways() {
        let known: Vec<_> = (0..=255u8).filter_map(|b| Some((b, Opcode::from_byte(b)?))).collect();
        assert!(known.iter().all(|&(byte, opcode)| opcode.to_byte() == byte));
        assert_eq!(known.len(), 25 + 12 + 2 + 25);
        assert_eq!(Opcode::from_byte(0x81), None, "a CNP is no packet of a service");
    }

    #[test]
    fn each_part_of_a_message_begins_or_ends_it_as_it_says() {
        let starts = Kind::ALL.iter().filter(|kind| kind.is_start()).count();
        let ends = Kind::ALL.iter().filter(|kind| kind.is_end()).count();
        assert_eq!((starts, ends), (3 + 3 + 3 + 7, 6 + 6 + 7));
        assert!(Kind::ALL.iter().all(|kind| kind.is_send() || !kind.has_ieth()));
    }
}
