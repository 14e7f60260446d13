//! The two interfaces by which requests reach a device: a linked list, and a session of calls.

use std::ptr::{NonNull, null_mut};

use verbs_abi::*;

use crate::endpoint::Peer;
use crate::error::Error;
use crate::memory::Slots;
use crate::prepare::{QueuePair, Transport};
use crate::sys;

/// Maximum number of requests that are handed over at once.
const LIST: usize = 256;

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Send,
    Read { addr: u64, rkey: u32 },
    Write { addr: u64, rkey: u32 },
    Atomic { addr: u64, rkey: u32, atomic: Atomic },
}

/// The operation of an atomic on 8 bytes of the peer's window, in the byte order of its machine.
/// Their previous value comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Atomic {
    /// FETCH_ADD: the bytes become the sum.
    FetchAdd {
        /// Number that is added.
        add: u64,
    },
    /// COMPARE_SWAP: the bytes become `swap` if they were `compare`.
    CompareSwap {
        /// Value that they must have.
        compare: u64,
        /// Value that they become.
        swap: u64,
    },
}

impl Atomic {
    /// Number of bytes of the operand.
    pub const BYTES: usize = 8;
}

/// A request that waits for the rest of its list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) slot: usize,
    pub(crate) len_bytes: u32,
    pub(crate) work: Work,
    pub(crate) inline: bool,
    pub(crate) signaled: bool,
}

/// A list of requests, and its hand-over to the device.
pub(crate) struct Poster {
    pending: Vec<Request>,
    interface: Interface,
}

enum Interface {
    List(List),
    PostSession(PostSession),
}

impl Poster {
    /// Creates a poster. READs and WRITEs of SRD take sessions, their only interface; everything
    /// else takes lists, which every device has and which are one call for each message instead of
    /// five.
    pub(crate) fn new(qp: &QueuePair, has_rdma: bool) -> Result<Self, Error> {
        let interface = match qp.transport {
            Transport::Srd if has_rdma => Interface::PostSession(PostSession::of(qp)?),
            Transport::Srd | Transport::Ud | Transport::Rc => Interface::List(List::new()),
        };
        Ok(Self { pending: Vec::with_capacity(LIST), interface })
    }

    #[inline]
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() == LIST
    }

    /// Adds a request; there must be room.
    #[inline]
    pub(crate) fn push(&mut self, request: Request) {
        debug_assert!(!self.is_full());
        self.pending.push(request);
    }

    /// Gives pending requests to the device; returns false when it does not take all of them.
    ///
    /// # Safety
    /// Queue pair and peer are alive; the memory of the requests stays as it is until they
    /// complete.
    #[inline]
    pub(crate) unsafe fn hand_over(
        &mut self,
        qp: &QueuePair,
        peer: &Peer,
        slots: &Slots,
    ) -> Result<bool, Error> {
        // SAFETY: promised by the caller.
        let (name, errno, posted) = unsafe {
            match &mut self.interface {
                Interface::PostSession(session) => session.post(&self.pending, peer, slots),
                Interface::List(list) => list.post(&self.pending, qp, peer, slots),
            }
        };
        if posted == self.pending.len() {
            self.pending.clear();
        } else {
            self.pending.drain(..posted);
        }
        match errno {
            0 => Ok(true),
            libc::ENOMEM => Ok(false),
            errno => Err(Error::number(name, errno)),
        }
    }
}

/// Memory for a linked list.
struct List {
    requests: Box<[ibv_send_wr]>,
    parts: Box<[ibv_sge]>,
}

impl List {
    fn new() -> Self {
        // SAFETY: all-zero is a value of these plain C structures.
        let (request, part): (ibv_send_wr, ibv_sge) = unsafe { std::mem::zeroed() };
        Self {
            requests: std::iter::repeat_n(request, LIST).collect(),
            parts: std::iter::repeat_n(part, LIST).collect(),
        }
    }

    /// # Safety
    /// The conditions of [`Poster::hand_over`] hold.
    #[inline]
    unsafe fn post(
        &mut self,
        pending: &[Request],
        qp: &QueuePair,
        peer: &Peer,
        slots: &Slots,
    ) -> (&'static str, i32, usize) {
        let lkey = slots.lkey();
        let (requests, parts) = (self.requests.as_mut_ptr(), self.parts.as_mut_ptr());
        for (index, request) in pending.iter().enumerate() {
            let is_last = index + 1 == pending.len();
            // SAFETY: pending is never longer than LIST, the length of both.
            let (wr, part, next) = unsafe {
                let next = if is_last { null_mut() } else { requests.add(index + 1) };
                (&mut *requests.add(index), &mut *parts.add(index), next)
            };
            *part = ibv_sge {
                addr: slots.payload_start(request.slot) as u64,
                length: request.len_bytes,
                lkey,
            };
            let mut flags = 0;
            if request.signaled {
                flags |= IBV_SEND_SIGNALED;
            }
            if request.inline {
                flags |= IBV_SEND_INLINE;
            }
            wr.wr_id = request.slot as u64;
            wr.next = next;
            wr.sg_list = part;
            wr.num_sge = 1;
            wr.send_flags = flags;
            (wr.opcode, wr.wr) = target(request.work, peer);
        }
        let mut bad = null_mut();
        // SAFETY: the list and the memory it names are valid, promised by the caller.
        let errno = unsafe { sys::post_send(qp.raw(), requests, &mut bad) };
        let posted = match (errno, NonNull::new(bad)) {
            (0, _) => pending.len(),
            (_, None) => 0,
            // SAFETY: the device answers one of the requests of this list.
            (_, Some(bad)) => unsafe { bad.as_ptr().offset_from(requests) as usize },
        };
        ("ibv_post_send", errno.abs(), posted.min(pending.len()))
    }
}

/// Returns the code and destination of a request.
#[inline]
fn target(work: Work, peer: &Peer) -> (i32, ibv_send_wr_target) {
    let rdma =
        |remote_addr, rkey| ibv_send_wr_target { rdma: ibv_send_wr_rdma { remote_addr, rkey } };
    match work {
        Work::Send => {
            let (ah, remote_qpn, remote_qkey) = (peer.handle(), peer.number, peer.qkey);
            let ud = ibv_send_wr_ud { ah, remote_qpn, remote_qkey };
            (IBV_WR_SEND, ibv_send_wr_target { ud })
        }
        Work::Read { addr, rkey } => (IBV_WR_RDMA_READ, rdma(addr, rkey)),
        Work::Write { addr, rkey } => (IBV_WR_RDMA_WRITE, rdma(addr, rkey)),
        Work::Atomic { addr, rkey, atomic } => {
            let (code, compare_add, swap) = match atomic {
                Atomic::FetchAdd { add } => (IBV_WR_ATOMIC_FETCH_AND_ADD, add, 0),
                Atomic::CompareSwap { compare, swap } => (IBV_WR_ATOMIC_CMP_AND_SWP, compare, swap),
            };
            let atomic = ibv_send_wr_atomic { remote_addr: addr, compare_add, swap, rkey };
            (code, ibv_send_wr_target { atomic })
        }
    }
}

/// Entries of an extended queue pair, looked up once.
#[derive(Clone, Copy)]
struct PostSession {
    qp: NonNull<ibv_qp_ex>,
    start: WrFn,
    complete: unsafe extern "C" fn(*mut ibv_qp_ex) -> i32,
    send: WrFn,
    read: WrRdmaFn,
    write: WrRdmaFn,
    set_ud_addr: unsafe extern "C" fn(*mut ibv_qp_ex, *mut ibv_ah, u32, u32),
    set_sge: unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, u32),
    set_inline_data: unsafe extern "C" fn(*mut ibv_qp_ex, *mut u8, usize),
}

impl PostSession {
    fn of(qp: &QueuePair) -> Result<Self, Error> {
        let missing = || Error::Call {
            call: "ibv_qp_to_qp_ex",
            reason: "the device's library lacks ibv_wr_start or one of its companions".to_owned(),
        };
        // SAFETY: the queue pair is alive and was made with operations of its own.
        let qp = NonNull::new(unsafe { sys::ibv_qp_to_qp_ex(qp.raw()) }).ok_or_else(missing)?;
        // SAFETY: the same object.
        let table = unsafe { qp.as_ref() };
        let all = || {
            Some(Self {
                qp,
                start: table.wr_start?,
                complete: table.wr_complete?,
                send: table.wr_send?,
                // Older devices have neither; then nobody asked for them.
                read: table.wr_rdma_read.unwrap_or(nothing),
                write: table.wr_rdma_write.unwrap_or(nothing),
                set_ud_addr: table.wr_set_ud_addr?,
                set_sge: table.wr_set_sge?,
                set_inline_data: table.wr_set_inline_data?,
            })
        };
        all().ok_or_else(missing)
    }

    /// # Safety
    /// The conditions of [`Poster::hand_over`] hold.
    #[inline]
    unsafe fn post(
        &self,
        pending: &[Request],
        peer: &Peer,
        slots: &Slots,
    ) -> (&'static str, i32, usize) {
        let (qp, lkey) = (self.qp.as_ptr(), slots.lkey());
        // SAFETY: the queue pair, the peer and the memory are alive, promised by the caller; the
        // calls come in the order that the manual page of ibv_wr_start demands.
        let errno = unsafe {
            (self.start)(qp);
            for request in pending {
                (*qp).wr_id = request.slot as u64;
                (*qp).wr_flags = if request.signaled { IBV_SEND_SIGNALED } else { 0 };
                match request.work {
                    Work::Send => (self.send)(qp),
                    Work::Read { addr, rkey } => (self.read)(qp, rkey, addr),
                    Work::Write { addr, rkey } => (self.write)(qp, rkey, addr),
                    // `Endpoint::atomic` refuses them: these queue pairs have none.
                    Work::Atomic { addr, rkey, .. } => nothing(qp, rkey, addr),
                }
                (self.set_ud_addr)(qp, peer.handle(), peer.number, peer.qkey);
                let start = slots.payload_start(request.slot);
                if request.inline {
                    (self.set_inline_data)(qp, start, request.len_bytes as usize);
                } else {
                    (self.set_sge)(qp, lkey, start as u64, request.len_bytes);
                }
            }
            (self.complete)(qp)
        };
        // A session is taken whole or not at all.
        let posted = if errno == 0 { pending.len() } else { 0 };
        ("ibv_wr_complete", errno.abs(), posted)
    }
}

/// Stands in for an operation that a device lacks: the session then fails when it is completed.
unsafe extern "C" fn nothing(_qp: *mut ibv_qp_ex, _rkey: u32, _addr: u64) {}
