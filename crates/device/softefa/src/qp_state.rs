//! What a queue pair is and where it stands.

use crate::gid::Gid;
use crate::mr::Access;

/// Transport of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QpKind {
    /// Scalable Reliable Datagram.
    Srd,
    /// Unreliable datagrams.
    Ud,
    /// Reliable connection; on a RoCE device.
    Rc,
    /// Unreliable connection; on a RoCE device.
    Uc,
    /// The sending half of an extended reliable connection; on a RoCE device.
    XrcInitiator,
    /// The receiving half of an extended reliable connection, made in an XRC domain; on a RoCE
    /// device.
    XrcTarget,
}

impl QpKind {
    /// One peer for its whole life, named when it is made ready to receive.
    #[must_use]
    pub const fn is_connected(self) -> bool {
        matches!(self, Self::Rc | Self::Uc) || self.is_xrc()
    }

    /// One half of an extended reliable connection.
    #[must_use]
    pub const fn is_xrc(self) -> bool {
        matches!(self, Self::XrcInitiator | Self::XrcTarget)
    }
}

/// State of a queue pair, as InfiniBand names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QpState {
    /// Fresh, or taken back.
    #[default]
    Reset,
    /// Receives may be posted.
    Init,
    /// Messages are taken.
    ReadyToReceive,
    /// Messages are sent, too.
    ReadyToSend,
    /// Sends are still taken. An EFA sends them, too; a RoCE device ends what was begun, and keeps
    /// the others until it is ready to send again. Programs use it as a stop on their way to an
    /// error.
    SendQueueDrained,
    /// A send failed, and no more are sent; what comes is still received. Of unreliable transports.
    SendQueueError,
    /// Unusable; what was posted is flushed.
    Error,
}

/// Present attributes of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QpQuery {
    /// State.
    pub state: QpState,
    /// Queue key.
    pub qkey: u32,
    /// Sequence number given by the program.
    pub sq_psn: u32,
    /// Tries when the receiver is not ready.
    pub rnr_retry: u8,
    /// The operations that the peer may do; connected queue pairs only, as all that follow.
    pub access: Access,
    /// The way to the peer.
    pub path: Path,
    /// Payload bytes of a full packet.
    pub path_mtu_bytes: u32,
    /// The peer's queue pair, 24 bits.
    pub dest_qpn: u32,
    /// Number of the peer's first packet, 24 bits.
    pub rq_psn: u32,
    /// The most unanswered READs and atomics of this side.
    pub max_rd_atomic: u8,
    /// The most unanswered READs and atomics of the peer.
    pub max_dest_rd_atomic: u8,
    /// Code of the time that the peer waits when no receive is posted.
    pub min_rnr_timer: u8,
    /// Code of the acknowledgement timeout; 0 for none.
    pub timeout: u8,
    /// Timeouts and sequence errors without progress that are borne.
    pub retry_cnt: u8,
    /// The program wants to hear when the send queue is drained.
    pub sqd_notify: bool,
    /// The send queue was stopped, and work requests that were begun before have not ended yet.
    pub sq_draining: bool,
}

/// The way to a peer, as an address vector names it. A software device has one port and one way;
/// what it does not use it keeps for those who ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Path {
    /// GID of the peer's device.
    pub dgid: Gid,
    /// It has a global routing header, without which RoCE cannot be.
    pub is_global: bool,
    /// Index of the own GID.
    pub sgid_index: u8,
    /// Port.
    pub port: u8,
    /// Flow label.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Service level.
    pub sl: u8,
}
