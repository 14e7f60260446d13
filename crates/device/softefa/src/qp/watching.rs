//! Turns of a program that watches its memory, where peers write what it does not poll for.
//!
//! Such a program polls for its own completions, and what a peer writes in answer comes about when
//! they do. While it waits for one, it takes in whatever comes, and nobody calls the service
//! thread. The poll that brings one looks on for a moment: waking a thread, perhaps on a processor
//! that another one fills, takes longer.

use srd::Instant;

use super::Qp;
use super::turn::Turn;
use crate::host;
use crate::progress::{Live, Unseen, Watch};
use crate::wire::Sleep;

/// How long a poll looks on: about as long as the peer needs to answer when its own service thread
/// had to be woken. Answers then bring polling programs together, and need a tenth of it.
const MOMENT_NS: u64 = 15_000;

impl Qp {
    /// A turn beside the service thread, which waits on the socket. Nobody is called for what
    /// comes while the program polls for a completion, so the thread must be there soon in case
    /// that it stops.
    pub(super) fn watching_turn<'a>(&'a self, mut side: Turn<'a>, now: Instant) {
        let Watch { unseen, due, .. } = self.watch();
        // Who arms a completion queue either is seen below, or finds this.
        unseen.set_dozes(true);
        let is_waiting = side.awaits_answers()
            && !self.is_awaited(now)
            && Unseen::is_soon(now, due.watched_until_ns());
        if is_waiting {
            side.shell_mut().wake_up();
        }
        side.turn(now);
        let is_written = side.take_written();
        let has_completed = side.shell().has_completed();
        side.publish();
        let has_all = has_completed && !side.awaits_answers();
        if is_written {
            unseen.note_written(now);
            if !has_all {
                unseen.note_polled();
            }
        }
        let looks_on = is_waiting && has_all && !is_written && unseen.is_worth_a_moment();
        if looks_on && self.init.send_cq.takes_moment(now) {
            drop(side);
            unseen.note_moment(self.look_on(now));
            if self.is_gone() || self.inner.is_broken() {
                return;
            }
            side = self.lock();
        }
        let polls_on = is_waiting && !has_completed && side.awaits_answers();
        let is_untold = !polls_on && {
            let sleep = self.sleep_of(&side, now);
            side.shell_mut().sleep_as(sleep)
        };
        self.end_app_turn(side, is_untold);
    }

    /// How whoever waits on the socket is called from now on.
    pub(super) fn sleep_of(&self, side: &Turn<'_>, now: Instant) -> Sleep {
        let unseen = &self.watch().unseen;
        unseen.set_dozes(unseen.is_usual() && !side.has_waiting());
        if unseen.dozes() && self.is_awaited(now) {
            unseen.set_dozes(false);
        }
        if unseen.dozes() { Sleep::Light } else { Sleep::Sound }
    }

    /// After a post: whether the service thread must be woken for an acknowledgement that something
    /// waits for.
    #[inline]
    pub(super) fn wants_acks(&self, side: &mut Turn<'_>) -> bool {
        self.watch().unseen.dozes() && side.has_waiting() && self.rouse(side)
    }

    /// From now on the service thread is called for everything; whether it must be woken for what
    /// has come.
    pub(super) fn rouse(&self, side: &mut Turn<'_>) -> bool {
        let Watch { unseen, due, .. } = self.watch();
        if !unseen.dozes() {
            return false;
        }
        unseen.set_dozes(false);
        let is_untold = side.shell_mut().sleep_as(Sleep::Sound);
        if is_untold {
            due.unwatch();
        }
        is_untold
    }

    /// Looks for what a peer writes; whether it came. Other threads may post meanwhile.
    fn look_on(&self, since: Instant) -> bool {
        loop {
            let now = host::now();
            if self.is_gone() || now.ns_since(since) >= MOMENT_NS {
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
                self.watch().unseen.note_written(now);
                return true;
            }
        }
    }
}
