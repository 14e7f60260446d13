//! Turns for a program that watches its memory, where peers write without a completion.
//!
//! Such a program polls for its own completions, and a peer's answering write arrives at about the
//! same time. While the program waits for a completion, its polls receive everything, and the
//! service thread is not woken. The poll that finds the completion is extended a little to find the
//! write, too: waking a thread, perhaps on a busy processor, takes longer.

use srd::Instant;

use super::Qp;
use super::turn::Turn;
use crate::host;
use crate::progress::{Live, UnpolledWrites, Watch};
use crate::wire::Sleep;

/// The length of an extra poll. It is about the time a peer needs to answer when its own service
/// thread had to be woken. Answers then synchronise polling programs, and need a tenth of it.
const EXTRA_POLL_NS: u64 = 15_000;

impl Qp {
    /// Takes a turn while the service thread waits on the socket. Arrivals do not wake the thread
    /// while the program polls for a completion, so it must be due soon in case the program stops
    /// polling.
    pub(super) fn watching_turn<'a>(&'a self, mut side: Turn<'a>, now: Instant) {
        let Watch { unpolled_writes, due, .. } = self.watch();
        // A thread that arms a completion queue is either seen below, or sees this.
        unpolled_writes.set_light_sleep(true);
        let is_waiting = side.awaits_answers()
            && !self.is_awaited(now)
            && UnpolledWrites::is_recheck_soon(now, due.watched_until_ns());
        if is_waiting {
            side.shell_mut().wake_up();
        }
        side.turn(now);
        let is_written = side.take_written();
        let has_completed = side.shell().has_completed();
        side.publish();
        let has_all = has_completed && !side.awaits_answers();
        if is_written {
            unpolled_writes.note_write(now);
            if !has_all {
                unpolled_writes.note_polled_write();
            }
        }
        let polls_longer =
            is_waiting && has_all && !is_written && unpolled_writes.decide_extra_poll();
        if polls_longer && self.init.send_cq.claim_extra_poll(now) {
            drop(side);
            unpolled_writes.note_extra_poll(self.poll_longer(now));
            if self.is_gone() || self.inner.is_broken() {
                return;
            }
            side = self.lock();
        }
        let polls_on = is_waiting && !has_completed && side.awaits_answers();
        let needs_wakeup = !polls_on && {
            let sleep = self.sleep_of(&side, now);
            side.shell_mut().sleep_as(sleep)
        };
        self.end_app_turn(side, needs_wakeup);
    }

    /// Returns how deeply the wire sleeps from now on: which arrivals wake the service thread.
    pub(super) fn sleep_of(&self, side: &Turn<'_>, now: Instant) -> Sleep {
        let unpolled_writes = &self.watch().unpolled_writes;
        unpolled_writes.set_light_sleep(unpolled_writes.watches_memory() && !side.has_waiting());
        if unpolled_writes.sleeps_lightly() && self.is_awaited(now) {
            unpolled_writes.set_light_sleep(false);
        }
        if unpolled_writes.sleeps_lightly() { Sleep::Light } else { Sleep::Sound }
    }

    /// Returns true if the service thread must be woken after a post, because something waits for
    /// an acknowledgement that has arrived.
    #[inline]
    pub(super) fn wants_acks(&self, side: &mut Turn<'_>) -> bool {
        self.watch().unpolled_writes.sleeps_lightly()
            && side.has_waiting()
            && self.end_light_sleep_of(side)
    }

    /// Ends the light sleep: from now on every arrival wakes the service thread. Returns true if
    /// something has arrived already and the thread must be woken for it.
    pub(super) fn end_light_sleep_of(&self, side: &mut Turn<'_>) -> bool {
        let Watch { unpolled_writes, due, .. } = self.watch();
        if !unpolled_writes.sleeps_lightly() {
            return false;
        }
        unpolled_writes.set_light_sleep(false);
        let needs_wakeup = side.shell_mut().sleep_as(Sleep::Sound);
        if needs_wakeup {
            due.unwatch();
        }
        needs_wakeup
    }

    /// Polls for a write of a peer; returns whether one came. Other threads may post meanwhile.
    fn poll_longer(&self, since: Instant) -> bool {
        loop {
            let now = host::now();
            if self.is_gone() || now.ns_since(since) >= EXTRA_POLL_NS {
                return false;
            }
            let Some(mut side) = self.try_lock() else {
                std::hint::spin_loop();
                continue;
            };
            side.turn(now);
            let is_written = side.take_written();
            side.publish();
            if is_written {
                self.watch().unpolled_writes.note_write(now);
                return true;
            }
        }
    }
}
