//! The live queue pairs of the process. The list does not depend on the service thread, so that the
//! end of a region or an address handle always finds them.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use srd::Instant;

use super::Live;
use crate::generation::PerProcess;
use crate::ids::{DeviceId, PdId};

/// All live queue pairs. The list is replaced as a whole, so that a turn takes one reference to all
/// of them.
pub(crate) type All = Arc<[Arc<dyn Live>]>;

static LIVE: PerProcess<Mutex<All>> = PerProcess::new();

/// Called with a retired key for queue pairs that are destroyed and linger. The module that keeps
/// them is above this one.
static LINGERING: OnceLock<fn(DeviceId, u32)> = OnceLock::new();

fn list() -> MutexGuard<'static, All> {
    LIVE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns every queue pair of this process that is not destroyed.
pub(crate) fn all() -> All {
    if LIVE.get().is_none() { Arc::default() } else { Arc::clone(&list()) }
}

/// Returns true if queue pair `qpn` of the device at `addr` is one of these. It takes no lock of a
/// queue pair.
pub(crate) fn is_own(addr: IpAddr, qpn: u32) -> bool {
    list().iter().any(|qp| qp.is_at(addr, qpn))
}

/// Locks the list; `None` while another thread holds the lock, which may be a thread that was
/// ended.
pub(crate) fn try_hold() -> Option<MutexGuard<'static, All>> {
    match LIVE.get_or_init(Mutex::default).try_lock() {
        Ok(list) => Some(list),
        Err(TryLockError::Poisoned(list)) => Some(list.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Adds a new queue pair.
pub(crate) fn add(qp: Arc<dyn Live>) {
    let mut list = list();
    *list = list.iter().cloned().chain([qp]).collect();
}

/// Removes a destroyed queue pair.
pub(crate) fn remove(qp: &dyn Live) {
    let mut list = list();
    *list = list.iter().filter(|other| !is_same(&***other, qp)).cloned().collect();
}

/// Removes the queue pairs of a device that has failed.
pub(crate) fn remove_all_of(device: DeviceId) {
    let mut list = list();
    *list = list.iter().filter(|qp| qp.device() != device).cloned().collect();
}

/// Returns true if both are the same queue pair.
pub(crate) fn is_same(one: &dyn Live, other: &dyn Live) -> bool {
    std::ptr::addr_eq(one, other)
}

/// Retires region or window `key` of `device`. When this returns, all turns that may still use it
/// have ended, and its bytes are not copied any more.
pub(crate) fn retire(device: DeviceId, key: u32) {
    all().iter().filter(|qp| qp.device() == device).for_each(|qp| qp.retire(key));
    // A queue pair that is destroyed meanwhile joins the lingering ones before it leaves this list.
    if let Some(retire) = LINGERING.get() {
        retire(device, key);
    }
}

/// Sets the function that retires a key in queue pairs that linger.
pub(crate) fn on_retire_lingering(retire: fn(DeviceId, u32)) {
    LINGERING.get_or_init(|| retire);
}

/// Flushes the work requests to `addr` of all queue pairs of domain `pd`.
pub(crate) fn flush_toward(now: Instant, pd: PdId, addr: IpAddr) {
    all().iter().filter(|qp| qp.pd() == pd).for_each(|qp| qp.flush_toward(now, addr));
}
