//! Measures how soon the program answers what it receives, and so how long an acknowledgement may
//! wait for a message that carries it.

/// The most turns without a receive that are counted. More mean that the program does not answer.
const LONG_QUIET_TURNS: u8 = 2;

/// Programs on bare verbs answer in the turn that received. Libraries poll once more, without a
/// result, before the program gets the message. A program that answers then is granted that turn
/// until it once does not use it.
#[derive(Debug)]
pub(super) struct Answering {
    /// The number of turns since the last one that received.
    quiet_turns: u8,
    is_late: bool,
}

impl Default for Answering {
    fn default() -> Self {
        Self { quiet_turns: LONG_QUIET_TURNS, is_late: false }
    }
}

impl Answering {
    /// Returns true if held acknowledgements must not wait any longer. Call it once, as a turn
    /// begins.
    pub(super) fn are_acks_due(&mut self) -> bool {
        match self.quiet_turns {
            0 => !self.is_late,
            1 => {
                self.is_late = false;
                true
            }
            _ => true,
        }
    }

    /// Notes the end of a turn, and whether it received something.
    pub(super) fn note_turn(&mut self, has_received: bool) {
        let next = (self.quiet_turns + 1).min(LONG_QUIET_TURNS);
        self.quiet_turns = if has_received { 0 } else { next };
    }

    /// Notes that the program posts a message.
    #[inline]
    pub(super) fn note_post(&mut self) {
        if self.quiet_turns == 1 {
            self.is_late = true;
            self.quiet_turns = LONG_QUIET_TURNS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a turn that receives, then an empty one; returns whether acknowledgements left in the
    /// latter.
    fn receive_and_poll(answering: &mut Answering) -> bool {
        answering.are_acks_due();
        answering.note_turn(true);
        let are_due = answering.are_acks_due();
        answering.note_turn(false);
        are_due
    }

    #[test]
    fn acknowledgements_of_a_stream_leave_with_the_next_turn() {
        let mut answering = Answering::default();
        assert!(receive_and_poll(&mut answering));
        assert!(receive_and_poll(&mut answering));
    }

    #[test]
    fn a_late_answer_is_waited_for_the_next_time() {
        let mut answering = Answering::default();
        assert!(receive_and_poll(&mut answering));
        answering.note_post();
        assert!(!receive_and_poll(&mut answering));
        answering.note_post();
        assert!(!receive_and_poll(&mut answering));
    }

    #[test]
    fn waiting_in_vain_once_is_the_end_of_waiting() {
        let mut answering = Answering::default();
        receive_and_poll(&mut answering);
        answering.note_post();
        assert!(!receive_and_poll(&mut answering));
        assert!(answering.are_acks_due(), "no answer came");
        answering.note_turn(false);
        assert!(receive_and_poll(&mut answering));
    }
}
