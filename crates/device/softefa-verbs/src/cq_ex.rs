//! Extended polling: the functions behind `ibv_start_poll`, `ibv_next_poll`, `ibv_end_poll` and
//! the readers of the present completion.

use std::ffi::{c_int, c_uint};
use std::mem::{offset_of, zeroed};

use softefa::{AHN_UNKNOWN, Completion, CompletionOp, CompletionTime};

use crate::cq::Cq;
use crate::errno::Errno;
use crate::handle;
use crate::panic;
use crate::session::CallSession;
use crate::sys::{
    EFADV_WC_EX_WITH_IS_UNSOLICITED, EFADV_WC_EX_WITH_SGID, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, efadv_cq, ibv_cq_ex, ibv_gid, ibv_poll_cq_attr,
};
use crate::wc;

/// A completion, and the time of it if the program requested that.
#[derive(Clone, Copy, Default)]
pub(crate) struct PolledCompletion {
    completion: Option<Completion>,
    time: CompletionTime,
}

impl From<Option<Completion>> for PolledCompletion {
    #[inline]
    fn from(completion: Option<Completion>) -> Self {
        Self { completion, time: CompletionTime::default() }
    }
}

impl From<Option<(Completion, CompletionTime)>> for PolledCompletion {
    fn from(found: Option<(Completion, CompletionTime)>) -> Self {
        let (completion, time) = found.unzip();
        Self { completion, time: time.unwrap_or_default() }
    }
}

/// A polling session and its current completion. That completion has left the queue already, so
/// ending the session consumes it, with an error or without. It can be read until the next poll, as
/// on the device, whose ring still holds it.
pub(crate) type Poll = CallSession<PolledCompletion>;

/// The pointer type of the first argument of these functions.
type CqExPtr = *mut ibv_cq_ex;

/// Returns the functions of every queue; those that the device does not support stay null.
pub(crate) fn table() -> ibv_cq_ex {
    // SAFETY: null pointers and zero numbers are valid in every member.
    let mut cq: ibv_cq_ex = unsafe { zeroed() };
    cq.start_poll = Some(start_poll);
    cq.next_poll = Some(next_poll);
    cq.end_poll = Some(end_poll);
    cq.read_opcode = Some(read_opcode);
    cq.read_vendor_err = Some(read_vendor_err);
    cq.read_byte_len = Some(read_byte_len);
    cq.read_imm_data = Some(read_imm_data);
    cq.read_qp_num = Some(read_qp_num);
    cq.read_src_qp = Some(read_src_qp);
    cq.read_wc_flags = Some(read_wc_flags);
    cq.read_slid = Some(read_slid);
    cq.read_sl = Some(read_sl);
    cq.read_dlid_path_bits = Some(read_zero);
    cq
}

/// Adds the requested functions that read completion times.
pub(crate) fn add_times(cq: &mut ibv_cq_ex, wc_flags: u64) {
    let asked = |flag| wc_flags & flag != 0;
    cq.read_completion_ts =
        asked(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP).then_some(read_completion_ts);
    cq.read_completion_wallclock_ns =
        asked(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK).then_some(read_wallclock_ns);
}

/// Returns the functions that only an EFA has; those that were not requested stay null, as in
/// libefa.
pub(crate) fn efa_table(wc_flags: u64) -> efadv_cq {
    let asked = |flag| wc_flags & flag != 0;
    efadv_cq {
        comp_mask: 0,
        wc_read_sgid: asked(EFADV_WC_EX_WITH_SGID).then_some(read_sgid),
        wc_is_unsolicited: asked(EFADV_WC_EX_WITH_IS_UNSOLICITED).then_some(is_unsolicited),
    }
}

/// # Safety
/// `cq` is null or a live queue.
unsafe fn borrow<'a>(cq: CqExPtr) -> Result<&'a Cq, Errno> {
    // SAFETY: as this function demands; an `ibv_cq_ex` starts with its `ibv_cq`.
    unsafe { handle::borrow::<Cq>(cq.cast()) }
}

/// Makes `polled` the current completion; `ENOENT` when the poll found none.
///
/// # Safety
/// The calling thread has the session open.
unsafe fn show(cq: &Cq, polled: PolledCompletion) -> Result<(), Errno> {
    // SAFETY: as this function demands.
    unsafe { cq.poll.with(|current| *current = polled) };
    let completion = polled.completion.ok_or(Errno::ENOENT)?;
    let ibv = cq.ibv.get();
    // SAFETY: the session makes this thread the only one that touches these two members.
    unsafe {
        (*ibv).wr_id = completion.wr_id;
        (*ibv).status = wc::status(completion.status);
    }
    Ok(())
}

/// In a signal handler that interrupted a call or session of its thread, the poll finds nothing.
unsafe extern "C" fn start_poll(cq: CqExPtr, attr: *mut ibv_poll_cq_attr) -> c_int {
    panic::code_or(Errno::ENOENT, || {
        // SAFETY: the program passes a live queue.
        let cq = unsafe { borrow(cq) }?;
        // SAFETY: null, or attributes of the program.
        if unsafe { attr.as_ref() }.is_some_and(|attr| attr.comp_mask != 0) {
            return Err(Errno::EINVAL);
        }
        if !cq.poll.open() {
            return Err(Errno::ENOENT);
        }
        let polled = match cq.is_timed {
            false => cq.nic.poll_one().into(),
            true => cq.nic.poll_one_timed().into(),
        };
        // SAFETY: this thread opened the session just now.
        let shown = unsafe { show(cq, polled) };
        if shown.is_err() {
            cq.poll.close();
        }
        shown
    })
}

/// Does not run the adapter: a program that polls without end would starve its own work.
unsafe extern "C" fn next_poll(cq: CqExPtr) -> c_int {
    panic::code_or(Errno::ENOENT, || {
        // SAFETY: the program passes a live queue.
        let cq = unsafe { borrow(cq) }?;
        let polled = match cq.is_timed {
            false => cq.nic.pop().into(),
            true => cq.nic.pop_timed().into(),
        };
        // SAFETY: the program opened a session with `start_poll`.
        unsafe { show(cq, polled) }
    })
}

unsafe extern "C" fn end_poll(cq: CqExPtr) {
    panic::value((), || {
        // SAFETY: the program passes a live queue.
        if let Ok(cq) = unsafe { borrow(cq) } {
            cq.poll.close();
            cq.nic.end_poll();
        }
    });
}

/// Reads the completion of the last poll; returns the default value where that found none.
///
/// # Safety
/// `cq` is null or a live queue, and no other thread polls it.
unsafe fn read<T: Default>(cq: CqExPtr, read: impl FnOnce(&Completion) -> T) -> T {
    // SAFETY: as this function demands.
    let Ok(cq) = (unsafe { borrow(cq) }) else { return T::default() };
    // SAFETY: as this function demands.
    unsafe { cq.poll.peek(|polled| polled.completion.as_ref().map_or_else(T::default, read)) }
}

/// Returns the time of the last poll's completion.
///
/// # Safety
/// As for [`read`].
unsafe fn read_time(cq: CqExPtr) -> CompletionTime {
    // SAFETY: as this function demands.
    let Ok(cq) = (unsafe { borrow(cq) }) else { return CompletionTime::default() };
    // SAFETY: as this function demands.
    unsafe { cq.poll.peek(|polled| polled.time) }
}

unsafe extern "C" fn read_completion_ts(cq: CqExPtr) -> u64 {
    // SAFETY: the program reads in the thread that polls.
    unsafe { read_time(cq) }.device_ns
}

unsafe extern "C" fn read_wallclock_ns(cq: CqExPtr) -> u64 {
    // SAFETY: the program reads in the thread that polls.
    unsafe { read_time(cq) }.wall_ns
}

unsafe extern "C" fn read_opcode(cq: CqExPtr) -> c_int {
    // SAFETY: the program reads in the thread that polls.
    unsafe { read(cq, wc::opcode) }
}

unsafe extern "C" fn read_vendor_err(cq: CqExPtr) -> u32 {
    // SAFETY: the program reads in the thread that polls.
    unsafe { read(cq, |completion| u32::from(completion.status.code())) }
}

unsafe extern "C" fn read_byte_len(cq: CqExPtr) -> u32 {
    // SAFETY: the program reads in the thread that polls.
    unsafe { read(cq, |completion| completion.byte_len) }
}

unsafe extern "C" fn read_imm_data(cq: CqExPtr) -> u32 {
    // SAFETY: the program reads in the thread that polls.
    unsafe { read(cq, wc::imm_be) }
}

unsafe extern "C" fn read_qp_num(cq: CqExPtr) -> u32 {
    // SAFETY: the program reads in the thread that polls.
    unsafe { read(cq, |completion| completion.qpn) }
}

unsafe extern "C" fn read_src_qp(cq: CqExPtr) -> u32 {
    // SAFETY: the program reads in the thread that polls.
    unsafe { read(cq, |completion| completion.src_qpn) }
}

unsafe extern "C" fn read_wc_flags(cq: CqExPtr) -> c_uint {
    // SAFETY: the program reads in the thread that polls.
    unsafe { read(cq, wc::flags) }
}

/// The source LID of an EFA is the number of our address handle for the sender.
unsafe extern "C" fn read_slid(cq: CqExPtr) -> u32 {
    // SAFETY: the program reads in the thread that polls.
    unsafe { read(cq, |completion| u32::from(completion.ahn)) }
}

unsafe extern "C" fn read_sl(cq: CqExPtr) -> u8 {
    // SAFETY: the program reads in the thread that polls.
    unsafe { read(cq, |completion| completion.sl) }
}

/// Path bits do not exist here.
unsafe extern "C" fn read_zero(_cq: CqExPtr) -> u8 {
    0
}

/// Returns the queue that contains this `efadv_cq`.
fn cq_ex_of(efa: *mut efadv_cq) -> CqExPtr {
    if efa.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: programs know no other `efadv_cq` than the one inside a `Cq`.
    unsafe { efa.byte_sub(offset_of!(Cq, efa)).cast() }
}

/// Writes the sender's GID and returns 0, or returns `-ENOENT` when the source LID names the sender
/// or there is none.
unsafe extern "C" fn read_sgid(efa: *mut efadv_cq, out: *mut ibv_gid) -> c_int {
    let unknown_sender = |completion: &Completion| {
        let is_unknown = completion.ahn == AHN_UNKNOWN && !completion.op.is_send_queue();
        is_unknown.then(|| completion.sgid())
    };
    // SAFETY: the program reads in the thread that polls.
    match unsafe { read(cq_ex_of(efa), unknown_sender) } {
        Some(gid) if !out.is_null() => {
            // SAFETY: checked for null, and a GID as the program says.
            unsafe { out.write(ibv_gid { raw: gid.0 }) };
            0
        }
        _ => -libc::ENOENT,
    }
}

/// Returns whether the current completion belongs to no work request.
unsafe extern "C" fn is_unsolicited(efa: *mut efadv_cq) -> bool {
    // SAFETY: the program reads in the thread that polls.
    unsafe { read(cq_ex_of(efa), |done| done.op == CompletionOp::UnsolicitedWrite) }
}
