//! Checks the attributes of a queue pair to create, for all four functions that create one.

use std::ffi::{c_int, c_void};
use std::mem::zeroed;
use std::ptr;

use softefa::{Adapter, DeviceAttr, QpKind};

use crate::efadv_query::max_sq_depth;
use crate::errno::Errno;
use crate::sys::{
    self, efadv_qp_init_attr, ibv_cq, ibv_pd, ibv_qp_cap, ibv_qp_init_attr, ibv_qp_init_attr_ex,
    ibv_xrcd,
};

/// The checked attributes of a queue pair to create.
pub(crate) struct QpRequest {
    pub(crate) kind: QpKind,
    /// Null for an XRC target, which has neither queues nor sizes.
    pub(crate) pd: *mut ibv_pd,
    /// Null except for an XRC target.
    pub(crate) xrcd: *mut ibv_xrcd,
    pub(crate) base: ibv_qp_init_attr,
    /// Operations of the extended calls; `None` when the program will not use those.
    pub(crate) send_ops: Option<u64>,
    pub(crate) unsolicited_write_recv: bool,
    /// Whether WRITEs may carry inline data.
    pub(crate) inline_write: bool,
    /// Whether messages that it sends to groups do not come back to it.
    pub(crate) blocks_loopback: bool,
    /// Whether the program may say how a work request is to be processed.
    pub(crate) processing_hints: bool,
}

/// Returns the transport by QP type and, for driver QPs, the driver's type. Types that the device
/// lacks are refused.
fn kind(adapter: Adapter, qp_type: c_int, driver_type: Option<u32>) -> Result<QpKind, Errno> {
    if adapter == Adapter::Roce {
        return match (qp_type, driver_type) {
            (sys::IBV_QPT_RC, None) => Ok(QpKind::Rc),
            (sys::IBV_QPT_UC, None) => Ok(QpKind::Uc),
            (sys::IBV_QPT_UD, None) => Ok(QpKind::Ud),
            (sys::IBV_QPT_XRC_SEND, None) => Ok(QpKind::XrcInitiator),
            (sys::IBV_QPT_XRC_RECV, None) => Ok(QpKind::XrcTarget),
            _ => Err(Errno::EOPNOTSUPP),
        };
    }
    match (qp_type, driver_type) {
        (sys::IBV_QPT_UD, None) => Ok(QpKind::Ud),
        (sys::IBV_QPT_DRIVER, Some(sys::EFADV_QP_DRIVER_TYPE_SRD)) => Ok(QpKind::Srd),
        (sys::IBV_QPT_DRIVER, _) | (_, None) => Err(Errno::EOPNOTSUPP),
        (_, Some(_)) => Err(Errno::EINVAL),
    }
}

/// Returns the operations that a queue pair of this kind may have.
fn send_ops(kind: QpKind, attr: &DeviceAttr) -> u64 {
    let mut ops = sys::IBV_QP_EX_WITH_SEND | sys::IBV_QP_EX_WITH_SEND_WITH_IMM;
    let writes = sys::IBV_QP_EX_WITH_RDMA_WRITE | sys::IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    match kind {
        QpKind::Uc => {
            return ops | writes | sys::IBV_QP_EX_WITH_LOCAL_INV | sys::IBV_QP_EX_WITH_BIND_MW;
        }
        QpKind::XrcTarget => return 0,
        QpKind::Rc | QpKind::XrcInitiator => {
            return ops
                | writes
                | sys::IBV_QP_EX_WITH_RDMA_READ
                | sys::IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
                | sys::IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
                | sys::IBV_QP_EX_WITH_FLUSH
                | sys::IBV_QP_EX_WITH_ATOMIC_WRITE
                | sys::IBV_QP_EX_WITH_LOCAL_INV
                | sys::IBV_QP_EX_WITH_BIND_MW
                | sys::IBV_QP_EX_WITH_SEND_WITH_INV;
        }
        QpKind::Srd | QpKind::Ud => {}
    }
    if kind == QpKind::Srd && attr.caps.rdma_read {
        ops |= sys::IBV_QP_EX_WITH_RDMA_READ;
    }
    if kind == QpKind::Srd && attr.caps.rdma_write {
        ops |= writes;
    }
    ops
}

fn check_limits(cap: &ibv_qp_cap, attr: &DeviceAttr) -> Result<(), Errno> {
    let fits = cap.max_send_wr <= attr.max_sq_wr
        && cap.max_recv_wr <= attr.max_rq_wr
        && cap.max_send_sge <= u32::from(attr.max_sq_sge)
        && cap.max_recv_sge <= u32::from(attr.max_rq_sge)
        && cap.max_inline_data <= u32::from(attr.inline_bytes);
    if fits { Ok(()) } else { Err(Errno::EINVAL) }
}

fn check_queues(send_cq: *mut ibv_cq, recv_cq: *mut ibv_cq, can_share: bool) -> Result<(), Errno> {
    let is_complete = !send_cq.is_null() && !recv_cq.is_null() && can_share;
    if is_complete { Ok(()) } else { Err(Errno::EINVAL) }
}

impl QpRequest {
    /// Checks the attributes of `ibv_create_qp` (no driver type) or `efadv_create_driver_qp`.
    pub(crate) fn legacy(
        pd: *mut ibv_pd,
        base: &ibv_qp_init_attr,
        driver_type: Option<u32>,
        attr: &DeviceAttr,
    ) -> Result<Self, Errno> {
        let kind = kind(attr.profile.adapter(), base.qp_type, driver_type)?;
        let can_share = base.srq.is_null() || attr.roce.is_some();
        let base = match kind {
            // Only with an XRC domain.
            QpKind::XrcTarget => return Err(Errno::EINVAL),
            QpKind::XrcInitiator => without_receives(base, ptr::null_mut()),
            // The receives are those of the shared queue: ibv_create_qp(3) ignores the others.
            _ if !base.srq.is_null() => without_receives(base, base.srq),
            _ => *base,
        };
        let recv_cq = if kind.is_xrc() { base.send_cq } else { base.recv_cq };
        check_queues(base.send_cq, recv_cq, can_share)?;
        check_limits(&base.cap, attr)?;
        Ok(Self {
            kind,
            pd,
            xrcd: ptr::null_mut(),
            base,
            send_ops: None,
            unsolicited_write_recv: false,
            inline_write: kind.is_connected(),
            blocks_loopback: false,
            processing_hints: false,
        })
    }

    /// Checks the attributes of `ibv_create_qp_ex` (no driver type) or `efadv_create_qp_ex`.
    pub(crate) fn extended(
        ex: &ibv_qp_init_attr_ex,
        efa: Option<&efadv_qp_init_attr>,
        attr: &DeviceAttr,
    ) -> Result<Self, Errno> {
        let of_roce = sys::IBV_QP_INIT_ATTR_XRCD | sys::IBV_QP_INIT_ATTR_CREATE_FLAGS;
        let of_roce = if attr.roce.is_some() { of_roce } else { 0 };
        let known = sys::IBV_QP_INIT_ATTR_PD | sys::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | of_roce;
        if ex.comp_mask & !known != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let has_xrcd = ex.comp_mask & sys::IBV_QP_INIT_ATTR_XRCD != 0;
        let driver_type = efa.map(|efa| efa.driver_qp_type);
        if has_xrcd && driver_type.is_none() && ex.qp_type == sys::IBV_QPT_XRC_RECV {
            return Ok(Self::target(ex.qp_context, ex.xrcd));
        }
        if ex.comp_mask & sys::IBV_QP_INIT_ATTR_PD == 0 || has_xrcd {
            return Err(Errno::EINVAL);
        }
        let mut request = Self::legacy(ex.pd, &base_of(ex), driver_type, attr)?;
        if let Some(efa) = efa {
            request.add_efa(efa, attr)?;
        }
        if ex.comp_mask & sys::IBV_QP_INIT_ATTR_CREATE_FLAGS != 0 {
            request.add_flags(ex.create_flags)?;
        }
        if ex.comp_mask & sys::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS != 0 {
            if ex.send_ops_flags & !send_ops(request.kind, attr) != 0 {
                return Err(Errno::EOPNOTSUPP);
            }
            request.send_ops = Some(ex.send_ops_flags);
        }
        Ok(request)
    }

    /// Returns the attributes of an XRC target of domain `xrcd`; all others are ignored.
    pub(crate) fn target(qp_context: *mut c_void, xrcd: *mut ibv_xrcd) -> Self {
        // SAFETY: null pointers and zero numbers are valid in every member.
        let mut base: ibv_qp_init_attr = unsafe { zeroed() };
        (base.qp_context, base.qp_type) = (qp_context, sys::IBV_QPT_XRC_RECV);
        Self {
            kind: QpKind::XrcTarget,
            pd: ptr::null_mut(),
            xrcd,
            base,
            send_ops: None,
            unsolicited_write_recv: false,
            inline_write: false,
            blocks_loopback: false,
            processing_hints: false,
        }
    }

    /// Adds the only supported flag, for a queue pair that can be in groups.
    fn add_flags(&mut self, flags: u32) -> Result<(), Errno> {
        let known = match self.kind {
            QpKind::Ud => sys::IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
            _ => 0,
        };
        if flags & !known != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        self.blocks_loopback = flags != 0;
        Ok(())
    }

    /// Adds the attributes that only an EFA has.
    fn add_efa(&mut self, efa: &efadv_qp_init_attr, attr: &DeviceAttr) -> Result<(), Errno> {
        let known = efa_flags(attr);
        if efa.flags & !known != 0 || efa.wr_flags & !sys::EFADV_WR_EX_WITH_PROCESSING_HINTS != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        self.unsolicited_write_recv = efa.flags & sys::EFADV_QP_FLAGS_UNSOLICITED_WRITE_RECV != 0;
        self.inline_write = efa.flags & sys::EFADV_QP_FLAGS_INLINE_WRITE != 0;
        self.processing_hints = efa.wr_flags != 0;
        if self.base.cap.max_send_wr > max_sq_depth(attr, self.inline_write) {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }
}

/// Returns the flags of `efadv_create_qp_ex` that the device supports.
fn efa_flags(attr: &DeviceAttr) -> u16 {
    let flags = [
        (attr.caps.unsolicited_write_recv, sys::EFADV_QP_FLAGS_UNSOLICITED_WRITE_RECV),
        (attr.caps.rdma_write, sys::EFADV_QP_FLAGS_INLINE_WRITE),
    ];
    flags.iter().filter(|(has, _)| *has).fold(0, |all, (_, flag)| all | flag)
}

/// Returns the attributes of a queue pair without a receive queue of its own.
fn without_receives(base: &ibv_qp_init_attr, srq: *mut c_void) -> ibv_qp_init_attr {
    let cap = ibv_qp_cap { max_recv_wr: 0, max_recv_sge: 0, ..base.cap };
    ibv_qp_init_attr { srq, cap, ..*base }
}

fn base_of(ex: &ibv_qp_init_attr_ex) -> ibv_qp_init_attr {
    ibv_qp_init_attr {
        qp_context: ex.qp_context,
        send_cq: ex.send_cq,
        recv_cq: ex.recv_cq,
        srq: ex.srq,
        cap: ex.cap,
        qp_type: ex.qp_type,
        sq_sig_all: ex.sq_sig_all,
    }
}
