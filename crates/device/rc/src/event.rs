//! What comes out of the engine.

use crate::wire::{Feth, NakCode};
use crate::{Remote, Status, WrId};

/// The result of a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The payload starts this many bytes into the packet.
    pub payload_at: usize,
    /// The work that the host must do and answer before the next packet; `None` when there is
    /// nothing to do.
    pub arrival: Option<Arrival>,
    /// Shared receive queue that the request names, of XRC only. Its receives and the memory of its
    /// protection domain are used; when it is not there, reject with
    /// [`Reject::NoQueue`](crate::Reject::NoQueue).
    pub srq: Option<u32>,
}

/// Something that the host does and then accepts or rejects. Packets of a message arrive in order,
/// without gaps and each once (RC-5.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Bytes of a message for a receive.
    Send(SendData),
    /// Bytes for memory of this side.
    Write(WriteData),
    /// The peer wants to read this range: check it. The bytes are asked for by
    /// [`Payload::Response`].
    Read(Range),
    /// Do this atomically and answer with
    /// [`Endpoint::accept_atomic`](crate::Endpoint::accept_atomic).
    Atomic(Atomic),
    /// Write the 8 bytes of the payload at once; the address is a multiple of 8.
    AtomicWrite(Remote),
    /// Make this range visible or persistent.
    Flush(Range, Feth),
    /// Check what is asked for, in the order of the fields; nothing is to be done. The packet is
    /// wrong in itself, but the peer must be told of what comes first (RC-5.3).
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
    /// [`Reject::NotReady`](crate::Reject::NotReady). A receive whose message was not finished
    /// is used again (unreliable connections).
    pub is_start: bool,
    /// The offset in the receive at which the bytes belong.
    pub offset: u32,
    /// Bytes in this packet.
    pub len: u32,
    /// The message ends: what its completion says.
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
    /// The whole message's memory.
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

/// The operation of an atomic. It returns what was there.
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
    /// Returns what the memory holds afterwards, when it held `original`.
    #[must_use]
    pub const fn apply(self, original: u64) -> u64 {
        match self {
            Self::CompareSwap { compare, swap } if compare == original => swap,
            Self::CompareSwap { .. } => original,
            Self::FetchAdd { add } => original.wrapping_add(add),
        }
    }
}

/// The checks that are left to do of a packet that is wrong in itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verify {
    /// A receive must be there: else [`Reject::NotReady`](crate::Reject::NotReady). It ends with
    /// the status that [`Event::Failed`] names.
    pub needs_receive: bool,
    /// Memory and right that the peer must have: else [`Reject::Access`](crate::Reject::Access).
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
    /// Packets of the message that are joined to this one, of
    /// [`Endpoint::poll_joined`](crate::Endpoint::poll_joined) alone.
    pub joined: u8,
    /// This is a repetition.
    pub is_repeated: bool,
}

impl Transmit {
    /// Bytes of the whole packet, with pad and ICRC.
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
        /// Shared receive queue that the peer named; of XRC only.
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

    /// There are no bytes.
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
    /// It is the turn of this work request, which is [`Operation::Local`](crate::Operation::Local):
    /// do it, and call [`Endpoint::executed`](crate::Endpoint::executed). Nothing behind it leaves
    /// before.
    Execute {
        /// The work request.
        id: WrId,
    },
    /// The endpoint failed. Receives end as flushed, but for the one that `receive` speaks of. What
    /// the peer must still be told is in
    /// [`Endpoint::poll_transmit`](crate::Endpoint::poll_transmit).
    Failed {
        /// The reason why.
        cause: Cause,
        /// The status of the receive that the failed message has taken; `None` when it took none.
        receive: Option<Status>,
    },
    /// A work request of an unreliable connection failed, and all behind it ended as flushed
    /// (RC-7.3). Receiving goes on; [`Endpoint::resume`](crate::Endpoint::resume) lets work
    /// requests begin again.
    SendFailed,
    /// The first request of the peer has come: it knows that this side is there. Programs are told
    /// when it came before the endpoint was ready to send (`IBV_EVENT_COMM_EST`), the connection
    /// manager always.
    Established,
    /// Everything that was begun before [`Endpoint::drain`](crate::Endpoint::drain) has ended
    /// (`IBV_EVENT_SQ_DRAINED`).
    Drained,
    /// The endpoint failed and takes no receive any more (`IBV_EVENT_QP_LAST_WQE_REACHED`).
    LastReceive,
    /// The peer met congestion on the way from here.
    Congestion,
}

/// The reason why an endpoint failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A work request of this side ended like that.
    Request(Status),
    /// A request of the peer was refused like that; `None` for a key that could not be invalidated.
    Peer(Option<NakCode>),
    /// The host wanted it.
    Host,
}
