//! Sleeping until a completion comes, for jobs that ask for that instead of polling.

use std::time::Duration;

use bench_record::failure::Failure;
use rustix::event::{Timespec, poll};

use crate::backend::Backend;
use crate::exchange::Signals;
use crate::link::Link;

/// The longest sleep: a thread that waits for a completion also has to look for other events.
const LONGEST: Duration = Duration::from_millis(2);

/// The sleep of a loop over its links.
///
/// A completion that came before the links were asked to wake this thread does not wake it. So the
/// first idle turn of a loop only asks, the loop looks at its links once more, and its second idle
/// turn in a row sleeps.
#[derive(Debug)]
pub(crate) struct Sleeper {
    /// True if the links were asked to wake this thread.
    is_armed: bool,
}

impl Sleeper {
    pub(crate) const fn new() -> Self {
        Self { is_armed: false }
    }

    /// Sleeps for at most `longest`, if the links were asked before; else asks them. The caller
    /// found nothing on these links in this turn. Returns true if it looked for events.
    pub(crate) fn idle<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        longest: Duration,
    ) -> Result<bool, Failure> {
        if !self.is_armed {
            links.iter_mut().try_for_each(Link::arm)?;
            self.is_armed = true;
            return Ok(false);
        }
        self.is_armed = false;
        let mut events = Vec::with_capacity(links.len());
        for link in links.iter() {
            let Some(event) = link.event()? else { return Ok(true) };
            events.push(event);
        }
        let longest = longest.min(LONGEST);
        let wait = Timespec { tv_sec: 0, tv_nsec: longest.subsec_nanos().into() };
        // An interrupted sleep is only a shorter one.
        let _ = poll(&mut events, Some(&wait));
        Ok(true)
    }

    /// Sleeps if the job asks for that, and otherwise gives the processor away if threads outnumber
    /// processors. The caller found nothing on these links in this turn.
    #[inline]
    pub(crate) fn pause<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        signals: &Signals,
    ) -> Result<(), Failure> {
        if signals.sleeps() {
            self.idle(links, LONGEST).map(|_| ())
        } else {
            signals.pause();
            Ok(())
        }
    }
}
