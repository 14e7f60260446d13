//! How a queue pair ends: by its program, by a mistake of ours, or only toward one peer.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use srd::Instant;

use super::Qp;
use crate::AHN_UNKNOWN;
use crate::host;
use crate::service;

/// What a destroyed queue pair gives back, also when its last turns panic.
struct Departure<'a>(&'a Arc<Qp>);

impl Drop for Departure<'_> {
    fn drop(&mut self) {
        let qp = self.0;
        if qp.driven.is_broken() && !qp.has_failed() {
            service::fail_broken(qp);
        }
        // Before the socket may be closed: their sets must not keep its number.
        qp.init.send_cq.detach(qp, qp.send_owner);
        qp.init.recv_cq.detach(qp, qp.recv_owner);
        qp.driven.begin_lingering();
        // A successor that is to have the number at once needs its port.
        let is_heard = !qp.pd.device().faults.qpn_reuse && qp.is_sound();
        service::release(qp, if is_heard { qp.lock().last_accepted() } else { None });
        qp.pd.device().live.qps.fetch_sub(1, Ordering::Relaxed);
        // While it lingers its port is taken, so the number itself does not come back yet.
        qp.pd.device().release_qpn(qp.qpn);
    }
}

impl Qp {
    /// Ends the queue pair. Its completions disappear from both queues. Messages on their way get
    /// half a second to arrive, on a strict device none, and are then given up without a
    /// completion. What it accepted is acknowledged for a while longer. Idempotent.
    pub fn destroy(self: &Arc<Self>) {
        // In a child everything is the parent's, and its locks may be taken for ever.
        if self.destroyed.swap(true, Ordering::AcqRel) || !self.made.is_current() {
            return;
        }
        let _departure = Departure(self);
        if self.is_sound() {
            self.drain();
        }
        let mut side = self.lock();
        // It may have failed meanwhile.
        if self.is_sound() {
            side.close(host::now());
        }
    }

    fn is_sound(&self) -> bool {
        !self.has_failed() && !self.driven.is_broken()
    }

    /// See [`Qp::fail`].
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// The adapter broke: what was posted ends as on a device that died (sends with
    /// [`crate::Status::LocalQpInternalError`], receives flushed), nothing more is taken, and nobody
    /// drives the queue pair again. Peers hear nothing, as of hardware that is gone.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        let mut side = self.lock();
        side.fail();
        if !self.destroyed.load(Ordering::Acquire) {
            side.publish();
        }
    }

    /// Region `key` is gone; waits for the turn that is under way.
    pub(crate) fn retire(&self, key: u32) {
        self.lock().retire(key);
    }

    /// The last address handle for `addr` is gone: what is on its way there is flushed, unless another
    /// thread has made a new one meanwhile. What is posted with that one must not end, and the rest
    /// ends with it.
    pub(crate) fn flush_toward(&self, now: Instant, addr: Ipv4Addr) {
        if self.is_gone() {
            return;
        }
        let mut side = self.lock();
        // Asked under the lock: who makes one after this posts after the flush.
        if self.pd.device().ahns.find((self.pd.id(), addr)) != AHN_UNKNOWN {
            return;
        }
        side.cancel_toward(now, addr);
        if !self.destroyed.load(Ordering::Acquire) {
            side.publish();
        }
    }
}
