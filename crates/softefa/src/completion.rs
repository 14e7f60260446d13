//! Finished work requests, and how many of them a queue pair waits for its program to poll.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::gid::Gid;
use crate::status::Status;

/// What a completion is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompletionOp {
    /// A send finished (work request of the send queue).
    Send,
    /// An RDMA WRITE finished (work request of the send queue). A READ completes as
    /// [`CompletionOp::Send`], because the device says so and libfabric 1.17 hangs otherwise.
    Write,
    /// A message arrived (work request of the receive queue).
    Recv,
    /// An RDMA WRITE with immediate arrived (work request of the receive queue).
    RecvWrite,
    /// An RDMA WRITE with immediate arrived at a queue pair that receives them unsolicited: it
    /// belongs to no work request, `wr_id` is 0.
    UnsolicitedWrite,
}

impl CompletionOp {
    /// It is a work request of the send queue.
    #[must_use]
    pub const fn is_send_queue(self) -> bool {
        matches!(self, Self::Send | Self::Write)
    }
}

/// One finished work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// As given when the work request was posted.
    pub wr_id: u64,
    /// Outcome; [`Status::Ok`] or an EFA error code.
    pub status: Status,
    /// Which queue it is from.
    pub op: CompletionOp,
    /// Queue pair that completed it.
    pub qpn: u16,
    /// Sender's queue pair; receives only.
    pub src_qpn: u16,
    /// Number of our address handle for the sender, [`crate::AHN_UNKNOWN`] without one; receives
    /// only.
    pub ahn: u16,
    /// Sender's device; receives only.
    pub src_addr: Ipv4Addr,
    /// Bytes in the receive buffer (with the GRH area on UD); 0 for sends.
    pub byte_len: u32,
    /// Immediate data of the message.
    pub imm: Option<u32>,
    /// The buffer starts with a GRH area (UD receives).
    pub has_grh: bool,
    /// Place of the owner in the completion queue's list.
    pub(crate) owner: u16,
}

impl Completion {
    /// In the place of one.
    pub(crate) const VACANT: Self = Self {
        wr_id: 0,
        status: Status::Ok,
        op: CompletionOp::Send,
        qpn: 0,
        src_qpn: 0,
        ahn: 0,
        src_addr: Ipv4Addr::UNSPECIFIED,
        byte_len: 0,
        imm: None,
        has_grh: false,
        owner: 0,
    };

    /// GID of the sender; receives only.
    #[must_use]
    pub fn sgid(&self) -> Gid {
        Gid::from_addr(self.src_addr)
    }
}

/// What a queue pair waits for the program to poll, so that it can stop taking more.
#[derive(Debug, Default)]
pub(crate) struct Unpolled {
    /// Sends posted, completed or not.
    pub(crate) sends: AtomicU32,
    /// Unsolicited completions.
    pub(crate) unsolicited: AtomicU32,
    /// Completions the program has taken, of either queue; wraps.
    taken: AtomicU32,
}

impl Unpolled {
    pub(crate) fn clear(&self) {
        self.sends.store(0, Ordering::Release);
        self.unsolicited.store(0, Ordering::Release);
    }

    /// Completions the program has taken until now; wraps.
    #[inline]
    pub(crate) fn taken(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }

    /// The program polled a completion of `op`.
    #[inline]
    pub(crate) fn forget(&self, op: CompletionOp) {
        // Two threads that poll two queues may count one completion for two, which does no harm.
        self.taken.store(self.taken().wrapping_add(1), Ordering::Relaxed);
        let of = match op {
            CompletionOp::Send | CompletionOp::Write => &self.sends,
            CompletionOp::UnsolicitedWrite => &self.unsolicited,
            CompletionOp::Recv | CompletionOp::RecvWrite => return,
        };
        of.fetch_sub(1, Ordering::Release);
    }
}
