//! Posting with the extended calls: `ibv_wr_start`, `ibv_wr_send`, ..., `ibv_wr_complete`.
//!
//! A session collects work requests and remembers the first error; `ibv_wr_complete` posts all of
//! them, or posts none and returns the error.

mod batch;

use std::ffi::{c_int, c_void};
use std::mem::zeroed;

use softefa::{FlushExtent, Remote, SendOp};

use crate::ah::Ah;
use crate::errno::Errno;
use crate::handle;
use crate::mw;
use crate::panic;
use crate::post;
use crate::qp::Qp;
use crate::session::{self, CallSession, EnterError};
use crate::sys::{
    self, efadv_qp, ibv_ah, ibv_data_buf, ibv_mw, ibv_mw_bind_info, ibv_qp_ex, ibv_sge,
};

use batch::{Batch, PendingWr};

/// A posting session.
pub(crate) type Posting = CallSession<Batch>;

/// Returns the functions of every extended queue pair.
pub(crate) fn table() -> ibv_qp_ex {
    // SAFETY: null pointers and zero numbers are valid in every member.
    let mut qp: ibv_qp_ex = unsafe { zeroed() };
    qp.wr_atomic_cmp_swp = Some(wr_atomic_cmp_swp);
    qp.wr_atomic_fetch_add = Some(wr_atomic_fetch_add);
    qp.wr_bind_mw = Some(wr_bind_mw);
    qp.wr_local_inv = Some(wr_local_inv);
    qp.wr_rdma_read = Some(wr_rdma_read);
    qp.wr_rdma_write = Some(wr_rdma_write);
    qp.wr_rdma_write_imm = Some(wr_rdma_write_imm);
    qp.wr_send = Some(wr_send);
    qp.wr_send_imm = Some(wr_send_imm);
    qp.wr_send_inv = Some(wr_send_inv);
    qp.wr_send_tso = Some(wr_send_tso);
    qp.wr_set_ud_addr = Some(wr_set_ud_addr);
    qp.wr_set_xrc_srqn = Some(wr_set_xrc_srqn);
    qp.wr_set_inline_data = Some(wr_set_inline_data);
    qp.wr_set_inline_data_list = Some(wr_set_inline_data_list);
    qp.wr_set_sge = Some(wr_set_sge);
    qp.wr_set_sge_list = Some(wr_set_sge_list);
    qp.wr_start = Some(wr_start);
    qp.wr_complete = Some(wr_complete);
    qp.wr_abort = Some(wr_abort);
    qp.wr_atomic_write = Some(wr_atomic_write);
    qp.wr_flush = Some(wr_flush);
    qp
}

/// Returns the functions that only an EFA has; null unless they were requested, as in libefa.
pub(crate) fn efa_table(processing_hints: bool) -> efadv_qp {
    let wr_set_processing_hints = processing_hints.then_some(wr_set_processing_hints as _);
    efadv_qp { comp_mask: 0, wr_set_processing_hints }
}

/// # Safety
/// `qp` is null or a live queue pair.
unsafe fn borrow<'a>(qp: *mut ibv_qp_ex) -> Result<&'a Qp, Errno> {
    // SAFETY: as this function demands; an `ibv_qp_ex` starts with its `ibv_qp`.
    unsafe { handle::borrow::<Qp>(qp.cast()) }
}

/// Changes the batch of the session, if there is one.
///
/// # Safety
/// `qp` is a live queue pair.
unsafe fn with_batch(qp: *mut ibv_qp_ex, change: impl FnOnce(&mut Batch, &Qp)) {
    panic::value((), || {
        // SAFETY: as this function demands.
        let Ok(qp) = (unsafe { borrow(qp) }) else { return };
        if qp.posting.enter(|batch| change(batch, qp)) == Err(EnterError::Shared) {
            session::warn_of_shared(qp.nic.qpn());
        }
    });
}

unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    panic::value((), || {
        // SAFETY: the program passes a live queue pair.
        if let Ok(qp) = unsafe { borrow(qp) } {
            qp.posting.open_or_mark_shared();
            // A thread without a session of its own may have entered while the last one ended. If
            // it is still inside, this session is shared.
            let _ = qp.posting.enter(Batch::clear);
        }
    });
}

/// Ends the session and returns the result of `finish`.
///
/// # Safety
/// As for [`with_batch`].
unsafe fn end(
    qp: *mut ibv_qp_ex,
    finish: impl FnOnce(&Batch, &softefa::Qp) -> Result<(), Errno>,
) -> Result<(), Errno> {
    // SAFETY: as this function demands.
    let qp = unsafe { borrow(qp) }?;
    let finished = qp.posting.finish(|batch| {
        // In a shared session it is unknown which parameters belong to which request.
        let is_sound = !qp.posting.is_shared();
        let finished = if is_sound { finish(batch, &qp.nic) } else { Err(Errno::EINVAL) };
        batch.clear();
        finished
    });
    if qp.posting.is_shared() {
        session::warn_of_shared(qp.nic.qpn());
    }
    finished.unwrap_or(Err(Errno::EINVAL))
}

unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: the program opened the session with `ibv_wr_start`.
    panic::code_or(Errno::EDEADLK, || unsafe { end(qp, Batch::post) })
}

unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    // SAFETY: the program opened the session with `ibv_wr_start`.
    panic::code_or(Errno::EDEADLK, || unsafe { end(qp, |_, _| Ok(())) });
}

/// Begins a work request with the `wr_id` and flags that the program stored in the queue pair.
///
/// # Safety
/// As for [`with_batch`].
unsafe fn begin(qp: *mut ibv_qp_ex, op: SendOp) {
    let begin = |batch: &mut Batch, qp: &Qp| {
        let ibv = qp.ibv.get();
        // SAFETY: the thread with the session wrote these members, nobody else does.
        let (wr_id, flags) = unsafe { ((*ibv).wr_id, (*ibv).wr_flags) };
        let ignored = if qp.is_roce() { sys::IBV_SEND_FENCE | sys::IBV_SEND_SOLICITED } else { 0 };
        if flags & !(sys::IBV_SEND_SIGNALED | sys::IBV_SEND_INLINE | ignored) != 0 {
            batch.fail(Errno::EINVAL);
        }
        // libefa leaves the call null, so that the program crashes; here it gets an error.
        if qp.send_ops.unwrap_or(0) & flag_of(op) == 0 {
            batch.fail(Errno::EOPNOTSUPP);
        }
        batch.begin(wr_id, op, flags);
    };
    // SAFETY: as this function demands.
    unsafe { with_batch(qp, begin) }
}

/// Returns the flag by which a program requests the operation at creation.
fn flag_of(op: SendOp) -> u64 {
    match op {
        SendOp::Send => sys::IBV_QP_EX_WITH_SEND,
        SendOp::SendImm(_) => sys::IBV_QP_EX_WITH_SEND_WITH_IMM,
        SendOp::Read(_) => sys::IBV_QP_EX_WITH_RDMA_READ,
        SendOp::Write(_) => sys::IBV_QP_EX_WITH_RDMA_WRITE,
        SendOp::WriteImm(..) => sys::IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
        SendOp::AtomicWrite(_) => sys::IBV_QP_EX_WITH_ATOMIC_WRITE,
        SendOp::Flush(..) => sys::IBV_QP_EX_WITH_FLUSH,
        SendOp::SendInvalidate(_) => sys::IBV_QP_EX_WITH_SEND_WITH_INV,
        SendOp::CompareSwap { .. } => sys::IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
        SendOp::FetchAdd { .. } => sys::IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
        SendOp::LocalInvalidate(_) => sys::IBV_QP_EX_WITH_LOCAL_INV,
        SendOp::BindWindow(_) => sys::IBV_QP_EX_WITH_BIND_MW,
    }
}

unsafe extern "C" fn wr_send(qp: *mut ibv_qp_ex) {
    // SAFETY: the program opened the session with `ibv_wr_start`.
    unsafe { begin(qp, SendOp::Send) }
}

unsafe extern "C" fn wr_send_imm(qp: *mut ibv_qp_ex, imm_be: u32) {
    // SAFETY: the program opened the session with `ibv_wr_start`.
    unsafe { begin(qp, SendOp::SendImm(u32::from_be(imm_be))) }
}

unsafe extern "C" fn wr_set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, qpn: u32, qkey: u32) {
    let set = |wr: &mut PendingWr| {
        // SAFETY: the program passes a live address handle.
        let ah = &unsafe { handle::borrow::<Ah>(ah) }?.nic;
        wr.set_destination(ah, qpn, qkey);
        Ok(())
    };
    // SAFETY: the program opened the session with `ibv_wr_start`.
    unsafe { with_batch(qp, |batch, _| batch.amend(set)) }
}

unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    let sge = ibv_sge { addr, length, lkey };
    // SAFETY: one entry, on this stack.
    unsafe { wr_set_sge_list(qp, 1, &raw const sge) }
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_sge) {
    let set = |wr: &mut PendingWr| {
        // SAFETY: the program passes a list of `count` entries.
        unsafe { wr.sges.fill(list, count) }?;
        wr.inline_len = None;
        Ok(())
    };
    // SAFETY: the program opened the session with `ibv_wr_start`.
    unsafe { with_batch(qp, |batch, _| batch.amend(set)) }
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, addr: *mut u8, length: usize) {
    let buffer = ibv_data_buf { addr, length };
    // SAFETY: one buffer, on this stack.
    unsafe { wr_set_inline_data_list(qp, 1, &raw const buffer) }
}

/// Returns whether the payload may be inline: for WRITEs only where the queue pair supports it.
fn takes_inline(op: SendOp, takes_writes: bool) -> bool {
    match op {
        SendOp::Send | SendOp::SendImm(_) | SendOp::SendInvalidate(_) => true,
        SendOp::Write(_) | SendOp::WriteImm(..) => takes_writes,
        _ => false,
    }
}

/// Copies the data now: the program may reuse the buffers at once.
unsafe extern "C" fn wr_set_inline_data_list(
    qp: *mut ibv_qp_ex,
    count: usize,
    list: *const ibv_data_buf,
) {
    let set = |wr: &mut PendingWr, takes_writes: bool| {
        if !takes_inline(wr.op, takes_writes) {
            return Err(Errno::EINVAL);
        }
        let mut len = 0;
        for index in 0..count {
            // SAFETY: the program passes a list of `count` buffers.
            let buffer = unsafe { &*list.add(index) };
            // SAFETY: the program passes readable buffers.
            let bytes = unsafe { post::bytes(buffer.addr, buffer.length) };
            let room = wr.inline.get_mut(len..len + bytes.len()).ok_or(Errno::EINVAL)?;
            room.copy_from_slice(bytes);
            len += bytes.len();
        }
        wr.inline_len = Some(len);
        Ok(())
    };
    // SAFETY: the program opened the session with `ibv_wr_start`.
    unsafe { with_batch(qp, |batch, qp| batch.amend(|wr| set(wr, qp.inline_write))) }
}

/// Hints how hardware may process a request; ignored here.
unsafe extern "C" fn wr_set_processing_hints(_qp: *mut efadv_qp, _hints: u32) {}

/// Fails the session, for calls that the device does not support.
///
/// # Safety
/// As for [`with_batch`].
unsafe fn refuse(qp: *mut ibv_qp_ex) {
    // SAFETY: as this function demands.
    unsafe { with_batch(qp, |batch, _| batch.fail(Errno::EOPNOTSUPP)) }
}

unsafe extern "C" fn wr_rdma_read(qp: *mut ibv_qp_ex, rkey: u32, addr: u64) {
    // SAFETY: the program opened the session with `ibv_wr_start`.
    unsafe { begin(qp, SendOp::Read(Remote { addr, rkey })) }
}

unsafe extern "C" fn wr_rdma_write(qp: *mut ibv_qp_ex, rkey: u32, addr: u64) {
    // SAFETY: the program opened the session with `ibv_wr_start`.
    unsafe { begin(qp, SendOp::Write(Remote { addr, rkey })) }
}

unsafe extern "C" fn wr_rdma_write_imm(qp: *mut ibv_qp_ex, rkey: u32, addr: u64, imm_be: u32) {
    let op = SendOp::WriteImm(Remote { addr, rkey }, u32::from_be(imm_be));
    // SAFETY: the program opened the session with `ibv_wr_start`.
    unsafe { begin(qp, op) }
}

unsafe extern "C" fn wr_atomic_cmp_swp(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    addr: u64,
    compare: u64,
    swap: u64,
) {
    let op = SendOp::CompareSwap { remote: Remote { addr, rkey }, compare, swap };
    // SAFETY: the program opened the session with `ibv_wr_start`.
    unsafe { begin(qp, op) }
}

unsafe extern "C" fn wr_atomic_fetch_add(qp: *mut ibv_qp_ex, rkey: u32, addr: u64, add: u64) {
    // SAFETY: the program opened the session with `ibv_wr_start`.
    unsafe { begin(qp, SendOp::FetchAdd { remote: Remote { addr, rkey }, add }) }
}

unsafe extern "C" fn wr_send_inv(qp: *mut ibv_qp_ex, key: u32) {
    // SAFETY: the program opened the session with `ibv_wr_start`.
    unsafe { begin(qp, SendOp::SendInvalidate(key)) }
}

unsafe extern "C" fn wr_local_inv(qp: *mut ibv_qp_ex, key: u32) {
    // SAFETY: the program opened the session with `ibv_wr_start`.
    unsafe { begin(qp, SendOp::LocalInvalidate(key)) }
}

/// The length of an ATOMIC WRITE.
const WORD_BYTES: usize = 8;

/// Copies the word now.
unsafe extern "C" fn wr_atomic_write(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    addr: u64,
    word: *const c_void,
) {
    let set = |wr: &mut PendingWr| {
        // SAFETY: the program passes 8 readable bytes.
        let bytes = unsafe { post::bytes(word.cast_mut().cast(), WORD_BYTES) };
        wr.inline[..WORD_BYTES].copy_from_slice(bytes);
        wr.inline_len = Some(WORD_BYTES);
        Ok(())
    };
    // SAFETY: the program opened the session with `ibv_wr_start`.
    unsafe {
        begin(qp, SendOp::AtomicWrite(Remote { addr, rkey }));
        with_batch(qp, |batch, _| batch.amend(set));
    }
}

/// Unknown kinds and levels fail the session; the kernel would accept them.
unsafe extern "C" fn wr_flush(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    addr: u64,
    len: usize,
    kind: u8,
    level: u8,
) {
    let extent = |len: u32| FlushExtent {
        len,
        is_global: kind & sys::IBV_FLUSH_GLOBAL != 0,
        is_persistent: kind & sys::IBV_FLUSH_PERSISTENT != 0,
        is_whole_region: level == sys::IBV_FLUSH_MR,
    };
    let kinds = sys::IBV_FLUSH_GLOBAL | sys::IBV_FLUSH_PERSISTENT;
    let is_known = kind & !kinds == 0 && level <= sys::IBV_FLUSH_MR;
    match u32::try_from(len).ok().filter(|_| is_known) {
        // SAFETY: the program opened the session with `ibv_wr_start`.
        Some(len) => unsafe { begin(qp, SendOp::Flush(Remote { addr, rkey }, extent(len))) },
        // SAFETY: as above.
        None => unsafe { with_batch(qp, |batch, _| batch.fail(Errno::EINVAL)) },
    }
}

unsafe extern "C" fn wr_bind_mw(
    qp: *mut ibv_qp_ex,
    window: *mut ibv_mw,
    key: u32,
    info: *const ibv_mw_bind_info,
) {
    // SAFETY: the program passes a window of its own, and what it wants of it.
    match unsafe { mw::bind_type2(window, key, &*info) } {
        // SAFETY: the program opened the session with `ibv_wr_start`.
        Ok(op) => unsafe { begin(qp, op) },
        // SAFETY: as above.
        Err(errno) => unsafe { with_batch(qp, |batch, _| batch.fail(errno)) },
    }
}

/// Fails the session of queue pairs other than initiators.
unsafe extern "C" fn wr_set_xrc_srqn(qp: *mut ibv_qp_ex, number: u32) {
    let set = |batch: &mut Batch, qp: &Qp| match qp.nic.init().kind.is_xrc() {
        true => batch.amend(|wr| {
            wr.remote_srq = number;
            Ok(())
        }),
        false => batch.fail(Errno::EOPNOTSUPP),
    };
    // SAFETY: the program opened the session with `ibv_wr_start`.
    unsafe { with_batch(qp, set) }
}

unsafe extern "C" fn wr_send_tso(qp: *mut ibv_qp_ex, _: *mut c_void, _: u16, _: u16) {
    // SAFETY: the program opened the session with `ibv_wr_start`.
    unsafe { refuse(qp) }
}
