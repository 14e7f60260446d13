//! Outputs of the engine.

use crate::id::Seq;
use crate::wire::{Bth, Feth, NakCode};
use crate::{Remote, Status, WrId};

/// The result of a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The payload starts this many bytes into the packet.
    pub payload_at: usize,
    /// The work that the host must do and answer before the next packet; `None` when there is
    /// nothing to do.
    pub arrival: Option<Arrival>,
    /// The shared receive queue that a request of XRC names; `None` otherwise. Use its receives and
    /// the memory of its protection domain; if it does not exist, reject with
    /// [`Reject::NoQueue`](crate::Reject::NoQueue).
    pub srq: Option<u32>,
}

/// Work that the host performs and then accepts or rejects. Packets of a message arrive in order,
/// without gaps and each once (RC-5.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Bytes of a message for a receive.
    Send(SendData),
    /// Bytes for memory of this side.
    Write(WriteData),
    /// The peer wants to read this range: check it. [`Payload::Response`] asks for the bytes.
    Read(Range),
    /// Perform this atomically and answer with
    /// [`Endpoint::accept_atomic`](crate::Endpoint::accept_atomic).
    Atomic(Atomic),
    /// Write the 8 bytes of the payload at once; the address is a multiple of 8.
    AtomicWrite(Remote),
    /// Make this range visible or persistent.
    Flush(Range, Feth),
    /// Check what is requested, in the order of the fields, and do nothing else. The packet is
    /// invalid, but the peer must be told the first error that applies (RC-5.3).
    Verify(Verify),
    /// Bytes of a READ of this side.
    ReadData(ReadData),
    /// The result of an atomic of this side: what the memory held, to be stored in host order.
    AtomicData {
        /// The work request.
        id: WrId,
        /// The value that was there.
        original: u64,
    },
}

/// Bytes of a message for a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendData {
    /// The message begins: take the next receive, or reject with
    /// [`Reject::NotReady`](crate::Reject::NotReady). A receive whose message was not finished is
    /// used again (unreliable connections).
    pub is_start: bool,
    /// The offset in the receive at which the bytes belong.
    pub offset: u32,
    /// Bytes in this packet.
    pub len: u32,
    /// The message ends; the contents of its completion.
    pub end: Option<SendEnd>,
}

/// The contents of a receive's completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendEnd {
    /// Bytes of the whole message.
    pub total: u32,
    /// Immediate data.
    pub imm: Option<u32>,
    /// Invalidate this key, or reject with [`Reject::Invalidate`](crate::Reject::Invalidate).
    pub invalidate: Option<u32>,
    /// Wake programs that wait for such messages.
    pub is_solicited: bool,
}

/// Memory of this side that the peer names. Check key, right and all `len` bytes; none when `len`
/// is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Address and key.
    pub remote: Remote,
    /// Bytes of the whole message.
    pub len: u32,
}

/// Bytes for memory of this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteData {
    /// Memory of the whole message.
    pub range: Range,
    /// The offset in it at which the bytes belong.
    pub offset: u32,
    /// Bytes in this packet.
    pub len: u32,
    /// The message ends with immediate data: take the next receive before anything else, or reject
    /// with [`Reject::NotReady`](crate::Reject::NotReady), and complete it with `range.len`.
    pub receive: Option<WriteReceive>,
}

/// The contents of the completion of a WRITE with immediate data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteReceive {
    /// Immediate data.
    pub imm: u32,
    /// Wake programs that wait for such messages.
    pub is_solicited: bool,
}

/// An atomic that the peer asks for. The address is a multiple of 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic {
    /// The memory that it works on.
    pub remote: Remote,
    /// The operation to do.
    pub op: AtomicOp,
}

/// The operation of an atomic, which returns the previous value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Stores `swap` when `compare` is there.
    CompareSwap {
        /// The value that is expected.
        compare: u64,
        /// The value that is swapped in.
        swap: u64,
    },
    /// Adds, wrapping.
    FetchAdd {
        /// The value that is added.
        add: u64,
    },
}

impl AtomicOp {
    /// Returns the value of the memory afterwards, if it was `original` before.
    #[must_use]
    pub const fn apply(self, original: u64) -> u64 {
        match self {
            Self::CompareSwap { compare, swap } if compare == original => swap,
            Self::CompareSwap { .. } => original,
            Self::FetchAdd { add } => original.wrapping_add(add),
        }
    }
}

/// The remaining checks of an invalid packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verify {
    /// A receive must be posted: otherwise [`Reject::NotReady`](crate::Reject::NotReady). It ends
    /// with the status that [`Event::Failed`] names.
    pub needs_receive: bool,
    /// Memory and right that the peer must have: otherwise
    /// [`Reject::Access`](crate::Reject::Access).
    pub memory: Option<(Range, Right)>,
}

/// The right that a peer needs for what it wants to do with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// WRITE.
    Write,
    /// READ.
    Read,
    /// Atomics.
    Atomic,
}

/// Bytes of a READ of this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadData {
    /// The work request.
    pub id: WrId,
    /// The offset in its memory at which the bytes belong.
    pub offset: u32,
    /// Bytes in this packet.
    pub len: u32,
}

/// One packet to send now: the headers are in the caller's buffer, then come payload, `pad` zero
/// bytes and the ICRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Bytes of the header buffer in use.
    pub header_len: usize,
    /// The place of the payload.
    pub payload: Payload,
    /// Zero bytes behind the payload, 0..=3.
    pub pad: u8,
    /// Further packets of the message that are joined to this one; 0 except from
    /// [`Endpoint::poll_joined`](crate::Endpoint::poll_joined).
    pub joined: u8,
    /// Whether this request was sent before; `false` for answers.
    pub is_repeated: bool,
}

/// A plain packet to send now: the headers are in the caller's buffer, then come payload of the
/// work request, `pad` zero bytes and the ICRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainPacket {
    /// The work request.
    pub id: WrId,
    /// The offset of the payload in it.
    pub offset: u32,
    /// Bytes of payload, at least 1.
    pub len: u32,
    /// Zero bytes behind the payload, 0..=3.
    pub pad: u8,
    /// Bytes of the header buffer in use: a base transport header, and in the first packet of a
    /// WRITE an RDMA header.
    pub header_len: usize,
}

/// A plain message of one packet that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortArrival {
    /// Bytes of the message, at least 1.
    pub len: u32,
    /// The memory that a WRITE goes to; check key, right and all bytes. `None` for a SEND, which
    /// goes into the next receive.
    pub target: Option<Remote>,
    /// Wake programs that wait for such messages.
    pub is_solicited: bool,
    pub(crate) wants_ack: bool,
    pub(crate) seq: Seq,
}

impl ShortArrival {
    /// Returns where in the packet the payload begins.
    #[must_use]
    #[inline]
    pub const fn payload_at(&self) -> usize {
        if self.target.is_some() { crate::PLAIN_HEADER_MAX } else { Bth::LEN }
    }
}

impl Transmit {
    /// Returns the bytes of the whole packet, with pad and ICRC.
    #[must_use]
    pub const fn packet_len(&self) -> usize {
        let payload = self.payload.len() as usize;
        self.header_len + payload + self.pad as usize + crate::wire::icrc::LEN
    }
}

/// The place of a packet's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// There is none.
    None,
    /// It is in the memory of a work request. A host that cannot supply it calls
    /// [`Endpoint::withdraw`](crate::Endpoint::withdraw) and does not send the packet.
    Request {
        /// The work request.
        id: WrId,
        /// The offset in its memory.
        offset: u32,
        /// The number of bytes.
        len: u32,
    },
    /// It is in memory that the peer reads. A host that cannot supply it (any more) calls
    /// [`Endpoint::refuse_response`](crate::Endpoint::refuse_response) and does not send the
    /// packet.
    Response {
        /// The memory that the peer reads.
        range: Range,
        /// The shared receive queue that the peer named; only with XRC.
        srq: Option<u32>,
        /// The offset in it.
        offset: u32,
        /// The number of bytes.
        len: u32,
    },
}

impl Payload {
    /// Returns the number of bytes.
    #[must_use]
    pub const fn len(&self) -> u32 {
        match *self {
            Self::None => 0,
            Self::Request { len, .. } | Self::Response { len, .. } => len,
        }
    }

    /// Returns whether there are no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Something the host should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)] // Copied in whole words, one per completion.
pub enum Event {
    /// A work request ended; each ends exactly once, in the order of posting, whether it asked for
    /// a completion or not.
    Completed {
        /// The host's name for it.
        id: WrId,
        /// The status with which it ended.
        status: Status,
    },
    /// The next work request is [`Operation::Local`](crate::Operation::Local): perform it and call
    /// [`Endpoint::executed`](crate::Endpoint::executed). Nothing later is sent before that.
    Execute {
        /// The work request.
        id: WrId,
    },
    /// The endpoint failed. Receives end as flushed, except for the one with the status in
    /// `receive`. What must still be sent to the peer is in
    /// [`Endpoint::poll_transmit`](crate::Endpoint::poll_transmit).
    Failed {
        /// The reason why.
        cause: Cause,
        /// The status of the receive that the failed message has taken; `None` when it took none.
        receive: Option<Status>,
    },
    /// A work request of an unreliable connection failed, and all later ones ended as flushed
    /// (RC-7.3). Receiving continues; [`Endpoint::resume`](crate::Endpoint::resume) lets work
    /// requests begin again.
    SendFailed,
    /// The first request of the peer has arrived, so it knows that this side is ready. Programs are
    /// notified if it arrived before the endpoint was ready to send (`IBV_EVENT_COMM_EST`), the
    /// connection manager always.
    Established,
    /// Everything that was begun before [`Endpoint::drain`](crate::Endpoint::drain) has ended
    /// (`IBV_EVENT_SQ_DRAINED`).
    Drained,
    /// The endpoint failed and consumes no more receives (`IBV_EVENT_QP_LAST_WQE_REACHED`).
    LastReceive,
    /// Packets of this side met congestion.
    Congestion,
}

/// The reason why an endpoint failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A work request of this side failed with this status.
    Request(Status),
    /// A request of the peer was refused with this code; `None` for a key that could not be
    /// invalidated.
    Peer(Option<NakCode>),
    /// The host requested it.
    Host,
}
