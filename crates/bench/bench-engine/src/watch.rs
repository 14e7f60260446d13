//! Detection, at almost no cost, that nothing happens any more.

use std::time::{Duration, Instant};

use bench_record::failure::Failure;

use crate::backend::Backend;
use crate::exchange::{Pending, Signals};
use crate::link::Link;
use crate::sleeper::Sleeper;

/// The advice for a loop that found nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Idle {
    /// The loop should go on polling.
    Spin,
    /// The receiver of a stream says that its window is over.
    WindowDone,
    /// Another control message is waiting.
    Message,
    /// Nothing has happened for so long that a datagram counts as lost.
    Quiet,
}

/// The time for which nothing has happened while this process looked. A process that did not run,
/// because it was stopped or others had the processors, has not looked, and the awaited event may
/// have come.
#[derive(Debug)]
pub(crate) struct Silence {
    last_look: Instant,
    lasted: Duration,
    step_max: Duration,
}

impl Silence {
    /// Begins a silence at `now`. If the time between two looks exceeds `step_max`, the process did
    /// not run meanwhile, and only `step_max` counts.
    pub(crate) const fn new(now: Instant, step_max: Duration) -> Self {
        Self { last_look: now, lasted: Duration::ZERO, step_max }
    }

    /// Notes that nothing has happened up to now. Returns the length of the silence.
    pub(crate) fn goes_on(&mut self, now: Instant) -> Duration {
        self.lasted += now.saturating_duration_since(self.last_look).min(self.step_max);
        self.last_look = now;
        self.lasted
    }
}

/// A watch over one loop.
pub(crate) struct Watch<'a> {
    signals: &'a Signals,
    doing: &'static str,
    /// True if messages of the other side are ignored.
    is_deaf: bool,
    spins: u32,
    sleeper: Sleeper,
    /// The silence since the last progress; `None` until the first look.
    silence: Option<Silence>,
    last_look: Option<Instant>,
}

/// The number of empty polls between two clock reads. It is small because some providers yield the
/// processor in each poll, which costs milliseconds on a busy machine.
const SPINS_PER_LOOK: u32 = 16;
/// The length of a silence before the control connection is looked at, and the time between two
/// looks.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The longest time between two clock reads of a loop that runs.
const STEP_MAX: Duration = Duration::from_millis(50);
/// The length of a silence after which a datagram counts as lost.
const QUIET_AFTER: Duration = Duration::from_millis(100);

impl<'a> Watch<'a> {
    pub(crate) const fn new(signals: &'a Signals, doing: &'static str) -> Self {
        Self {
            signals,
            doing,
            is_deaf: false,
            spins: 0,
            sleeper: Sleeper::new(),
            silence: None,
            last_look: None,
        }
    }

    /// Watches a loop that goes on until it is done, whatever the other side says meanwhile.
    pub(crate) const fn deaf(signals: &'a Signals, doing: &'static str) -> Self {
        Self { is_deaf: true, ..Self::new(signals, doing) }
    }

    /// The moment since when nothing has happened, as far as this process has looked.
    pub(crate) fn silent_since(&self) -> Instant {
        let now = Instant::now();
        let lasted = self.silence.as_ref().map_or(Duration::ZERO, |silence| silence.lasted);
        now.checked_sub(lasted).unwrap_or(now)
    }

    /// Notes that something happened.
    #[inline]
    pub(crate) fn progress(&mut self) {
        self.spins = 0;
        self.silence = None;
        self.last_look = None;
    }

    /// Ends the silence, because nothing has to happen yet.
    #[inline]
    pub(crate) fn excuse(&mut self) {
        self.silence = None;
    }

    /// Notes that nothing happened in this turn.
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

    /// Notes that nothing happened on these links in this turn. Sleeps if the job asks for that.
    #[inline]
    pub(crate) fn idle_on<B: Backend>(&mut self, links: &mut [Link<B>]) -> Result<Idle, Failure> {
        if self.signals.sleeps() { self.sleep(links, LOOK_EVERY) } else { self.idle() }
    }

    /// Notes that nothing happened on these links in this turn. A sleep lasts at most until `due`.
    #[inline]
    pub(crate) fn idle_until<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        due: Option<Instant>,
    ) -> Result<Idle, Failure> {
        if !self.signals.sleeps() {
            return self.idle();
        }
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        self.sleep(links, left.unwrap_or(LOOK_EVERY))
    }

    #[cold]
    fn sleep<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        longest: Duration,
    ) -> Result<Idle, Failure> {
        if self.sleeper.idle(links, longest)? { self.look() } else { Ok(Idle::Spin) }
    }

    #[cold]
    fn look(&mut self) -> Result<Idle, Failure> {
        let now = Instant::now();
        let silence = self.silence.get_or_insert_with(|| Silence::new(now, STEP_MAX));
        let silent = silence.goes_on(now);
        if now - *self.last_look.get_or_insert(now) < LOOK_EVERY {
            return Ok(Idle::Spin);
        }
        self.last_look = Some(now);
        let pending = match self.signals.pending() {
            Pending::Ready | Pending::WindowDone | Pending::Message if self.is_deaf => {
                Pending::Nothing
            }
            pending => pending,
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_a_look_is_no_silence() {
        let ms = Duration::from_millis;
        let start = Instant::now();
        let mut silence = Silence::new(start, ms(50));
        for look in 1..=10 {
            assert_eq!(silence.goes_on(start + ms(10 * look)), ms(10 * look));
        }
        // The process was stopped for a minute.
        assert_eq!(silence.goes_on(start + ms(60_100)), ms(150));
        assert_eq!(silence.goes_on(start + ms(60_101)), ms(151));
    }
}
