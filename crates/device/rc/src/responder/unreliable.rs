//! What unreliable connections do about loss (RC-7).

use super::{Responder, order};
use crate::DropReason;
use crate::id::Seq;
use crate::wire::Kind;

impl Responder {
    /// Follows the numbers of an unreliable connection: behind a gap, everything up to the next
    /// beginning of a message is lost.
    pub(super) fn follow(&mut self, seq: Seq, kind: Kind) -> Result<(), DropReason> {
        let is_gap = seq != self.expected;
        if kind.is_start() {
            self.message = None;
        } else if is_gap || !order::fits(self.message, kind) {
            return Err(self.lose());
        }
        // Numbers that jump back and back must not leave the range of those inside.
        self.expected = Seq::first(seq.psn());
        Ok(())
    }

    /// The message is lost, and what is still to come of it.
    pub(super) fn lose(&mut self) -> DropReason {
        self.message = None;
        DropReason::Lost
    }
}
