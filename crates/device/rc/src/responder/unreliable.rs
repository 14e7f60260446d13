//! Handling of loss on unreliable connections (RC-7).

use super::{Responder, order};
use crate::DropReason;
use crate::id::Seq;
use crate::wire::Kind;

impl Responder {
    /// Follows the numbers of an unreliable connection: after a gap, everything up to the next
    /// beginning of a message is dropped.
    pub(super) fn follow(&mut self, seq: Seq, kind: Kind) -> Result<(), DropReason> {
        let is_gap = seq != self.expected;
        if kind.is_start() {
            self.message = None;
        } else if is_gap || !order::fits(self.message, kind) {
            return Err(self.drop_message());
        }
        // Numbers that repeatedly jump back must not leave the range of [`Seq`].
        self.expected = Seq::first(seq.psn());
        Ok(())
    }

    /// Drops the message and what is still to come of it.
    pub(super) fn drop_message(&mut self) -> DropReason {
        self.message = None;
        DropReason::Lost
    }
}
