//! The queue pairs of a completion queue, and how a poll finds those with something to do.

use std::fmt;
use std::sync::Arc;

use srd::Instant;

use crate::device::Device;
use crate::poll_set::{PollSet, Ready};
use crate::progress::{Live, live};

/// Up to this many queue pairs, a poll drives all of them. With more, asking the kernel once which
/// sockets are readable costs less than that many receives without a result.
const CROWD: usize = 4;

/// The queue pairs that complete into one queue. The list is never changed, only replaced.
#[derive(Default)]
pub(super) struct Attached {
    qps: Box<[Arc<dyn Live>]>,
    /// The set of their sockets, if there are many.
    crowd: Option<Arc<PollSet>>,
}

impl Attached {
    pub(super) fn is_empty(&self) -> bool {
        self.qps.is_empty()
    }

    pub(super) fn contains(&self, qp: &dyn Live) -> bool {
        self.qps.iter().any(|other| live::is_same(&**other, qp))
    }

    pub(super) fn with(&self, qp: &Arc<dyn Live>) -> Self {
        let is_known = self.contains(&**qp);
        let new = (!is_known).then_some(qp);
        let qps: Box<[_]> = self.qps.iter().chain(new).cloned().collect();
        let crowd = match &self.crowd {
            // Without a descriptor for the set, or room in it, it works as for a few, only slower.
            Some(set) => join(set, &**qp).then(|| Arc::clone(set)),
            None if qps.len() > CROWD => {
                let set = PollSet::new().ok().map(Arc::new);
                set.filter(|set| qps.iter().all(|qp| join(set, &**qp)))
            }
            None => None,
        };
        Self { qps, crowd }
    }

    pub(super) fn without(&self, qp: &dyn Live) -> Self {
        let stay = self.qps.iter().filter(|other| !live::is_same(&***other, qp));
        if let Some(set) = &self.crowd {
            set.remove(qp.watch().receive_fd());
        }
        Self { qps: stay.cloned().collect(), crowd: self.crowd.clone() }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<dyn Live>> {
        self.qps.iter()
    }

    /// Takes a turn for each queue pair that needs one.
    #[inline]
    pub(super) fn turn(&self, now: Instant, device: &Device) {
        match &self.crowd {
            None => self.qps.iter().for_each(|qp| qp.app_turn(now)),
            Some(set) => self.crowd_turn(set, now, device),
        }
    }

    /// Takes turns as [`Attached::turn`] does, for the queue pairs for which `needs` returns true,
    /// or in a crowd for all if there is one such.
    pub(super) fn turn_if_any(
        &self,
        now: Instant,
        device: &Device,
        needs: &dyn Fn(&dyn Live) -> bool,
    ) {
        match &self.crowd {
            None => self.qps.iter().filter(|qp| needs(&***qp)).for_each(|qp| qp.app_turn(now)),
            Some(set) if self.qps.iter().any(|qp| needs(&**qp)) => {
                self.crowd_turn(set, now, device);
            }
            Some(_) => {}
        }
    }

    fn crowd_turn(&self, set: &PollSet, now: Instant, device: &Device) {
        let mut ready = Ready::NONE;
        // Queue pairs are looked at when they are due all the same.
        let _ = set.wait(Some(0), &mut ready);
        // A refused datagram is known by its content only.
        let is_refused = device.has_refusals();
        for qp in &self.qps {
            let watch = qp.watch();
            // Sockets of multicast groups are in no set of a completion queue.
            // Nor does a socket tell of acknowledgements while somebody dozes.
            let is_silent = watch.has_groups() || watch.unpolled_writes.sleeps_lightly();
            let is_due = is_refused || is_silent || watch.due.at_ns() <= now.as_ns();
            if is_due || ready.contains(watch.receive_fd()) {
                qp.app_turn(now);
            }
        }
    }
}

fn join(set: &PollSet, qp: &dyn Live) -> bool {
    qp.watch().due.join_crowd();
    set.add(qp.watch().receive_fd())
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached").field("qps", &self.qps.len()).finish_non_exhaustive()
    }
}
