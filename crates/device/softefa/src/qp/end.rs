//! How a queue pair ends: destroyed by its program, failed by the adapter, or toward one peer only.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Qp, has_come};
use crate::host;
use crate::progress::Live;
use crate::service;

/// The release of what a destroyed queue pair owns, even if its last turns panic.
struct Departure<'a>(&'a Arc<Qp>);

impl Drop for Departure<'_> {
    fn drop(&mut self) {
        let qp = self.0;
        if qp.inner.is_broken() && !qp.has_failed() {
            qp.fail_broken();
        }
        // Before the socket may be closed: their sets must not keep its number.
        qp.init.send_cq.detach(&**qp, qp.send_owner);
        qp.init.recv_cq.detach(&**qp, qp.recv_owner);
        if let Some(xrcd) = &qp.xrcd {
            xrcd.dismiss(qp);
        }
        qp.watch().due.begin_lingering();
        qp.leave_groups();
        // A successor that is to have the number at once needs its port.
        let is_heard = !qp.pd.device().faults.qpn_reuse && qp.is_sound();
        service::release(&**qp, if is_heard { qp.lock().last_accepted() } else { None });
        // While it lingers its port is taken, so the number itself does not come back yet.
        qp.pd.device().release_port(qp.qpn);
    }
}

impl Qp {
    /// Destroys the queue pair. Its completions disappear from both queues. Messages in flight get
    /// half a second to arrive, none on a strict device, and are then given up without a
    /// completion. What it accepted is acknowledged for a while longer. Calling it twice is
    /// harmless, except for an XRC target, which the last of its openers destroys.
    pub fn destroy(self: &Arc<Self>) {
        // In a child everything is the parent's, and its locks may be taken for ever.
        if !self.made.is_current() || !self.remove_opening() {
            return;
        }
        if self.destroyed.swap(true, Ordering::AcqRel) {
            return;
        }
        let _departure = Departure(self);
        if self.is_sound() {
            self.drain();
        }
        let mut side = self.lock();
        // It may have failed meanwhile.
        if self.is_sound() {
            if !self.pd.device().is_strict {
                has_come::take(&mut *side);
            }
            side.close(host::now());
        }
    }

    fn is_sound(&self) -> bool {
        !self.has_failed() && !self.inner.is_broken()
    }
}
