use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::counters::Counter;
use crate::device::Device;
use crate::ids::PdId;
use crate::memory::mapping::{self, Hole};
use crate::mr::{
    Access, AllocMwError, LocalError, Mr, MrOptions, Mw, MwKind, RegMrError, Sge, StillBound, Terms,
};

/// All protection domains of the device are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("all {max} protection domains of the device are in use; free some")]
pub struct AllocPdError {
    /// The device's limit.
    pub max: u32,
}

/// A change of a registration; what is `None` stays.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rereg<'a> {
    /// Another domain of the same device.
    pub pd: Option<&'a Pd>,
    /// Other memory: address and bytes.
    pub range: Option<(u64, u64)>,
    /// Another access.
    pub access: Option<(Access, MrOptions)>,
}

/// The reason why a registration cannot be changed; it stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReregMrError {
    /// What it would be cannot be registered.
    #[error(transparent)]
    Invalid(#[from] RegMrError),
    /// Windows are bound to it.
    #[error(transparent)]
    StillBound(#[from] StillBound),
}

/// Protection domain: groups the regions, address handles and queue pairs that belong together.
#[derive(Debug)]
pub struct Pd {
    device: Arc<Device>,
    id: PdId,
}

impl Pd {
    fn new(device: &Arc<Device>) -> Result<Arc<Self>, AllocPdError> {
        let max = device.attr().max_pd;
        if device.live.pds.fetch_add(1, Ordering::Relaxed) >= max {
            device.live.pds.fetch_sub(1, Ordering::Relaxed);
            return Err(AllocPdError { max });
        }
        Ok(Arc::new(Self { device: Arc::clone(device), id: PdId::next() }))
    }

    /// The device it belongs to.
    #[must_use]
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    pub(crate) fn id(&self) -> PdId {
        self.id
    }

    /// Registers `len` bytes at `addr`, which must be mapped, and writable with local write access.
    /// Touches no page. Only queue pairs of this domain may use
    /// the keys, their own program's for local entries and peers' for RDMA through them.
    ///
    /// # Errors
    /// [`RegMrError`].
    pub fn reg_mr(&self, addr: u64, len: u64, access: Access) -> Result<Arc<Mr>, RegMrError> {
        self.reg_mr_with(addr, len, access, MrOptions::default())
    }

    /// Registers as [`Pd::reg_mr`] does, with the options that only RoCE devices have.
    ///
    /// # Errors
    /// [`RegMrError`].
    pub fn reg_mr_with(
        &self,
        addr: u64,
        len: u64,
        access: Access,
        options: MrOptions,
    ) -> Result<Arc<Mr>, RegMrError> {
        let terms = Terms { pd: self.id, addr, len, access, options };
        let registered = self.check(&terms).and_then(|()| self.device.mrs.register_as(terms));
        self.device.counters.command(registered, Some(Counter::RegMrErr))
    }

    /// Changes a registration of this domain. Its keys stay; work requests that are under way may
    /// find either.
    ///
    /// # Errors
    /// [`ReregMrError`].
    pub fn rereg_mr(&self, mr: &Mr, change: &Rereg<'_>) -> Result<(), ReregMrError> {
        let changed = self.try_rereg(mr, change);
        self.device.counters.command(changed, Some(Counter::RegMrErr))
    }

    fn try_rereg(&self, mr: &Mr, change: &Rereg<'_>) -> Result<(), ReregMrError> {
        let now = mr.terms();
        let (addr, len) = change.range.unwrap_or((now.addr, now.len));
        let (access, mut options) = change.access.unwrap_or((now.access, now.options));
        // Other bytes are called by their addresses, as the kernel has it.
        options.iova = now.options.iova.filter(|_| change.range.is_none());
        let pd = change.pd.map_or(now.pd, Self::id);
        let terms = Terms { pd, addr, len, access, options };
        self.check(&terms)?;
        Ok(mr.change(terms)?)
    }

    /// Whether the device takes such a region, and there is memory for it.
    fn check(&self, terms: &Terms) -> Result<(), RegMrError> {
        let &Terms { addr, len, access, options, .. } = terms;
        self.device.mrs.check(addr, len, access)?;
        if let Some(iova) = options.iova.filter(|iova| *iova != addr) {
            if iova.checked_add(len).is_none() {
                return Err(RegMrError::BadName { iova, len });
            }
        }
        if options.on_demand {
            return Ok(());
        }
        let is_there = mapping::check(addr, len, access.local_write);
        is_there.map_err(|Hole { addr: hole, why }| RegMrError::NotThere { addr, len, hole, why })
    }

    /// A memory window that stands for nothing yet.
    ///
    /// # Errors
    /// [`AllocMwError`].
    pub fn alloc_mw(&self, kind: MwKind) -> Result<Arc<Mw>, AllocMwError> {
        self.device.counters.command(self.device.mrs.alloc_mw(self.id, kind), None)
    }

    /// Whether queue pairs of this domain may read (or write) what `sge` names.
    ///
    /// # Errors
    /// [`LocalError`].
    pub fn check_local(&self, sge: &Sge, write: bool) -> Result<(), LocalError> {
        self.device.mrs.check_local(self.id, sge, write)
    }
}

impl Device {
    /// A new protection domain.
    ///
    /// # Errors
    /// [`AllocPdError`].
    pub fn alloc_pd(self: &Arc<Self>) -> Result<Arc<Pd>, AllocPdError> {
        self.counters.command(Pd::new(self), Some(Counter::AllocPdErr))
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        self.device.live.pds.fetch_sub(1, Ordering::Relaxed);
    }
}
