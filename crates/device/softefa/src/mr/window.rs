//! Memory windows: a part of a region under a key of its own, which a program gives to peers and
//! takes away by work requests, and so in order with its messages. Type 1 is bound by a call of its
//! own and may be bound again at any time. Type 2 (2B) belongs to the queue pair that bound it,
//! until it is invalidated.
//!
//! A key consists of 24 bits that the adapter chooses and a tag of 8 bits that the program chooses.
//! All errors of a bind or an invalidation complete its work request with status 6 (MW_BIND) of
//! verbs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::binds::Bound;
use super::{Access, MrTable, Region, RemoteRange, Right};
use crate::ids::{PdId, QpId};
use crate::keys::TAG_BITS;
use crate::progress::live;

/// The kind of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MwKind {
    /// A window that is bound by `ibv_bind_mw`, and used through every queue pair of its domain.
    Type1,
    /// A window that is bound by a work request, and used through the queue pair that posted it.
    Type2,
}

/// A request to bind a window to a part of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MwBind {
    /// The key of the window; its tag does not count.
    pub window: u32,
    /// The tag of the window's key from now on.
    pub tag: u8,
    /// The [`super::Mr::lkey`] of the region; `None` to take the window away from peers (type 1).
    pub region: Option<u32>,
    /// The address in the region at which it begins.
    pub addr: u64,
    /// Number of bytes; 0 to take the window away from peers (type 1).
    pub len: u64,
    /// The operations that peers may do. Local access is that of the region.
    pub access: Access,
    /// Peers count from the beginning of the window instead of naming addresses (type 2).
    pub is_zero_based: bool,
}

/// The reason why a window cannot be bound or invalidated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MwError {
    /// No window of this domain has the key.
    #[error("{0:#x} is no key of a memory window of this protection domain")]
    NoWindow(u32),
    /// A window of type 2 must be invalidated before it is bound again.
    #[error("the memory window is bound; invalidate it first")]
    NotFree,
    /// No region of this domain has the key.
    #[error("{0:#x} is no key of a memory region of this protection domain")]
    NoRegion(u32),
    /// A window of type 2 is taken away by invalidation only.
    #[error("a memory window of type 2 needs a region and a length; invalidate it instead")]
    Nothing,
    /// The region does not permit windows.
    #[error("the memory region was registered without IBV_ACCESS_MW_BIND")]
    NotBindable,
    /// Peers may write through the window where the adapter may not.
    #[error("a memory window for writes and atomics needs a region with local write access")]
    NeedsLocalWrite,
    /// The range does not lie in the region.
    #[error("{len} bytes at {addr:#x} do not lie in the memory region")]
    OutOfRegion {
        /// The address of the first byte.
        addr: u64,
        /// Number of bytes.
        len: u64,
    },
    /// Only a window of type 2 is zero-based.
    #[error("a memory window of type 1 cannot be zero-based")]
    ZeroBased,
    /// A window of type 1 is taken away by binding it to nothing.
    #[error("a memory window of type 1 cannot be invalidated; bind it to nothing")]
    NotInvalidatable,
    /// Only the queue pair that bound the window may take it away.
    #[error("the memory window is bound to another queue pair")]
    OtherQueuePair,
}

/// The reason why there is no window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllocMwError {
    /// An EFA has no windows.
    #[error("the device has no memory windows")]
    Unsupported,
    /// All windows of the device are in use.
    #[error("all {max} memory windows of the device are in use; deallocate some")]
    TooMany {
        /// The device's limit.
        max: u32,
    },
}

/// A window of a program. Dropping it takes it away from peers: afterwards no peer uses its bytes.
#[derive(Debug)]
pub struct Mw {
    window: Arc<Window>,
    table: Arc<MrTable>,
}

impl Mw {
    /// Returns the present key.
    #[must_use]
    pub fn rkey(&self) -> u32 {
        self.window.key(&self.window.state())
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> MwKind {
        self.window.kind
    }
}

impl Drop for Mw {
    fn drop(&mut self) {
        // In a child the locks may be taken for ever.
        if self.table.made.is_current() {
            self.window.state().bound = None;
            self.table.remove_window(self.window.plain);
            // A turn may have looked the window up before.
            live::retire(self.table.device, self.rkey());
        }
    }
}

/// The user of a window: a queue pair, and its protection domain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowUser {
    pub(crate) pd: PdId,
    pub(crate) qp: QpId,
}

/// The memory that a peer may use: the region, and the address of the bytes in this process.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) region: Arc<Region>,
    pub(crate) addr: u64,
}

/// A window in the tables.
#[derive(Debug)]
pub(super) struct Window {
    kind: MwKind,
    pd: PdId,
    /// The number that its key stands for.
    plain: u32,
    /// The part of its key that never changes, with zeros in the place of the tag.
    index: u32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    tag: u8,
    bound: Option<Binding>,
}

#[derive(Debug)]
struct Binding {
    to: Bound,
    addr: u64,
    len: u64,
    access: Access,
    /// The address from which peers count.
    base: u64,
    qp: QpId,
}

impl Window {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, state: &State) -> u32 {
        self.index | u32::from(state.tag)
    }

    /// Checks what does not depend on the region.
    fn check(&self, state: &State, bind: &MwBind) -> Result<(), MwError> {
        match self.kind {
            MwKind::Type1 if bind.is_zero_based => Err(MwError::ZeroBased),
            MwKind::Type2 if state.bound.is_some() => Err(MwError::NotFree),
            MwKind::Type2 if bind.region.is_none() || bind.len == 0 => Err(MwError::Nothing),
            MwKind::Type1 | MwKind::Type2 => Ok(()),
        }
    }
}

fn check_region(region: &Region, bind: &MwBind) -> Result<(), MwError> {
    let &MwBind { addr, len, access, .. } = bind;
    if !region.options.mw_bind {
        return Err(MwError::NotBindable);
    }
    if (access.remote_write || access.remote_atomic) && !region.access.local_write {
        return Err(MwError::NeedsLocalWrite);
    }
    let is_inside = region.names(addr, len);
    if is_inside { Ok(()) } else { Err(MwError::OutOfRegion { addr, len }) }
}

impl MrTable {
    /// Binds a window for a queue pair, and returns its key from now on.
    pub(crate) fn bind(&self, bind: &MwBind, user: WindowUser) -> Result<u32, MwError> {
        let WindowUser { pd, qp } = user;
        let window = self.window_of(bind.window, pd)?;
        let mut state = window.state();
        window.check(&state, bind)?;
        let mut addr = bind.addr;
        let bound = match bind.region {
            None => None,
            // The window is taken away, whatever the region is.
            Some(_) if bind.len == 0 && window.kind == MwKind::Type1 => None,
            Some(key) => {
                let region = self.find(key).filter(|region| region.pd == pd && region.is_live());
                let region = region.ok_or(MwError::NoRegion(key))?;
                check_region(&region, bind)?;
                addr = region.place_of(bind.addr);
                Some(Bound::to(region).ok_or(MwError::NoRegion(key))?)
            }
        };
        let base = if bind.is_zero_based { 0 } else { bind.addr };
        let &MwBind { len, access, .. } = bind;
        let bound = bound.filter(|_| len > 0);
        state.bound = bound.map(|to| Binding { to, addr, len, access, base, qp });
        state.tag = bind.tag;
        Ok(window.key(&state))
    }

    /// Takes a window of type 2 away from peers, for the queue pair that bound it: by a work
    /// request, or by a message of the peer of that queue pair.
    pub(crate) fn invalidate(&self, key: u32, user: WindowUser) -> Result<(), MwError> {
        let window = self.window_of(key, user.pd)?;
        let mut state = window.state();
        if window.key(&state) != key {
            return Err(MwError::NoWindow(key));
        }
        if window.kind == MwKind::Type1 {
            return Err(MwError::NotInvalidatable);
        }
        if state.bound.as_ref().is_some_and(|bound| bound.qp != user.qp) {
            return Err(MwError::OtherQueuePair);
        }
        state.bound = None;
        Ok(())
    }

    /// Returns the memory of a range that a peer of a queue pair may use through a window.
    pub(crate) fn grant(
        &self,
        range: RemoteRange,
        right: Right,
        user: WindowUser,
    ) -> Option<Grant> {
        let RemoteRange { key, addr, len } = range;
        let window = self.window_of(key, user.pd).ok()?;
        let state = window.state();
        let bound = state.bound.as_ref().filter(|_| window.key(&state) == key)?;
        let is_mine = window.kind == MwKind::Type1 || bound.qp == user.qp;
        let region = bound.to.region();
        if !is_mine || !right.is_in(bound.access) || !region.is_live() {
            return None;
        }
        let offset = addr.checked_sub(bound.base)?;
        let is_inside = offset.checked_add(u64::from(len)).is_some_and(|end| end <= bound.len);
        is_inside.then(|| Grant { region: Arc::clone(region), addr: bound.addr + offset })
    }

    fn window_of(&self, key: u32, pd: PdId) -> Result<Arc<Window>, MwError> {
        let window = self.find_window(self.keys.plain_of(key));
        window.filter(|window| window.pd == pd).ok_or(MwError::NoWindow(key))
    }
}

impl MrTable {
    /// Allocates a window that is not bound.
    pub(crate) fn alloc_mw(
        self: &Arc<Self>,
        pd: PdId,
        kind: MwKind,
    ) -> Result<Arc<Mw>, AllocMwError> {
        let window = self.add_window(|plain| {
            let key = self.keys.key_of(plain);
            let index = key >> TAG_BITS << TAG_BITS;
            #[expect(clippy::cast_possible_truncation, reason = "the tag is the lowest byte")]
            let tag = key as u8;
            let state = Mutex::new(State { tag, bound: None });
            Arc::new(Window { kind, pd, plain, index, state })
        })?;
        Ok(Arc::new(Mw { window, table: Arc::clone(self) }))
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
