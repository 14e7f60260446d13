//! The number of windows that are bound to a region, which must not end before them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::Region;

/// The value in place of a number when nothing is bound, and nothing can be.
const CLOSED: u32 = u32::MAX;

/// The number of windows that are bound to a region.
#[derive(Debug, Default)]
pub(super) struct Binds(AtomicU32);

impl Binds {
    /// Permits no more binds; returns false, and changes nothing, if a window is bound.
    pub(super) fn close(&self) -> bool {
        let closed = self.0.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire);
        closed.is_ok_and(|_| true) || closed == Err(CLOSED)
    }
}

/// A region to which a window is bound, as long as this lives.
#[derive(Debug)]
pub(super) struct Bound(Arc<Region>);

impl Bound {
    /// Counts a window that is bound to `region`; `None` if the region is ending.
    pub(super) fn to(region: Arc<Region>) -> Option<Self> {
        let more = |count: u32| (count < CLOSED - 1).then_some(count + 1);
        let counted = region.binds.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        counted.ok().map(|_| Self(region))
    }

    pub(super) fn region(&self) -> &Arc<Region> {
        &self.0
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.0.binds.0.fetch_sub(1, Ordering::AcqRel);
    }
}
