//! Memory regions: what a program allowed the adapter to touch.
//!
//! Registering touches no page (libfabric registers about 110 MB per endpoint), and asks the kernel
//! whether the memory is there. What touches it is in `memory`.

use std::sync::{Arc, PoisonError, RwLock};

use crate::generation::Generation;
use crate::ids::{DeviceId, PdId};
use crate::keys::{KEY_BITS, KeyCipher};
use crate::lease::Lease;
use crate::progress::live;

/// What may be done to a region. Receiving needs `local_write`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Access {
    /// The adapter may write (receive, RDMA READ into it).
    pub local_write: bool,
    /// A peer may read.
    pub remote_read: bool,
    /// A peer may write.
    pub remote_write: bool,
    /// A peer may do atomics; RoCE devices only.
    pub remote_atomic: bool,
}

/// One scatter-gather entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sge {
    /// Virtual address.
    pub addr: u64,
    /// Bytes.
    pub len: u32,
    /// [`Mr::lkey`] of the region that holds it.
    pub lkey: u32,
}

/// Why a region cannot be registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegMrError {
    /// Empty, wraps around the address space, or longer than the device takes.
    #[error("a memory region of {len} bytes at {addr:#x} is not possible")]
    BadRange {
        /// Start.
        addr: u64,
        /// Bytes.
        len: u64,
    },
    /// Peers may write where the adapter may not; the kernel's `ib_check_mr_access` refuses it.
    #[error("remote write access needs local write access; ask for both")]
    RemoteWriteOnly,
    /// A part of it is not mapped, or not for the access asked for; the kernel could not pin it.
    #[error("a memory region of {len} bytes at {addr:#x}: {hole:#x} is {why}")]
    NotThere {
        /// Start.
        addr: u64,
        /// Bytes.
        len: u64,
        /// The first address that cannot be used.
        hole: u64,
        /// What is wrong there.
        why: &'static str,
    },
    /// All regions of the device are in use.
    #[error("all {max} memory regions of the device are in use; deregister some")]
    TooMany {
        /// The device's limit.
        max: u32,
    },
}

/// A registered region. Dropping it ends the registration.
#[derive(Debug)]
pub struct Mr {
    region: Arc<Region>,
    table: Arc<MrTable>,
}

impl Mr {
    /// Key for local entries.
    #[must_use]
    pub fn lkey(&self) -> u32 {
        self.region.key
    }

    /// Key for peers; unique among the live regions of the device.
    #[must_use]
    pub fn rkey(&self) -> u32 {
        self.region.key
    }

    /// Start address.
    #[must_use]
    pub fn addr(&self) -> u64 {
        self.region.addr
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.region.len
    }

    /// A region is never empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.region.len == 0
    }

    /// Ends the registration: later work requests that name it fail, and when this returns the
    /// adapter has stopped writing to it. Idempotent.
    pub fn deregister(&self) {
        // In a child its locks may be taken for ever, and the memory is a copy.
        if self.table.made.is_current() && self.region.lease.end() {
            self.table.remove(self.region.key);
            live::retire(self.table.device, self.region.key);
        }
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        self.deregister();
    }
}

/// What a peer wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    /// RDMA READ.
    Read,
    /// RDMA WRITE.
    Write,
    /// Atomics.
    Atomic,
}

/// What queue pairs remember of a registration; may outlive it.
#[derive(Debug)]
pub(crate) struct Region {
    pd: PdId,
    key: u32,
    addr: u64,
    len: u64,
    access: Access,
    /// Lives as long as the registration.
    lease: Lease,
}

impl Region {
    pub(crate) fn is_live(&self) -> bool {
        self.lease.is_live()
    }

    /// For how long peers may copy what [`Right::Read`] lets them.
    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    fn covers(&self, sge: &Sge, write: bool) -> bool {
        self.is_live() && (!write || self.access.local_write) && self.holds(sge.addr, sge.len)
    }

    fn grants(&self, addr: u64, len: u32, right: Right) -> bool {
        let granted = match right {
            Right::Read => self.access.remote_read,
            Right::Write => self.access.remote_write,
            Right::Atomic => self.access.remote_atomic,
        };
        self.is_live() && granted && self.holds(addr, len)
    }

    fn holds(&self, addr: u64, len: u32) -> bool {
        let end = addr.checked_add(u64::from(len));
        addr >= self.addr && end.is_some_and(|end| end <= self.addr + self.len)
    }
}

/// Low bits of what a key stands for are the slot, the high bits tell successors in a slot apart.
const SLOT_BITS: u32 = 18;
const PLAIN_MASK: u32 = (1 << KEY_BITS) - 1;

#[derive(Debug)]
struct Slot {
    /// What the key of its last region stands for.
    plain: u32,
    region: Option<Arc<Region>>,
}

#[derive(Debug, Default)]
struct Slots {
    all: Vec<Slot>,
    free: std::collections::VecDeque<u32>,
}

/// All regions of a device.
#[derive(Debug)]
pub(crate) struct MrTable {
    slots: RwLock<Slots>,
    max: u32,
    max_bytes: u64,
    device: DeviceId,
    cipher: KeyCipher,
    made: Generation,
}

impl MrTable {
    pub(crate) fn new(device: DeviceId, max: u32, max_bytes: u64) -> Arc<Self> {
        assert!(max <= 1 << SLOT_BITS);
        let (slots, cipher, made) = (RwLock::default(), KeyCipher::new(), Generation::current());
        Arc::new(Self { slots, max, max_bytes, device, cipher, made })
    }

    /// Whether the device takes such a region; not whether there is memory.
    pub(crate) fn check(&self, addr: u64, len: u64, access: Access) -> Result<(), RegMrError> {
        if len == 0 || len > self.max_bytes || addr.checked_add(len).is_none() {
            return Err(RegMrError::BadRange { addr, len });
        }
        if (access.remote_write || access.remote_atomic) && !access.local_write {
            return Err(RegMrError::RemoteWriteOnly);
        }
        Ok(())
    }

    /// Gives a region that [`MrTable::check`] took its keys.
    pub(crate) fn register(
        self: &Arc<Self>,
        pd: PdId,
        addr: u64,
        len: u64,
        access: Access,
    ) -> Result<Arc<Mr>, RegMrError> {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let fresh = slots.all.len();
        // A slot rests while others are fresh, so that a stale key stays invalid for long.
        let index = if fresh < self.max as usize && slots.free.len() < 64 {
            #[expect(clippy::cast_possible_truncation, reason = "below max, which is a u32")]
            let index = fresh as u32;
            slots.all.push(Slot { plain: index, region: None });
            index
        } else {
            slots.free.pop_front().ok_or(RegMrError::TooMany { max: self.max })?
        };
        let slot = &mut slots.all[index as usize];
        slot.plain = (slot.plain + (1 << SLOT_BITS)) & PLAIN_MASK;
        let key = self.cipher.conceal(slot.plain);
        let lease = Lease::new();
        lease.begin();
        let region = Arc::new(Region { pd, key, addr, len, access, lease });
        slot.region = Some(Arc::clone(&region));
        Ok(Arc::new(Mr { region, table: Arc::clone(self) }))
    }

    /// Keeps others from the table.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> impl Drop + '_ {
        self.slots.write().unwrap()
    }

    fn remove(&self, key: u32) {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let plain = self.cipher.reveal(key);
        let index = slot_of(plain);
        let slot = &mut slots.all[index as usize];
        assert_eq!(slot.plain, plain, "a region is removed once");
        slot.region = None;
        slots.free.push_back(index);
    }

    fn find(&self, key: u32) -> Option<Arc<Region>> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.all.get(slot_of(self.cipher.reveal(key)) as usize)?;
        slot.region.clone().filter(|region| region.key == key)
    }
}

/// The slot of the region whose key stands for `plain`.
fn slot_of(plain: u32) -> u32 {
    plain & ((1 << SLOT_BITS) - 1)
}

/// Checks entries of one protection domain's queue pairs against the table; remembers the last
/// region, because work requests of one queue usually name the same one.
#[derive(Debug)]
pub(crate) struct MrCache {
    table: Arc<MrTable>,
    pd: PdId,
    last: Option<Arc<Region>>,
}

impl MrCache {
    pub(crate) fn new(table: Arc<MrTable>, pd: PdId) -> Self {
        Self { table, pd, last: None }
    }

    /// Whether the adapter may read (or write) `sge` now.
    #[inline]
    pub(crate) fn allows(&mut self, sge: &Sge, write: bool) -> bool {
        match &self.last {
            Some(region) if region.key == sge.lkey && region.covers(sge, write) => true,
            _ => self.allows_another(sge, write),
        }
    }

    #[inline(never)]
    fn allows_another(&mut self, sge: &Sge, write: bool) -> bool {
        self.find(sge.lkey).is_some_and(|region| region.covers(sge, write))
    }

    /// The region that `sge` lies in, if the adapter may write there now.
    pub(crate) fn writable(&mut self, sge: &Sge) -> Option<Arc<Region>> {
        self.find(sge.lkey).filter(|region| region.covers(sge, true)).cloned()
    }

    /// The region a peer may use now: key, address, bytes.
    pub(crate) fn remote(
        &mut self,
        (key, addr, len): (u32, u64, u32),
        right: Right,
    ) -> Option<Arc<Region>> {
        self.find(key).filter(|region| region.grants(addr, len, right)).cloned()
    }

    fn find(&mut self, key: u32) -> Option<&Arc<Region>> {
        if self.last.as_ref().is_none_or(|region| region.key != key || !region.is_live()) {
            self.last = self.table.find(key).filter(|region| region.pd == self.pd);
        }
        self.last.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Arc<MrTable> {
        MrTable::new(DeviceId::next(), 4, 1 << 30)
    }

    const RW: Access =
        Access { local_write: true, remote_read: false, remote_write: false, remote_atomic: false };

    #[test]
    fn an_entry_must_lie_inside_its_region() {
        let (table, pd) = (table(), PdId::next());
        let mr = table.register(pd, 0x1000, 0x100, RW).unwrap();
        let mut cache = MrCache::new(table, pd);
        let sge = |addr, len| Sge { addr, len, lkey: mr.lkey() };
        assert!(cache.allows(&sge(0x1000, 0x100), true));
        for (addr, len) in [(0xfff, 1), (0x1000, 0x101), (0x10ff, 2), (u64::MAX, 2)] {
            assert!(!cache.allows(&sge(addr, len), false), "{addr:#x}+{len}");
        }
    }

    #[test]
    fn writing_needs_local_write() {
        let (table, pd) = (table(), PdId::next());
        let mr = table.register(pd, 0x1000, 8, Access::default()).unwrap();
        let sge = Sge { addr: 0x1000, len: 8, lkey: mr.lkey() };
        let mut cache = MrCache::new(table, pd);
        assert!(cache.allows(&sge, false));
        assert!(!cache.allows(&sge, true));
    }

    #[test]
    fn a_key_dies_with_its_registration_even_when_cached() {
        let (table, pd) = (table(), PdId::next());
        let mr = table.register(pd, 0x1000, 8, RW).unwrap();
        let sge = Sge { addr: 0x1000, len: 8, lkey: mr.lkey() };
        let mut cache = MrCache::new(Arc::clone(&table), pd);
        assert!(cache.allows(&sge, false));
        mr.deregister();
        assert!(!cache.allows(&sge, false));
        let successor = table.register(pd, 0x1000, 8, RW).unwrap();
        assert_ne!(successor.lkey(), sge.lkey);
    }

    #[test]
    fn a_key_is_good_in_its_own_domain_only() {
        let (table, pd) = (table(), PdId::next());
        let mr = table.register(pd, 0x1000, 8, RW).unwrap();
        let sge = Sge { addr: 0x1000, len: 8, lkey: mr.lkey() };
        assert!(MrCache::new(Arc::clone(&table), pd).allows(&sge, false));
        assert!(!MrCache::new(table, PdId::next()).allows(&sge, false));
    }

    #[test]
    fn peers_may_not_write_where_the_adapter_may_not() {
        let access = Access { local_write: false, remote_write: true, ..RW };
        let refused = table().check(0x1000, 8, access);
        assert_eq!(refused, Err(RegMrError::RemoteWriteOnly));
    }

    #[test]
    fn the_device_limit_holds_and_slots_come_back() {
        let (table, pd) = (table(), PdId::next());
        let all: Vec<_> = (0..4).map(|_| table.register(pd, 4096, 8, RW).unwrap()).collect();
        assert_eq!(table.register(pd, 4096, 8, RW).unwrap_err(), RegMrError::TooMany { max: 4 });
        drop(all);
        assert!(table.register(pd, 4096, 8, RW).is_ok());
    }
}
