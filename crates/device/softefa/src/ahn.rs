//! The numbers of address handles: one per protection domain and peer, not per handle.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::AHN_UNKNOWN;
use crate::ids::PdId;

/// The domain that asks, and the address that it means.
type Known = (PdId, IpAddr);

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
    pub(crate) fn acquire(&self, peer: Known, max: u32) -> Option<u16> {
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
    pub(crate) fn release(&self, peer: Known) -> bool {
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
        let (a, b) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
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
