//! The two interfaces by which requests reach a device: a linked list, and a session of calls.

use std::ptr::{NonNull, null_mut};

use verbs_abi::*;

use crate::endpoint::Peer;
use crate::error::Error;
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
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) slot: usize,
    pub(crate) part: ibv_sge,
    pub(crate) work: Work,
    pub(crate) inline: bool,
    pub(crate) signaled: bool,
}

impl Request {
    #[inline]
    const fn flags(&self) -> u32 {
        let signaled = if self.signaled { IBV_SEND_SIGNALED } else { 0 };
        signaled | if self.inline { IBV_SEND_INLINE } else { 0 }
    }
}

/// A list of requests, and its hand-over to the device.
pub(crate) struct Poster {
    /// Number of requests that wait.
    pending: usize,
    interface: Interface,
}

enum Interface {
    List(List),
    PostSession { session: PostSession, requests: Vec<Request> },
}

impl Poster {
    /// Creates a poster. READs and WRITEs of SRD take sessions, their only interface; everything
    /// else takes lists, which every device has and which are one call for each message instead of
    /// five.
    pub(crate) fn new(qp: &QueuePair, has_rdma: bool) -> Result<Self, Error> {
        let interface = match qp.transport {
            Transport::Srd if has_rdma => Interface::PostSession {
                session: PostSession::of(qp)?,
                requests: Vec::with_capacity(LIST),
            },
            Transport::Srd | Transport::Ud | Transport::Rc => Interface::List(List::new()),
        };
        Ok(Self { pending: 0, interface })
    }

    #[inline]
    pub(crate) const fn has_pending(&self) -> bool {
        self.pending > 0
    }

    #[inline]
    pub(crate) const fn is_full(&self) -> bool {
        self.pending == LIST
    }

    /// Adds a request; there must be room.
    #[inline(always)] // As `Endpoint::post`.
    pub(crate) fn push(&mut self, request: Request, peer: &Peer) {
        debug_assert!(!self.is_full());
        match &mut self.interface {
            Interface::List(list) => list.write(self.pending, request, peer),
            Interface::PostSession { requests, .. } => requests.push(request),
        }
        self.pending += 1;
    }

    /// Gives pending requests to the device; returns false when it does not take all of them.
    ///
    /// # Safety
    /// Queue pair and peer are alive; the memory of the requests stays as it is until they
    /// complete.
    #[inline(always)] // As `Endpoint::post`.
    pub(crate) unsafe fn hand_over(&mut self, qp: &QueuePair, peer: &Peer) -> Result<bool, Error> {
        // SAFETY: promised by the caller.
        let (name, errno, posted) = unsafe {
            match &mut self.interface {
                Interface::PostSession { session, requests } => session.post(requests, peer),
                Interface::List(list) => list.post(self.pending, qp),
            }
        };
        self.pending -= posted;
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

    #[inline(always)] // As `Endpoint::post`.
    fn write(&mut self, index: usize, request: Request, peer: &Peer) {
        self.parts[index] = request.part;
        let wr = &mut self.requests[index];
        wr.wr_id = request.slot as u64;
        wr.num_sge = 1;
        wr.send_flags = request.flags();
        (wr.opcode, wr.wr) = target(request.work, peer);
    }

    /// Posts the first `pending` requests. Returns the name of the call, its error number, and how
    /// many requests it took; the others are the first ones afterwards.
    ///
    /// # Safety
    /// The conditions of [`Poster::hand_over`] hold.
    #[inline(always)] // As `Endpoint::post`.
    unsafe fn post(&mut self, pending: usize, qp: &QueuePair) -> (&'static str, i32, usize) {
        let requests = self.requests[..pending].as_mut_ptr();
        let parts = self.parts[..pending].as_mut_ptr();
        for index in 0..pending {
            let is_last = index + 1 == pending;
            // SAFETY: both are at least as long as that.
            unsafe {
                let wr = &mut *requests.add(index);
                wr.next = if is_last { null_mut() } else { requests.add(index + 1) };
                wr.sg_list = parts.add(index);
            }
        }
        let mut bad = null_mut();
        // SAFETY: the list and the memory it names are valid, promised by the caller.
        let errno = unsafe { sys::post_send(qp.raw(), requests, &mut bad) };
        let posted = if errno == 0 { pending } else { self.keep_from(bad, pending) };
        ("ibv_post_send", errno.abs(), posted)
    }

    /// Moves the requests from `bad` on to the front. Returns how many were before it.
    #[cold]
    fn keep_from(&mut self, bad: *const ibv_send_wr, pending: usize) -> usize {
        let posted = self.requests[..pending].iter().position(|wr| std::ptr::eq(wr, bad));
        let posted = posted.unwrap_or(0);
        self.requests.copy_within(posted..pending, 0);
        self.parts.copy_within(posted..pending, 0);
        posted
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

    /// Posts the requests, which are gone afterwards if they were taken.
    ///
    /// # Safety
    /// The conditions of [`Poster::hand_over`] hold.
    #[inline]
    unsafe fn post(&self, requests: &mut Vec<Request>, peer: &Peer) -> (&'static str, i32, usize) {
        let qp = self.qp.as_ptr();
        // SAFETY: the queue pair, the peer and the memory are alive, promised by the caller; the
        // calls come in the order that the manual page of ibv_wr_start demands.
        let errno = unsafe {
            (self.start)(qp);
            for request in requests.iter() {
                let ibv_sge { addr, length, lkey } = request.part;
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
                if request.inline {
                    (self.set_inline_data)(qp, addr as *mut u8, length as usize);
                } else {
                    (self.set_sge)(qp, lkey, addr, length);
                }
            }
            (self.complete)(qp)
        };
        // A session is taken whole or not at all.
        let posted = if errno == 0 { requests.len() } else { 0 };
        requests.drain(..posted);
        ("ibv_wr_complete", errno.abs(), posted)
    }
}

/// Stands in for an operation that a device lacks: the session then fails when it is completed.
unsafe extern "C" fn nothing(_qp: *mut ibv_qp_ex, _rkey: u32, _addr: u64) {}
