//! What a queue pair is asked and told.

use std::sync::Arc;

use crate::async_event::EventSource;
use crate::config::Adapter;
use crate::cq::Cq;
use crate::device::Device;
use crate::gid::Gid;
use crate::mr::Access;
use crate::qp_state::{Path, QpKind, QpState};
use crate::srq::Srq;

/// The parts and limits that a queue pair is made with.
#[derive(Debug, Clone)]
pub struct QpInit {
    /// Transport.
    pub kind: QpKind,
    /// The queue in which sends complete.
    pub send_cq: Arc<Cq>,
    /// The queue in which receives complete.
    pub recv_cq: Arc<Cq>,
    /// Sends posted and not yet polled.
    pub sq_depth: u32,
    /// Receives posted and not yet used.
    pub rq_depth: u32,
    /// Entries per send.
    pub sq_sge: u32,
    /// Entries per receive.
    pub rq_sge: u32,
    /// Inline bytes per send.
    pub inline_bytes: u32,
    /// Every send completes, whatever its flag.
    pub sq_sig_all: bool,
    /// A WRITE with immediate that arrives consumes no posted receive and completes without one
    /// ([`crate::CompletionOp::UnsolicitedWrite`]). Its requester must have said the same, or gets
    /// [`crate::Status::RemoteFeatureMismatch`]. SRD only.
    pub unsolicited_write_recv: bool,
    /// The shared queue from which receives are taken instead of one of its own. RoCE devices only.
    pub srq: Option<Arc<Srq>>,
    /// The source of events that tell what happens to it. RoCE devices only.
    pub events: Option<Arc<EventSource>>,
}

impl QpInit {
    /// Whether the device has such queue pairs.
    pub(super) fn check(&self, device: &Device) -> Result<(), CreateQpError> {
        let attr = device.attr();
        for (what, value, max) in [
            ("send queue depth", self.sq_depth, attr.max_sq_wr),
            ("receive queue depth", self.rq_depth, attr.max_rq_wr),
            ("send entries", self.sq_sge, u32::from(attr.max_sq_sge)),
            ("receive entries", self.rq_sge, u32::from(attr.max_rq_sge)),
            ("inline bytes", self.inline_bytes, u32::from(attr.inline_bytes)),
        ] {
            if value > max {
                return Err(CreateQpError::BeyondLimit { what, value, max });
            }
        }
        let has = match attr.profile.adapter() {
            Adapter::Efa => !self.kind.is_connected(),
            Adapter::Roce => self.kind != QpKind::Srd,
        };
        if !has {
            return Err(CreateQpError::NoSuchKind(self.kind));
        }
        let can = attr.caps.unsolicited_write_recv && self.kind == QpKind::Srd;
        if self.unsolicited_write_recv && !can {
            return Err(CreateQpError::NoUnsolicited(self.kind));
        }
        Ok(())
    }
}

/// The reason why a queue pair cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateQpError {
    /// A size beyond the device's.
    #[error("{what} of {value} is beyond the device's {max}")]
    BeyondLimit {
        /// The size that was wrong.
        what: &'static str,
        /// The value that was asked for.
        value: u32,
        /// The device's limit.
        max: u32,
    },
    /// Another kind of device has such queue pairs.
    #[error(
        "the device has no {0:?} queue pairs; EFA devices have SRD and UD, RoCE devices RC, UC, UD and XRC"
    )]
    NoSuchKind(QpKind),
    /// The receiving half of an extended reliable connection is made by
    /// [`crate::Qp::create_target`].
    #[error("an XRC target is made in an XRC domain")]
    NoDomain,
    /// The device, or this transport, has no unsolicited receiving of WRITEs.
    #[error("no unsolicited receiving of WRITEs on a {0:?} queue pair of this device")]
    NoUnsolicited(QpKind),
    /// All queue pairs of the device are in use.
    #[error("all {max} queue pairs of the device are in use; destroy some")]
    TooMany {
        /// The device's limit.
        max: u32,
    },
    /// The device broke, by a mistake of this adapter's own.
    #[error("device {name} has failed; start the program again")]
    DeviceFailed {
        /// Device name.
        name: String,
    },
    /// The operating system gave no socket.
    #[error("no UDP socket for the queue pair")]
    Socket(#[source] std::io::Error),
    /// The operating system gave no random numbers, without which nothing can be sealed.
    #[error("no random numbers to seal datagrams with")]
    Random(#[source] std::io::Error),
}

/// Wanted change of a queue pair; `None` = not given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModifyQp {
    /// State to go to.
    pub state: Option<QpState>,
    /// State it is believed to be in.
    pub cur_state: Option<QpState>,
    /// Port, must be 1.
    pub port: Option<u8>,
    /// Partition key index, must be 0.
    pub pkey_index: Option<u16>,
    /// Queue key: only messages with it are taken.
    pub qkey: Option<u32>,
    /// First sequence number of the send queue; kept, not used.
    pub sq_psn: Option<u32>,
    /// Tries when the receiver is not ready: 0 to 6, 7 = for ever. SRD, RC and XRC.
    pub rnr_retry: Option<u8>,
    /// The operations that the peer may do. Connected queue pairs only, as the next four.
    pub access: Option<Access>,
    /// The way to the peer.
    pub path: Option<Path>,
    /// Payload bytes of a full packet: 256, 512, 1,024, 2,048 or 4,096, at most what the port has.
    pub path_mtu_bytes: Option<u32>,
    /// The peer's queue pair, 24 bits.
    pub dest_qpn: Option<u32>,
    /// Number of the peer's first packet; 24 bits count.
    pub rq_psn: Option<u32>,
    /// The most unanswered READs and atomics of this side, 0 to 128. For RC; each of this and the
    /// next four also for one side of XRC.
    pub max_rd_atomic: Option<u8>,
    /// The most unanswered READs and atomics of the peer, 0 to 128.
    pub max_dest_rd_atomic: Option<u8>,
    /// Code of the time that the peer waits when no receive is posted, 0 to 31.
    pub min_rnr_timer: Option<u8>,
    /// Code of the acknowledgement timeout, 0 to 31: 4.096 us times two to the power of it; 0 for
    /// none.
    pub timeout: Option<u8>,
    /// Timeouts and sequence errors without progress that are borne, 0 to 7.
    pub retry_cnt: Option<u8>,
    /// Another way to the peer, which is not used.
    pub alt_path: Option<()>,
    /// State of migration to that, which is not done.
    pub mig_state: Option<()>,
    /// Whether to tell when the send queue is drained.
    pub sqd_notify: Option<bool>,
}

/// The reason why a change was refused; the queue pair is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModifyError {
    /// No such way in the state machine.
    #[error("a queue pair cannot go from {from:?} to {to:?}")]
    Transition {
        /// Present state.
        from: QpState,
        /// Wanted state.
        to: QpState,
    },
    /// The change needs an attribute that was not given, or does not take one that was.
    #[error("going from {from:?} to {to:?}, attribute {attribute} is {problem}")]
    Attribute {
        /// Present state.
        from: QpState,
        /// Wanted state.
        to: QpState,
        /// The attribute that was wrong.
        attribute: &'static str,
        /// `missing` or `not allowed`.
        problem: &'static str,
    },
    /// A value the device does not take.
    #[error("{attribute} = {value} is out of range")]
    Value {
        /// The attribute that was wrong.
        attribute: &'static str,
        /// The value that was asked for.
        value: u32,
    },
    /// The path does not lead to a device of the same kind, with an address of the same family.
    #[error("{0:?} is not the GID of a RoCE v2 device with an address of this device's family")]
    ForeignGid(Gid),
    /// RoCE routes by GIDs; programs written for InfiniBand forget them.
    #[error("the address vector has no global routing header; set is_global and the peer's GID")]
    NotGlobal,
    /// The queue pair is destroyed.
    #[error("the queue pair is destroyed")]
    Destroyed,
}

/// The reason why a work request was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// The state of the queue pair does not allow it.
    #[error("queue pair is in state {0:?}")]
    State(QpState),
    /// The queue is full: as many work requests are outstanding as it holds; poll its completion
    /// queue.
    #[error("the queue is full; poll its completion queue first")]
    Full,
    /// A datagram needs the number of a queue pair that its device can have, and an address handle.
    #[error("no address handle, or a queue pair number that no peer has; a datagram needs both")]
    NoTarget,
    /// More entries than the queue takes.
    #[error("{0} scatter-gather entries are more than the queue takes")]
    TooManySges(usize),
    /// Asks for no completion, which a strict EFA does not do.
    #[error("the device completes every send; set the signaled flag, or sq_sig_all at creation")]
    Unsignaled,
    /// Its receives are those of a shared queue, or it receives nothing.
    #[error("the queue pair has no receives of its own; post them to a shared queue")]
    Shared,
    /// It only receives.
    #[error("an XRC target sends nothing; post to an initiator")]
    Target,
    /// Has no entries, for which a strict EFA has no descriptor.
    #[error("a receive needs an entry, if only of no bytes")]
    NoSges,
    /// More inline bytes than the queue takes.
    #[error("{0} inline bytes are more than the queue takes")]
    InlineTooLong(usize),
    /// The queue pair is destroyed, or this is a forked child, which must not use it.
    #[error("the queue pair is destroyed or belongs to the parent of this process")]
    Gone,
}
