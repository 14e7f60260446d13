//! Work requests that the host performs itself, in order with the others (RC-3.13).

use super::Requester;
use super::queue::LocalStep;
use crate::endpoint::Shared;
use crate::{Event, Operation, Status, WrId};

impl Requester {
    /// Skips local requests that are done, and notifies the host of the next one when its turn has
    /// come.
    #[inline]
    pub(super) fn advance_local(&mut self, shared: &mut Shared) {
        while let Some(entry) = self.queue.get(self.cursor) {
            if entry.request.op != Operation::Local {
                return;
            }
            if entry.local != LocalStep::Done {
                self.notify_host(shared);
                return;
            }
            self.cursor += 1;
        }
    }

    #[cold]
    fn notify_host(&mut self, shared: &mut Shared) {
        let Some(entry) = self.queue.get(self.cursor) else { return };
        if entry.local == LocalStep::Waiting && entry.fault.is_none() && !self.is_held(entry) {
            shared.events.push_back(Event::Execute { id: entry.request.id });
            self.queue[self.cursor].local = LocalStep::Notified;
        }
    }

    /// Withdraws the notifications from `place` in the queue on that the host has not handled,
    /// because an earlier request has failed.
    #[cold]
    pub(super) fn withdraw_notifications(&mut self, place: usize, shared: &mut Shared) {
        for entry in self.queue.range_mut(place..) {
            if entry.local == LocalStep::Notified {
                entry.local = LocalStep::Waiting;
                let notification = Event::Execute { id: entry.request.id };
                shared.events.retain(|event| *event != notification);
            }
        }
    }

    /// Handles the host's report that it has performed a work request, or could not.
    pub(crate) fn executed(&mut self, id: WrId, status: Status, shared: &mut Shared) {
        let is_match = |entry: &super::queue::Entry| {
            entry.request.id == id && entry.local == LocalStep::Notified
        };
        let Some(place) = self.queue.iter().position(is_match) else { return };
        if status != Status::Ok {
            self.fail_in_turn(place, status);
            return;
        }
        self.queue[place].local = LocalStep::Done;
        self.complete_local(shared);
        self.note_fault();
        self.note_drained(shared);
    }

    /// Completes the oldest work requests that the host has performed.
    pub(super) fn complete_local(&mut self, shared: &mut Shared) {
        while let Some(front) = self.queue.front() {
            if front.local != LocalStep::Done {
                return;
            }
            self.complete_front(Status::Ok, shared);
        }
    }
}
