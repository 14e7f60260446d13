//! The flow from one other node: buffers are taken as they come, and credit is given for them.

use bench_record::ReceiverCount;

use super::clock::Totals;
use super::credit_step;
use super::partition::{Partition, Sum, damaged};
use super::word::Word;
use crate::pattern::{self, Overtaken, Seen};
use crate::workload::message::{Code, HEADER_BYTES, Header};
use crate::workload::prelude::*;

/// The buffers of one sender.
pub(super) struct Incoming {
    depth: u64,
    step: u64,
    taken: u64,
    /// The number of buffers of which the sender knows that they were taken.
    told: u64,
    /// The number of messages that told it.
    grants: u64,
    sum: Sum,
    seen: Seen,
    overtaken: Overtaken,
    /// The number of all buffers and the sum of their tuples, by the sender's word.
    promised: Option<(u64, Sum)>,
    /// True if the sender was told that all buffers were taken.
    is_confirmed: bool,
}

impl Incoming {
    pub(super) fn new(depth: usize) -> Self {
        Self {
            depth: depth as u64,
            step: credit_step(depth),
            taken: 0,
            told: 0,
            grants: 0,
            sum: Sum::default(),
            seen: Seen::new(),
            overtaken: Overtaken::default(),
            promised: None,
            is_confirmed: false,
        }
    }

    /// Takes a buffer with the low bits of its number.
    #[inline]
    pub(super) fn take(
        &mut self,
        header: Header,
        message: &[u8],
        partition: &Partition,
        totals: &mut Totals,
    ) -> Result<(), Failure> {
        let number = pattern::widened(header.call, self.taken);
        let (buffer, before) = (&message[HEADER_BYTES..], self.sum.tuples);
        partition.take(buffer, &mut self.sum)?;
        self.seen.note(number);
        self.overtaken.note(number);
        self.taken += 1;
        if self.seen.duplicates > 0 {
            return Err(damaged("came twice"));
        }
        totals.buffers_taken += 1;
        totals.bytes_taken += buffer.len() as u64;
        totals.tuples_taken += self.sum.tuples - before;
        Ok(())
    }

    /// Notes the sender's word that it sends this many buffers in all, with these tuples.
    pub(super) const fn promise(&mut self, buffers: u64, sum: Sum) {
        self.promised = Some((buffers, sum));
    }

    /// Returns true if all buffers have come. Fails if their tuples are not those that were sent.
    #[inline]
    pub(super) fn is_whole(&self) -> Result<bool, Failure> {
        let Some((buffers, sum)) = self.promised else { return Ok(false) };
        if self.taken < buffers {
            return Ok(false);
        }
        if self.taken > buffers || self.sum != sum {
            let (sent, come) = (sum.tuples, self.sum.tuples);
            return Err(Failure::Data(format!(
                "{sent} tuples of one partition were sent in {buffers} buffers, {come} came in {}, and \
                 the sums of their keys are {}: the fabric damages data",
                self.taken,
                if self.sum.hashes == sum.hashes { "the same" } else { "not the same" }
            )));
        }
        Ok(true)
    }

    /// Sends the messages that are due. Returns true if anything was sent.
    #[inline]
    pub(super) fn say<B: Backend>(&mut self, link: &mut Link<B>) -> Result<bool, Failure> {
        if self.is_confirmed {
            return Ok(false);
        }
        if self.is_whole()? {
            let word = Word { code: Code::Done, numbers: [self.grants, 0, 0] };
            self.is_confirmed = word.post(link)?;
            return Ok(self.is_confirmed);
        }
        if self.taken - self.told < self.step {
            return Ok(false);
        }
        let word = Word { code: Code::Grant, numbers: [self.taken + self.depth, 0, 0] };
        let is_said = word.post(link)?;
        if is_said {
            self.told = self.taken;
            self.grants += 1;
        }
        Ok(is_said)
    }

    /// Returns true if all buffers have come and the sender knows.
    pub(super) const fn is_closed(&self) -> bool {
        self.is_confirmed
    }

    /// Adds to the count how far buffers came out of order.
    pub(super) fn count(&self, count: &mut ReceiverCount) {
        count.numbered += self.taken;
        count.overtaken += self.overtaken.count;
        count.farthest = count.farthest.max(self.overtaken.farthest);
    }
}
