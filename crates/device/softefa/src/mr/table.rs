//! The table of all regions of a device, and of all its windows.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use super::slots::{Numbers, Slots};
use super::window::{AllocMwError, Window};
use super::{Access, LocalError, Mr, RegMrError, Region, Sge, Terms};
use crate::generation::Generation;
use crate::ids::{DeviceId, PdId};
use crate::keys::{KEY_BITS, KeySpace};

/// The bit that is set in the numbers of windows' keys, if there are windows.
const WINDOW_MARK: u32 = 1 << (KEY_BITS - 1);
/// The numbers of regions' keys where there are windows, too.
const BESIDE_WINDOWS: Numbers = Numbers { mask: WINDOW_MARK - 1, mark: 0 };
/// The numbers of regions' keys where there are no windows.
const ALONE: Numbers = Numbers { mask: (1 << KEY_BITS) - 1, mark: 0 };
/// The numbers of windows' keys.
const WINDOWS: Numbers = Numbers { mask: WINDOW_MARK - 1, mark: WINDOW_MARK };

/// The table of all regions of a device, and of all its windows.
#[derive(Debug)]
pub(crate) struct MrTable {
    regions: RwLock<Slots<Region>>,
    windows: RwLock<Slots<Window>>,
    max_bytes: u64,
    pub(super) device: DeviceId,
    pub(super) keys: KeySpace,
    pub(super) made: Generation,
    /// A region has or had other names for its bytes than their addresses.
    has_other_names: AtomicBool,
}

impl MrTable {
    /// Makes a table without windows, as an EFA has it.
    pub(crate) fn new(device: DeviceId, max: u32, max_bytes: u64) -> Arc<Self> {
        let (regions, windows) = (Slots::new(max, ALONE), Slots::new(0, WINDOWS));
        Self::of(device, regions, windows, max_bytes, KeySpace::plain())
    }

    /// Makes a table with `max_mw` windows, as a RoCE device has it.
    pub(crate) fn with_windows(
        device: DeviceId,
        max: u32,
        max_mw: u32,
        max_bytes: u64,
    ) -> Arc<Self> {
        let (regions, windows) = (Slots::new(max, BESIDE_WINDOWS), Slots::new(max_mw, WINDOWS));
        Self::of(device, regions, windows, max_bytes, KeySpace::tagged())
    }

    fn of(
        device: DeviceId,
        regions: Slots<Region>,
        windows: Slots<Window>,
        max_bytes: u64,
        keys: KeySpace,
    ) -> Arc<Self> {
        let (regions, windows) = (RwLock::new(regions), RwLock::new(windows));
        let (made, has_other_names) = (Generation::current(), AtomicBool::new(false));
        Arc::new(Self { regions, windows, max_bytes, device, keys, made, has_other_names })
    }

    /// Checks whether the device permits such a region, but not whether the memory is there.
    pub(crate) fn check(&self, addr: u64, len: u64, access: Access) -> Result<(), RegMrError> {
        if len == 0 || len > self.max_bytes || addr.checked_add(len).is_none() {
            return Err(RegMrError::BadRange { addr, len });
        }
        if (access.remote_write || access.remote_atomic) && !access.local_write {
            return Err(RegMrError::RemoteWriteOnly);
        }
        Ok(())
    }

    /// Registers as [`MrTable::register_as`] does, without options.
    #[cfg(test)]
    pub(crate) fn register(
        self: &Arc<Self>,
        pd: PdId,
        addr: u64,
        len: u64,
        access: Access,
    ) -> Result<Arc<Mr>, RegMrError> {
        let options = super::MrOptions::default();
        self.register_as(Terms { pd, addr, len, access, options })
    }

    /// Registers a region that [`MrTable::check`] permitted, and gives it its keys.
    pub(crate) fn register_as(self: &Arc<Self>, terms: Terms) -> Result<Arc<Mr>, RegMrError> {
        if terms.options.iova.is_some_and(|iova| iova != terms.addr) {
            self.has_other_names.store(true, Ordering::Relaxed);
        }
        let mut regions = self.regions_mut();
        let region = regions.add(|plain| Region::new(self.keys.key_of(plain), terms));
        let region = region.ok_or_else(|| RegMrError::TooMany { max: regions.max() })?;
        let (key, region) = (region.key, RwLock::new(region));
        Ok(Arc::new(Mr { key, region, table: Arc::clone(self) }))
    }

    /// Checks whether queue pairs of domain `pd` may read (or write) `sge`.
    pub(crate) fn check_local(&self, pd: PdId, sge: &Sge, write: bool) -> Result<(), LocalError> {
        let region = self.find(sge.lkey).ok_or(LocalError::NoRegion(sge.lkey))?;
        if region.pd != pd || write && !region.access.local_write {
            return Err(LocalError::NotPermitted(sge.lkey));
        }
        let &Sge { addr, len, .. } = sge;
        if region.names(addr, len.into()) {
            Ok(())
        } else {
            Err(LocalError::OutOfRegion { addr, len })
        }
    }

    /// Returns true if entries of work requests must be [placed](Self::placed), because not all
    /// names are addresses.
    #[inline]
    pub(crate) fn has_other_names(&self) -> bool {
        self.has_other_names.load(Ordering::Relaxed)
    }

    /// Returns entries of a work request with the addresses of their bytes in place of the names
    /// that the program uses. An entry that its region has no bytes for is placed outside of every
    /// region.
    #[cold]
    pub(crate) fn placed(&self, sges: &[Sge]) -> Vec<Sge> {
        sges.iter().map(|sge| self.place(*sge)).collect()
    }

    fn place(&self, sge: Sge) -> Sge {
        match self.find(sge.lkey).filter(|region| region.has_other_names()) {
            None => sge,
            Some(region) if region.names(sge.addr, sge.len.into()) => {
                Sge { addr: region.place_of(sge.addr), ..sge }
            }
            Some(_) => Sge { addr: u64::MAX, ..sge },
        }
    }

    /// Locks the table against all other threads.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> impl Drop + '_ {
        self.regions.write().unwrap()
    }

    pub(super) fn remove(&self, key: u32) {
        self.regions_mut().remove(self.keys.plain_of(key));
    }

    pub(super) fn find(&self, key: u32) -> Option<Arc<Region>> {
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        let region = regions.get(self.keys.plain_of(key));
        region.filter(|region| region.key == key).map(Arc::clone)
    }

    pub(super) fn regions_mut(&self) -> RwLockWriteGuard<'_, Slots<Region>> {
        self.regions.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn windows_mut(&self) -> RwLockWriteGuard<'_, Slots<Window>> {
        self.windows.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_window(
        &self,
        window: impl FnOnce(u32) -> Arc<Window>,
    ) -> Result<Arc<Window>, AllocMwError> {
        let mut windows = self.windows_mut();
        match windows.max() {
            0 => Err(AllocMwError::Unsupported),
            max => windows.add(window).ok_or(AllocMwError::TooMany { max }),
        }
    }

    pub(super) fn find_window(&self, plain: u32) -> Option<Arc<Window>> {
        let windows = self.windows.read().unwrap_or_else(PoisonError::into_inner);
        windows.get(plain).map(Arc::clone)
    }

    pub(super) fn remove_window(&self, plain: u32) {
        self.windows_mut().remove(plain);
    }
}
