//! Unreliable datagrams: one packet, one message, no connection (RC-8).
//!
//! The only state is the next sequence number: a host calls [`Sender::packet`] for each work
//! request and [`receive`] for each packet, and puts the 40 bytes of [`grh`](crate::wire::grh)
//! before the payload. A work request that it cannot send stops its send queue (RC-8.4).

use crate::wire::{Bth, Deth, Headers, Kind, Opcode, Packet, Transport, pad_of};
use crate::{DropReason, HEADER_MAX, Mtu, Psn};

/// The queue pair number of every member of a multicast group (RC-8.5).
pub const GROUP_QPN: u32 = 0xFF_FFFF;

/// A datagram to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// Queue pair of the receiver, 24 bits.
    pub dest_qpn: u32,
    /// Queue key.
    pub qkey: u32,
    /// Bytes.
    pub len: u32,
    /// Immediate data.
    pub imm: Option<u32>,
    /// Wakes the receiver's program when it waits for such messages.
    pub is_solicited: bool,
}

/// The sending half of a queue pair.
#[derive(Clone, Debug)]
pub struct Sender {
    qpn: u32,
    pkey: u16,
    mtu: Mtu,
    next: Psn,
}

impl Sender {
    /// Creates a sender of queue pair `qpn` in partition `pkey`, for packets of at most `mtu`.
    #[must_use]
    pub const fn new(qpn: u32, pkey: u16, mtu: Mtu, sq_psn: Psn) -> Self {
        Self { qpn, pkey, mtu, next: sq_psn }
    }

    /// Writes the headers of a datagram and returns their length and the zero bytes behind the
    /// payload. `None` when it is longer than the path allows: then it is not sent, and its work
    /// request ends successfully all the same (RC-8.2).
    pub fn packet(
        &mut self,
        datagram: &Datagram,
        out: &mut [u8; HEADER_MAX],
    ) -> Option<(usize, u8)> {
        if datagram.len > self.mtu.bytes() {
            return None;
        }
        let kind = if datagram.imm.is_some() { Kind::SendOnlyImm } else { Kind::SendOnly };
        let pad = pad_of(datagram.len);
        let mut headers = Headers::new(Bth {
            opcode: Opcode { transport: Transport::Ud, kind },
            is_solicited: datagram.is_solicited,
            is_migrated: true,
            pad,
            pkey: self.pkey,
            has_fecn: false,
            has_becn: false,
            joined: 0,
            dest_qpn: datagram.dest_qpn,
            wants_ack: false,
            psn: self.next,
        });
        headers.deth = Deth { qkey: datagram.qkey, src_qpn: self.qpn };
        headers.imm = datagram.imm.unwrap_or(0);
        self.next = Psn::new(self.next.get() + 1);
        Some((headers.emit(out), pad))
    }
}

/// The attributes of a receiver that a datagram must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// Its queue pair, 24 bits; [`GROUP_QPN`] for datagrams to a group that it is a member of.
    pub qpn: u32,
    /// Its partition.
    pub pkey: u16,
    /// Its queue key.
    pub qkey: u32,
    /// Longest message.
    pub mtu: Mtu,
}

/// A datagram that was received. If no receive is posted, or it is too short, the datagram is
/// dropped (RC-8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Queue pair that sent it.
    pub src_qpn: u32,
    /// Immediate data.
    pub imm: Option<u32>,
    /// Wake programs that wait for such messages.
    pub is_solicited: bool,
    /// The payload starts this many bytes into the packet.
    pub payload_at: usize,
    /// Bytes of the message.
    pub payload_len: u32,
}

/// Reads a datagram: `bytes` starts at the base transport header and holds at least all headers,
/// `len` is the length of the whole packet with pad and ICRC.
///
/// # Errors
/// Why it is dropped (RC-8.1).
pub fn receive(receiver: &Receiver, bytes: &[u8], len: usize) -> Result<Received, DropReason> {
    let packet = Packet::parse(bytes, len)?;
    let headers = &packet.headers;
    let bth = &headers.bth;
    if bth.opcode.transport != Transport::Ud {
        return Err(DropReason::Service);
    }
    if bth.dest_qpn != receiver.qpn {
        return Err(DropReason::WrongQpn);
    }
    let (theirs, ours) = (bth.pkey, receiver.pkey);
    if (theirs ^ ours) & 0x7FFF != 0 || (theirs | ours) & 0x8000 == 0 {
        return Err(DropReason::WrongPkey);
    }
    if headers.deth.qkey != receiver.qkey {
        return Err(DropReason::WrongQkey);
    }
    if packet.payload_len > receiver.mtu.bytes() {
        return Err(DropReason::TooLong);
    }
    Ok(Received {
        src_qpn: headers.deth.src_qpn,
        imm: bth.opcode.kind.has_imm().then_some(headers.imm),
        is_solicited: bth.is_solicited,
        payload_at: packet.payload_at(),
        payload_len: packet.payload_len,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::DEFAULT_PKEY;

    const HERE: Receiver =
        Receiver { qpn: 0x12_3456, pkey: DEFAULT_PKEY, qkey: 0x1111_1111, mtu: Mtu::B1024 };

    fn there() -> Sender {
        Sender::new(0x77, DEFAULT_PKEY, Mtu::B1024, Psn::new(Psn::MASK))
    }

    fn datagram(len: u32) -> Datagram {
        let (dest_qpn, qkey) = (HERE.qpn, HERE.qkey);
        Datagram { dest_qpn, qkey, len, imm: Some(9), is_solicited: true }
    }

    /// RC-8.1.
    #[test]
    fn a_datagram_says_where_it_comes_from() {
        let mut out = [0; HEADER_MAX];
        let mut sender = there();
        let (len, pad) = sender.packet(&datagram(5), &mut out).unwrap();
        assert_eq!((len, pad), (24, 3));
        let received = receive(&HERE, &out, len + 5 + 3 + 4).unwrap();
        assert_eq!((received.src_qpn, received.imm), (0x77, Some(9)));
        assert_eq!((received.payload_at, received.payload_len), (24, 5));
        sender.packet(&datagram(5), &mut out);
        assert_eq!(Bth::parse(&out).unwrap().psn, Psn::new(0), "numbers wrap");
    }

    /// RC-8.1, RC-8.3.
    #[test]
    fn what_is_not_for_here_is_dropped() {
        let mut out = [0; HEADER_MAX];
        let (len, _) = there().packet(&datagram(8), &mut out).unwrap();
        let whole = len + 8 + 4;
        let check = |other: Receiver| receive(&other, &out, whole).unwrap_err();
        assert_eq!(check(Receiver { qpn: 1, ..HERE }), DropReason::WrongQpn);
        assert_eq!(check(Receiver { qkey: 1, ..HERE }), DropReason::WrongQkey);
        assert_eq!(check(Receiver { pkey: 0xFFFE, ..HERE }), DropReason::WrongPkey);
        assert!(receive(&Receiver { pkey: 0x7FFF, ..HERE }, &out, whole).is_ok());
        assert_eq!(receive(&HERE, &out, len + 1028 + 4), Err(DropReason::TooLong));
    }

    /// RC-8.5.
    #[test]
    fn what_is_for_a_group_is_not_for_a_queue_pair() {
        let mut out = [0; HEADER_MAX];
        let to_group = Datagram { dest_qpn: GROUP_QPN, ..datagram(8) };
        let (len, _) = there().packet(&to_group, &mut out).unwrap();
        let whole = len + 8 + 4;
        assert_eq!(receive(&HERE, &out, whole), Err(DropReason::WrongQpn));
        assert!(receive(&Receiver { qpn: GROUP_QPN, ..HERE }, &out, whole).is_ok());
    }

    /// RC-8.2.
    #[test]
    fn a_longer_message_is_not_sent() {
        let mut out = [0; HEADER_MAX];
        assert!(there().packet(&datagram(1024), &mut out).is_some());
        assert!(there().packet(&datagram(1025), &mut out).is_none());
    }
}
