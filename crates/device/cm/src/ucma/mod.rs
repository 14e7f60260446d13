//! The kernel's interface to the connection manager: `write()` to `/dev/infiniband/rdma_cm`,
//! version 4 (CM-8.1).
//!
//! A command is a header of 8 bytes (number, length of what follows, length of the room for the
//! answer) and a structure; the structure says where the answer goes. [`Call::parse`] reads it.

mod abi;
mod command;
mod errno;
pub(crate) mod layout;
mod sockaddr;

pub use abi::{
    Accept, AhAttr, Bind, BindIp, ConnParam, Connect, CreateId, CreateIdResp, DestroyId,
    Disconnect, EventResp, EventsReportedResp, GetEvent, InitQpAttr, JoinIpMcast, JoinMcast,
    LAYOUTS, Listen, MigrateId, Notify, PathRecData, QpAttr, Query, QueryAddrResp, QueryRouteResp,
    Reject, ResolveAddr, ResolveIp, ResolveRoute, SetOption, UdParam, UserPathRec,
};
pub use command::{Call, Command};
pub use errno::Errno;
pub use layout::Layout;
pub use sockaddr::{Sockaddr, write_ib, write_ip};

/// Version of the interface.
pub const ABI_VERSION: u32 = 4;

/// Port spaces.
pub mod port_space {
    /// IP over InfiniBand.
    pub const IPOIB: u16 = 0x0002;
    /// Reliable connections.
    pub const TCP: u16 = 0x0106;
    /// Unreliable datagrams.
    pub const UDP: u16 = 0x0111;
    /// Any kind of queue pair.
    pub const IB: u16 = 0x013F;
}

/// Kinds of queue pairs.
pub mod qp_type {
    /// Reliable connection.
    pub const RC: u8 = 2;
    /// Unreliable connection.
    pub const UC: u8 = 3;
    /// Unreliable datagrams.
    pub const UD: u8 = 4;
}

/// Numbers of events.
pub mod event {
    /// The address was resolved.
    pub const ADDR_RESOLVED: u32 = 0;
    /// The address cannot be resolved.
    pub const ADDR_ERROR: u32 = 1;
    /// The route was resolved.
    pub const ROUTE_RESOLVED: u32 = 2;
    /// The route cannot be resolved.
    pub const ROUTE_ERROR: u32 = 3;
    /// A peer asks for a connection.
    pub const CONNECT_REQUEST: u32 = 4;
    /// The peer took the connection.
    pub const CONNECT_RESPONSE: u32 = 5;
    /// The connection could not be set up.
    pub const CONNECT_ERROR: u32 = 6;
    /// The peer did not answer.
    pub const UNREACHABLE: u32 = 7;
    /// The peer refused.
    pub const REJECTED: u32 = 8;
    /// The connection is established.
    pub const ESTABLISHED: u32 = 9;
    /// The connection ended.
    pub const DISCONNECTED: u32 = 10;
    /// The adapter goes away.
    pub const DEVICE_REMOVAL: u32 = 11;
    /// The group was joined.
    pub const MULTICAST_JOIN: u32 = 12;
    /// The group cannot be joined.
    pub const MULTICAST_ERROR: u32 = 13;
    /// The address has another adapter now.
    pub const ADDR_CHANGE: u32 = 14;
    /// Nothing of the connection is under way any more.
    pub const TIMEWAIT_EXIT: u32 = 15;
}

/// Fields of [`QpAttr`] that count, as bits of its mask.
pub mod qp_mask {
    #![allow(missing_docs, reason = "named after the fields")]
    pub const STATE: u32 = 1;
    pub const ACCESS_FLAGS: u32 = 1 << 3;
    pub const PKEY_INDEX: u32 = 1 << 4;
    pub const PORT: u32 = 1 << 5;
    pub const QKEY: u32 = 1 << 6;
    pub const AV: u32 = 1 << 7;
    pub const PATH_MTU: u32 = 1 << 8;
    pub const TIMEOUT: u32 = 1 << 9;
    pub const RETRY_CNT: u32 = 1 << 10;
    pub const RNR_RETRY: u32 = 1 << 11;
    pub const RQ_PSN: u32 = 1 << 12;
    pub const MAX_QP_RD_ATOMIC: u32 = 1 << 13;
    pub const MIN_RNR_TIMER: u32 = 1 << 15;
    pub const SQ_PSN: u32 = 1 << 16;
    pub const MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
    pub const DEST_QPN: u32 = 1 << 20;
}
