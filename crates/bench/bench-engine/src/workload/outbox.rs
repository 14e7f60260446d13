//! Messages of a link that wait for room.

use std::collections::VecDeque;

use super::message::Code;
use crate::workload::prelude::*;

/// The messages that are to be sent: the operation of each, and its kind.
pub(super) struct Outbox {
    waiting: VecDeque<(u32, Code)>,
    list: usize,
}

impl Outbox {
    /// Makes room for `capacity` messages, of which `list` are handed to the fabric at once.
    pub(super) fn new(capacity: usize, list: usize) -> Self {
        Self { waiting: VecDeque::with_capacity(capacity), list }
    }

    #[inline]
    pub(super) fn push(&mut self, operation: u32, code: Code) {
        self.waiting.push_back((operation, code));
    }

    /// Sends as many messages as there is room for, and returns their number. `write` fills in a
    /// message and returns its length; it may be called again for a message that the fabric did not
    /// take. `sent` gets the length of each message that was sent.
    #[inline]
    pub(super) fn flush<B: Backend>(
        &mut self,
        link: &mut Link<B>,
        mut write: impl FnMut(&mut [u8], u32, Code) -> usize,
        mut sent: impl FnMut(usize),
    ) -> Result<usize, Failure> {
        let mut count = 0;
        while let (Some(&(operation, code)), Some(slot)) = (self.waiting.front(), link.next_tx()) {
            let len_bytes = write(link.payload_mut(slot)?, operation, code);
            let follows = self.waiting.len() > 1 && link.free_tx() > 1;
            let more = self.list > 1 && follows && (count + 1) % self.list != 0;
            if !link.try_post(len_bytes, more)? {
                break;
            }
            self.waiting.pop_front();
            sent(len_bytes);
            count += 1;
        }
        Ok(count)
    }
}
