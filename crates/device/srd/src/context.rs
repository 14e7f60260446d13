//! State of the endpoint that a peer may use during one call.

use crate::rng::Rng;
use crate::secret::Secret;
use crate::{Config, Event, Instant, Message, MsgId, PeerId, Stats, Status};
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) now: Instant,
    pub(crate) peer: PeerId,
    pub(crate) config: &'a Config,
    pub(crate) stats: &'a mut Stats,
    pub(crate) events: &'a mut VecDeque<Event>,
    pub(crate) rng: &'a mut Rng,
    pub(crate) secret: &'a Secret,
    /// The number of messages to all peers that have not ended.
    pub(crate) open_messages: &'a mut usize,
    /// Frames are sent and accepted (SRD-14).
    pub(crate) has_frames: bool,
    /// The messages of the frame that is transmitted.
    pub(crate) frame: &'a mut Vec<Message>,
}

impl Context<'_> {
    /// Ends a message.
    #[inline]
    pub(crate) fn complete(&mut self, msg: MsgId, status: Status) {
        assert!(*self.open_messages > 0, "a message ends once");
        *self.open_messages -= 1;
        if status == Status::Ok {
            self.stats.completed_ok += 1;
        } else {
            self.stats.completed_error += 1;
        }
        self.events.push_back(Event::Completed { peer: self.peer, msg, status });
    }
}
