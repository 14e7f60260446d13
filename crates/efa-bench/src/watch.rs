//! Notices, at almost no cost, that nothing happens any more.

use std::time::{Duration, Instant};

use crate::exchange::{Pending, Signals};
use crate::failure::Failure;

/// What a loop that found nothing should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Go on polling.
    Spin,
    /// The receiver of a stream says that its window is over.
    WindowDone,
    /// Another control message is waiting.
    Message,
    /// Nothing for so long that a datagram counts as lost.
    Quiet,
}

/// Watches one loop.
pub(crate) struct Watch<'a> {
    signals: &'a Signals,
    doing: &'static str,
    spins: u32,
    last_progress: Option<Instant>,
    last_look: Option<Instant>,
}

/// Empty polls between two clock reads. Few: some providers yield the processor in each, which on
/// a busy machine costs milliseconds.
const SPINS_PER_LOOK: u32 = 16;
/// Silence before the control connection is looked at, and between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Silence after which a datagram counts as lost.
const QUIET_AFTER: Duration = Duration::from_millis(100);

impl<'a> Watch<'a> {
    pub(crate) const fn new(signals: &'a Signals, doing: &'static str) -> Self {
        Self { signals, doing, spins: 0, last_progress: None, last_look: None }
    }

    /// Something happened.
    #[inline]
    pub(crate) fn progress(&mut self) {
        self.spins = 0;
        self.last_progress = None;
        self.last_look = None;
    }

    /// Nothing happened in this turn.
    #[inline]
    pub(crate) fn idle(&mut self) -> Result<Idle, Failure> {
        self.signals.pause();
        self.spins += 1;
        if self.spins < SPINS_PER_LOOK {
            return Ok(Idle::Spin);
        }
        self.spins = 0;
        self.look()
    }

    #[cold]
    fn look(&mut self) -> Result<Idle, Failure> {
        let now = Instant::now();
        let silent_since = *self.last_progress.get_or_insert(now);
        if now - *self.last_look.get_or_insert(now) < LOOK_EVERY {
            return Ok(Idle::Spin);
        }
        self.last_look = Some(now);
        let pending = self.signals.pending();
        let silent = now - silent_since;
        match pending {
            Pending::Closed => Err(Failure::closed(self.doing)),
            Pending::Message => Ok(Idle::Message),
            _ if silent >= self.signals.timeout() => {
                let seconds = self.signals.timeout().as_secs_f64();
                Err(Failure::Timeout { doing: self.doing.to_owned(), seconds })
            }
            Pending::WindowDone => Ok(Idle::WindowDone),
            Pending::Nothing | Pending::Ready if silent >= QUIET_AFTER => Ok(Idle::Quiet),
            Pending::Nothing | Pending::Ready => Ok(Idle::Spin),
        }
    }
}
