//! Posting with linked lists of work requests: `ibv_post_send` and `ibv_post_recv`.

use std::ffi::c_int;
use std::slice;

use softefa::{Remote, SendData, SendOp, SendWr, Sge, Target};

use crate::ah::Ah;
use crate::errno::Errno;
use crate::handle;
use crate::mw;
use crate::panic;
use crate::qp::Qp;
use crate::sys::{self, ibv_qp, ibv_recv_wr, ibv_send_wr, ibv_sge};

/// The most scatter-gather entries of a work request, over all devices and both queues.
pub(crate) const SGE_MAX: usize = 32;
/// The number of entries that fit on the stack: more than an EFA takes.
const SHORT_SGES: usize = 4;
/// Longest receive entry: the descriptor of an EFA has 16 bits for it.
const RECV_SGE_BYTES_MAX: u32 = 0xffff;

const NO_SGE: Sge = Sge { addr: 0, len: 0, lkey: 0 };

/// The entries of a work request, on the stack if there are few.
pub(crate) struct Sges {
    short: [Sge; SHORT_SGES],
    /// All entries, if there are more.
    long: Vec<Sge>,
    count: usize,
}

impl Default for Sges {
    fn default() -> Self {
        Self { short: [NO_SGE; SHORT_SGES], long: Vec::new(), count: 0 }
    }
}

impl Sges {
    /// Replaces the entries, in place: data just written in small pieces is slow to move in large
    /// ones.
    ///
    /// # Safety
    /// `list` points to `count` entries, or `count` is 0.
    #[inline]
    pub(crate) unsafe fn fill(&mut self, list: *const ibv_sge, count: usize) -> Result<(), Errno> {
        if count > SGE_MAX || (list.is_null() && count > 0) {
            return Err(Errno::EINVAL);
        }
        self.count = count;
        if count > SHORT_SGES {
            self.long.resize(count, NO_SGE);
        }
        for (index, entry) in self.as_mut_slice().iter_mut().enumerate() {
            // SAFETY: `index` is less than `count`.
            let from = unsafe { &*list.add(index) };
            *entry = Sge { addr: from.addr, len: from.length, lkey: from.lkey };
        }
        Ok(())
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[Sge] {
        if self.count <= SHORT_SGES { &self.short[..self.count] } else { &self.long[..self.count] }
    }

    #[inline]
    fn as_mut_slice(&mut self) -> &mut [Sge] {
        let count = self.count;
        if count <= SHORT_SGES { &mut self.short[..count] } else { &mut self.long[..count] }
    }

    /// Returns the bytes that the entries cover, for inline data; keys do not matter.
    ///
    /// # Safety
    /// Each entry covers readable memory that stays as it is for `'a`.
    unsafe fn bytes<'a>(&self) -> [&'a [u8]; SGE_MAX] {
        let mut parts: [&[u8]; SGE_MAX] = [&[]; SGE_MAX];
        for (part, entry) in parts.iter_mut().zip(self.as_slice()) {
            // SAFETY: as this function demands.
            *part = unsafe { bytes(entry.addr as *const u8, entry.len as usize) };
        }
        parts
    }
}

/// # Safety
/// `len` bytes at `addr` are readable and stay as they are for `'a`.
pub(crate) unsafe fn bytes<'a>(addr: *const u8, len: usize) -> &'a [u8] {
    // SAFETY: as this function demands; null is possible only without bytes.
    if addr.is_null() || len == 0 { &[] } else { unsafe { slice::from_raw_parts(addr, len) } }
}

/// Posts each work request of the list; returns where it stopped, and why.
pub(crate) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    list: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    let mut at = list;
    let code = panic::code_or(Errno::EDEADLK, || {
        // SAFETY: the program passes a live queue pair.
        let qp = unsafe { handle::borrow::<Qp>(qp) }?;
        let mut sges = Sges::default();
        // SAFETY: null ends the list, everything before is a work request of the program.
        while let Some(wr) = unsafe { at.as_ref() } {
            // SAFETY: as the program promises for its work requests.
            unsafe { send_one(qp, wr, &mut sges) }?;
            at = wr.next;
        }
        Ok(())
    });
    if code != 0 && !bad_wr.is_null() {
        // SAFETY: checked for null, and a pointer of the program.
        unsafe { bad_wr.write(at) };
    }
    code
}

/// # Safety
/// `wr` holds a live address handle and entries, as `ibv_post_send` demands.
unsafe fn send_one(qp: &Qp, wr: &ibv_send_wr, sges: &mut Sges) -> Result<(), Errno> {
    let kind = qp.nic.init().kind;
    let is_connected = kind.is_connected();
    let flags = wr.send_flags;
    let known = sys::IBV_SEND_SIGNALED | sys::IBV_SEND_INLINE;
    // An EFA refuses them; other devices ignore flags without a meaning for their transport.
    let ignored = if qp.is_roce() { sys::IBV_SEND_FENCE | sys::IBV_SEND_SOLICITED } else { 0 };
    if flags & !(known | ignored) != 0 {
        return Err(Errno::EINVAL);
    }
    let op = match wr.opcode {
        sys::IBV_WR_SEND => SendOp::Send,
        sys::IBV_WR_SEND_WITH_IMM => SendOp::SendImm(u32::from_be(wr.imm_data_be)),
        _ => operation(is_connected, wr)?,
    };
    let count = usize::try_from(wr.num_sge).map_err(|_| Errno::EINVAL)?;
    // SAFETY: as this function demands.
    unsafe { sges.fill(wr.sg_list, count) }?;
    let target = if is_connected {
        None
    } else {
        // SAFETY: on a datagram queue pair this is the member in use.
        let target = unsafe { wr.wr.ud };
        // SAFETY: as this function demands.
        let ah = &unsafe { handle::borrow::<Ah>(target.ah) }?.nic;
        Some(Target { ah, qpn: target.remote_qpn, qkey: target.remote_qkey })
    };
    let request = SendWr {
        wr_id: wr.wr_id,
        op,
        data: SendData::Sges(sges.as_slice()),
        signaled: flags & sys::IBV_SEND_SIGNALED != 0,
        fenced: flags & sys::IBV_SEND_FENCE != 0,
        solicited: flags & sys::IBV_SEND_SOLICITED != 0,
        target,
        remote_srq: if kind.is_xrc() { wr.xrc_remote_srqn } else { 0 },
        more: !wr.next.is_null(),
    };
    if flags & sys::IBV_SEND_INLINE == 0 {
        return Ok(qp.nic.post_send(&request)?);
    }
    if matches!(op, SendOp::Read(_)) || op.is_atomic() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: for inline data the program promises readable memory during this call.
    let parts = unsafe { sges.bytes() };
    let data = SendData::Inline(&parts[..count]);
    Ok(qp.nic.post_send(&SendWr { data, ..request })?)
}

/// Returns the operation of a work request that is not a SEND.
fn operation(is_connected: bool, wr: &ibv_send_wr) -> Result<SendOp, Errno> {
    match wr.opcode {
        _ if !is_connected => return Err(Errno::EINVAL),
        // The key takes the place of the immediate data, in host byte order.
        sys::IBV_WR_SEND_WITH_INV => return Ok(SendOp::SendInvalidate(wr.imm_data_be)),
        sys::IBV_WR_BIND_MW => {
            let sys::ibv_send_wr_bind_mw { mw, rkey, bind_info } = wr.bind_mw;
            // SAFETY: the program passes a window of its own, and a region of its own if it names
            // one.
            return unsafe { mw::bind_type2(mw, rkey, &bind_info) };
        }
        sys::IBV_WR_LOCAL_INV => return Ok(SendOp::LocalInvalidate(wr.imm_data_be)),
        _ => {}
    }
    // SAFETY: every view of the union is plain data, and these operations use `rdma`.
    let rdma = unsafe { wr.wr.rdma };
    let remote = Remote { addr: rdma.remote_addr, rkey: rdma.rkey };
    // SAFETY: as above, for atomics.
    let atomic = unsafe { wr.wr.atomic };
    let word = Remote { addr: atomic.remote_addr, rkey: atomic.rkey };
    match wr.opcode {
        sys::IBV_WR_RDMA_WRITE => Ok(SendOp::Write(remote)),
        sys::IBV_WR_RDMA_WRITE_WITH_IMM => {
            Ok(SendOp::WriteImm(remote, u32::from_be(wr.imm_data_be)))
        }
        sys::IBV_WR_RDMA_READ => Ok(SendOp::Read(remote)),
        sys::IBV_WR_ATOMIC_WRITE => Ok(SendOp::AtomicWrite(remote)),
        sys::IBV_WR_ATOMIC_CMP_AND_SWP => {
            Ok(SendOp::CompareSwap { remote: word, compare: atomic.compare_add, swap: atomic.swap })
        }
        sys::IBV_WR_ATOMIC_FETCH_AND_ADD => {
            Ok(SendOp::FetchAdd { remote: word, add: atomic.compare_add })
        }
        _ => Err(Errno::EINVAL),
    }
}

/// Posts each receive of the list; returns where it stopped, and why.
pub(crate) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    list: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let mut at = list;
    let code = panic::code_or(Errno::EDEADLK, || {
        // SAFETY: the program passes a live queue pair.
        let qp = unsafe { handle::borrow::<Qp>(qp) }?;
        let mut sges = Sges::default();
        // SAFETY: null ends the list, everything before is a work request of the program.
        while let Some(wr) = unsafe { at.as_ref() } {
            let count = usize::try_from(wr.num_sge).map_err(|_| Errno::EINVAL)?;
            // SAFETY: as the program promises for its work requests.
            unsafe { sges.fill(wr.sg_list, count) }?;
            if !qp.is_roce() {
                for entry in sges.as_mut_slice() {
                    entry.len = entry.len.min(RECV_SGE_BYTES_MAX);
                }
            }
            qp.nic.post_recv(wr.wr_id, sges.as_slice())?;
            at = wr.next;
        }
        Ok(())
    });
    if code != 0 && !bad_wr.is_null() {
        // SAFETY: checked for null, and a pointer of the program.
        unsafe { bad_wr.write(at) };
    }
    code
}
