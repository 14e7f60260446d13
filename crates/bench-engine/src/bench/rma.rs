//! READs or WRITEs of the peer's memory. The initiator counts what has completed, since nobody else
//! sees it; the peer only makes progress, which providers need that emulate such operations.

use std::time::{Duration, Instant};

use bench_record::ReceiverCount;
use bench_record::failure::Failure;
use bench_record::spec::{Limit, PointSpec};

use super::stream::{Sender, finish};
use super::{Measured, RoundTrips};
use crate::backend::Backend;
use crate::lane::Port;
use crate::link::Link;
use crate::watch::Watch;

/// Rounds of the peer between two looks for the end.
const ROUNDS_PER_LOOK: u32 = 64;

/// The measured window of an initiator.
pub(crate) struct Window {
    pub(crate) point: PointSpec,
    /// Operations before it, where their number is asked for, not a time.
    pub(crate) warmup_iterations: u64,
    pub(crate) started: Instant,
    /// When it opened, and how many operations had completed by then.
    pub(crate) opened: Option<(Instant, u64)>,
}

impl Window {
    /// Opens and closes it; answers whether it is over.
    #[inline]
    pub(crate) fn advance(&mut self, now: Instant, completed: u64) -> bool {
        let Some((opened, _)) = self.opened else {
            let warm = match self.point.limit {
                Limit::DurationMs(_) => {
                    now - self.started >= Duration::from_millis(self.point.warmup_ms)
                }
                Limit::Iterations(_) => completed >= self.warmup_iterations,
            };
            if warm {
                self.opened = Some((now, completed));
            }
            return false;
        };
        match self.point.limit {
            Limit::DurationMs(ms) => now - opened >= Duration::from_millis(ms),
            Limit::Iterations(_) => false,
        }
    }
}

/// The client's side of a point.
pub(crate) fn initiate<B: Backend>(
    links: &mut [Link<B>],
    port: &Port,
    point: PointSpec,
) -> Result<Measured, Failure> {
    let mut sender = Sender::new(port.flow, point);
    let done = |links: &[Link<B>]| links.iter().map(|link| link.completed).sum::<u64>();
    let before = done(links);
    let mut window = Window {
        point,
        warmup_iterations: point.warmup_iterations(),
        started: Instant::now(),
        opened: None,
    };
    // One at a time: each can be timed.
    let mut trips = RoundTrips::new()?;
    let is_timed = point.depth == 1 && links.len() == 1;
    let (mut last, mut seen) = (Instant::now(), 0);
    let mut watch = Watch::new(&port.signals, "waiting for the peer's memory");
    loop {
        let moved = sender.turn(links)?;
        let completed = done(links) - before;
        if completed == seen {
            if moved == 0 {
                watch.idle()?;
            }
            if sender.is_done() && links.iter().all(Link::is_idle) {
                break;
            }
            continue;
        }
        watch.progress();
        let now = Instant::now();
        if is_timed && window.opened.is_some() {
            trips.note(now - last);
        }
        (last, seen) = (now, completed);
        if window.advance(now, completed) {
            break;
        }
    }
    let (opened, at_start) = window.opened.unwrap_or((window.started, 0));
    let messages = seen.saturating_sub(at_start);
    let count = ReceiverCount {
        messages,
        bytes: messages * point.size_bytes as u64,
        seconds: (last - opened).as_secs_f64(),
        total: sender.sent,
        ..ReceiverCount::default()
    };
    finish(links, &port.signals)?;
    Ok(Measured::Initiated(count, is_timed.then(|| Box::new(trips))))
}

/// The server's side of a point: progress until the client has ended.
pub(crate) fn serve<B: Backend>(links: &mut [Link<B>], port: &Port) -> Result<Measured, Failure> {
    let mut rounds = 0_u32;
    loop {
        for link in links.iter_mut() {
            link.poll()?;
        }
        rounds += 1;
        if rounds.is_multiple_of(ROUNDS_PER_LOOK) && port.sent()?.is_some() {
            return Ok(Measured::Answered);
        }
    }
}
