//! Posting with linked lists of work requests: `ibv_post_send` and `ibv_post_recv`.

use std::ffi::c_int;
use std::slice;

use softefa::{SendData, SendOp, SendWr, Sge};

use crate::ah::Ah;
use crate::errno::Errno;
use crate::handle;
use crate::panic;
use crate::qp::Qp;
use crate::sys::{self, ibv_qp, ibv_recv_wr, ibv_send_wr, ibv_sge};

/// Scatter-gather entries of a work request at most, over all devices and both queues.
pub(crate) const SGE_MAX: usize = 4;
/// Longest receive entry: the descriptor of an EFA has 16 bits for it.
const RECV_SGE_BYTES_MAX: u32 = 0xffff;

const NO_SGE: Sge = Sge { addr: 0, len: 0, lkey: 0 };

/// Entries of a work request, on the stack.
pub(crate) struct Sges {
    entries: [Sge; SGE_MAX],
    count: usize,
}

impl Default for Sges {
    fn default() -> Self {
        Self { entries: [NO_SGE; SGE_MAX], count: 0 }
    }
}

impl Sges {
    /// # Safety
    /// `list` points to `count` entries, or `count` is not positive.
    unsafe fn read(list: *const ibv_sge, count: usize) -> Result<Self, Errno> {
        let mut sges = Self::default();
        // SAFETY: as this function demands.
        unsafe { sges.fill(list, count) }?;
        Ok(sges)
    }

    /// As [`Sges::read`], over what was here.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(crate) unsafe fn fill(&mut self, list: *const ibv_sge, count: usize) -> Result<(), Errno> {
        if count > SGE_MAX || (list.is_null() && count > 0) {
            return Err(Errno::EINVAL);
        }
        self.count = count;
        for (index, entry) in self.entries[..count].iter_mut().enumerate() {
            // SAFETY: `index` is less than `count`.
            let from = unsafe { &*list.add(index) };
            *entry = Sge { addr: from.addr, len: from.length, lkey: from.lkey };
        }
        Ok(())
    }

    /// No entries.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    pub(crate) fn as_slice(&self) -> &[Sge] {
        &self.entries[..self.count]
    }

    /// The bytes the entries cover, for inline data; keys play no part.
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

/// Posts each work request of the list; where it stopped and why.
pub(crate) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    list: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    let mut at = list;
    let code = panic::code_or(Errno::EDEADLK, || {
        // SAFETY: the program passes a live queue pair.
        let qp = unsafe { handle::borrow::<Qp>(qp) }?;
        // SAFETY: null ends the list, everything before is a work request of the program.
        while let Some(wr) = unsafe { at.as_ref() } {
            // SAFETY: as the program promises for its work requests.
            unsafe { send_one(qp, wr) }?;
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
unsafe fn send_one(qp: &Qp, wr: &ibv_send_wr) -> Result<(), Errno> {
    if wr.send_flags & !(sys::IBV_SEND_SIGNALED | sys::IBV_SEND_INLINE) != 0 {
        return Err(Errno::EINVAL);
    }
    let op = match wr.opcode {
        sys::IBV_WR_SEND => SendOp::Send,
        sys::IBV_WR_SEND_WITH_IMM => SendOp::SendImm(u32::from_be(wr.imm_data_be)),
        _ => return Err(Errno::EINVAL),
    };
    let count = usize::try_from(wr.num_sge).map_err(|_| Errno::EINVAL)?;
    // SAFETY: as this function demands.
    let sges = unsafe { Sges::read(wr.sg_list, count) }?;
    // SAFETY: on a datagram queue pair this is the member in use.
    let target = unsafe { wr.wr.ud };
    // SAFETY: as this function demands.
    let ah = unsafe { handle::borrow::<Ah>(target.ah) }?;
    let is_inline = wr.send_flags & sys::IBV_SEND_INLINE != 0;
    // SAFETY: for inline data the program promises readable memory during this call.
    let parts = if is_inline { unsafe { sges.bytes() } } else { [&[][..]; SGE_MAX] };
    let data = if is_inline { SendData::Inline(&parts) } else { SendData::Sges(sges.as_slice()) };
    qp.nic.post_send(&SendWr {
        wr_id: wr.wr_id,
        op,
        data,
        signaled: wr.send_flags & sys::IBV_SEND_SIGNALED != 0,
        ah: &ah.nic,
        remote_qpn: u16::try_from(target.remote_qpn).map_err(|_| Errno::EINVAL)?,
        remote_qkey: target.remote_qkey,
        more: !wr.next.is_null(),
    })?;
    Ok(())
}

/// Posts each receive of the list; where it stopped and why.
pub(crate) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    list: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let mut at = list;
    let code = panic::code_or(Errno::EDEADLK, || {
        // SAFETY: the program passes a live queue pair.
        let qp = unsafe { handle::borrow::<Qp>(qp) }?;
        // SAFETY: null ends the list, everything before is a work request of the program.
        while let Some(wr) = unsafe { at.as_ref() } {
            let count = usize::try_from(wr.num_sge).map_err(|_| Errno::EINVAL)?;
            // SAFETY: as the program promises for its work requests.
            let mut sges = unsafe { Sges::read(wr.sg_list, count) }?;
            for entry in &mut sges.entries {
                entry.len = entry.len.min(RECV_SGE_BYTES_MAX);
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
