//! One endpoint: the flow to another node, the flow back, and the messages about both.

use super::clock::Totals;
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use super::partition::{Partition, Sum, damaged};
use super::word::Word;
use crate::workload::message::{Code, Header};
use crate::workload::prelude::*;

/// Both directions of one endpoint.
pub(super) struct Flow {
    pub(super) outgoing: Outgoing,
    pub(super) incoming: Incoming,
    /// True if the other node waits for this node's message to begin.
    pub(super) is_to_go: bool,
    /// True if the other node has told this one to begin.
    pub(super) may_go: bool,
}

impl Flow {
    /// Handles a message.
    #[inline]
    pub(super) fn take(
        &mut self,
        message: &[u8],
        partition: &Partition,
        totals: &mut Totals,
    ) -> Result<(), Failure> {
        let header = Header::read(message).ok_or_else(|| damaged("has a damaged header"))?;
        if header.code == Code::Chunk {
            return self.incoming.take(header, message, partition, totals);
        }
        let word = Word::read(header, message).ok_or_else(|| damaged("has a damaged credit"))?;
        let [first, tuples, hashes] = word.numbers;
        match word.code {
            Code::Go => self.may_go = true,
            Code::Grant => self.outgoing.grant(first),
            Code::Last => self.incoming.promise(first, Sum { tuples, hashes }),
            Code::Done => self.outgoing.confirm(first),
            _ => return Err(damaged("is none")),
        }
        Ok(())
    }

    /// Sends the messages and buffers that are due and have room. Returns their number. `is_last`:
    /// no more tuples are made.
    #[inline]
    pub(super) fn send<B: Backend>(
        &mut self,
        link: &mut Link<B>,
        is_last: bool,
        totals: &mut Totals,
    ) -> Result<usize, Failure> {
        let mut sent = 0;
        if self.is_to_go && (Word { code: Code::Go, numbers: [0; 3] }).post(link)? {
            self.is_to_go = false;
            sent += 1;
        }
        sent += usize::from(self.incoming.say(link)?);
        sent += usize::from(self.outgoing.flush(link, totals)?);
        if is_last {
            sent += usize::from(self.outgoing.end(link)?);
        }
        Ok(sent)
    }

    /// Returns true if nothing comes or goes any more.
    pub(super) fn is_closed(&self) -> bool {
        self.outgoing.is_closed() && self.incoming.is_closed()
    }
}
