//! A stream in one direction, client to server; the receiver counts.
//!
//! The measured window lies within the stream: it opens at the receiver after the warm-up, it
//! closes while messages are still arriving, and the sender stops only when the receiver has said
//! that it closed. So neither ramp is in the figures.

use std::time::{Duration, Instant};

use bench_record::ReceiverCount;
use bench_record::failure::Failure;
use bench_record::spec::{EndpointKind, Limit, PointSpec};

use super::Measured;
use super::inspect::Inspector;
use super::stream::{Sender, finish};
use crate::backend::Backend;
use crate::exchange::{Pending, Signals};
use crate::lane::{Port, Report};
use crate::link::{Arrival, Link};
use crate::watch::{Idle, Watch};

/// Rounds of the sender between two clock reads.
const ROUNDS_PER_LOOK: u32 = 16;
/// Rounds of a busy receiver between two looks for the sender's count.
const ROUNDS_PER_WORD: u32 = 64;
/// Between two looks for the receiver's word once the window should be over.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// The client's side of a point.
pub(crate) fn send<B: Backend>(
    links: &mut [Link<B>],
    port: &Port,
    point: PointSpec,
) -> Result<Measured, Failure> {
    let mut sender = Sender::new(port.flow, point);
    let mut end = WindowEnd::new(point);
    let mut watch = Watch::new(&port.signals, "sending");
    let mut rounds = 0_u32;
    while !sender.is_done() {
        let moved = sender.turn(links)?;
        if moved > 0 {
            watch.progress();
        } else if matches!(watch.idle()?, Idle::WindowDone | Idle::Message) {
            break;
        }
        rounds += 1;
        if rounds >= ROUNDS_PER_LOOK {
            rounds = 0;
            if end.reached(&port.signals)? {
                break;
            }
        }
    }
    finish(links, &port.signals)?;
    Ok(Measured::Sent(sender.sent))
}

/// Finds out, without disturbing the window, that the receiver has closed it.
struct WindowEnd {
    expected: Option<Instant>,
    last_look: Instant,
}

impl WindowEnd {
    fn new(point: PointSpec) -> Self {
        let now = Instant::now();
        let expected = match point.limit {
            Limit::DurationMs(ms) => Some(now + Duration::from_millis(ms + point.warmup_ms)),
            Limit::Iterations(_) => None,
        };
        Self { expected, last_look: now }
    }

    fn reached(&mut self, signals: &Signals) -> Result<bool, Failure> {
        let Some(expected) = self.expected else { return Ok(false) };
        let now = Instant::now();
        if now < expected || now - self.last_look < LOOK_EVERY {
            return Ok(false);
        }
        self.last_look = now;
        if now - expected > signals.timeout() {
            let seconds = signals.timeout().as_secs_f64();
            return Err(Failure::Timeout { doing: "sending".to_owned(), seconds });
        }
        match signals.pending() {
            Pending::Nothing | Pending::Ready => Ok(false),
            Pending::WindowDone | Pending::Message => Ok(true),
            Pending::Closed => Err(Failure::closed("sending")),
        }
    }
}

/// The receiver's state within a point.
struct Receiver {
    point: PointSpec,
    count: ReceiverCount,
    first: Option<Instant>,
    opened: Option<Instant>,
    closed: bool,
    /// Where messages are more than counted.
    inspector: Option<Inspector>,
}

/// The server's side of a point. It reports once that its window is over, and keeps receiving until
/// it has what the sender sent.
pub(crate) fn receive<B: Backend>(
    links: &mut [Link<B>],
    port: &Port,
    point: PointSpec,
) -> Result<Measured, Failure> {
    let mut receiver = Receiver {
        point,
        count: ReceiverCount::default(),
        first: None,
        opened: None,
        closed: false,
        inspector: Inspector::new(point),
    };
    receiver.window(links, &port.signals)?;
    port.report(Report::WindowClosed);
    let sent = receiver.until_told(links, port)?;
    receiver.drain(links, port, sent)?;
    let Receiver { count, inspector, .. } = receiver;
    let count = inspector.map_or(Ok(count), |inspector| inspector.add_to(count))?;
    Ok(Measured::Received(count))
}

impl Receiver {
    /// Receives until the window is over or the sender has ended.
    fn window<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        signals: &Signals,
    ) -> Result<(), Failure> {
        let mut watch = Watch::new(signals, "waiting for messages");
        loop {
            if !self.turn(links)? {
                if watch.idle()? == Idle::Message {
                    return Ok(());
                }
                continue;
            }
            watch.progress();
            if self.advance(Instant::now()) {
                self.closed = true;
                return Ok(());
            }
        }
    }

    /// Polls all endpoints; answers whether anything completed.
    #[inline]
    fn turn<B: Backend>(&mut self, links: &mut [Link<B>]) -> Result<bool, Failure> {
        let mut moved = 0;
        for link in links {
            moved += link.poll()?;
            self.take(link)?;
        }
        Ok(moved > 0)
    }

    /// Handles all arrivals.
    #[inline]
    fn take<B: Backend>(&mut self, link: &mut Link<B>) -> Result<(), Failure> {
        while let Some(arrival) = link.arrived.pop_front() {
            let handed_on = self.inspect(link, arrival)?;
            self.count.total += 1;
            if self.opened.is_some() && !self.closed {
                self.count.messages += handed_on;
                self.count.bytes += handed_on * arrival.len_bytes as u64;
            }
            link.repost(arrival.slot)?;
        }
        Ok(())
    }

    /// Looks at a message; answers how many may be handed on now.
    #[inline]
    fn inspect<B: Backend>(&mut self, link: &Link<B>, arrival: Arrival) -> Result<u64, Failure> {
        let Some(inspector) = &mut self.inspector else { return Ok(1) };
        let payload = link.payload(arrival.slot)?;
        inspector.take(&payload[..arrival.len_bytes.min(payload.len())])
    }

    /// Opens and closes the window at batch boundaries; answers whether it has just closed.
    #[inline]
    fn advance(&mut self, now: Instant) -> bool {
        let first = *self.first.get_or_insert(now);
        let Some(opened) = self.opened else {
            let warm = match self.point.limit {
                Limit::DurationMs(_) => now - first >= Duration::from_millis(self.point.warmup_ms),
                Limit::Iterations(_) => self.count.total >= self.point.warmup_iterations(),
            };
            if warm {
                self.opened = Some(now);
            }
            return false;
        };
        self.count.seconds = (now - opened).as_secs_f64();
        match self.point.limit {
            Limit::DurationMs(ms) => now - opened >= Duration::from_millis(ms),
            Limit::Iterations(_) => false,
        }
    }

    /// Keeps receiving until the sender's count is known.
    fn until_told<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        port: &Port,
    ) -> Result<u64, Failure> {
        let mut watch = Watch::new(&port.signals, "waiting for the sender to stop");
        let mut rounds = 0_u32;
        loop {
            if self.turn(links)? {
                watch.progress();
                if !self.closed {
                    self.advance(Instant::now());
                }
            } else {
                watch.idle()?;
            }
            rounds += 1;
            if rounds.is_multiple_of(ROUNDS_PER_WORD)
                && let Some(sent) = port.sent()?
            {
                return Ok(sent);
            }
        }
    }

    /// Receives what is still under way: a provider may have buffered a lot (tcp completes a send
    /// when the kernel has it).
    fn drain<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        port: &Port,
        sent: u64,
    ) -> Result<(), Failure> {
        let mut watch = Watch::new(&port.signals, "waiting for the last messages");
        while self.count.total < sent {
            if self.turn(links)? {
                watch.progress();
                if !self.closed {
                    self.advance(Instant::now());
                }
            } else if watch.idle()? == Idle::Quiet && port.endpoint == EndpointKind::Dgram {
                break;
            }
        }
        Ok(())
    }
}
