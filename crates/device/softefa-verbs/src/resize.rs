//! Completion queues that change their size.

use std::ffi::c_int;

use softefa::Adapter;

use crate::cq::Cq;
use crate::errno::Errno;
use crate::handle;
use crate::panic;
use crate::sys::ibv_cq;

/// An EFA has no such command.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_resize_cq(cq: *mut ibv_cq, entries: c_int) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a live queue.
        let nic = &unsafe { handle::borrow::<Cq>(cq) }?.nic;
        if nic.device().adapter() == Adapter::Efa {
            return Err(Errno::EOPNOTSUPP);
        }
        nic.resize(u32::try_from(entries).map_err(|_| Errno::EINVAL)?)?;
        let depth = c_int::try_from(nic.depth()).unwrap_or(c_int::MAX);
        // SAFETY: the same queue; programs read the member only, and a change is theirs to
        // serialise.
        unsafe { (*cq).cqe = depth };
        Ok(())
    })
}
