//! Work requests that the host does itself, in order with the others (RC-3.13).

use super::Requester;
use super::queue::LocalStep;
use crate::endpoint::Shared;
use crate::{Event, Operation, Status, WrId};

impl Requester {
    /// Steps over what the host has done, and tells it when its turn has come.
    #[inline]
    pub(super) fn advance_local(&mut self, shared: &mut Shared) {
        while let Some(entry) = self.queue.get(self.cursor) {
            if entry.request.op != Operation::Local {
                return;
            }
            if entry.local != LocalStep::Done {
                self.tell(shared);
                return;
            }
            self.cursor += 1;
        }
    }

    #[cold]
    fn tell(&mut self, shared: &mut Shared) {
        let Some(entry) = self.queue.get(self.cursor) else { return };
        if entry.local == LocalStep::Waiting && entry.fault.is_none() && !self.is_held(entry) {
            shared.events.push_back(Event::Execute { id: entry.request.id });
            self.queue[self.cursor].local = LocalStep::Told;
        }
    }

    /// The host does nothing of what it was told of from `place` in the queue on, unless it has:
    /// what is before it has failed.
    #[cold]
    pub(super) fn take_back(&mut self, place: usize, shared: &mut Shared) {
        for entry in self.queue.range_mut(place..) {
            if entry.local == LocalStep::Told {
                entry.local = LocalStep::Waiting;
                let told = Event::Execute { id: entry.request.id };
                shared.events.retain(|event| *event != told);
            }
        }
    }

    /// The host has done a work request, or could not.
    pub(crate) fn executed(&mut self, id: WrId, status: Status, shared: &mut Shared) {
        let is_it =
            |entry: &super::queue::Entry| entry.request.id == id && entry.local == LocalStep::Told;
        let Some(place) = self.queue.iter().position(is_it) else { return };
        if status != Status::Ok {
            self.fail_in_turn(place, status);
            return;
        }
        self.queue[place].local = LocalStep::Done;
        self.complete_local(shared);
        self.note_fault();
        self.note_drained(shared);
    }

    /// Ends what the host has done and what nothing stands before.
    pub(super) fn complete_local(&mut self, shared: &mut Shared) {
        while let Some(front) = self.queue.front() {
            if front.local != LocalStep::Done {
                return;
            }
            self.complete_front(Status::Ok, shared);
        }
    }
}
