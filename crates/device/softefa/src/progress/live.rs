//! The living queue pairs of the process. They are known here whether or not the service thread
//! runs, so that whoever takes memory or an address handle away finds them.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use srd::Instant;

use super::Live;
use crate::generation::PerProcess;
use crate::ids::{DeviceId, PdId};

/// Replaced as a whole, so that a turn takes all of them with one reference.
pub(crate) type All = Arc<[Arc<dyn Live>]>;

static LIVE: PerProcess<Mutex<All>> = PerProcess::new();

/// Tells queue pairs that are destroyed and still answer of a key that is gone. Whoever keeps them
/// is above this module.
static LINGERING: OnceLock<fn(DeviceId, u32)> = OnceLock::new();

fn list() -> MutexGuard<'static, All> {
    LIVE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Every queue pair of this process that is not destroyed.
pub(crate) fn all() -> All {
    if LIVE.get().is_none() { Arc::default() } else { Arc::clone(&list()) }
}

/// Queue pair `qpn` of the device at `addr` is one of these. Takes no lock of a queue pair.
pub(crate) fn is_own(addr: IpAddr, qpn: u32) -> bool {
    list().iter().any(|qp| qp.is_at(addr, qpn))
}

/// The list, which nobody changes while this is held; `None` while somebody does, perhaps a thread
/// that was ended.
pub(crate) fn try_hold() -> Option<MutexGuard<'static, All>> {
    match LIVE.get_or_init(Mutex::default).try_lock() {
        Ok(list) => Some(list),
        Err(TryLockError::Poisoned(list)) => Some(list.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A queue pair was made.
pub(crate) fn add(qp: Arc<dyn Live>) {
    let mut list = list();
    *list = list.iter().cloned().chain([qp]).collect();
}

/// A queue pair was destroyed.
pub(crate) fn remove(qp: &dyn Live) {
    let mut list = list();
    *list = list.iter().filter(|other| !is_same(&***other, qp)).cloned().collect();
}

/// A device broke: its queue pairs are as good as destroyed.
pub(crate) fn remove_all_of(device: DeviceId) {
    let mut list = list();
    *list = list.iter().filter(|qp| qp.device() != device).cloned().collect();
}

/// Both are the same queue pair.
pub(crate) fn is_same(one: &dyn Live, other: &dyn Live) -> bool {
    std::ptr::addr_eq(one, other)
}

/// Region or window `key` of `device` is gone. When this returns, every turn has ended that did not
/// know it, and nobody copies its bytes any more.
pub(crate) fn retire(device: DeviceId, key: u32) {
    all().iter().filter(|qp| qp.device() == device).for_each(|qp| qp.retire(key));
    // A queue pair that is destroyed meanwhile is among those that linger before it leaves the
    // living.
    if let Some(retire) = LINGERING.get() {
        retire(device, key);
    }
}

/// Says how queue pairs are told that are destroyed and still answer.
pub(crate) fn tell_lingering_by(retire: fn(DeviceId, u32)) {
    LINGERING.get_or_init(|| retire);
}

/// Ends the work requests of all queue pairs of domain `pd` that are on their way to `addr`.
pub(crate) fn flush_toward(now: Instant, pd: PdId, addr: IpAddr) {
    all().iter().filter(|qp| qp.pd() == pd).for_each(|qp| qp.flush_toward(now, addr));
}
