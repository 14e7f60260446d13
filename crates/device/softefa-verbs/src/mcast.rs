//! Multicast groups of UD queue pairs. Only the GID counts: an Ethernet has no LIDs.

use std::ffi::c_int;

use softefa::Gid;

use crate::errno::Errno;
use crate::handle;
use crate::panic;
use crate::qp::Qp;
use crate::sys::{ibv_gid, ibv_qp};

/// # Safety
/// `qp` as for [`handle::borrow`]; `gid` is null or points to a GID.
unsafe fn group<'a>(qp: *mut ibv_qp, gid: *const ibv_gid) -> Result<(&'a Qp, Gid), Errno> {
    // SAFETY: as this function demands.
    let (qp, gid) = unsafe { (handle::borrow::<Qp>(qp)?, gid.as_ref()) };
    // SAFETY: every view of the union is 16 bytes of plain data.
    let raw = unsafe { gid.ok_or(Errno::EINVAL)?.raw };
    Ok((qp, Gid(raw)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, _lid: u16) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a live queue pair and a GID.
        let (qp, gid) = unsafe { group(qp, gid) }?;
        Ok(qp.nic.attach(gid)?)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, _lid: u16) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a live queue pair and a GID.
        let (qp, gid) = unsafe { group(qp, gid) }?;
        Ok(qp.nic.detach(gid)?)
    })
}
