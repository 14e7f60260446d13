//! Address handles. A number per protection domain and GID, not per handle: receive completions
//! name the sender by it, and libfabric drops packets whose number is not the one in its address
//! vector.

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
        let ahn =
            device.ahns.acquire((pd.id(), addr), max).ok_or(CreateAhError::TooMany { max })?;
        Ok(Arc::new(Self { device, pd: pd.id(), addr, ahn, live: AtomicBool::new(true) }))
    }

    /// Number of this handle, the same for every handle of its domain with this GID; never 0xffff.
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
    /// [`Status::LocalInvalidAh`](crate::Status::LocalInvalidAh). With the last handle of its domain
    /// for its GID ends what that domain knew of the peer: work requests on their way there
    /// complete as [`Status::Flushed`](crate::Status::Flushed), unless another thread makes a new
    /// handle for it before they do. `false` when it had ended before.
    pub fn destroy(&self) -> bool {
        if !self.live.swap(false, Ordering::AcqRel) {
            return false;
        }
        // In a child the lock may be taken for ever.
        if self.device.is_own() && self.device.ahns.release((self.pd, self.addr)) {
            service::flush_toward(self.pd, self.addr);
        }
        true
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

/// Who is meant, and who asks.
type Known = (PdId, Ipv4Addr);

#[derive(Debug)]
struct Entry {
    ahn: u16,
    handles: u32,
}

#[derive(Debug, Default)]
struct Numbers {
    by_peer: HashMap<Known, Entry>,
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
    fn acquire(&self, peer: Known, max: u32) -> Option<u16> {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = numbers.by_peer.get_mut(&peer) {
            entry.handles += 1;
            return Some(entry.ahn);
        }
        if numbers.by_peer.len() >= max as usize {
            return None;
        }
        let ahn = numbers.free.pop().unwrap_or_else(|| {
            numbers.next += 1;
            numbers.next - 1
        });
        assert_ne!(ahn, AHN_UNKNOWN);
        numbers.by_peer.insert(peer, Entry { ahn, handles: 1 });
        self.generation.fetch_add(1, Ordering::Release);
        Some(ahn)
    }

    /// Whether it was the last handle for `peer`.
    fn release(&self, peer: Known) -> bool {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = numbers.by_peer.get_mut(&peer) else { return false };
        entry.handles -= 1;
        let is_last = entry.handles == 0;
        if is_last {
            let ahn = entry.ahn;
            numbers.by_peer.remove(&peer);
            numbers.free.push(ahn);
            self.generation.fetch_add(1, Ordering::Release);
        }
        is_last
    }

    /// Changes whenever a look-up may answer otherwise than before.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The number for `peer`, [`AHN_UNKNOWN`] without a handle.
    pub(crate) fn find(&self, peer: Known) -> u16 {
        let numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.by_peer.get(&peer).map_or(AHN_UNKNOWN, |entry| entry.ahn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_per_domain_and_address_until_the_last_handle_goes() {
        let table = AhnTable::default();
        let (here, elsewhere) = (PdId::next(), PdId::next());
        let (a, b) = (Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 2));
        let first = table.acquire((here, a), 2).unwrap();
        assert_eq!(table.acquire((here, a), 2), Some(first));
        assert_eq!(table.find((elsewhere, a)), AHN_UNKNOWN, "another domain's");
        assert_ne!(table.acquire((here, b), 2), Some(first));
        assert_eq!(table.acquire((elsewhere, a), 2), None);
        assert!(!table.release((here, a)));
        assert_eq!(table.find((here, a)), first);
        assert!(table.release((here, a)), "the last one");
        assert_eq!(table.find((here, a)), AHN_UNKNOWN);
    }
}
