//! Address handles. A number per protection domain and GID, not per handle: receive completions
//! name the sender by it, and libfabric drops packets whose number is not the one in its address
//! vector.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::counters::Counter;
use crate::device::Device;
use crate::gid::Gid;
use crate::host;
use crate::ids::PdId;
use crate::pd::Pd;
use crate::progress::live;

/// The reason why an address handle cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CreateAhError {
    /// The GID names no device of the kind that asks.
    #[error("{0:?} is not the GID of a Soft-EFA device of this kind")]
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
    addr: IpAddr,
    ahn: u16,
    live: AtomicBool,
}

impl Pd {
    /// An address handle for the device with `gid`, for queue pairs of this domain.
    ///
    /// # Errors
    /// [`CreateAhError`].
    pub fn create_ah(&self, gid: Gid) -> Result<Arc<Ah>, CreateAhError> {
        self.device().counters.command(Ah::new(self, gid), Some(Counter::CreateAhErr))
    }
}

impl Ah {
    fn new(pd: &Pd, gid: Gid) -> Result<Arc<Self>, CreateAhError> {
        let device = Arc::clone(pd.device());
        let addr = device.addr_of(gid).ok_or(CreateAhError::ForeignGid(gid))?;
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
        self.device.adapter().gid(self.addr)
    }

    /// Address of the device it names.
    #[must_use]
    pub fn addr(&self) -> IpAddr {
        self.addr
    }
}

impl Ah {
    /// Ends the handle: work requests posted with it from now on complete with
    /// [`Status::LocalInvalidAh`](crate::Status::LocalInvalidAh). With the last handle of its
    /// domain for its GID ends what that domain knew of the peer: work requests on their way there
    /// complete as [`Status::Flushed`](crate::Status::Flushed), unless another thread makes a new
    /// handle for it before they do. `false` when it had ended before.
    pub fn destroy(&self) -> bool {
        if !self.live.swap(false, Ordering::AcqRel) {
            return false;
        }
        // In a child the lock may be taken for ever.
        if self.device.is_own() && self.device.ahns.release((self.pd, self.addr)) {
            live::flush_toward(host::now(), self.pd, self.addr);
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
