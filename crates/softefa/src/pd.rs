use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::counters::Counter;
use crate::device::Device;
use crate::ids::PdId;
use crate::memory::mapping::{self, Hole};
use crate::mr::{Access, Mr, RegMrError};

/// All protection domains of the device are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("all {max} protection domains of the device are in use; free some")]
pub struct AllocPdError {
    /// The device's limit.
    pub max: u32,
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
        let registered = self.device.mrs.check(addr, len, access).and_then(|()| {
            let is_there = mapping::check(addr, len, access.local_write);
            is_there.map_err(|Hole { addr: hole, why }| RegMrError::NotThere {
                addr,
                len,
                hole,
                why,
            })
        });
        let registered =
            registered.and_then(|()| self.device.mrs.register(self.id, addr, len, access));
        self.device.counters.command(registered, Some(Counter::RegMrErr))
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
