//! Outputs of an agent.

use crate::mad::IpHeader;
use crate::{ConnId, ListenerId, Offer, Path, Transport};
use core::fmt;
use std::net::{IpAddr, SocketAddr};

/// The route of messages: local address and peer (CM-1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    /// Local address that messages leave from and arrive at.
    pub local: IpAddr,
    /// The address at which the peer's agent receives messages.
    pub peer: SocketAddr,
}

/// A message to send now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The route of the message.
    pub route: Route,
    /// The message.
    pub bytes: [u8; crate::mad::MAD_LEN],
}

/// A peer asks for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The route by which it came.
    pub route: Route,
    /// The addresses of the two ends, in the port spaces.
    pub addresses: Option<IpHeader>,
    /// The service.
    pub service_id: u64,
    /// Kind of the connection.
    pub transport: Transport,
    /// The requester's queue pair and what it offers.
    pub offer: Offer,
    /// The path, seen from this side.
    pub path: Path,
    /// The requester's bytes behind the addresses: 56, or 92 without addresses.
    pub private_data: Box<[u8]>,
}

/// A peer asks for the queue pair of a datagram service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// The route by which it came.
    pub route: Route,
    /// The addresses of the two ends, in the port spaces.
    pub addresses: Option<IpHeader>,
    /// The service.
    pub service_id: u64,
    /// Partition key.
    pub pkey: u16,
    /// The requester's bytes behind the addresses: 180, or 216 without addresses.
    pub private_data: Box<[u8]>,
}

/// Something the host should know. A connection is forgotten, and its id invalid, after `Rejected`,
/// `Unreachable`, `Resolved`, `NotResolved` and `TimewaitExit`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A peer asks for a connection: [`accept`](crate::Agent::accept) or
    /// [`reject`](crate::Agent::reject) it.
    Requested {
        /// The listener that was asked.
        listener: ListenerId,
        /// The new connection.
        conn: ConnId,
        /// The request.
        request: Box<Request>,
    },
    /// The responder took the connection: set the queue pair up, then call
    /// [`ready`](crate::Agent::ready), or [`reject`](crate::Agent::reject) it.
    Accepted {
        /// The connection.
        conn: ConnId,
        /// The responder's queue pair and what it offers.
        offer: Offer,
        /// The responder's bytes, 196.
        private_data: Box<[u8]>,
    },
    /// The requester of an accepted connection is ready.
    Established {
        /// The connection.
        conn: ConnId,
    },
    /// The connection was refused.
    Rejected {
        /// The connection, which is forgotten.
        conn: ConnId,
        /// Why, see [`reason`](crate::mad::reason).
        reason: u16,
        /// The peer's bytes, 148.
        private_data: Box<[u8]>,
    },
    /// The peer has not answered, or cannot be reached any more.
    Unreachable {
        /// The connection, which is forgotten.
        conn: ConnId,
    },
    /// An established connection ends. If the peer asked for the end, answer with
    /// [`disconnect`](crate::Agent::disconnect).
    Disconnected {
        /// The connection.
        conn: ConnId,
        /// The peer did not answer, so it may not know of the end.
        timed_out: bool,
    },
    /// Nothing of an ended connection is under way any more: its queue pair may be used again.
    TimewaitExit {
        /// The connection, which is forgotten.
        conn: ConnId,
    },
    /// A peer asks for a queue pair: answer with
    /// [`accept_resolution`](crate::Agent::accept_resolution) or
    /// [`reject_resolution`](crate::Agent::reject_resolution).
    ResolutionRequested {
        /// The listener that was asked.
        listener: ListenerId,
        /// The SIDR query.
        conn: ConnId,
        /// The request.
        request: Box<Resolution>,
    },
    /// The queue pair of a service.
    Resolved {
        /// The SIDR query, which is forgotten.
        conn: ConnId,
        /// Queue pair number.
        qpn: u32,
        /// The queue key that it takes.
        qkey: u32,
        /// The responder's bytes, 136.
        private_data: Box<[u8]>,
    },
    /// The query was refused, or the service is not there.
    NotResolved {
        /// The SIDR query, which is forgotten.
        conn: ConnId,
        /// Why, see [`sidr_status`](crate::mad::sidr_status).
        status: u8,
        /// The responder's bytes, 136.
        private_data: Box<[u8]>,
    },
}

impl Event {
    /// Returns the connection or SIDR query that the event is about.
    #[must_use]
    pub const fn conn(&self) -> ConnId {
        match *self {
            Self::Requested { conn, .. }
            | Self::Accepted { conn, .. }
            | Self::Established { conn }
            | Self::Rejected { conn, .. }
            | Self::Unreachable { conn }
            | Self::Disconnected { conn, .. }
            | Self::TimewaitExit { conn }
            | Self::ResolutionRequested { conn, .. }
            | Self::Resolved { conn, .. }
            | Self::NotResolved { conn, .. } => conn,
        }
    }
}

/// The reason why a call was refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The connection or listener is not known (any more).
    Unknown,
    /// The connection is in a state in which this cannot be done.
    WrongState,
    /// The connection is established already.
    Connected,
    /// More private data than the message holds: given, and the most.
    PrivateData(usize, usize),
    /// The addresses belong to two families.
    MixedFamilies,
    /// Another listener has that service at that address.
    ServiceInUse,
    /// As many connections as there may be
    /// ([`Config::connections_max`](crate::Config::connections_max)).
    Full,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("no such connection or listener"),
            Self::WrongState => f.write_str("the connection is in another state"),
            Self::Connected => f.write_str("the connection is established already"),
            Self::PrivateData(given, most) => {
                write!(f, "{given} bytes of private data, and the message holds {most}")
            }
            Self::MixedFamilies => f.write_str("addresses of two families"),
            Self::ServiceInUse => f.write_str("somebody listens for that service already"),
            Self::Full => f.write_str("as many connections as there may be"),
        }
    }
}

impl std::error::Error for CallError {}

/// The reason why a message was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The bytes are no message.
    Malformed(crate::mad::ParseError),
    /// It names no connection of ours; it was answered if CM-3.3 requires that.
    UnknownConnection,
    /// It names a connection of ours, and comes from another host or has another transaction.
    WrongPeer,
    /// It repeats a known message or comes too late; if an answer is due, it was repeated.
    Duplicate,
    /// No listener has that service; the requester was notified.
    NoListener,
    /// A connection of the same queue pair is known; the requester was notified.
    Stale,
    /// The listener's backlog is full.
    Backlog,
    /// As many connections, or half-open ones, as there may be.
    Full,
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => error.fmt(f),
            Self::UnknownConnection => f.write_str("names no connection"),
            Self::WrongPeer => f.write_str("from another host, or of another transaction"),
            Self::Duplicate => f.write_str("repeated, or too late"),
            Self::NoListener => f.write_str("nobody listens for that service"),
            Self::Stale => f.write_str("its queue pair has a connection"),
            Self::Backlog => f.write_str("the listener's backlog is full"),
            Self::Full => f.write_str("as many connections as there may be"),
        }
    }
}

impl std::error::Error for DropReason {}
