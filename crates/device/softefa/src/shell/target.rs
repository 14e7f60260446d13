//! The receives of an XRC target: those of the shared queue that each request names. Its memory is
//! in the protection domain of that queue.

use std::sync::{Arc, Weak};

use super::Shell;
use crate::completion::Completion;
use crate::ids::PdId;
use crate::mr::MrCache;
use crate::rq::RecvWqe;
use crate::srq::{Srq, XrcQueues};

/// What a target has instead of its own receives.
#[derive(Debug)]
pub(super) struct Named {
    queues: Arc<XrcQueues>,
    /// The number of the queue that was named last.
    number: u32,
    /// That queue. The reference is weak, so that the queue can be destroyed.
    queue: Weak<Srq>,
    /// The queue of the last receive.
    taken_from: Weak<Srq>,
    /// The queues whose receives completed, in the order of [`Shell::recvs_done`].
    whose: Vec<Weak<Srq>>,
    /// The completions of one queue, on their way there.
    batch: Vec<Completion>,
}

impl Named {
    pub(super) fn new(queues: Arc<XrcQueues>) -> Self {
        Self {
            queues,
            number: 0,
            queue: Weak::new(),
            taken_from: Weak::new(),
            whose: Vec::new(),
            batch: Vec::new(),
        }
    }

    /// Returns the queue with this number, if it exists.
    fn find(&mut self, number: u32) -> Option<Arc<Srq>> {
        if number == self.number {
            if let Some(queue) = self.queue.upgrade().filter(|queue| queue.is_live()) {
                return Some(queue);
            }
        }
        (self.number, self.queue) = (number, self.queues.find(number));
        self.queue.upgrade()
    }

    pub(super) fn take(&mut self) -> Option<RecvWqe> {
        let queue = self.queue.upgrade()?;
        let wqe = queue.take()?;
        self.taken_from = Weak::clone(&self.queue);
        Some(wqe)
    }

    /// Notes that a receive of the last queue completes, and returns the mark of its completion.
    pub(super) fn note_completed(&mut self) -> u16 {
        self.whose.push(Weak::clone(&self.taken_from));
        self.taken_from.upgrade().map_or(u16::MAX, |queue| queue.owner())
    }

    pub(super) fn forget(&mut self) {
        (self.queue, self.taken_from) = (Weak::new(), Weak::new());
        self.whose.clear();
    }
}

impl Shell {
    /// Uses the receives and the memory of queue `srq` from now on, if a request names one; returns
    /// false if it does not exist.
    #[inline]
    pub(crate) fn turn_to(&mut self, srq: Option<u32>) -> bool {
        srq.is_none_or(|number| self.turn_to_queue(number))
    }

    fn turn_to_queue(&mut self, number: u32) -> bool {
        let found = self.named.as_mut().and_then(|named| named.find(number));
        let Some(queue) = found else { return false };
        let pd = queue.pd().id();
        if self.pd != pd {
            self.work_in(pd);
        }
        true
    }

    #[cold]
    fn work_in(&mut self, pd: PdId) {
        self.pd = pd;
        let cache = || MrCache::new(Arc::clone(&self.device.mrs), pd);
        (self.recv_mrs, self.remote_mrs) = (cache(), cache());
        // Address handles have other numbers there.
        self.last_ahn.generation = u64::MAX;
    }

    /// Returns true if it is an XRC target.
    #[inline]
    pub(crate) fn is_target(&self) -> bool {
        self.named.is_some()
    }

    /// Hands the completed receives of a target to their queues. `must_tell` is called with those
    /// whose program sleeps.
    pub(crate) fn deliver(&mut self, mut must_tell: impl FnMut(Arc<Srq>)) {
        let Some(Named { whose, batch, .. }) = &mut self.named else { return };
        let mut rest = &self.recvs_done[..];
        for group in whose.chunk_by(Weak::ptr_eq) {
            let (done, later) = rest.split_at(group.len().min(rest.len()));
            rest = later;
            batch.extend_from_slice(done);
            match group[0].upgrade() {
                Some(queue) if queue.complete(batch) => must_tell(queue),
                _ => batch.clear(),
            }
        }
        whose.clear();
        self.recvs_done.clear();
    }
}
