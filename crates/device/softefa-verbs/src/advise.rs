//! Advice on memory. Nothing is pinned and hardware takes no faults, so a prefetch only reports
//! whether it would have been possible.

use std::ffi::c_int;

use softefa::Sge;

use crate::errno::Errno;
use crate::handle;
use crate::panic;
use crate::pd::Pd;
use crate::sys::{
    IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT,
    IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, ibv_pd, ibv_sge,
};

pub(crate) unsafe extern "C" fn advise_mr(
    pd: *mut ibv_pd,
    advice: c_int,
    flags: u32,
    sges: *mut ibv_sge,
    count: u32,
) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a live protection domain.
        let domain = unsafe { handle::borrow::<Pd>(pd) }?;
        domain.owner.check()?;
        if flags & !IBV_ADVISE_MR_FLAG_FLUSH != 0 || count == 0 || sges.is_null() {
            return Err(Errno::EINVAL);
        }
        let write = match advice {
            IBV_ADVISE_MR_ADVICE_PREFETCH | IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT => false,
            IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE => true,
            _ => return Err(Errno::EOPNOTSUPP),
        };
        // SAFETY: not null, and `count` entries as the program says.
        let sges = unsafe { std::slice::from_raw_parts(sges, count as usize) };
        for &ibv_sge { addr, length, lkey } in sges {
            domain.nic.check_local(&Sge { addr, len: length, lkey }, write)?;
        }
        Ok(())
    })
}
