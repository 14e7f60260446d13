//! A stream in one direction, from the client to the server; the receiver counts.
//!
//! The measured window lies within the stream: the receiver opens the window after the warm-up and
//! closes it while messages are still arriving, and the sender stops only when the receiver has
//! said that the window is closed. So the figures contain neither the start nor the end of the
//! stream.

use std::time::{Duration, Instant};

use bench_record::spec::{EndpointKind, Limit};
use bench_record::{self as record, Disorder, ReceiverCount};

use super::counted;
use super::inspect::Inspector;
use super::stream::{Sender, finish};
use crate::exchange::{Control, Message, Pending, Signals};
use crate::lane::Report;
use crate::lanes::Lanes;
use crate::link::Arrival;
use crate::server;
use crate::shared_clock::shared_s;
use crate::watch::{Idle, Watch};
use crate::workload::prelude::*;

/// The number of the sender's rounds between two clock reads.
const ROUNDS_PER_LOOK: u32 = 16;
/// The number of a busy receiver's rounds between two looks for the sender's count.
pub(super) const ROUNDS_PER_WORD: u32 = 64;
/// The time between two looks for the receiver's message once the window should be over.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// A lane of the benchmark.
pub(crate) struct Bandwidth(Side);

impl Workload for Bandwidth {
    fn depths(job: &JobSpec, side: Side, _thread: usize) -> (usize, usize) {
        match side {
            Side::Client => (job.tx_depth, 1),
            Side::Server => (1, job.rx_depth),
        }
    }

    fn refusal(_size_bytes: usize, _parameter: usize, rx_depth: usize) -> Option<String> {
        (rx_depth == 0).then(|| "the receiver has no receives".to_owned())
    }

    fn new(task: &Task) -> Result<Self, Failure> {
        Ok(Self(task.side))
    }

    fn run<B: Backend>(&mut self, part: Part<'_, B>) -> Outcome {
        match self.0 {
            Side::Client => send(part),
            Side::Server => receive(part),
        }
    }

    fn serve(lanes: &Lanes, control: &mut Control) -> Result<(), Failure> {
        lanes.windows_closed(0)?;
        control.send(&Message::WindowDone)?;
        server::count_stream(lanes, control, 0)
    }

    /// Waits until all threads have sent and the receiver has counted.
    fn conclude(session: &mut BenchSession, point: PointSpec) -> Result<Point, Failure> {
        let sent = session.results()?.iter().map(Measured::sent).collect();
        arrived(session, point, sent)
    }
}

/// Returns the figures of the messages that have arrived; `sent` has the number that each thread
/// has sent.
pub(super) fn arrived(
    session: &mut BenchSession,
    point: PointSpec,
    sent: Vec<u64>,
) -> Result<Point, Failure> {
    let in_all = sent.iter().sum::<u64>();
    let counts = session.counts(sent)?.into_iter().next().unwrap_or_default();
    let measured = checked(session, point, in_all, &counts)?;
    Ok(Point { sent: in_all, ..measured })
}

/// Checks the counts of the receivers, whose `in_all` messages have all arrived or may have been
/// lost.
pub(super) fn checked(
    session: &BenchSession,
    point: PointSpec,
    in_all: u64,
    counts: &[ReceiverCount],
) -> Result<Point, Failure> {
    let of_all = |of: fn(&ReceiverCount) -> u64| counts.iter().map(of).sum::<u64>();
    let (validated, wrong) = (of_all(|c| c.validated), of_all(|c| c.wrong));
    let duplicates = of_all(|c| c.duplicates);
    if wrong > 0 || duplicates > 0 {
        return Err(Failure::Data(format!(
            "{wrong} of {validated} messages of {} bytes arrived wrong, {duplicates} arrived twice",
            point.size_bytes
        )));
    }
    let lost = in_all.saturating_sub(of_all(|c| c.total));
    if lost > 0 && session.job().endpoint == EndpointKind::Rdm {
        return Err(Failure::Data(format!("{lost} of {in_all} messages never arrived")));
    }
    // If datagrams were lost, it is a result that none arrived.
    if lost == 0 {
        counted(point, counts)?;
    }
    let bandwidth = Some(record::Bandwidth::of(counts, point.limit));
    let disorder = Disorder::of(counts);
    let lost = Some(lost);
    Ok(Point { lost, validated, bandwidth, disorder, ..session.new_point(point) })
}

/// Sends the client's messages of a point.
pub(super) fn send<B: Backend>(part: Part<'_, B>) -> Outcome {
    let Part { links, port, point } = part;
    let mut sender = Sender::new(port.flow, point);
    let mut end = WindowEnd::new(point);
    let mut watch = Watch::new(&port.signals, "sending");
    let mut recorder = port.recorder(point);
    let (mut rounds, mut noted) = (0_u32, 0);
    while !sender.is_done() {
        let moved = sender.turn(links)?;
        if moved > 0 {
            watch.progress();
        } else if matches!(watch.idle_on(links)?, Idle::WindowDone | Idle::Message) {
            break;
        }
        rounds += 1;
        if rounds >= ROUNDS_PER_LOOK {
            rounds = 0;
            let now = Instant::now();
            if end.opens.is_some_and(|opens| now >= opens) {
                end.opens = None;
                recorder.open(now);
            }
            // Posted messages are soon sent, because the window is full.
            recorder.note(now, Duration::ZERO, sender.sent - noted);
            noted = sender.sent;
            if end.reached(now, &port.signals)? {
                break;
            }
        }
    }
    recorder.close(Instant::now());
    finish(links, &port.signals)?;
    Ok(Measured::Sent(sender.sent))
}

/// A watch that finds out, without disturbing the window, when the receiver has closed it.
struct WindowEnd {
    /// The time at which the warm-up is over; `None`: it is over already.
    opens: Option<Instant>,
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
        let opens = Some(now + Duration::from_millis(point.warmup_ms));
        Self { opens, expected, last_look: now }
    }

    fn reached(&mut self, now: Instant, signals: &Signals) -> Result<bool, Failure> {
        let Some(expected) = self.expected else { return Ok(false) };
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

/// The messages that arrived between two looks at the clock, before the window opened.
#[derive(Debug, Clone, Copy, Default)]
struct Early {
    messages: u64,
    bytes: u64,
    /// The time of the first look; `None`: there was no look before.
    since: Option<Instant>,
}

/// The receiver's state within a point.
pub(super) struct Receiver {
    point: PointSpec,
    pub(super) count: ReceiverCount,
    early: Early,
    first: Option<Instant>,
    opened: Option<Instant>,
    pub(super) closed: bool,
    /// The inspector, if messages are more than counted.
    inspector: Option<Inspector>,
}

/// Runs the server's side of a point. Reports once when the window is over, and keeps receiving
/// until it has all that the sender sent.
pub(super) fn receive<B: Backend>(part: Part<'_, B>) -> Outcome {
    let Part { links, port, point } = part;
    let mut receiver = Receiver::new(point)?;
    receiver.window(links, &port.signals)?;
    port.report(Report::WindowClosed);
    receiver.finish(links, port)
}

impl Receiver {
    pub(super) fn new(point: PointSpec) -> Result<Self, Failure> {
        Ok(Self {
            point,
            count: ReceiverCount::default(),
            early: Early::default(),
            first: None,
            opened: None,
            closed: false,
            inspector: Inspector::new(point)?,
        })
    }

    /// Keeps receiving until all messages are there that were sent.
    pub(super) fn finish<B: Backend>(mut self, links: &mut [Link<B>], port: &Port) -> Outcome {
        let sent = self.until_told(links, port)?;
        self.drain(links, port, sent)?;
        self.open_earlier();
        let Self { count, inspector, opened, .. } = self;
        let count = ReceiverCount { opened_s: opened.map_or(0.0, shared_s), ..count };
        let count = inspector.map_or(Ok(count), |inspector| inspector.add_to(count))?;
        Ok(Measured::Received(count))
    }

    /// Lets a window that opened with the last message begin at the look before that. If few
    /// messages are asked for, all of them may come at once after the warm-up.
    fn open_earlier(&mut self) {
        let Early { messages, bytes, since } = self.early;
        let is_empty = self.count.messages == 0 && matches!(self.point.limit, Limit::Iterations(_));
        if let Some((since, opened)) = since.zip(self.opened).filter(|_| is_empty) {
            (self.count.messages, self.count.bytes) = (messages, bytes);
            self.count.seconds = (opened - since).as_secs_f64();
            self.opened = Some(since);
        }
    }

    /// Receives until the window is over or the sender has ended.
    fn window<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        signals: &Signals,
    ) -> Result<(), Failure> {
        let mut watch = Watch::new(signals, "waiting for messages");
        loop {
            if !self.turn(links)? {
                if watch.idle_on(links)? == Idle::Message {
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

    /// Polls all endpoints. Returns true if anything completed.
    #[inline]
    pub(super) fn turn<B: Backend>(&mut self, links: &mut [Link<B>]) -> Result<bool, Failure> {
        let mut moved = 0;
        for link in links {
            moved += link.poll()?;
            self.take(link)?;
        }
        Ok(moved > 0)
    }

    /// Handles all arrivals.
    #[inline]
    pub(super) fn take<B: Backend>(&mut self, link: &mut Link<B>) -> Result<(), Failure> {
        while let Some(arrival) = link.arrived.pop_front() {
            let handed_on = self.inspect(link, arrival)?;
            self.count.total += 1;
            let bytes = handed_on * arrival.len_bytes as u64;
            if self.opened.is_none() {
                self.early.messages += handed_on;
                self.early.bytes += bytes;
            } else if !self.closed {
                self.count.messages += handed_on;
                self.count.bytes += bytes;
            }
            link.repost(arrival.slot)?;
        }
        Ok(())
    }

    /// Inspects a message. Returns how many messages may be handed on now.
    #[inline]
    fn inspect<B: Backend>(&mut self, link: &Link<B>, arrival: Arrival) -> Result<u64, Failure> {
        let Some(inspector) = &mut self.inspector else { return Ok(1) };
        let payload = link.payload(arrival.slot)?;
        inspector.take(&payload[..arrival.len_bytes.min(payload.len())])
    }

    /// Opens and closes the window at batch boundaries. Returns true if the window has just closed.
    #[inline]
    pub(super) fn advance(&mut self, now: Instant) -> bool {
        let first = *self.first.get_or_insert(now);
        let Some(opened) = self.opened else {
            let warm = match self.point.limit {
                Limit::DurationMs(_) => now - first >= Duration::from_millis(self.point.warmup_ms),
                Limit::Iterations(_) => self.count.total >= self.point.warmup_iterations(),
            };
            if warm {
                self.opened = Some(now);
            } else {
                self.early = Early { since: Some(now), ..Early::default() };
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
                watch.idle_on(links)?;
                // A round takes long on a side that sleeps.
                rounds |= if port.signals.sleeps() { ROUNDS_PER_WORD - 1 } else { 0 };
            }
            rounds = rounds.wrapping_add(1);
            if rounds % ROUNDS_PER_WORD == 0 {
                if let Some(sent) = port.sent()? {
                    return Ok(sent);
                }
            }
        }
    }

    /// Receives the messages that are still under way. A provider may have buffered a lot of them
    /// (tcp completes a send when the kernel has it).
    fn drain<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        port: &Port,
        sent: u64,
    ) -> Result<(), Failure> {
        let mut watch = Watch::deaf(&port.signals, "waiting for the last messages");
        while self.count.total < sent {
            if self.turn(links)? {
                watch.progress();
                if !self.closed {
                    self.advance(Instant::now());
                }
            } else if watch.idle_on(links)? == Idle::Quiet && port.endpoint == EndpointKind::Dgram {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::backend::null::{Null, Peer};
    use crate::stream_job::stream_job;

    /// Without a message in the window the rate would be 0 messages a second.
    #[test]
    fn a_window_that_opens_with_the_last_message_begins_a_look_earlier() {
        let point = PointSpec::new(64, 64, Limit::Iterations(12));
        let null = Null::new(Peer::Streams, 1, 64, 64);
        let mut links = [Link::new(null, &stream_job(64), Side::Server, 0).expect("a link")];
        let mut receiver = Receiver::new(point).expect("a receiver");
        let mut now = Instant::now();
        while receiver.opened.is_none() {
            assert!(receiver.turn(&mut links).expect("nothing can fail"));
            now += Duration::from_millis(1);
            receiver.advance(now);
        }
        // All messages come in batches of 16: 100 to warm up, and the 12 that were asked for.
        assert_eq!((receiver.count.total, receiver.count.messages), (112, 0));
        receiver.open_earlier();
        assert_eq!((receiver.count.messages, receiver.count.bytes), (16, 16 * 64));
        assert!((receiver.count.seconds - 0.001).abs() < 1e-9);
        // A window with messages stays as it is.
        receiver.count.messages = 5;
        receiver.open_earlier();
        assert_eq!(receiver.count.messages, 5);
    }
}
