//! Messages toward one peer in the order of their sequence numbers: first those transmitted at
//! least once, then those still queued.

use crate::{Instant, Message, MsgId, PSN_WINDOW, PathId, Psn};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Never transmitted.
    Queued,
    /// Transmitted, not answered.
    InFlight,
    /// To be transmitted again.
    Due,
    /// Waiting until the receiver may be ready.
    RnrWait,
    /// Completed; its number waits for older ones.
    Done,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Time of the latest transmission.
    pub(crate) tx: Instant,
    pub(crate) msg: Message,
    /// Path of the latest transmission.
    pub(crate) path: PathId,
    pub(crate) state: State,
    /// Transmissions so far, saturating.
    pub(crate) transmissions: u8,
    /// Its receiver was once not ready for it.
    pub(crate) was_refused: bool,
    /// The position in the datagram of its latest transmission.
    pub(crate) in_frame: InFrame,
}

/// The position of a message in its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InFrame {
    Alone,
    /// The first message of a frame.
    First,
    /// A later message of a frame: the network has carried or lost it with the first.
    Behind,
}

#[derive(Debug)]
pub(crate) struct Ring {
    slots: VecDeque<Slot>,
    /// Messages queued before those in `slots` that wait for a receiver that is not ready.
    aside: VecDeque<Slot>,
    base: Psn,
    sent: usize,
}

impl Ring {
    pub(crate) fn new(base: Psn) -> Self {
        Self { slots: VecDeque::new(), aside: VecDeque::new(), base, sent: 0 }
    }

    /// Returns the oldest unresolved number.
    pub(crate) fn base(&self) -> Psn {
        self.base
    }

    /// Returns the number of slots transmitted at least once and not yet popped.
    pub(crate) fn sent(&self) -> usize {
        self.sent
    }

    /// Returns the number of messages that may be transmitted next, without those set aside.
    pub(crate) fn queued(&self) -> usize {
        self.slots.len() - self.sent
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() + self.aside.len()
    }

    /// Returns the number of messages that have not ended.
    pub(crate) fn open(&self) -> usize {
        let open = self.slots.iter().filter(|slot| slot.state != State::Done).count();
        open + self.aside.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.aside.is_empty()
    }

    /// Inlined down to where the message is created: data just written in small pieces is slow to
    /// move in large ones.
    #[inline(always)]
    pub(crate) fn push(&mut self, msg: Message) {
        self.slots.push_back(Slot {
            tx: Instant::ZERO,
            msg,
            path: PathId(0),
            state: State::Queued,
            transmissions: 0,
            was_refused: false,
            in_frame: InFrame::Alone,
        });
    }

    /// Sets aside the queued messages before the first one that needs no receive.
    pub(crate) fn set_aside(&mut self) {
        let queued = self.slots.range(self.sent..);
        let count = queued.take_while(|slot| !slot.msg.is_one_sided).count();
        self.aside.extend(self.slots.drain(self.sent..self.sent + count));
    }

    /// Queues the messages again that were set aside, before all others.
    pub(crate) fn restore_aside(&mut self) {
        if self.aside.is_empty() {
            return;
        }
        let mut younger = self.slots.split_off(self.sent);
        self.slots.append(&mut self.aside);
        self.slots.append(&mut younger);
    }

    /// Returns the transmitted slot with this number.
    #[inline]
    pub(crate) fn sent_slot(&mut self, psn: Psn) -> Option<&mut Slot> {
        let offset = psn.ahead_of(self.base);
        if offset < 0 || offset as usize >= self.sent {
            return None;
        }
        self.slots.get_mut(offset as usize)
    }

    /// Returns the first queued message, while the window of sequence numbers is open (SRD-4.2).
    #[inline]
    pub(crate) fn first_queued(&self) -> Option<&Slot> {
        if self.sent >= PSN_WINDOW as usize { None } else { self.slots.get(self.sent) }
    }

    /// Returns the number that the first queued message will get.
    #[inline]
    pub(crate) fn next_psn(&self) -> Psn {
        self.base.plus(self.sent as u32)
    }

    /// Counts the first queued message as transmitted.
    #[inline]
    pub(crate) fn launch(&mut self) {
        assert!(self.sent < PSN_WINDOW as usize, "the window of numbers is open");
        assert!(self.sent < self.slots.len(), "a message is queued");
        self.sent += 1;
    }

    /// Counts the first `count` queued messages as transmitted, and returns them.
    #[inline]
    pub(crate) fn launch_many(&mut self, count: usize) -> impl Iterator<Item = &mut Slot> {
        let first = self.sent;
        self.sent += count;
        assert!(self.sent <= PSN_WINDOW as usize, "the window of numbers is open");
        self.slots.range_mut(first..self.sent)
    }

    /// Returns the queued messages in order.
    #[inline]
    pub(crate) fn queued_messages(&self) -> impl Iterator<Item = &Message> {
        self.slots.range(self.sent..).map(|slot| &slot.msg)
    }

    /// Records the path of the latest transmission.
    #[inline]
    pub(crate) fn set_path(&mut self, psn: Psn, path: PathId) {
        if let Some(slot) = self.sent_slot(psn) {
            slot.path = path;
        }
    }

    /// Removes the oldest transmitted slot, whatever its state.
    #[inline]
    pub(crate) fn pop_sent(&mut self) -> Option<Slot> {
        if self.sent == 0 {
            return None;
        }
        self.sent -= 1;
        self.base = self.base.plus(1);
        self.slots.pop_front()
    }

    /// Drops completed slots from the front.
    #[inline]
    pub(crate) fn pop_done(&mut self) {
        while self.sent > 0 && self.slots.front().is_some_and(|s| s.state == State::Done) {
            self.pop_sent();
        }
    }

    /// Removes the oldest queued message; only when nothing is transmitted.
    pub(crate) fn pop_queued(&mut self) -> Option<MsgId> {
        assert_eq!(self.sent, 0, "transmitted slots come first");
        self.slots.pop_front().map(|slot| slot.msg.id)
    }

    pub(crate) fn shrink(&mut self) {
        if self.slots.is_empty() {
            self.slots.shrink_to_fit();
        }
        self.aside.shrink_to_fit();
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        (self.slots.capacity() + self.aside.capacity()) * size_of::<Slot>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: u64) -> Message {
        Message { id: MsgId(id), len: 1, ..Message::default() }
    }

    #[test]
    fn numbers_follow_the_order_of_queueing() {
        let mut ring = Ring::new(Psn(u32::MAX));
        for id in 0..3 {
            ring.push(message(id));
        }
        assert_eq!(ring.next_psn(), Psn(u32::MAX));
        ring.launch();
        assert_eq!(ring.next_psn(), Psn(0));
        ring.launch();
        assert_eq!(ring.sent_slot(Psn(0)).map(|slot| slot.msg.id), Some(MsgId(1)));
        assert_eq!((ring.sent(), ring.queued()), (2, 1));
        assert!(ring.sent_slot(Psn(1)).is_none() && ring.sent_slot(Psn(0)).is_some());
        ring.sent_slot(Psn(u32::MAX)).unwrap().state = State::Done;
        ring.pop_done();
        assert_eq!((ring.base(), ring.sent(), ring.len()), (Psn(0), 1, 2));
    }

    #[test]
    fn what_is_set_aside_comes_back_before_what_was_queued_after_it() {
        let mut ring = Ring::new(Psn(0));
        let is_one_sided = [false, false, false, true, false, true];
        for (id, is_one_sided) in (0..).zip(is_one_sided) {
            ring.push(Message { is_one_sided, ..message(id) });
        }
        ring.launch();
        ring.set_aside();
        assert_eq!(
            (ring.first_queued().map(|slot| slot.msg.id), ring.queued()),
            (Some(MsgId(3)), 3)
        );
        ring.launch();
        ring.set_aside();
        assert_eq!(
            (ring.first_queued().map(|slot| slot.msg.id), ring.queued()),
            (Some(MsgId(5)), 1)
        );
        assert_eq!((ring.len(), ring.open(), ring.is_empty()), (6, 6, false));
        ring.restore_aside();
        let numbers: Vec<u64> = ring.slots.iter().map(|slot| slot.msg.id.0).collect();
        assert_eq!(numbers, [0, 3, 1, 2, 4, 5]);
        assert_eq!((ring.sent(), ring.queued()), (2, 4));
    }

    #[test]
    fn the_window_of_numbers_closes() {
        let mut ring = Ring::new(Psn(0));
        for id in 0..=u64::from(PSN_WINDOW) {
            ring.push(message(id));
        }
        while ring.first_queued().is_some() {
            ring.launch();
        }
        assert_eq!(ring.sent(), PSN_WINDOW as usize);
        ring.pop_sent();
        assert!(ring.first_queued().is_some());
    }
}
