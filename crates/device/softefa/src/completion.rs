//! Completions of work requests, and how many of them each queue pair still waits for its program
//! to poll.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::AHN_UNKNOWN;
use crate::address::{NOWHERE, PeerName};
use crate::gid::Gid;
use crate::host;
use crate::status::Status;

/// The operation that completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompletionOp {
    /// A send finished (work request of the send queue).
    Send,
    /// An RDMA WRITE finished (work request of the send queue). A READ of an EFA completes as
    /// [`CompletionOp::Send`], because the device says so and libfabric 1.17 hangs otherwise.
    Write,
    /// An ATOMIC WRITE finished: 8 bytes were written in one step.
    AtomicWrite,
    /// A FLUSH finished: what was written is visible or persistent, as it asked.
    Flush,
    /// An RDMA READ of a RoCE device finished (work request of the send queue).
    Read,
    /// A compare-and-swap finished (work request of the send queue).
    CompareSwap,
    /// A fetch-and-add finished (work request of the send queue).
    FetchAdd,
    /// A key was invalidated (work request of the send queue).
    LocalInvalidate,
    /// A memory window was bound (work request of the send queue).
    BindWindow,
    /// A message arrived (work request of the receive queue).
    Recv,
    /// An RDMA WRITE with immediate arrived (work request of the receive queue).
    RecvWrite,
    /// An RDMA WRITE with immediate arrived at a queue pair that receives them unsolicited: it
    /// belongs to no work request, `wr_id` is 0.
    UnsolicitedWrite,
}

impl CompletionOp {
    /// Returns true if the work request is one of the send queue.
    #[must_use]
    pub const fn is_send_queue(self) -> bool {
        !matches!(self, Self::Recv | Self::RecvWrite | Self::UnsolicitedWrite)
    }
}

/// One finished work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The number that the program gave when it posted the work request.
    pub wr_id: u64,
    /// The outcome: [`Status::Ok`] or an error.
    pub status: Status,
    /// The operation that completed.
    pub op: CompletionOp,
    /// The number of the queue pair that completed it.
    pub qpn: u32,
    /// The number of the sender's queue pair; receives only.
    pub src_qpn: u32,
    /// The number of our address handle for the sender, or [`crate::AHN_UNKNOWN`] if there is none;
    /// receives only.
    pub ahn: u16,
    /// The address of the sender's device; receives only.
    pub src_addr: IpAddr,
    /// Number of bytes in the receive buffer, with the GRH area on UD. Of sends, only a READ or an
    /// atomic of a RoCE device sets it.
    pub byte_len: u32,
    /// Immediate data of the message.
    pub imm: Option<u32>,
    /// The key of this side that the message has invalidated; receives of RC only.
    pub invalidated: Option<u32>,
    /// The buffer starts with a GRH area (UD receives).
    pub has_grh: bool,
    /// Service level (UD receives). RoCE has none, and mlx5 reports the kind of the routing header
    /// in this field, which UCX reads.
    pub sl: u8,
    /// The sender asks to wake programs that wait for solicited completions only.
    pub is_solicited: bool,
    /// The sender is a RoCE device, whose GID has another form than an EFA's.
    pub(crate) is_of_roce: bool,
    /// The index of the owner in the completion queue's list.
    pub(crate) owner: u16,
}

/// The time at which a work request completed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompletionTime {
    /// Nanoseconds of the device's clock, which is the system's `CLOCK_BOOTTIME`.
    pub device_ns: u64,
    /// Nanoseconds since 1970.
    pub wall_ns: u64,
}

impl CompletionTime {
    pub(crate) fn now() -> Self {
        Self { device_ns: host::now().as_ns(), wall_ns: host::epoch_ns() }
    }
}

/// A queue pair of any device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender {
    pub(crate) addr: IpAddr,
    pub(crate) qpn: u32,
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        PeerName { addr: self.addr, qpn: self.qpn }.fmt(f)
    }
}

impl From<SocketAddr> for Sender {
    /// Returns the address of an EFA's queue pair, whose number is its port.
    #[inline]
    fn from(at: SocketAddr) -> Self {
        Self { addr: at.ip(), qpn: u32::from(at.port()) }
    }
}

impl Completion {
    /// A value that takes the place of a completion.
    pub(crate) const VACANT: Self = Self {
        wr_id: 0,
        status: Status::Ok,
        op: CompletionOp::Send,
        qpn: 0,
        src_qpn: 0,
        ahn: 0,
        src_addr: NOWHERE,
        byte_len: 0,
        imm: None,
        invalidated: None,
        has_grh: false,
        sl: 0,
        is_solicited: false,
        is_of_roce: false,
        owner: 0,
    };

    /// Returns what all sends of a queue pair have in common.
    pub(crate) const fn of_sends(qpn: u32, owner: u16) -> Self {
        Self { qpn, owner, ahn: AHN_UNKNOWN, ..Self::VACANT }
    }

    /// Returns what all receives of a queue pair have in common.
    pub(crate) const fn of_receives(qpn: u32, owner: u16, is_of_roce: bool) -> Self {
        Self { qpn, owner, op: CompletionOp::Recv, is_of_roce, ..Self::VACANT }
    }

    /// Returns the GID of the sender; receives only.
    #[must_use]
    pub fn sgid(&self) -> Gid {
        if self.is_of_roce { Gid::of_roce(self.src_addr) } else { Gid::of_efa(self.src_addr) }
    }
}

/// The completions of a queue pair that the program has not polled yet. Their number bounds what
/// the queue pair takes.
#[derive(Debug, Default)]
pub(crate) struct Unpolled {
    /// Number of posted sends that have completions, changed under the lock of the queue pair;
    /// wraps.
    posted: AtomicU32,
    /// The number of these sends whose completions the program has polled; wraps.
    ended: AtomicU32,
    /// Number of unsolicited completions that have not been polled.
    pub(crate) unsolicited: AtomicU32,
    /// Number of completions of both queues that the program has taken; wraps.
    taken: AtomicU32,
}

/// Completions of one queue pair that the program has polled in a row.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Polled {
    all: u32,
    sends: u32,
    unsolicited: u32,
}

impl Polled {
    /// Adds a completion of `op`.
    #[inline]
    pub(crate) fn add(&mut self, op: CompletionOp) {
        self.all += 1;
        match op {
            CompletionOp::UnsolicitedWrite => self.unsolicited += 1,
            CompletionOp::Recv | CompletionOp::RecvWrite => {}
            _ => self.sends += 1,
        }
    }
}

impl Unpolled {
    /// Forgets what was posted. Requires the lock of the queue pair.
    pub(crate) fn clear(&self) {
        self.posted.store(self.ended.load(Ordering::Acquire), Ordering::Release);
        self.unsolicited.store(0, Ordering::Release);
    }

    /// Returns the number of sends that were posted and whose completions have not been polled. It
    /// is the difference of two numbers: a caller without the lock of the queue pair may be stopped
    /// between reading them, while sends are posted and end.
    #[inline]
    pub(crate) fn sends(&self) -> u32 {
        let mut ended = self.ended.load(Ordering::Acquire);
        loop {
            let posted = self.posted.load(Ordering::Acquire);
            let again = self.ended.load(Ordering::Acquire);
            if again == ended {
                return posted.wrapping_sub(ended);
            }
            ended = again;
        }
    }

    /// Notes that a send is posted. Requires the lock of the queue pair, so that it need not be one
    /// step.
    #[inline]
    pub(crate) fn note_posted(&self) {
        self.posted.store(self.posted.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// Notes that a posted send has no completion after all. Requires the lock of the queue pair.
    #[inline]
    pub(crate) fn take_back(&self) {
        self.posted.store(self.posted.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Release);
    }

    /// Returns the number of completions that the program has taken until now; wraps.
    #[inline]
    pub(crate) fn taken(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Notes that the program has polled these completions.
    #[inline]
    pub(crate) fn forget(&self, polled: Polled) {
        self.taken.fetch_add(polled.all, Ordering::Relaxed);
        if polled.sends > 0 {
            self.ended.fetch_add(polled.sends, Ordering::Release);
        }
        if polled.unsolicited > 0 {
            self.unsolicited.fetch_sub(polled.unsolicited, Ordering::Release);
        }
    }
}
