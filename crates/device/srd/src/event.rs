//! Inputs and outputs of the engine.

use core::ops::Range;

use crate::{Address, MsgId, PathId, PeerId, Psn, Status};

/// A message to send. It fits one datagram; the host keeps its bytes until it completes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The host's name for it, handed back in [`Transmit`] and [`Event::Completed`].
    pub id: MsgId,
    /// Payload length in bytes.
    pub len: u32,
    /// Operation, opaque to the engine.
    pub op: u8,
    /// The host's flags, opaque to the engine (immediate data present, solicited, ...).
    pub flags: u8,
    /// Queue key, opaque to the engine.
    pub qkey: u32,
    /// Immediate data, opaque to the engine.
    pub imm: u32,
    /// The number of times to try again when the receiver is not ready: 0..=6, or 7 for ever
    /// (SRD-6.1).
    pub rnr_retry: u8,
    /// It needs no receive at its receiver, so it passes those that wait for one (SRD-6.2).
    pub is_one_sided: bool,
    /// It may leave in one datagram with others (SRD-14).
    pub may_share: bool,
}

/// The result of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The peer that sent it.
    pub peer: PeerId,
    /// The payload starts this many bytes into the datagram.
    pub header_len: usize,
    /// A new message that the host must accept or reject before the next one; `None` when the
    /// datagram only acknowledged something, or repeated a message that was already taken.
    pub data: Option<Arrival>,
    /// The datagram has several messages: call
    /// [`Endpoint::next_framed`](crate::Endpoint::next_framed) until there are no more.
    pub is_frame: bool,
}

/// A new message of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framed {
    /// The message.
    pub arrival: Arrival,
    /// Where its payload is in the datagram.
    pub payload: Range<usize>,
}

/// A message seen for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The peer that sent it.
    pub peer: PeerId,
    /// Its sequence number, to be given to `accept` or `reject`.
    pub psn: Psn,
    /// Operation, as the sender gave it.
    pub op: u8,
    /// The sender host's flags.
    pub flags: u8,
    /// Queue key, as the sender gave it; the host checks it.
    pub qkey: u32,
    /// Immediate data.
    pub imm: u32,
    /// Payload length in bytes.
    pub len: u32,
}

/// One datagram to send now: the header is in the caller's buffer, the payload is the message's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The context it belongs to; `None` for an answer to a stranger (RESET, REFUSED, CHALLENGE).
    pub peer: Option<PeerId>,
    /// The address to send it to.
    pub addr: Address,
    /// The path (source port of the host) to use.
    pub path: PathId,
    /// Bytes of the header buffer in use.
    pub header_len: usize,
    /// The message whose payload follows the header, in a frame the first one; `None` when the
    /// datagram carries no message.
    pub msg: Option<MsgId>,
    /// Bytes that follow the header.
    pub payload_len: u32,
    /// Messages whose entries and payloads follow the header, named by
    /// [`Endpoint::framed`](crate::Endpoint::framed); 0 when it is no frame.
    pub framed: usize,
    /// This is a repetition.
    pub retransmission: bool,
}

/// Something the host should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message ended. Each message given to `send` ends exactly once, unless the endpoint was
    /// closed first.
    Completed {
        /// Toward whom it was sent.
        peer: PeerId,
        /// The host's name for it.
        msg: MsgId,
        /// How it ended.
        status: Status,
    },
    /// A transmission was declared lost and will be repeated; only with
    /// [`Config::report_losses`](crate::Config::report_losses).
    Lost {
        /// Toward whom it was sent.
        peer: PeerId,
        /// Sequence number of its message.
        psn: Psn,
        /// Path it was sent on.
        path: PathId,
        /// Because nobody answered at all, not because later transmissions were answered
        /// (SRD-7.3, SRD-7.2).
        by_silence: bool,
    },
    /// No acknowledgement for [`Config::dead_after_ns`](crate::Config::dead_after_ns); the
    /// messages to this peer have ended with 13 or 15. Later messages try afresh.
    PeerUnresponsive {
        /// The silent peer.
        peer: PeerId,
    },
    /// The peer lost its state; messages in flight have ended with 8.
    PeerReset {
        /// The restarted peer.
        peer: PeerId,
    },
    /// Repeated silence or many bad paths toward the peer; nothing ended yet.
    PeerImpaired {
        /// The peer in question.
        peer: PeerId,
    },
}
