//! The cache of the regions that a queue pair used last.

use std::sync::Arc;

use super::window::Grant;
use super::{MrTable, Region, RemoteRange, Right, Sge, WindowUser};
use crate::ids::{PdId, QpId};

/// Checks entries of the queue pairs of one protection domain against the table. It remembers two
/// regions, because a message of libfabric has its header in the provider's memory and its payload
/// in the program's.
#[derive(Debug)]
pub(crate) struct MrCache {
    table: Arc<MrTable>,
    pd: PdId,
    /// The region that was looked up last.
    last: Option<Arc<Region>>,
    /// The region that was looked up before that one.
    before: Option<Arc<Region>>,
}

impl MrCache {
    pub(crate) fn new(table: Arc<MrTable>, pd: PdId) -> Self {
        Self { table, pd, last: None, before: None }
    }

    /// Returns true if the adapter may read (or write) `sge` now.
    #[inline]
    pub(crate) fn allows(&mut self, sge: &Sge, write: bool) -> bool {
        let is_in = |region: &Arc<Region>| region.key == sge.lkey && region.covers(sge, write);
        self.last.as_ref().is_some_and(is_in)
            || self.before.as_ref().is_some_and(is_in)
            || self.allows_another(sge, write)
    }

    #[inline(never)]
    fn allows_another(&mut self, sge: &Sge, write: bool) -> bool {
        self.find(sge.lkey).is_some_and(|region| region.covers(sge, write))
    }

    /// Returns the region that `sge` lies in, if the adapter may write there now.
    pub(crate) fn writable(&mut self, sge: &Sge) -> Option<Arc<Region>> {
        self.find(sge.lkey).filter(|region| region.covers(sge, true)).cloned()
    }

    /// Returns the region of a range, if a peer may use it now.
    fn remote(&mut self, range: RemoteRange, right: Right) -> Option<Arc<Region>> {
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

    /// Returns true if a peer has the right to all of the region that has the key.
    pub(crate) fn grants_whole(&mut self, key: u32, right: Right) -> bool {
        self.find(key).is_some_and(|region| region.is_live() && right.is_in(region.access))
    }

    fn find(&mut self, key: u32) -> Option<&Arc<Region>> {
        let is_it = |region: &Arc<Region>| region.key == key && region.is_live();
        if self.last.as_ref().is_some_and(is_it) {
            return self.last.as_ref();
        }
        if self.before.as_ref().is_some_and(is_it) {
            return self.before.as_ref();
        }
        self.before = self.last.take();
        self.last = self.table.find(key).filter(|region| region.pd == self.pd);
        self.last.as_ref()
    }

    /// Returns the keys of the regions that are remembered, the newest first.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> [u32; 2] {
        [&self.last, &self.before].map(|region| region.as_ref().map_or(0, |region| region.key))
    }
}
