//! The lock of a queue pair while somebody works on it.

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;

use super::Qp;
use crate::core::Core;
use crate::service;

/// Gives the lock back first and looks then how the turn ended, so its fields are in this order.
pub(super) struct Turn<'a> {
    core: MutexGuard<'a, Core>,
    _end: End<'a>,
}

/// Somebody must hear at once of a turn that panicked: the program may never call again, and the
/// service thread may sleep until something arrives.
struct End<'a>(&'a Qp);

impl Drop for End<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.0.driven.is_broken() && !self.0.has_failed() {
            service::fail_broken(self.0);
        }
    }
}

impl Qp {
    /// Also of what is broken, for those who end it; turns look before.
    pub(super) fn lock(&self) -> Turn<'_> {
        Turn { core: self.driven.lock(), _end: End(self) }
    }

    /// `None` while another thread is at it, and of what is broken.
    pub(super) fn try_lock(&self) -> Option<Turn<'_>> {
        Some(Turn { core: self.driven.try_lock()?, _end: End(self) })
    }
}

impl Deref for Turn<'_> {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.core
    }
}
