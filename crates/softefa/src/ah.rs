//! Address handles. A number per GID, not per handle: receive completions name the sender by it,
//! and libfabric drops packets whose number is not the one in its address vector.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::AHN_UNKNOWN;
use crate::device::Device;
use crate::gid::Gid;
use crate::pd::{Pd, PdId};
use crate::service;

/// Why an address handle cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CreateAhError {
    /// The GID names no Soft-EFA device.
    #[error("{0:?} is not the GID of a Soft-EFA device")]
    ForeignGid(Gid),
    /// All address handles of the device are in use.
    #[error("all {max} address handles of the device are in use; destroy some")]
    TooMany {
        /// The device's limit.
        max: u32,
    },
}

/// Address handle: where a message goes. Dropping it destroys it.
#[derive(Debug)]
pub struct Ah {
    device: Arc<Device>,
    pd: PdId,
    addr: Ipv4Addr,
    ahn: u16,
    live: AtomicBool,
}

impl Ah {
    pub(crate) fn new(pd: &Pd, gid: Gid) -> Result<Arc<Self>, CreateAhError> {
        let device = Arc::clone(pd.device());
        let addr = gid.addr().ok_or(CreateAhError::ForeignGid(gid))?;
        let max = device.attr().max_ah;
        let ahn = device.ahns.acquire(addr, max).ok_or(CreateAhError::TooMany { max })?;
        Ok(Arc::new(Self { device, pd: pd.id(), addr, ahn, live: AtomicBool::new(true) }))
    }

    /// Number of this handle, the same for every handle with this GID; never 0xffff.
    #[must_use]
    pub fn ahn(&self) -> u16 {
        self.ahn
    }

    /// GID it was made for.
    #[must_use]
    pub fn gid(&self) -> Gid {
        Gid::from_addr(self.addr)
    }

    /// Address of the device it names.
    #[must_use]
    pub fn addr(&self) -> Ipv4Addr {
        self.addr
    }
}

impl Ah {
    /// Ends the handle: work requests posted with it from now on complete with
    /// [`Status::LocalInvalidAh`](crate::Status::LocalInvalidAh). With the last handle for its
    /// GID ends what the device knew of that peer: work requests on their way there complete as
    /// [`Status::Flushed`](crate::Status::Flushed). Idempotent.
    pub fn destroy(&self) {
        if !self.live.swap(false, Ordering::AcqRel) {
            return;
        }
        if self.device.ahns.release(self.addr) {
            service::flush_toward(&self.device, self.addr);
        }
    }

    /// Whether queue pairs of domain `pd` may post with it (still).
    pub(crate) fn serves(&self, pd: PdId) -> bool {
        self.pd == pd && self.live.load(Ordering::Acquire)
    }
}

impl Drop for Ah {
    fn drop(&mut self) {
        self.destroy();
    }
}

#[derive(Debug)]
struct Entry {
    ahn: u16,
    handles: u32,
}

#[derive(Debug, Default)]
struct Numbers {
    by_addr: HashMap<Ipv4Addr, Entry>,
    free: Vec<u16>,
    next: u16,
}

/// The numbers of a device.
#[derive(Debug, Default)]
pub(crate) struct AhnTable {
    numbers: Mutex<Numbers>,
    /// Grows with each change, so that queue pairs may remember look-ups.
    generation: AtomicU64,
}

impl AhnTable {
    fn acquire(&self, addr: Ipv4Addr, max: u32) -> Option<u16> {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = numbers.by_addr.get_mut(&addr) {
            entry.handles += 1;
            return Some(entry.ahn);
        }
        if numbers.by_addr.len() >= max as usize {
            return None;
        }
        let ahn = numbers.free.pop().unwrap_or_else(|| {
            numbers.next += 1;
            numbers.next - 1
        });
        assert_ne!(ahn, AHN_UNKNOWN);
        numbers.by_addr.insert(addr, Entry { ahn, handles: 1 });
        self.generation.fetch_add(1, Ordering::Release);
        Some(ahn)
    }

    /// Whether it was the last handle for `addr`.
    fn release(&self, addr: Ipv4Addr) -> bool {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = numbers.by_addr.get_mut(&addr) else { return false };
        entry.handles -= 1;
        let is_last = entry.handles == 0;
        if is_last {
            let ahn = entry.ahn;
            numbers.by_addr.remove(&addr);
            numbers.free.push(ahn);
            self.generation.fetch_add(1, Ordering::Release);
        }
        is_last
    }

    /// Changes whenever a look-up may answer otherwise than before.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The number for `addr`, [`AHN_UNKNOWN`] without a handle.
    pub(crate) fn find(&self, addr: Ipv4Addr) -> u16 {
        let numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.by_addr.get(&addr).map_or(AHN_UNKNOWN, |entry| entry.ahn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_per_address_until_the_last_handle_goes() {
        let table = AhnTable::default();
        let (a, b) = (Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 2));
        let first = table.acquire(a, 2).unwrap();
        assert_eq!(table.acquire(a, 2), Some(first));
        assert_ne!(table.acquire(b, 2), Some(first));
        assert_eq!(table.acquire(Ipv4Addr::new(127, 0, 0, 3), 2), None);
        assert!(!table.release(a));
        assert_eq!(table.find(a), first);
        assert!(table.release(a), "the last one");
        assert_eq!(table.find(a), AHN_UNKNOWN);
    }
}
