//! What a queue pair remembers of regions.

use std::sync::Arc;

use super::window::Grant;
use super::{MrTable, Region, RemoteRange, Right, Sge, WindowUser};
use crate::ids::{PdId, QpId};

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

    /// The region of a range that a peer may use now.
    pub(crate) fn remote(&mut self, range: RemoteRange, right: Right) -> Option<Arc<Region>> {
        let RemoteRange { key, addr, len } = range;
        self.find(key).filter(|region| region.grants(addr, len, right)).cloned()
    }

    /// Looks up as [`MrCache::remote`] does, through a region or a window that queue pair `qp` may
    /// show to its peer.
    pub(crate) fn grant(&mut self, range: RemoteRange, right: Right, qp: QpId) -> Option<Grant> {
        match self.remote(range, right) {
            Some(region) => Some(Grant { addr: region.place_of(range.addr), region }),
            None => self.table.grant(range, right, WindowUser { pd: self.pd, qp }),
        }
    }

    /// Whether a peer has the right to all of the region that has the key.
    pub(crate) fn grants_whole(&mut self, key: u32, right: Right) -> bool {
        self.find(key).is_some_and(|region| region.is_live() && right.is_in(region.access))
    }

    fn find(&mut self, key: u32) -> Option<&Arc<Region>> {
        if self.last.as_ref().is_none_or(|region| region.key != key || !region.is_live()) {
            self.last = self.table.find(key).filter(|region| region.pd == self.pd);
        }
        self.last.as_ref()
    }
}
