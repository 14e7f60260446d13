//! Completions of the adapter in the terms of the verbs API.

use std::ffi::c_int;

use softefa::{Completion, CompletionOp, Status};

use crate::sys::{self, ibv_wc};

/// Converts a status; several device codes share one of verbs.
pub(crate) fn status(status: Status) -> c_int {
    match status {
        Status::Ok => sys::IBV_WC_SUCCESS,
        Status::Flushed => sys::IBV_WC_WR_FLUSH_ERR,
        Status::LocalQpInternalError | Status::LocalUnsupportedOp | Status::LocalInvalidAh => {
            sys::IBV_WC_LOC_QP_OP_ERR
        }
        Status::LocalInvalidLkey => sys::IBV_WC_LOC_PROT_ERR,
        Status::LocalBadLength => sys::IBV_WC_LOC_LEN_ERR,
        Status::RemoteBadAddress => sys::IBV_WC_REM_ACCESS_ERR,
        Status::RemoteAbort => sys::IBV_WC_REM_ABORT_ERR,
        Status::RemoteBadDestQpn | Status::RemoteInvalidQueue => sys::IBV_WC_REM_INV_RD_REQ_ERR,
        Status::RemoteRnr => sys::IBV_WC_RNR_RETRY_EXC_ERR,
        Status::RemoteBadLength | Status::RemoteFeatureMismatch | Status::RemoteInvalidRequest => {
            sys::IBV_WC_REM_INV_REQ_ERR
        }
        Status::RemoteBadStatus => sys::IBV_WC_BAD_RESP_ERR,
        Status::LocalUnrespRemote | Status::LocalUnreachRemote => sys::IBV_WC_RESP_TIMEOUT_ERR,
        Status::RemoteUnknownPeer | Status::RemoteOperation => sys::IBV_WC_REM_OP_ERR,
        Status::BindError => sys::IBV_WC_MW_BIND_ERR,
        Status::RetryExceeded => sys::IBV_WC_RETRY_EXC_ERR,
    }
}

pub(crate) fn opcode(completion: &Completion) -> c_int {
    match completion.op {
        CompletionOp::Send => sys::IBV_WC_SEND,
        CompletionOp::Write => sys::IBV_WC_RDMA_WRITE,
        CompletionOp::AtomicWrite => sys::IBV_WC_ATOMIC_WRITE,
        CompletionOp::Flush => sys::IBV_WC_FLUSH,
        CompletionOp::Read => sys::IBV_WC_RDMA_READ,
        CompletionOp::CompareSwap => sys::IBV_WC_COMP_SWAP,
        CompletionOp::FetchAdd => sys::IBV_WC_FETCH_ADD,
        CompletionOp::LocalInvalidate => sys::IBV_WC_LOCAL_INV,
        CompletionOp::BindWindow => sys::IBV_WC_BIND_MW,
        CompletionOp::Recv => sys::IBV_WC_RECV,
        CompletionOp::RecvWrite | CompletionOp::UnsolicitedWrite => sys::IBV_WC_RECV_RDMA_WITH_IMM,
    }
}

pub(crate) fn flags(completion: &Completion) -> u32 {
    let imm = if completion.imm.is_some() { sys::IBV_WC_WITH_IMM } else { 0 };
    let grh = if completion.has_grh { sys::IBV_WC_GRH } else { 0 };
    let inv = if completion.invalidated.is_some() { sys::IBV_WC_WITH_INV } else { 0 };
    imm | grh | inv
}

/// Returns immediate data in network byte order, or the invalidated key, as in the API.
pub(crate) fn imm_be(completion: &Completion) -> u32 {
    completion.invalidated.unwrap_or_else(|| completion.imm.unwrap_or(0).to_be())
}

/// Writes the whole completion for `ibv_poll_cq`, in place: data just written in small pieces is
/// slow to move in large ones.
///
/// # Safety
/// There is room for one at `out`.
#[inline]
pub(crate) unsafe fn write(completion: &Completion, out: *mut ibv_wc) {
    // SAFETY: as this function demands.
    unsafe {
        (&raw mut (*out).wr_id).write(completion.wr_id);
        (&raw mut (*out).status).write(status(completion.status));
        (&raw mut (*out).opcode).write(opcode(completion));
        (&raw mut (*out).vendor_err).write(u32::from(completion.status.code()));
        (&raw mut (*out).byte_len).write(completion.byte_len);
        (&raw mut (*out).imm_data_be).write(imm_be(completion));
        (&raw mut (*out).qp_num).write(completion.qpn);
        (&raw mut (*out).src_qp).write(completion.src_qpn);
        (&raw mut (*out).wc_flags).write(flags(completion));
        (&raw mut (*out).pkey_index).write(0);
        (&raw mut (*out).slid).write(completion.ahn);
        (&raw mut (*out).sl).write(completion.sl);
        (&raw mut (*out).dlid_path_bits).write(0);
    }
}
