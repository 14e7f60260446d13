//! Queue pairs: creation, destruction, queries.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::mem::zeroed;
use std::ptr;
use std::sync::Arc;

use softefa::{Adapter, EventSource, QpInit, QpKind};

use crate::context::Context;
use crate::cq::Cq;
use crate::errno::Errno;
use crate::fork::Owner;
use crate::handle::{self, Handle};
use crate::modify;
use crate::panic;
use crate::pd::{Pd, Users};
use crate::qp_init::QpRequest;
use crate::srq::Srq;
use crate::sys::{
    IBV_QP_OPEN_ATTR_CONTEXT, IBV_QP_OPEN_ATTR_NUM, IBV_QP_OPEN_ATTR_TYPE, IBV_QP_OPEN_ATTR_XRCD,
    IBV_QP_STATE, IBV_QPT_XRC_RECV, efadv_qp, efadv_qp_init_attr, ibv_context, ibv_pd, ibv_qp,
    ibv_qp_attr, ibv_qp_cap, ibv_qp_ex, ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_qp_open_attr,
    ibv_xrcd,
};
use crate::wr::{self, Posting};
use crate::xrcd::Xrcd;

/// Queue pair, as `ibv_qp` and, if requested, as `ibv_qp_ex` and `efadv_qp`.
#[repr(C)]
pub(crate) struct Qp {
    pub(crate) ibv: UnsafeCell<ibv_qp_ex>,
    pub(crate) efa: UnsafeCell<efadv_qp>,
    pub(crate) nic: Arc<softefa::Qp>,
    pub(crate) cap: ibv_qp_cap,
    pub(crate) posting: Posting,
    /// Operations of the extended calls that were requested; `None` without those calls.
    pub(crate) send_ops: Option<u64>,
    /// Whether WRITEs may carry inline data.
    pub(crate) inline_write: bool,
    is_roce: bool,
    /// The domain of an XRC target as the program named it; otherwise null.
    xrcd: *mut ibv_xrcd,
    /// The source of its asynchronous events.
    events: Arc<EventSource>,
    owner: Owner,
}

// SAFETY: `ibv` is the first member of a `repr(C)` structure and starts with an `ibv_qp`.
unsafe impl Handle for Qp {
    type C = ibv_qp;
}

impl Qp {
    /// Returns whether it belongs to a RoCE device.
    #[inline]
    pub(crate) fn is_roce(&self) -> bool {
        self.is_roce
    }

    /// Returns the part that programs read: handles given at creation, number, state.
    fn base(&self) -> *mut ibv_qp {
        self.ibv.get().cast()
    }

    /// Stores the state where the program reads it.
    pub(crate) fn publish_state(&self, state: c_int) {
        // SAFETY: programs read the member only; a state change is theirs to serialise.
        unsafe { (*self.base()).state = state };
    }
}

/// Creates a queue pair.
///
/// # Safety
/// The handles in `request` as for [`handle::borrow`].
pub(crate) unsafe fn create(request: &QpRequest) -> Result<*mut ibv_qp, Errno> {
    if request.kind == QpKind::XrcTarget {
        // SAFETY: as this function demands.
        return unsafe { make_target(request, softefa::Qp::create_target) };
    }
    let (base, cap) = (&request.base, request.base.cap);
    // SAFETY: as this function demands.
    let pd = unsafe { handle::borrow::<Pd>(request.pd) }?;
    pd.owner.check()?;
    // SAFETY: as this function demands.
    let send_cq = unsafe { handle::borrow::<Cq>(base.send_cq) }?;
    // SAFETY: as this function demands; an initiator may have none.
    let recv_cq = unsafe { handle::borrow::<Cq>(base.recv_cq) }.ok();
    let srq = match base.srq.is_null() {
        true => None,
        // SAFETY: as this function demands.
        false => Some(unsafe { handle::borrow::<Srq>(base.srq.cast()) }?),
    };
    // Objects of another context are invalid here, as in the kernel.
    let cqs = [Some(send_cq), recv_cq];
    let is_elsewhere = cqs.into_iter().flatten().any(|cq| cq.context() != pd.context())
        || srq.is_some_and(|srq| srq.context() != pd.context());
    if is_elsewhere || srq.is_some_and(|srq| srq.nic.is_xrc()) {
        return Err(Errno::EINVAL);
    }
    // SAFETY: a domain belongs to a context that is open.
    let events = EventSource::new(&unsafe { handle::borrow::<Context>(pd.context()) }?.events);
    let init = QpInit {
        kind: request.kind,
        send_cq: Arc::clone(&send_cq.nic),
        recv_cq: Arc::clone(&recv_cq.unwrap_or(send_cq).nic),
        sq_depth: cap.max_send_wr,
        rq_depth: cap.max_recv_wr,
        sq_sge: cap.max_send_sge,
        rq_sge: cap.max_recv_sge,
        inline_bytes: cap.max_inline_data,
        sq_sig_all: base.sq_sig_all != 0,
        unsolicited_write_recv: request.unsolicited_write_recv,
        srq: srq.map(|srq| Arc::clone(&srq.nic)),
        events: Some(Arc::clone(&events)),
    };
    let nic = softefa::Qp::create(&pd.nic, init)?;
    if request.blocks_loopback {
        nic.ignore_itself_in_groups();
    }
    let users = [Some(&pd.users), Some(&send_cq.users), recv_cq.map(|cq| &cq.users)];
    users.into_iter().chain([srq.map(|srq| &srq.users)]).flatten().for_each(Users::add);
    Ok(give(request, pd.context(), nic, events))
}

/// Creates an XRC target of the domain in `request`, or opens one.
///
/// # Safety
/// The domain as for [`handle::borrow`].
unsafe fn make_target<E: Into<Errno>>(
    request: &QpRequest,
    make: impl FnOnce(&Arc<softefa::Xrcd>, Option<Arc<EventSource>>) -> Result<Arc<softefa::Qp>, E>,
) -> Result<*mut ibv_qp, Errno> {
    // SAFETY: as this function demands.
    let xrcd = unsafe { handle::borrow::<Xrcd>(request.xrcd) }?;
    xrcd.owner.check()?;
    // SAFETY: a domain belongs to a context that is open.
    let events = EventSource::new(&unsafe { handle::borrow::<Context>(xrcd.context()) }?.events);
    let nic = make(&xrcd.nic, Some(Arc::clone(&events))).map_err(Into::into)?;
    xrcd.users.add();
    Ok(give(request, xrcd.context(), nic, events))
}

/// Passes `nic` to the program.
fn give(
    request: &QpRequest,
    context: *mut ibv_context,
    nic: Arc<softefa::Qp>,
    events: Arc<EventSource>,
) -> *mut ibv_qp {
    let source = Arc::clone(&events);
    let qp = handle::give(Box::new(Qp {
        ibv: UnsafeCell::new(visible_part(request, context, nic.qpn())),
        efa: UnsafeCell::new(wr::efa_table(request.processing_hints)),
        is_roce: nic.pd().device().adapter() == Adapter::Roce,
        nic,
        cap: request.base.cap,
        posting: Posting::default(),
        send_ops: request.send_ops,
        inline_write: request.inline_write,
        xrcd: request.xrcd,
        events,
        owner: Owner::current(),
    }));
    source.set_tag(qp.expose_provenance() as u64);
    qp
}

fn visible_part(request: &QpRequest, context: *mut ibv_context, qpn: u32) -> ibv_qp_ex {
    // SAFETY: null pointers and zero numbers are valid in every member.
    let mut ibv = if request.send_ops.is_some() { wr::table() } else { unsafe { zeroed() } };
    let qp = &mut ibv.qp_base;
    qp.context = context;
    qp.qp_context = request.base.qp_context;
    qp.pd = request.pd;
    qp.send_cq = request.base.send_cq;
    qp.recv_cq = request.base.recv_cq;
    qp.srq = request.base.srq;
    qp.handle = qpn;
    qp.qp_num = qpn;
    qp.qp_type = request.base.qp_type;
    ibv
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: the program passes a live domain and its attributes.
    panic::pointer(|| unsafe { create_legacy(pd, attr, None) })
}

/// Creates a queue pair without extended attributes, for `ibv_create_qp` and
/// `efadv_create_driver_qp`.
///
/// # Safety
/// `pd` as for [`handle::borrow`]; `attr` is null or points to attributes with live handles.
pub(crate) unsafe fn create_legacy(
    pd: *mut ibv_pd,
    attr: *const ibv_qp_init_attr,
    driver_type: Option<u32>,
) -> Result<*mut ibv_qp, Errno> {
    // SAFETY: as this function demands.
    let device = unsafe { handle::borrow::<Pd>(pd) }?.nic.device();
    // SAFETY: as this function demands.
    let attr = unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?;
    // SAFETY: as this function demands.
    unsafe { create(&QpRequest::legacy(pd, attr, driver_type, device.attr())?) }
}

pub(crate) unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    // SAFETY: the program passes an open context and its attributes.
    panic::pointer(|| unsafe { create_extended(context, attr, None) })
}

/// Creates a queue pair with extended attributes, for `ibv_create_qp_ex` and `efadv_create_qp_ex`.
///
/// # Safety
/// `context` as for [`handle::borrow`]; `attr` is null or points to attributes with live handles.
pub(crate) unsafe fn create_extended(
    context: *mut ibv_context,
    attr: *const ibv_qp_init_attr_ex,
    efa: Option<&efadv_qp_init_attr>,
) -> Result<*mut ibv_qp, Errno> {
    // SAFETY: as this function demands.
    let device = &unsafe { handle::borrow::<Context>(context) }?.nic;
    // SAFETY: as this function demands.
    let attr = unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?;
    // SAFETY: as this function demands.
    unsafe { create(&QpRequest::extended(attr, efa, device.attr())?) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a queue pair it made.
        let in_groups = unsafe { handle::borrow::<Qp>(qp) }?.nic.is_in_groups();
        if in_groups {
            return Err(Errno::EBUSY);
        }
        // SAFETY: the program passes a queue pair it made and gives it up.
        let qp = unsafe { handle::take::<Qp>(qp) }?;
        if qp.owner.is_current() {
            if !qp.xrcd.is_null() {
                qp.nic.remove_event_source(&qp.events);
            }
            qp.nic.destroy();
            qp.events.retire();
        }
        // SAFETY: these members are written once, and nobody else has the object any more.
        let &ibv_qp { pd, send_cq, recv_cq, srq, .. } = unsafe { &*qp.base() };
        // SAFETY: the queue pair counted as a user of all that it has, so they are still there.
        let users = unsafe {
            [
                handle::borrow::<Cq>(send_cq).map(|cq| &cq.users),
                handle::borrow::<Cq>(recv_cq).map(|cq| &cq.users),
                handle::borrow::<Pd>(pd).map(|pd| &pd.users),
                handle::borrow::<Srq>(srq.cast()).map(|srq| &srq.users),
                handle::borrow::<Xrcd>(qp.xrcd).map(|xrcd| &xrcd.users),
            ]
        };
        users.into_iter().flatten().for_each(Users::remove);
        qp.owner.release(qp);
        Ok(())
    })
}

/// Opens an existing target of an XRC domain.
pub(crate) unsafe extern "C" fn open_qp(
    context: *mut ibv_context,
    attr: *mut ibv_qp_open_attr,
) -> *mut ibv_qp {
    const NEEDS: u32 = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    panic::pointer(|| {
        // SAFETY: the program passes an open context.
        unsafe { handle::borrow::<Context>(context) }?.owner.check()?;
        // SAFETY: null, or attributes of the program.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?;
        if attr.comp_mask & !(NEEDS | IBV_QP_OPEN_ATTR_CONTEXT) != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if attr.comp_mask & NEEDS != NEEDS || attr.qp_type != IBV_QPT_XRC_RECV {
            return Err(Errno::EINVAL);
        }
        let has_context = attr.comp_mask & IBV_QP_OPEN_ATTR_CONTEXT != 0;
        let qp_context = if has_context { attr.qp_context } else { ptr::null_mut() };
        let request = QpRequest::target(qp_context, attr.xrcd);
        let open =
            |xrcd: &Arc<softefa::Xrcd>, events| softefa::Qp::open_target(xrcd, attr.qp_num, events);
        // SAFETY: the program passes a live domain.
        let qp = unsafe { make_target(&request, open) }?;
        // SAFETY: just made.
        let opened = unsafe { handle::borrow::<Qp>(qp) }?;
        opened.publish_state(modify::present(opened).qp_state);
        Ok(qp)
    })
}

/// Returns the extended view, or null for a queue pair without one.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    panic::value(ptr::null_mut(), || {
        // SAFETY: the program passes a live queue pair.
        let qp = unsafe { handle::borrow::<Qp>(qp) };
        qp.ok().filter(|qp| qp.send_ops.is_some()).map_or(ptr::null_mut(), |qp| qp.ibv.get())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
    init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a live queue pair.
        let qp = unsafe { handle::borrow::<Qp>(qp) }?;
        if attr.is_null() || init_attr.is_null() {
            return Err(Errno::EINVAL);
        }
        let present = modify::present(qp);
        if mask & IBV_QP_STATE != 0 {
            // It may have failed since.
            qp.publish_state(present.qp_state);
        }
        // SAFETY: checked for null, and structures of these types as the program says.
        unsafe {
            attr.write(present);
            init_attr.write(initial(qp));
        }
        Ok(())
    })
}

fn initial(qp: &Qp) -> ibv_qp_init_attr {
    // SAFETY: these members are written once, before the program learns the address.
    let base = unsafe { &*qp.base() };
    ibv_qp_init_attr {
        qp_context: base.qp_context,
        send_cq: base.send_cq,
        recv_cq: base.recv_cq,
        srq: base.srq,
        cap: qp.cap,
        qp_type: base.qp_type,
        sq_sig_all: c_int::from(qp.nic.init().sq_sig_all),
    }
}

/// The order in which bytes of a message become visible is not guaranteed.
#[unsafe(no_mangle)]
extern "C" fn ibv_query_qp_data_in_order(_qp: *mut ibv_qp, _op: c_int, _flags: u32) -> c_int {
    0
}
