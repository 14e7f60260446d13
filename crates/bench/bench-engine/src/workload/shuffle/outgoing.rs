//! The flow to one other node: a buffer is filled, and leaves when it is full and there is credit
//! for it.

use super::clock::Totals;
use super::partition::Sum;
use super::source::{Drawn, Source};
use super::word::Word;
use crate::workload::message::{Code, HEADER_BYTES, Header};
use crate::workload::prelude::*;

/// The buffers of one partition.
pub(super) struct Outgoing {
    tuple_bytes: usize,
    buffer_bytes: usize,
    /// The buffer that is being filled.
    slot: Option<usize>,
    /// The number of bytes of the buffer that are filled.
    filled_bytes: usize,
    /// True if the buffer is to leave.
    is_due: bool,
    sent: u64,
    /// The number of buffers that may be sent in all.
    granted: u64,
    /// The number of messages that have raised it.
    grants: u64,
    sum: Sum,
    /// True if the end was announced.
    has_ended: bool,
    /// The total number of grants, by the word of their giver.
    promised: Option<u64>,
}

impl Outgoing {
    pub(super) fn new(tuple_bytes: usize, buffer_bytes: usize, depth: usize) -> Self {
        Self {
            tuple_bytes,
            buffer_bytes,
            slot: None,
            filled_bytes: 0,
            is_due: false,
            sent: 0,
            granted: depth as u64,
            grants: 0,
            sum: Sum::default(),
            has_ended: false,
            promised: None,
        }
    }

    /// Puts a tuple into the buffer. Returns false if there is no room for it.
    #[inline]
    pub(super) fn add<B: Backend>(
        &mut self,
        link: &mut Link<B>,
        source: &Source<'_>,
        drawn: Drawn,
        totals: &mut Totals,
    ) -> Result<bool, Failure> {
        if self.is_due && !self.flush(link, totals)? {
            return Ok(false);
        }
        let slot = match self.slot {
            Some(slot) => slot,
            None => {
                let Some(slot) = link.take_tx() else { return Ok(false) };
                *self.slot.insert(slot)
            }
        };
        let start = HEADER_BYTES + self.filled_bytes;
        source.write(drawn, &mut link.payload_mut(slot)?[start..start + self.tuple_bytes]);
        self.sum.note(drawn.hash);
        self.filled_bytes += self.tuple_bytes;
        if self.filled_bytes + self.tuple_bytes > self.buffer_bytes {
            self.is_due = true;
            self.flush(link, totals)?;
        }
        Ok(true)
    }

    /// Makes the last buffer leave, because no more tuples follow.
    pub(super) const fn close(&mut self) {
        self.is_due = self.slot.is_some();
    }

    /// Sends the buffer if it is to leave and there is credit. Returns true if it was sent.
    #[inline]
    pub(super) fn flush<B: Backend>(
        &mut self,
        link: &mut Link<B>,
        totals: &mut Totals,
    ) -> Result<bool, Failure> {
        let Some(slot) = self.slot.filter(|_| self.is_due && self.sent < self.granted) else {
            return Ok(false);
        };
        let len_bytes = HEADER_BYTES + self.filled_bytes;
        let header = Header { len_bytes, call: self.sent as u32, code: Code::Chunk };
        header.write(link.payload_mut(slot)?);
        if !link.try_taken(slot, len_bytes, false)? {
            return Ok(false);
        }
        self.sent += 1;
        totals.buffers_sent += 1;
        totals.bytes_sent += self.filled_bytes as u64;
        (self.slot, self.filled_bytes, self.is_due) = (None, 0, false);
        Ok(true)
    }

    /// Announces the end, once all buffers have been sent. Returns true if the end was announced
    /// now.
    pub(super) fn end<B: Backend>(&mut self, link: &mut Link<B>) -> Result<bool, Failure> {
        if self.has_ended || self.slot.is_some() {
            return Ok(false);
        }
        let numbers = [self.sent, self.sum.tuples, self.sum.hashes];
        self.has_ended = Word { code: Code::Last, numbers }.post(link)?;
        Ok(self.has_ended)
    }

    /// Raises the total number of buffers that may be sent; an older message may come after a newer
    /// one.
    #[inline]
    pub(super) fn grant(&mut self, granted: u64) {
        self.granted = self.granted.max(granted);
        self.grants += 1;
    }

    /// Notes that all buffers were taken, and how many grants were given.
    pub(super) const fn confirm(&mut self, grants: u64) {
        self.promised = Some(grants);
    }

    /// Returns true if nothing more goes this way, and no message about it comes back.
    pub(super) fn is_closed(&self) -> bool {
        self.has_ended && self.promised == Some(self.grants)
    }
}
