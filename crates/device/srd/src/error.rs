//! Why something was refused, and the status a message ends with.

use core::fmt;

/// The end of a message. The numbers are those of an EFA completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// The remote side accepted the message, exactly once.
    Ok = 0,
    /// The local side gave the message up
    /// ([`Endpoint::cancel_peer`](crate::Endpoint::cancel_peer)).
    Flushed = 1,
    /// The remote side could not use the memory it was told to use.
    BadAddress = 7,
    /// The remote side lost its state (it was restarted); the message may have been delivered.
    RemoteAbort = 8,
    /// No such queue pair there.
    BadDestQpn = 9,
    /// Receiver not ready as often as the message allowed; it was not and will not be delivered.
    Rnr = 10,
    /// The message did not fit the receive buffer.
    BadLength = 11,
    /// Refused for a reason that has no code of its own.
    BadStatus = 12,
    /// The remote side answered once and has fallen silent.
    UnrespRemote = 13,
    /// The remote side does not know us.
    UnknownPeer = 14,
    /// The remote side never answered.
    UnreachRemote = 15,
    /// The two sides differ in a feature that both must have.
    FeatureMismatch = 18,
}

impl Status {
    /// The code of an EFA completion.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The status a drop range on the wire names; unknown codes are [`Status::BadStatus`].
    pub(crate) const fn from_wire(code: u8) -> Self {
        match code {
            7 => Self::BadAddress,
            8 => Self::RemoteAbort,
            9 => Self::BadDestQpn,
            10 => Self::Rnr,
            11 => Self::BadLength,
            14 => Self::UnknownPeer,
            18 => Self::FeatureMismatch,
            _ => Self::BadStatus,
        }
    }
}

/// The reason why the host refuses an arrived message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reject {
    /// Receiver not ready: the sender tries again, as often as its message allows.
    Rnr,
    /// The queue pair does not take messages (any more), or the queue key is wrong.
    BadDestQpn,
    /// The message does not fit the receive buffer.
    BadLength,
    /// The memory named by the message cannot be used.
    BadAddress,
    /// The sender is not known here.
    UnknownPeer,
    /// The sender was set up for a feature in another way than this side.
    FeatureMismatch,
    /// Any other reason.
    BadStatus,
}

impl Reject {
    /// The status the sender's message ends with when the refusal is final.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            Self::Rnr => Status::Rnr,
            Self::BadDestQpn => Status::BadDestQpn,
            Self::BadLength => Status::BadLength,
            Self::BadAddress => Status::BadAddress,
            Self::UnknownPeer => Status::UnknownPeer,
            Self::FeatureMismatch => Status::FeatureMismatch,
            Self::BadStatus => Status::BadStatus,
        }
    }
}

/// The reason why [`Endpoint::send`](crate::Endpoint::send) did not take a message. Nothing was
/// changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendError {
    /// The message is longer than [`Config::max_message_bytes`](crate::Config::max_message_bytes).
    TooLong,
    /// The retry count is above 7.
    BadRnrRetry,
    /// The peer was collected: ask [`Endpoint::peer`](crate::Endpoint::peer) again.
    StalePeer,
    /// Too many messages are queued to this peer
    /// ([`Config::queue_messages_max`](crate::Config::queue_messages_max)): poll, then try again.
    QueueFull,
    /// [`Endpoint::begin_close`](crate::Endpoint::begin_close) was called.
    Closing,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "message longer than a datagram carries",
            Self::BadRnrRetry => "receiver-not-ready retry count above 7",
            Self::StalePeer => "the peer's state was collected",
            Self::QueueFull => "too many messages queued to this peer",
            Self::Closing => "the endpoint is closing",
        })
    }
}

impl std::error::Error for SendError {}

/// The reason why a datagram was not (wholly) used. Each is counted in [`Stats`](crate::Stats).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// Shorter than its own fields.
    Short,
    /// Another protocol version (SRD-2.1).
    Version,
    /// A kind this endpoint does not handle (unreliable datagrams go elsewhere).
    Kind,
    /// Fields that contradict each other or a limit.
    Malformed,
    /// For another queue pair.
    WrongQpn,
    /// Nothing is known of the connection it belongs to.
    UnknownConn,
    /// It opens a connection, and its sender has yet to prove its address (SRD-3.10).
    Unproven,
    /// Its sequence number is outside the window.
    OutOfWindow,
    /// It opens a connection with another queue key, or toward an endpoint that closes (SRD-3.9).
    Refused,
    /// It opens a connection, and there are as many peers as there may be (SRD-3.11).
    Crowded,
    /// It opens a connection, and its key was not looked at, because many were wrong (SRD-3.12).
    Unjudged,
}

impl DropReason {
    /// Number of reasons; the length of [`Stats::dropped`](crate::Stats::dropped).
    pub const COUNT: usize = 11;
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "datagram shorter than its fields",
            Self::Version => "another protocol version",
            Self::Kind => "a kind that is not handled here",
            Self::Malformed => "contradictory fields",
            Self::WrongQpn => "for another queue pair",
            Self::UnknownConn => "unknown connection",
            Self::Unproven => "opens a connection without proof of its sender's address",
            Self::OutOfWindow => "sequence number outside the window",
            Self::Refused => "opens a connection with another queue key or while closing",
            Self::Crowded => "opens a connection beyond the most peers",
            Self::Unjudged => "opens a connection where too many wrong queue keys were tried",
        })
    }
}

impl std::error::Error for DropReason {}
