//! A queue pair as its drivers see it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use srd::Instant;

#[cfg(test)]
use super::QpInner;
use super::turn::Turn;
use super::{Qp, has_come};
use crate::AHN_UNKNOWN;
use crate::async_event::AsyncEventKind;
use crate::cq::Cq;
use crate::ids::{DeviceId, PdId};
use crate::progress::{Linger, Live, Served, Watch};
use crate::service;
use crate::shell::AckTiming;

impl Live for Qp {
    fn device(&self) -> DeviceId {
        self.pd.device().id()
    }

    fn pd(&self) -> PdId {
        self.pd.id()
    }

    fn watch(&self) -> &Watch {
        &self.inner.watch
    }

    fn lingering(&self) -> Arc<dyn Linger> {
        Arc::clone(&self.inner) as Arc<dyn Linger>
    }

    fn app_turn(&self, now: Instant) {
        if self.is_gone() {
            return;
        }
        let Some(mut side) = self.try_lock() else { return };
        let Watch { unpolled_writes, due, .. } = self.watch();
        if unpolled_writes.watches_memory() && due.is_watched() && side.shell().has_rings() {
            return self.watching_turn(side, now);
        }
        // Whatever comes wakes the service thread for as long as that waits on the socket.
        if !due.is_watched() {
            side.shell_mut().wake_up();
            if unpolled_writes.sleeps_lightly() {
                unpolled_writes.set_light_sleep(false);
            }
        }
        side.turn(now);
        if side.take_written() {
            unpolled_writes.note_polled_write();
        }
        side.publish();
        let needs_wakeup = side.shell_mut().sleep_on();
        self.end_app_turn(side, needs_wakeup);
    }

    fn release_held(&self, now: Instant) -> bool {
        if self.is_gone() {
            return true;
        }
        let Some(mut side) = self.try_lock() else { return false };
        side.flush_acks(now);
        side.transmit(now);
        side.publish();
        self.end_app_turn(side, false);
        true
    }

    fn is_at(&self, device: IpAddr, qpn: u32) -> bool {
        self.qpn == qpn && self.pd.device().addr() == device
    }

    fn take_in(&self) {
        if self.is_gone() {
            return;
        }
        let mut side = self.lock();
        has_come::take(&mut *side);
        side.publish();
        self.end_app_turn(side, false);
    }

    fn has_unseen_success(&self) -> bool {
        let queues = [&self.init.send_cq, &self.init.recv_cq];
        !self.is_gone() && queues.iter().any(|cq| cq.has_success_of(self.qpn))
    }

    fn service_turn(&self, now: Instant) -> Served {
        let side = if self.is_awaited(now) || self.watch().unpolled_writes.watches_memory() {
            Some(self.lock())
        } else {
            let side = (!self.is_polled(now)).then(|| self.try_lock()).flatten();
            side.or_else(|| {
                self.watch().due.unwatch();
                // Armed in between? Who arms and still sees it watched does not wake this thread.
                self.is_awaited(now).then(|| self.lock())
            })
        };
        let Some(mut side) = side else { return Served::Busy };
        let is_awaited = self.is_awaited(now);
        if side.shell().sleeps_lightly() {
            side.distrust_times();
        }
        let acks = if is_awaited { AckTiming::WithAnswer } else { AckTiming::AtOnce };
        side.service_turn(now, acks);
        let unpolled_writes = &self.watch().unpolled_writes;
        let is_written = side.take_written();
        if is_written {
            unpolled_writes.note_write(now);
            if !self.is_being_polled(now) {
                unpolled_writes.note_unpolled_write();
            }
        }
        if !self.destroyed.load(Ordering::Acquire) {
            side.publish();
        }
        let sleep = self.sleep_of(&side, now);
        let shell = side.shell_mut();
        let has_more = shell.keep_awake(now) || shell.fall_asleep(sleep);
        // Over UDP each answer wakes the thread anyway.
        let has_rings = shell.has_rings();
        let recheck = has_rings.then(|| unpolled_writes.next_turn(now)).flatten();
        let next = if has_more { Some(now) } else { side.next_timeout() };
        let next = next.into_iter().chain(recheck).min();
        self.watch().due.until(next);
        Served::Until(next)
    }

    fn end_light_sleep(&self) -> bool {
        self.watch().unpolled_writes.sleeps_lightly()
            && !self.is_gone()
            && self.end_light_sleep_of(&mut self.lock())
    }

    fn retire(&self, key: u32) {
        self.inner.retire(key);
    }

    fn flush_toward(&self, now: Instant, addr: IpAddr) {
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

    fn is_broken(&self) -> bool {
        self.inner.is_broken()
    }

    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    fn fail(&self) {
        let is_first = !self.failed.swap(true, Ordering::AcqRel);
        let mut side = self.lock();
        side.fail();
        if is_first {
            side.shell_mut().report(AsyncEventKind::QpFatal);
        }
        if !self.destroyed.load(Ordering::Acquire) {
            side.publish();
        }
    }

    fn fail_device(&self) -> Option<String> {
        let device = self.pd.device();
        device.fail().then(|| device.name().to_owned())
    }
}

impl Qp {
    /// Fails the device after a turn outside of the service thread has broken the queue pair.
    #[cold]
    pub(super) fn fail_broken(&self) {
        service::fail_device(self.device(), self.fail_device());
    }

    /// Releases the lock, and wakes the service thread if its next turn would be too late, or if
    /// something arrived that the socket has not signalled.
    #[inline]
    pub(super) fn end_app_turn(&self, side: Turn<'_>, needs_wakeup: bool) {
        let is_late = self.inner.settle(&*side);
        if needs_wakeup {
            self.watch().due.unwatch();
        }
        drop(side);
        if is_late || needs_wakeup {
            service::wake();
        }
    }

    pub(super) fn is_awaited(&self, now: Instant) -> bool {
        self.any_cq(|cq| cq.is_awaited(now))
    }

    /// Returns true if this holds for a queue where its work requests complete.
    fn any_cq(&self, is: impl Fn(&Cq) -> bool) -> bool {
        is(&self.init.send_cq)
            || is(&self.init.recv_cq)
            || self.xrcd.as_ref().is_some_and(|xrcd| xrcd.any_cq(is))
    }

    /// Returns true if the program polls. Where peers may write, it must be polling right now: it
    /// may have polled for something else.
    fn is_polled(&self, now: Instant) -> bool {
        if self.watch().unpolled_writes.is_possible() {
            return self.is_being_polled(now);
        }
        self.any_cq(|cq| cq.is_polled(now))
    }

    fn is_being_polled(&self, now: Instant) -> bool {
        self.any_cq(|cq| cq.is_being_polled(now))
    }

    /// Returns the inner part, for tests that replace its wire.
    #[cfg(test)]
    pub(crate) fn inner(&self) -> &Arc<QpInner> {
        &self.inner
    }
}
