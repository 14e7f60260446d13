//! The base transport header, first in every packet (RC-1.1).
//!
//! ```text
//!  0               1               2               3
//! +---------------+-+-+---+-------+-------------------------------+
//! |    opcode     |S|M|pad|version|             p_key             |
//! +-+-+-----------+-+-+---+-------+-------------------------------+
//! |F|B| reserved  |                   dest_qpn                    |
//! +-+-+-----------+-----------------------------------------------+
//! |A|  joined   |r|                      psn                      |
//! +-+-----------+-+-----------------------------------------------+
//! S solicited, M migration state, F FECN, B BECN, A acknowledgement request, r reserved
//! ```

use super::Opcode;
use crate::{DropReason, Psn};

/// P_Keys that a default partition's members use.
pub const DEFAULT_PKEY: u16 = 0xFFFF;

/// A base transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    /// The kind of packet.
    pub opcode: Opcode,
    /// The receiver's program asked to be woken by such messages.
    pub is_solicited: bool,
    /// The path is the primary one; sent as 1, ignored on receipt (RC-1.3).
    pub is_migrated: bool,
    /// Zero bytes behind the payload, 0..=3.
    pub pad: u8,
    /// Partition key.
    pub pkey: u16,
    /// Congestion was met on the way.
    pub has_fecn: bool,
    /// The receiver met congestion from here.
    pub has_becn: bool,
    /// Queue pair it is for, 24 bits.
    pub dest_qpn: u32,
    /// The responder is to acknowledge at once.
    pub wants_ack: bool,
    /// The number of following packets of the message that are joined to this one, 0..=63
    /// (RC-1.15). The bits are reserved, and mean nothing in packets from a network.
    pub joined: u8,
    /// Packet sequence number.
    pub psn: Psn,
}

impl Bth {
    /// Length in bytes.
    pub const LEN: usize = 12;

    /// Packets that can be joined to another one at most.
    pub const JOINED_MAX: u8 = 63;

    /// The bits of the ninth byte that say how many packets are joined.
    pub(crate) const JOINED_BITS: u8 = Self::JOINED_MAX << 1;

    /// Reads a header from the start of `bytes`.
    ///
    /// # Errors
    /// [`DropReason::Short`], [`DropReason::Version`] or [`DropReason::Opcode`].
    #[inline(always)] // Who wants its length only skips most of it: 2 % of a short message.
    pub fn parse(bytes: &[u8]) -> Result<Self, DropReason> {
        let b: &[u8; Self::LEN] = bytes.first_chunk().ok_or(DropReason::Short)?;
        if b[1] & 0x0F != 0 {
            return Err(DropReason::Version);
        }
        let opcode = Opcode::from_byte(b[0]).ok_or(DropReason::Opcode)?;
        Ok(Self {
            opcode,
            is_solicited: b[1] & 0x80 != 0,
            is_migrated: b[1] & 0x40 != 0,
            pad: b[1] >> 4 & 3,
            pkey: u16::from_be_bytes([b[2], b[3]]),
            has_fecn: b[4] & 0x80 != 0,
            has_becn: b[4] & 0x40 != 0,
            dest_qpn: u32::from_be_bytes([0, b[5], b[6], b[7]]),
            wants_ack: b[8] & 0x80 != 0,
            joined: b[8] >> 1 & Self::JOINED_MAX,
            psn: Psn::new(u32::from_be_bytes([0, b[9], b[10], b[11]])),
        })
    }

    /// Writes the header to the start of `out`, which has room.
    #[inline(always)] // So that it is made of what the caller has in registers.
    pub fn emit(&self, out: &mut [u8]) {
        let flag = |on: bool, bit: u32| u32::from(on) << bit;
        let kind = u32::from(self.opcode.to_byte()) << 24
            | flag(self.is_solicited, 23)
            | flag(self.is_migrated, 22)
            | u32::from(self.pad & 3) << 20
            | u32::from(self.pkey);
        let to = flag(self.has_fecn, 31) | flag(self.has_becn, 30) | (self.dest_qpn & Psn::MASK);
        let number = flag(self.wants_ack, 31)
            | u32::from(self.joined & Self::JOINED_MAX) << 25
            | self.psn.get();
        // Two stores, because the check reads them back in two loads at once.
        out[..8].copy_from_slice(&(u64::from(kind) << 32 | u64::from(to)).to_be_bytes());
        out[8..12].copy_from_slice(&number.to_be_bytes());
    }
}

/// A congestion notification: "what you send to this queue pair met congestion" (RC-1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cnp {
    /// Partition key.
    pub pkey: u16,
    /// Queue pair whose packets met congestion.
    pub dest_qpn: u32,
}

impl Cnp {
    /// First byte of a notification.
    pub const OPCODE: u8 = 0x81;
    /// Length in bytes, without ICRC.
    pub const LEN: usize = Bth::LEN + 16;

    /// Reads a notification without its ICRC.
    ///
    /// # Errors
    /// [`DropReason::Short`], [`DropReason::Version`] or [`DropReason::Opcode`].
    pub fn parse(bytes: &[u8]) -> Result<Self, DropReason> {
        let b: &[u8; Self::LEN] = bytes.first_chunk().ok_or(DropReason::Short)?;
        if b[0] != Self::OPCODE {
            return Err(DropReason::Opcode);
        }
        if b[1] & 0x0F != 0 {
            return Err(DropReason::Version);
        }
        Ok(Self {
            pkey: u16::from_be_bytes([b[2], b[3]]),
            dest_qpn: u32::from_be_bytes([0, b[5], b[6], b[7]]),
        })
    }

    /// Writes the notification to the start of `out`, which has room.
    pub fn emit(&self, out: &mut [u8]) {
        out[..Self::LEN].fill(0);
        out[0] = Self::OPCODE;
        out[1] = 0x40;
        out[2..4].copy_from_slice(&self.pkey.to_be_bytes());
        out[4..8].copy_from_slice(&(self.dest_qpn & 0x00FF_FFFF).to_be_bytes());
        out[4] = 0x40;
    }
}
