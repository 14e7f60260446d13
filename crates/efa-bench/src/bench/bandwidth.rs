//! Sliding window in one direction, client to server; the receiver counts.
//!
//! The measured window lies within the stream: it opens at the receiver after the warm-up, it
//! closes while messages are still arriving, and the sender stops only when the receiver has said
//! that it closed. So neither ramp is in the figures.

use std::time::{Duration, Instant};

use crate::control::{Control, Message, Pending};
use crate::failure::Failure;
use crate::link::{Arrival, Idle, Link, Watch};
use crate::pattern::{self, Seen};
use crate::record::{Bandwidth, Point, ReceiverCount};
use crate::spec::{EndpointKind, Limit, PointSpec};

/// Rounds of the sender between two clock reads.
const ROUNDS_PER_LOOK: u32 = 16;
/// Rounds of the draining receiver between two clock reads, and its words between two signs of life.
const ROUNDS_PER_WORD: u32 = 64;
const WORD_EVERY: Duration = Duration::from_millis(200);
/// Between two looks for the receiver's word once the window should be over.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// Measures one point from the client (the sender).
pub(crate) fn measure(
    link: &mut Link,
    control: &mut Control,
    endpoint: EndpointKind,
    point: PointSpec,
    rx_depth: usize,
) -> Result<Point, Failure> {
    let sent = stream(link, control, point)?;
    control.send(&Message::Sent(sent))?;
    let counted = loop {
        // The provider may still have something to move for us (injected messages).
        link.poll_until_message(control, "waiting for the receiver's count")?;
        match control.receive("waiting for the receiver's count")? {
            Message::Received(counted) => break counted,
            Message::WindowDone | Message::Working => {}
            other => return Err(Failure::Remote(format!("expected a count, got {other:?}"))),
        }
    };
    if counted.wrong > 0 || counted.duplicates > 0 {
        return Err(Failure::Data(format!(
            "{} of {} messages of {} bytes arrived wrong, {} arrived twice",
            counted.wrong, counted.validated, point.size_bytes, counted.duplicates
        )));
    }
    let lost = sent.saturating_sub(counted.total);
    if lost > 0 && endpoint == EndpointKind::Rdm {
        return Err(Failure::Data(format!("{lost} of {sent} messages never arrived")));
    }
    Ok(Point {
        size_bytes: point.size_bytes,
        depth: point.depth,
        rx_depth,
        warmup_ms: point.warmup_ms,
        lost,
        validated: counted.validated,
        blocks: Vec::new(),
        latency: None,
        bandwidth: Some(Bandwidth::new(counted.messages, counted.bytes, counted.seconds)),
    })
}

/// Sends until the receiver has its window (or the number of messages is reached), then waits for
/// the completions. Answers how many messages were sent.
fn stream(link: &mut Link, control: &Control, point: PointSpec) -> Result<u64, Failure> {
    let total = match point.limit {
        Limit::DurationMs(_) => u64::MAX,
        Limit::Iterations(n) => n + point.warmup_iterations(),
    };
    let mut end = WindowEnd::new(point);
    let mut watch = Watch::new(control, "sending");
    let mut sent = 0_u64;
    let mut rounds = 0_u32;
    while sent < total {
        let mut moved = 0;
        while link.in_flight() < point.depth && sent < total {
            if point.validate
                && let Some(slot) = link.next_tx()
            {
                pattern::fill(&mut link.payload_mut(slot)?[..point.size_bytes], sent);
            }
            if !link.try_send(point.size_bytes)? {
                break;
            }
            sent += 1;
            moved += 1;
            if moved >= point.depth {
                break;
            }
        }
        if link.poll()? + moved > 0 {
            watch.progress();
        } else if watch.idle()? == Idle::Message {
            break;
        }
        rounds += 1;
        if rounds >= ROUNDS_PER_LOOK {
            rounds = 0;
            if end.reached(control)? {
                break;
            }
        }
    }
    let mut watch = Watch::new(control, "waiting for the last sends to complete");
    while link.in_flight() > 0 {
        if link.poll()? > 0 {
            watch.progress();
        } else {
            watch.idle()?;
        }
    }
    Ok(sent)
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

    fn reached(&mut self, control: &Control) -> Result<bool, Failure> {
        let Some(expected) = self.expected else { return Ok(false) };
        let now = Instant::now();
        if now < expected || now - self.last_look < LOOK_EVERY {
            return Ok(false);
        }
        self.last_look = now;
        if now - expected > control.timeout() {
            let seconds = control.timeout().as_secs_f64();
            return Err(Failure::Timeout { doing: "sending".to_owned(), seconds });
        }
        match control.pending() {
            Pending::Nothing => Ok(false),
            Pending::Message => Ok(true),
            Pending::Closed => Err(Failure::PeerGone {
                doing: "sending".to_owned(),
                reason: "it closed the control connection".to_owned(),
            }),
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
    seen: Option<Seen>,
}

/// The server's side of a point (the receiver).
pub(crate) fn serve(
    link: &mut Link,
    control: &mut Control,
    endpoint: EndpointKind,
    point: PointSpec,
) -> Result<(), Failure> {
    let seen = point.validate.then(Seen::new);
    let mut receiver = Receiver {
        point,
        count: ReceiverCount::default(),
        first: None,
        opened: None,
        closed: false,
        seen,
    };
    let sent = receiver.receive(link, control)?;
    if !receiver.closed {
        control.send(&Message::WindowDone)?;
    }
    let sent = match sent {
        Some(sent) => sent,
        None => receiver.drain_until_told(link, control)?,
    };
    receiver.drain(link, control, endpoint, sent)?;
    let Receiver { mut count, seen, .. } = receiver;
    count.duplicates = seen.map_or(0, |s| s.duplicates);
    control.send(&Message::Received(count))
}

impl Receiver {
    /// Receives until the window is closed; answers the sender's count when the sender ended
    /// first.
    fn receive(&mut self, link: &mut Link, control: &mut Control) -> Result<Option<u64>, Failure> {
        let mut watch = Watch::new(control, "waiting for messages");
        let sender_ended = loop {
            if link.poll()? == 0 {
                if watch.idle()? == Idle::Message {
                    break true;
                }
                continue;
            }
            watch.progress();
            self.take(link)?;
            if self.advance(Instant::now()) {
                break false;
            }
        };
        if sender_ended {
            return Ok(Some(told(control)?));
        }
        self.closed = true;
        control.send(&Message::WindowDone)?;
        Ok(None)
    }

    /// Handles all arrivals.
    #[inline]
    fn take(&mut self, link: &mut Link) -> Result<(), Failure> {
        while let Some(arrival) = link.arrived.pop() {
            if self.point.validate {
                self.validate(link, arrival)?;
            }
            self.count.total += 1;
            if self.opened.is_some() && !self.closed {
                self.count.messages += 1;
                self.count.bytes += arrival.len_bytes as u64;
            }
            link.repost(arrival.slot)?;
        }
        Ok(())
    }

    fn validate(&mut self, link: &Link, arrival: Arrival) -> Result<(), Failure> {
        self.count.validated += 1;
        let size = self.point.size_bytes;
        let payload = link.payload(arrival.slot)?;
        match pattern::check(&payload[..arrival.len_bytes.min(payload.len())]) {
            Ok(number) if arrival.len_bytes == size => {
                if let (Some(seen), Some(number)) = (self.seen.as_mut(), number) {
                    seen.note(number);
                }
            }
            _ => self.count.wrong += 1,
        }
        Ok(())
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

    /// Keeps receiving until the sender has told its count.
    fn drain_until_told(&mut self, link: &mut Link, control: &mut Control) -> Result<u64, Failure> {
        let mut rounds = 0_u32;
        let mut watch = Watch::new(control, "waiting for the sender to stop");
        loop {
            if link.poll()? > 0 {
                watch.progress();
                self.take(link)?;
                rounds += 1;
                if rounds.is_multiple_of(64) && control.pending() != Pending::Nothing {
                    break;
                }
            } else if watch.idle()? == Idle::Message {
                break;
            }
        }
        told(control)
    }

    /// Receives what is still under way. A provider may have buffered a lot (tcp completes a send
    /// when the kernel has it), so the waiting sender is told now and then that this goes on.
    fn drain(
        &mut self,
        link: &mut Link,
        control: &mut Control,
        endpoint: EndpointKind,
        sent: u64,
    ) -> Result<(), Failure> {
        let mut told_at = Instant::now();
        while self.count.total < sent {
            let mut watch = Watch::new(control, "waiting for the last messages");
            let mut rounds = 0_u32;
            while self.count.total < sent && rounds < ROUNDS_PER_WORD {
                if link.poll()? > 0 {
                    watch.progress();
                    rounds += 1;
                    self.take(link)?;
                    if !self.closed {
                        self.advance(Instant::now());
                    }
                } else if watch.idle()? == Idle::Quiet && endpoint == EndpointKind::Dgram {
                    return Ok(());
                }
            }
            let now = Instant::now();
            if now - told_at >= WORD_EVERY {
                told_at = now;
                control.send(&Message::Working)?;
            }
        }
        Ok(())
    }
}

/// The sender's count, which is the next control message.
fn told(control: &mut Control) -> Result<u64, Failure> {
    match control.receive("waiting for the sender's count")? {
        Message::Sent(sent) => Ok(sent),
        other => Err(Failure::Remote(format!("expected the sender's count, got {other:?}"))),
    }
}
