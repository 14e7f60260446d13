//! Shared receive queues.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use softefa::{EventSource, ModifySrq, Sge, SrqAttr};

use crate::context::Context;
use crate::cq::Cq;
use crate::errno::Errno;
use crate::fork::Owner;
use crate::handle::{self, Handle};
use crate::panic;
use crate::pd::{Pd, Users};
use crate::sys::{
    IBV_SRQ_INIT_ATTR_CQ, IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQ_INIT_ATTR_XRCD,
    IBV_SRQ_LIMIT, IBV_SRQ_MAX_WR, IBV_SRQT_BASIC, IBV_SRQT_XRC, ibv_context, ibv_cq, ibv_pd,
    ibv_recv_wr, ibv_sge, ibv_srq, ibv_srq_attr, ibv_srq_init_attr, ibv_srq_init_attr_ex, ibv_xrcd,
};
use crate::xrcd::Xrcd;

/// The most scatter-gather entries of a receive, over all devices.
const SGE_MAX: usize = 32;

/// Shared receive queue.
#[repr(C)]
pub(crate) struct Srq {
    ibv: UnsafeCell<ibv_srq>,
    pub(crate) nic: Arc<softefa::Srq>,
    /// The queue pairs that use it.
    pub(crate) users: Users,
    /// Null except in a queue of XRC.
    xrcd: *mut ibv_xrcd,
    cq: *mut ibv_cq,
    owner: Owner,
}

// SAFETY: `ibv` is the first member of a `repr(C)` structure.
unsafe impl Handle for Srq {
    type C = ibv_srq;
}

impl Srq {
    /// Returns the context as the program knows it.
    pub(crate) fn context(&self) -> *mut ibv_context {
        // SAFETY: `context` is written once, before the program learns the address.
        unsafe { (*self.ibv.get()).context }
    }
}

/// The domain and completion queue of a queue of XRC.
#[derive(Clone, Copy)]
struct Xrc {
    xrcd: *mut ibv_xrcd,
    cq: *mut ibv_cq,
}

/// Creates a queue and writes its sizes to `attr`.
///
/// # Safety
/// `pd`, and what is in `xrc`, as for [`handle::borrow`].
unsafe fn create(
    pd: *mut ibv_pd,
    srq_context: *mut c_void,
    attr: &mut ibv_srq_attr,
    xrc: Option<Xrc>,
) -> Result<*mut ibv_srq, Errno> {
    // SAFETY: as this function demands.
    let domain = unsafe { handle::borrow::<Pd>(pd) }?;
    domain.owner.check()?;
    let context = domain.context();
    // SAFETY: a domain belongs to a context that is open.
    let source = EventSource::new(&unsafe { handle::borrow::<Context>(context) }?.events);
    let asked = SrqAttr { max_wr: attr.max_wr, max_sge: attr.max_sge, limit: 0 };
    let events = Some(Arc::clone(&source));
    let Xrc { xrcd, cq } = xrc.unwrap_or(Xrc { xrcd: ptr::null_mut(), cq: ptr::null_mut() });
    let nic = if xrc.is_none() {
        softefa::Srq::create(&domain.nic, &asked, events)?
    } else {
        // SAFETY: as this function demands.
        let (xrcd, cq) = unsafe { (handle::borrow::<Xrcd>(xrcd)?, handle::borrow::<Cq>(cq)?) };
        if xrcd.context() != context || cq.context() != context {
            return Err(Errno::EINVAL);
        }
        let nic = xrcd.nic.create_srq(&domain.nic, &cq.nic, &asked, events)?;
        xrcd.users.add();
        cq.users.add();
        nic
    };
    let has = nic.query();
    (attr.max_wr, attr.max_sge) = (has.max_wr, has.max_sge);
    // SAFETY: null pointers, zero numbers and the static initialisers of mutex and condition are
    // valid.
    let mut ibv: ibv_srq = unsafe { std::mem::zeroed() };
    (ibv.context, ibv.srq_context, ibv.pd, ibv.handle) = (context, srq_context, pd, nic.number());
    domain.users.add();
    let (users, owner) = (Users::default(), Owner::current());
    let srq =
        handle::give(Box::new(Srq { ibv: UnsafeCell::new(ibv), nic, users, xrcd, cq, owner }));
    source.set_tag(srq.expose_provenance() as u64);
    Ok(srq)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_srq(pd: *mut ibv_pd, init: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    panic::pointer(|| {
        // SAFETY: null, or attributes of the program.
        let init = unsafe { init.as_mut() }.ok_or(Errno::EINVAL)?;
        // SAFETY: the program passes a live domain.
        unsafe { create(pd, init.srq_context, &mut init.attr, None) }
    })
}

/// Only basic queues and those of XRC are supported.
pub(crate) unsafe extern "C" fn create_srq_ex(
    _context: *mut ibv_context,
    init: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    panic::pointer(|| {
        // SAFETY: null, or attributes of the program.
        let init = unsafe { init.as_mut() }.ok_or(Errno::EINVAL)?;
        let has = |mask| init.comp_mask & mask != 0;
        let of_xrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
        let srq_type = if has(IBV_SRQ_INIT_ATTR_TYPE) { init.srq_type } else { IBV_SRQT_BASIC };
        let known = match srq_type {
            IBV_SRQT_BASIC => IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
            IBV_SRQT_XRC => IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE | of_xrc,
            _ => return Err(Errno::EOPNOTSUPP),
        };
        if has(!known) {
            return Err(Errno::EOPNOTSUPP);
        }
        let is_xrc = srq_type == IBV_SRQT_XRC;
        if !has(IBV_SRQ_INIT_ATTR_PD) || is_xrc && init.comp_mask & of_xrc != of_xrc {
            return Err(Errno::EINVAL);
        }
        let xrc = is_xrc.then_some(Xrc { xrcd: init.xrcd, cq: init.cq });
        // SAFETY: the program passes live objects.
        unsafe { create(init.pd, init.srq_context, &mut init.attr, xrc) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_modify_srq(
    srq: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
    mask: c_int,
) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a live queue.
        let srq = unsafe { handle::borrow::<Srq>(srq) }?;
        // SAFETY: null, or attributes of the program.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?;
        if mask & !(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != 0 {
            return Err(Errno::EINVAL);
        }
        let given = |bit, value| (mask & bit != 0).then_some(value);
        let max_wr = given(IBV_SRQ_MAX_WR, attr.max_wr);
        let limit = given(IBV_SRQ_LIMIT, attr.srq_limit);
        Ok(srq.nic.modify(&ModifySrq { max_wr, limit })?)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_srq(srq: *mut ibv_srq, out: *mut ibv_srq_attr) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a live queue.
        let SrqAttr { max_wr, max_sge, limit } = unsafe { handle::borrow::<Srq>(srq) }?.nic.query();
        if out.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: checked for null, and attributes as the program says.
        unsafe { out.write(ibv_srq_attr { max_wr, max_sge, srq_limit: limit }) };
        Ok(())
    })
}

/// Refused while a queue pair uses it; waits until the program has acknowledged the events it took.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a queue it made.
        let borrowed = unsafe { handle::borrow::<Srq>(srq) }?;
        // SAFETY: programs that change it do so in the calling thread.
        if unsafe { (*borrowed.ibv.get()).handle } != borrowed.nic.number() {
            return Err(Errno::ENOENT);
        }
        borrowed.users.none()?;
        let owner = borrowed.owner;
        if owner.is_current() {
            borrowed.nic.destroy();
        }
        // SAFETY: no queue pair uses it and the program gives it up.
        let queue = unsafe { handle::take::<Srq>(srq) }?;
        let Srq { ibv, nic, xrcd, cq, .. } = *queue;
        owner.release(nic);
        // SAFETY: the queue counted as a user of all of them, so they are still there.
        unsafe {
            if let (Ok(xrcd), Ok(cq)) = (handle::borrow::<Xrcd>(xrcd), handle::borrow::<Cq>(cq)) {
                xrcd.users.remove();
                cq.users.remove();
            }
            handle::borrow::<Pd>(ibv.into_inner().pd)?.users.remove();
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn get_srq_num(srq: *mut ibv_srq, number: *mut u32) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a live queue.
        let srq = unsafe { handle::borrow::<Srq>(srq) }?;
        // SAFETY: null, or a number of the program.
        *unsafe { number.as_mut() }.ok_or(Errno::EINVAL)? = srq.nic.number();
        Ok(())
    })
}

/// Receives before the one that fails are posted.
pub(crate) unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let mut at = wr;
    let code = panic::code_or(Errno::EDEADLK, || {
        // SAFETY: the program passes a live queue.
        let srq = unsafe { handle::borrow::<Srq>(srq) }?;
        // SAFETY: null, or a work request of the program, in turn.
        while let Some(wr) = unsafe { at.as_ref() } {
            // SAFETY: its list has as many entries as it says.
            unsafe { post(&srq.nic, wr) }?;
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

/// Posts one receive.
///
/// # Safety
/// `sg_list` points to `num_sge` entries.
unsafe fn post(srq: &softefa::Srq, wr: &ibv_recv_wr) -> Result<(), Errno> {
    let count = usize::try_from(wr.num_sge).map_err(|_| Errno::EINVAL)?;
    if count > SGE_MAX || count > 0 && wr.sg_list.is_null() {
        return Err(Errno::EINVAL);
    }
    let mut sges = [Sge { addr: 0, len: 0, lkey: 0 }; SGE_MAX];
    for (at, sge) in sges[..count].iter_mut().enumerate() {
        // SAFETY: `at` is less than `count`.
        let ibv_sge { addr, length, lkey } = unsafe { *wr.sg_list.add(at) };
        *sge = Sge { addr, len: length, lkey };
    }
    Ok(srq.post_recv(wr.wr_id, &sges[..count])?)
}
