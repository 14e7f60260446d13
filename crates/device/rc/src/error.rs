//! Reasons for refusals, and the statuses of work requests.

use core::fmt;

use crate::wire::NakCode;

/// The end of a work request. The numbers are those of `ibv_wc_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// A message did not fit its receive, or exceeds the longest possible one.
    LocalLength = 1,
    /// The local side could not perform it, for a reason of its own.
    LocalOperation = 2,
    /// Local memory may not be used like this.
    LocalProtection = 4,
    /// The queue pair failed earlier.
    Flushed = 5,
    /// A memory window could not be bound.
    Bind = 6,
    /// The answer makes no sense.
    BadResponse = 7,
    /// The responder reports an invalid request; at the responder: the request was invalid.
    RemoteInvalidRequest = 9,
    /// The responder reports that its memory may not be used like this; at the responder: it may
    /// not.
    RemoteAccess = 10,
    /// The responder could not perform it, for a reason of its own.
    RemoteOperation = 11,
    /// No answer, or packets were missing too often.
    RetryExceeded = 12,
    /// No receive was posted at the responder too often.
    RnrRetryExceeded = 13,
    /// The responder has no such shared receive queue; at a responder: it has none any more.
    RemoteInvalidQueue = 15,
}

impl Status {
    /// The code of a completion.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns what a refusal means for the requester.
    pub(crate) const fn of_nak(code: NakCode) -> Self {
        match code {
            NakCode::Sequence => Self::RetryExceeded,
            NakCode::InvalidRequest => Self::RemoteInvalidRequest,
            NakCode::RemoteAccess => Self::RemoteAccess,
            NakCode::RemoteOperation => Self::RemoteOperation,
            NakCode::InvalidQueue => Self::RemoteInvalidQueue,
        }
    }
}

/// The reason why the host refuses an arrival. All but [`Reject::NotReady`] end a reliable
/// connection; an unreliable one loses the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reject {
    /// No receive is posted: the peer tries again, as often as its connection allows.
    NotReady,
    /// The message does not fit its receive.
    TooLong,
    /// Key, right, range or protection domain of the memory that the peer names.
    Access,
    /// The request is not possible here.
    Invalid,
    /// The shared receive queue that the request names is not there (RC-9.2).
    NoQueue,
    /// The key to invalidate is not there. The message was taken nevertheless, and is acknowledged.
    Invalidate,
    /// Local memory, of a receive or of a READ, may not be used; the operation ends with this
    /// status.
    Local(Status),
}

impl Reject {
    /// Returns the code of the refusal that is sent to the peer; `None` when the answer is none.
    pub(crate) const fn nak(self) -> Option<NakCode> {
        match self {
            Self::NotReady | Self::Invalidate => None,
            Self::TooLong | Self::Invalid => Some(NakCode::InvalidRequest),
            Self::Access => Some(NakCode::RemoteAccess),
            Self::NoQueue => Some(NakCode::InvalidQueue),
            Self::Local(_) => Some(NakCode::RemoteOperation),
        }
    }

    /// Returns the status that the receive of the message ends with.
    pub(crate) const fn receive_status(self) -> Status {
        match self {
            Self::NotReady => Status::Flushed,
            Self::TooLong => Status::LocalLength,
            Self::Access => Status::RemoteAccess,
            Self::Invalid | Self::Invalidate => Status::RemoteInvalidRequest,
            Self::NoQueue => Status::RemoteInvalidQueue,
            Self::Local(status) => status,
        }
    }
}

/// The reason why [`Endpoint::post`](crate::Endpoint::post) did not take a work request. Nothing
/// was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PostError {
    /// The endpoint may not send yet, or never.
    State,
    /// The service has no such operation, or the connection allows no READs and atomics.
    Operation,
    /// The message is longer than 2^31 bytes, or not as long as the operation says.
    Length,
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::State => "the queue pair is not ready to send",
            Self::Operation => "the queue pair has no such operation",
            Self::Length => "a length that the operation cannot have",
        })
    }
}

impl std::error::Error for PostError {}

/// The reason why a packet was not used. Each is counted in [`Stats`](crate::Stats).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// Shorter than its own headers.
    Short,
    /// Another header version.
    Version,
    /// An opcode that is reserved.
    Opcode,
    /// Lengths that contradict each other.
    Malformed,
    /// It is for another queue pair.
    WrongQpn,
    /// Another partition.
    WrongPkey,
    /// A packet of another service, or for the half that is not here.
    Service,
    /// The endpoint does not receive (yet, or any more).
    State,
    /// A request behind a gap (RC-5.2).
    Gap,
    /// A repeated request whose answer is not stored any more, or that differs from the first
    /// (RC-5.6).
    Duplicate,
    /// A request that ended the connection.
    Refused,
    /// An answer to a request that is answered already, or a repeated request that is answered
    /// again.
    Stale,
    /// An answer to a request that was never sent (RC-3.9).
    Ghost,
    /// An answer after a missing one (RC-3.4).
    Missing,
    /// An answer that ended the connection.
    BadResponse,
    /// A part of a message whose beginning was lost (unreliable connections, RC-7.2).
    Lost,
    /// Another queue key (unreliable datagrams).
    WrongQkey,
    /// Longer than the path allows (unreliable datagrams).
    TooLong,
}

impl DropReason {
    /// Number of reasons; the length of [`Stats::dropped`](crate::Stats::dropped).
    pub const COUNT: usize = 18;
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "packet shorter than its headers",
            Self::Version => "another header version",
            Self::Opcode => "reserved opcode",
            Self::Malformed => "contradictory lengths",
            Self::WrongQpn => "for another queue pair",
            Self::WrongPkey => "another partition",
            Self::Service => "of another service",
            Self::State => "the queue pair does not receive",
            Self::Gap => "request behind a gap",
            Self::Duplicate => "repeated request without a stored answer",
            Self::Refused => "request that ended the connection",
            Self::Stale => "answered already",
            Self::Ghost => "answer to what was never sent",
            Self::Missing => "answer behind a missing one",
            Self::BadResponse => "answer that ended the connection",
            Self::Lost => "part of a lost message",
            Self::WrongQkey => "another queue key",
            Self::TooLong => "longer than the path allows",
        })
    }
}

impl std::error::Error for DropReason {}
