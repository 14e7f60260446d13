//! Memory regions: the memory that a program permits the adapter to use.
//!
//! Registering touches no page (libfabric registers about 110 MB per endpoint), and asks the kernel
//! whether the memory is there. Reads and writes of the memory are in `memory`.

mod binds;
mod cache;
mod slots;
mod table;
mod window;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::ids::PdId;
use crate::lease::Lease;
use crate::progress::live;
use binds::Binds;

pub use window::{AllocMwError, Mw, MwBind, MwError, MwKind};

pub(crate) use cache::MrCache;
pub(crate) use table::MrTable;

#[allow(unused_imports, reason = "the queue pairs of RoCE devices name them")]
pub(crate) use window::{Grant, WindowUser};

/// A range of bytes that a peer names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteRange {
    pub(crate) key: u32,
    pub(crate) addr: u64,
    pub(crate) len: u32,
}

/// The operations that a region permits. Receiving requires `local_write`.
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
    /// A peer may ask that the bytes it wrote become visible to everyone (FLUSH); RoCE devices
    /// only.
    pub remote_flush: bool,
}

/// The options of a region of a RoCE device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MrOptions {
    /// Windows may be bound to the region.
    pub mw_bind: bool,
    /// The memory may be mapped later: an access to memory that is not there fails then.
    pub on_demand: bool,
    /// The address by which work requests and peers name the first byte; `None` = its own address.
    pub iova: Option<u64>,
}

/// A scatter-gather entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sge {
    /// Virtual address.
    pub addr: u64,
    /// Number of bytes.
    pub len: u32,
    /// The [`Mr::lkey`] of the region that holds the memory.
    pub lkey: u32,
}

/// The reason why a region cannot be registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegMrError {
    /// The range is empty, wraps around the address space, or is longer than the device permits.
    #[error("a memory region of {len} bytes at {addr:#x} is not possible")]
    BadRange {
        /// The address of the first byte.
        addr: u64,
        /// Number of bytes.
        len: u64,
    },
    /// The names of the bytes wrap around the address space.
    #[error("the {len} bytes of a memory region cannot be named {iova:#x} and up")]
    BadName {
        /// The name of the first byte.
        iova: u64,
        /// Number of bytes.
        len: u64,
    },
    /// Peers may write where the adapter may not, which the kernel's `ib_check_mr_access` refuses.
    #[error("remote write access needs local write access; ask for both")]
    RemoteWriteOnly,
    /// A part of the range is not mapped, or not for the requested access; the kernel could not pin
    /// it.
    #[error("a memory region of {len} bytes at {addr:#x}: {hole:#x} is {why}")]
    NotThere {
        /// The address of the first byte.
        addr: u64,
        /// Number of bytes.
        len: u64,
        /// The first address that cannot be used.
        hole: u64,
        /// The reason why the hole cannot be used.
        why: &'static str,
    },
    /// All regions of the device are in use.
    #[error("all {max} memory regions of the device are in use; deregister some")]
    TooMany {
        /// The device's limit.
        max: u32,
    },
}

/// The reason why memory named by a local entry cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// No region of the device has the key.
    #[error("{0:#x} is no key of a memory region")]
    NoRegion(u32),
    /// The region is of another domain, or may not be written.
    #[error("the memory region of key {0:#x} does not permit it")]
    NotPermitted(u32),
    /// The memory does not lie in the region.
    #[error("{len} bytes at {addr:#x} do not lie in the memory region")]
    OutOfRegion {
        /// The address of the first byte.
        addr: u64,
        /// Number of bytes.
        len: u32,
    },
}

/// The error of a change of a region to which windows are bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("memory windows are bound to the region; invalidate or deallocate them first")]
pub struct StillBound;

/// A registered region. Dropping it ends the registration.
#[derive(Debug)]
pub struct Mr {
    key: u32,
    /// The present registration, which is replaced by each change.
    region: RwLock<Arc<Region>>,
    table: Arc<MrTable>,
}

impl Mr {
    /// Returns the key for local entries.
    #[must_use]
    pub fn lkey(&self) -> u32 {
        self.key
    }

    /// Returns the key for peers, which is unique among the live regions of the device.
    #[must_use]
    pub fn rkey(&self) -> u32 {
        self.key
    }

    /// Returns the address of the first byte.
    #[must_use]
    pub fn addr(&self) -> u64 {
        self.region().addr
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.region().len
    }

    /// Returns false, because a region is never empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.region().len == 0
    }

    /// Ends the registration. Later work requests that name it fail, and when this returns, the
    /// adapter has stopped reading and writing its bytes. Idempotent.
    pub fn deregister(&self) {
        // In a child the locks of the region may be taken for ever, and the memory is a copy.
        if self.table.made.is_current() && self.region().lease.end() {
            self.table.remove(self.key);
            live::retire(self.table.device, self.key);
        }
    }

    /// Deregisters as [`Mr::deregister`] does, unless windows are bound to the region.
    ///
    /// # Errors
    /// [`StillBound`]; the registration goes on.
    pub fn release(&self) -> Result<(), StillBound> {
        if self.table.made.is_current() && !self.region().binds.close() {
            return Err(StillBound);
        }
        self.deregister();
        Ok(())
    }

    /// Returns the present registration.
    pub(crate) fn terms(&self) -> Terms {
        let Region { pd, addr, len, access, options, .. } = **self.region();
        Terms { pd, addr, len, access, options }
    }

    /// Changes the registration to `terms`, which [`MrTable::check`] permitted. The keys stay. When
    /// this returns, every turn has ended that used the old registration.
    pub(crate) fn change(&self, terms: Terms) -> Result<(), StillBound> {
        let old = Arc::clone(&self.region());
        if !old.binds.close() {
            return Err(StillBound);
        }
        let new = Region::new(self.key, terms);
        self.table.regions_mut().replace(self.table.keys.plain_of(self.key), Arc::clone(&new));
        *self.region.write().unwrap_or_else(PoisonError::into_inner) = new;
        old.lease.end();
        live::retire(self.table.device, self.key);
        Ok(())
    }

    fn region(&self) -> RwLockReadGuard<'_, Arc<Region>> {
        self.region.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        self.deregister();
    }
}

/// The right that a peer needs for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    /// RDMA READ.
    Read,
    /// RDMA WRITE.
    Write,
    /// Atomics.
    Atomic,
    /// FLUSH.
    Flush,
}

impl Right {
    fn is_in(self, access: Access) -> bool {
        match self {
            Self::Read => access.remote_read,
            Self::Write => access.remote_write,
            Self::Atomic => access.remote_atomic,
            Self::Flush => access.remote_flush,
        }
    }
}

/// The terms on which a region is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) pd: PdId,
    pub(crate) addr: u64,
    pub(crate) len: u64,
    pub(crate) access: Access,
    pub(crate) options: MrOptions,
}

/// A registration as queue pairs remember it. It may outlive the registration.
#[derive(Debug)]
pub(crate) struct Region {
    pd: PdId,
    key: u32,
    /// The address of the first byte.
    addr: u64,
    /// The name of the first byte in work requests.
    iova: u64,
    len: u64,
    access: Access,
    options: MrOptions,
    /// The lease, which ends with the registration.
    lease: Lease,
    binds: Binds,
}

impl Region {
    fn new(key: u32, terms: Terms) -> Arc<Self> {
        let Terms { pd, addr, len, access, options } = terms;
        let (lease, binds) = (Lease::new(), Binds::default());
        let iova = options.iova.unwrap_or(addr);
        lease.begin();
        Arc::new(Self { pd, key, addr, iova, len, access, options, lease, binds })
    }

    pub(crate) fn is_live(&self) -> bool {
        self.lease.is_live()
    }

    /// Returns the lease, during which peers may copy the bytes that [`Right::Read`] permits.
    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Returns true if the adapter may read (or write) an entry, which contains the address of the
    /// bytes.
    fn covers(&self, sge: &Sge, write: bool) -> bool {
        self.is_live()
            && (!write || self.access.local_write)
            && is_within(sge.addr, sge.len.into(), self.addr, self.len)
    }

    fn grants(&self, named: u64, len: u32, right: Right) -> bool {
        self.is_live() && right.is_in(self.access) && self.names(named, len.into())
    }

    /// Returns true if the region has bytes of these names.
    fn names(&self, named: u64, len: u64) -> bool {
        is_within(named, len, self.iova, self.len)
    }

    /// Returns the address of the byte with this name, which the region must have.
    fn place_of(&self, named: u64) -> u64 {
        self.addr.wrapping_add(named.wrapping_sub(self.iova))
    }

    fn has_other_names(&self) -> bool {
        self.iova != self.addr
    }
}

fn is_within(addr: u64, len: u64, start: u64, whole_len: u64) -> bool {
    let end = addr.checked_add(len);
    addr >= start && end.is_some_and(|end| end <= start + whole_len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::DeviceId;

    fn table() -> Arc<MrTable> {
        MrTable::new(DeviceId::next(), 4, 1 << 30)
    }

    const RW: Access = Access {
        local_write: true,
        remote_read: false,
        remote_write: false,
        remote_atomic: false,
        remote_flush: false,
    };

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

    /// Entries contain the addresses of bytes once they are placed; peers use the names of bytes.
    #[test]
    fn a_region_may_have_other_names_for_its_bytes() {
        let (table, pd) = (table(), PdId::next());
        let own = table.register(pd, 0x9000, 0x100, RW).unwrap();
        let entry = |addr, len, mr: &Mr| Sge { addr, len, lkey: mr.lkey() };
        assert!(!table.has_other_names(), "nothing is to be placed");
        let options = MrOptions { iova: Some(0), ..MrOptions::default() };
        let access = Access { remote_read: true, ..RW };
        let terms = Terms { pd, addr: 0x1000, len: 0x100, access, options };
        let mr = table.register_as(terms).unwrap();
        let named = [entry(0, 0x100, &mr), entry(0xff, 1, &mr), entry(0x9000, 8, &own)];
        assert!(table.has_other_names());
        let placed = table.placed(&named);
        assert_eq!(placed, [entry(0x1000, 0x100, &mr), entry(0x10ff, 1, &mr), named[2]]);
        let mut cache = MrCache::new(Arc::clone(&table), pd);
        assert!(placed.iter().all(|sge| cache.allows(sge, true)));
        for (addr, len) in [(0x1000, 1), (0, 0x101), (0x100, 1), (u64::MAX, 1)] {
            let placed = table.placed(&[entry(addr, len, &mr)]);
            assert!(!cache.allows(&placed[0], false), "{addr:#x}+{len}");
        }
        let qp = crate::ids::QpId::next();
        let mut grant = |addr, len| {
            let range = RemoteRange { key: mr.rkey(), addr, len };
            cache.grant(range, Right::Read, qp).map(|grant| grant.addr)
        };
        assert_eq!((grant(0, 0x100), grant(0x80, 8)), (Some(0x1000), Some(0x1080)));
        assert_eq!((grant(0x1000, 8), grant(0xff, 2)), (None, None));
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

    /// A message of libfabric names the provider's memory and the program's in turn.
    #[test]
    fn two_regions_in_turn_are_remembered_and_die() {
        let (table, pd) = (table(), PdId::next());
        let mrs = [0x1000, 0x2000, 0x3000].map(|addr| table.register(pd, addr, 8, RW).unwrap());
        let sges =
            [0, 1, 2].map(|i| Sge { addr: 0x1000 * (i + 1), len: 8, lkey: mrs[i as usize].lkey() });
        let mut cache = MrCache::new(Arc::clone(&table), pd);
        assert!(sges.iter().chain(&sges).all(|sge| cache.allows(sge, true)));
        assert!(!cache.allows(&Sge { addr: 0x2000, ..sges[0] }, true), "another's bytes");
        let last = cache.remembered();
        assert_eq!(last, [sges[0].lkey, sges[2].lkey]);
        assert!([0, 2, 0, 2].iter().all(|&i| cache.allows(&sges[i], true)));
        assert_eq!(cache.remembered(), last, "nothing was looked up");
        for (mr, sge) in mrs.into_iter().zip(&sges) {
            mr.deregister();
            assert!(!cache.allows(sge, false));
        }
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
