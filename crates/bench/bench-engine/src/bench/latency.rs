//! Ping-pong: the client sends, the server echoes, half the round trip is the latency.
//!
//! The loop is closed, with one message in flight. The clock is read once per round trip, and
//! samples go into a histogram that was allocated before. Byte 0 of the message is 1 in the last
//! round only. It tells the server (`echo`) to end; the other bytes are free for checking.

use std::slice;
use std::time::{Duration, Instant};

use bench_record::spec::{EndpointKind, Limit, PING_PONG_RECEIVES};
use bench_record::{self as record, TimesOf};

use super::{RoundTrips, echo};
use crate::backend::Lengths;
use crate::exchange::Control;
use crate::lanes::Lanes;
use crate::link::Arrival;
use crate::pattern;
use crate::refusal::Refusal;
use crate::watch::{Idle, Watch};
use crate::workload::prelude::*;

/// The position of the byte that tells which message this is, so that late datagrams are
/// recognized; sent back with the flag.
const MARK: usize = 1;
/// The number of bytes of a message that the server sends back.
pub(super) const KEPT_BYTES: usize = MARK + 1;
pub(super) const GOES_ON: u8 = 0;
pub(super) const LAST: u8 = 1;
/// The number of receives posted on both sides.
pub(crate) const RX_DEPTH: usize = PING_PONG_RECEIVES;
/// The most sends in flight: more than one because a completion may come after the echo.
pub(crate) const TX_DEPTH: usize = 16;

/// The number of repetitions of a datagram that tells the server to end. A server that has ended,
/// and whose echo was lost, answers none of them. A server that has not ended learns it over the
/// control connection.
const LAST_REPETITIONS: u64 = 5;
/// The time after a repetition for which a second echo is waited for.
const LATE_ECHO: Duration = Duration::from_millis(20);
const COLD_START: PointSpec = PointSpec::new(1, 1, Limit::Iterations(1));

/// A lane of the benchmark.
pub(crate) struct Latency(Side);

impl Workload for Latency {
    const SENDS_DEPTH: bool = false;

    fn depths(_job: &JobSpec, _side: Side, _thread: usize) -> (usize, usize) {
        (TX_DEPTH, RX_DEPTH)
    }

    fn new(task: &Task) -> Result<Self, Failure> {
        Ok(Self(task.side))
    }

    fn run<B: Backend>(&mut self, part: Part<'_, B>) -> Outcome {
        match self.0 {
            Side::Client => measure(part),
            Side::Server => echo::serve(part),
        }
    }

    fn serve(lanes: &Lanes, _control: &mut Control) -> Result<(), Failure> {
        lanes.results().map(|_| ())
    }

    /// Waits for the round trips of all threads.
    fn conclude(session: &mut BenchSession, point: PointSpec) -> Result<Point, Failure> {
        let all = session.results()?;
        of_all(session, all, point)
    }
}

/// Makes a point of the round trips of all threads.
pub(super) fn of_all(
    session: &BenchSession,
    all: Vec<Measured>,
    point: PointSpec,
) -> Result<Point, Failure> {
    let mut all = all.into_iter().filter_map(|measured| match measured {
        Measured::RoundTrips(trips) => Some(*trips),
        _ => None,
    });
    let first = all.next();
    let first = first.ok_or_else(|| Failure::Check("no thread made round trips".to_owned()));
    let trips = all.fold(first?, |sum, trips| sum.and(&trips));
    Ok(Point {
        rx_depth: RX_DEPTH,
        lost: Some(trips.lost),
        sent: trips.sent,
        validated: trips.validated,
        latency: record::Latency::half(&trips.histogram, trips.sum_ns, trips.count),
        client_cpu_us: trips.cpu_us(),
        times: session.packed(TimesOf::RoundTrips, &trips.histogram),
        ..session.new_point(point)
    })
}

/// The client's side of a point, on one endpoint.
pub(super) struct Pinger<'a, B> {
    link: &'a mut Link<B>,
    port: &'a Port,
    point: PointSpec,
    datagrams: bool,
    sequence: u64,
    lost: u64,
    /// The number of messages that were sent again.
    repeated: u64,
    /// The number of messages whose answer is no longer waited for.
    given_up: u64,
    /// The time since when the present round trip waits for a lost datagram.
    lost_since: Option<Instant>,
    /// The total time of the round trips on which datagrams were lost.
    pub(super) wasted: Duration,
    /// The expected bytes of the echo, with room for one message.
    expected: Vec<u8>,
}

/// Runs the client's side of a point.
pub(crate) fn measure<B: Backend>(part: Part<'_, B>) -> Outcome {
    let Part { links, port, point } = part;
    let [link] = links else { return Err(one_endpoint(links.len())) };
    let mut trips = RoundTrips::new()?;
    let mut pinger = Pinger::new(link, port, point);
    pinger.warm_up()?;
    let mut recorder = port.recorder(point);
    let cpu_ns = port.process_cpu_ns();
    let start = Instant::now();
    recorder.open(start);
    let mut before = start;
    let mut note = |trips: &mut RoundTrips, (ended, took): (Instant, Duration)| {
        trips.note(took);
        recorder.note(ended, took / 2, 1);
    };
    // A round trip is noted while the next one is under way, so that noting it takes none of its
    // time.
    let mut last = None;
    while !is_over(point, before - start, trips.count + u64::from(last.is_some())) {
        pinger.begin(GOES_ON)?;
        if let Some(last) = last.take() {
            note(&mut trips, last);
        }
        let is_whole = pinger.end(GOES_ON)?;
        let now = Instant::now();
        last = is_whole.then_some((now, now - before));
        before = now;
    }
    if let Some(last) = last {
        note(&mut trips, last);
    }
    recorder.close(before);
    trips.cpu_ns = port.process_cpu_ns() - cpu_ns;
    pinger.finish(trips)
}

#[inline]
pub(super) fn is_over(point: PointSpec, took: Duration, count: u64) -> bool {
    count > 0
        && match point.limit {
            Limit::DurationMs(ms) => took >= Duration::from_millis(ms),
            Limit::Iterations(n) => count >= n,
        }
}

pub(super) fn one_endpoint(count: usize) -> Failure {
    Refusal::PingPong(count).into()
}

impl<'a, B: Backend> Pinger<'a, B> {
    pub(super) fn new(link: &'a mut Link<B>, port: &'a Port, point: PointSpec) -> Self {
        let expected = vec![0; point.size_bytes];
        let datagrams = port.endpoint == EndpointKind::Dgram;
        Self {
            link,
            port,
            point,
            datagrams,
            sequence: 0,
            lost: 0,
            repeated: 0,
            given_up: 0,
            lost_since: None,
            wasted: Duration::ZERO,
            expected,
        }
    }

    /// Tells the server to end, and returns the findings.
    pub(super) fn finish(mut self, mut trips: RoundTrips) -> Outcome {
        self.round(LAST)?;
        trips.sent = self.sequence + self.repeated;
        trips.lost = self.lost;
        let answered = self.sequence - self.given_up;
        trips.validated = if self.point.validate { answered } else { 0 };
        Ok(Measured::RoundTrips(Box::new(trips)))
    }

    pub(super) fn warm_up(&mut self) -> Result<(), Failure> {
        let start = Instant::now();
        let warm_up = Duration::from_millis(self.point.warmup_ms);
        let iterations = self.point.warmup_iterations();
        while start.elapsed() < warm_up || self.sequence < iterations {
            self.round(GOES_ON)?;
        }
        Ok(())
    }

    /// Makes one round trip. Returns false if a datagram was lost on the way, so that the time
    /// means nothing. The round trip of the last datagram may never end.
    #[inline]
    pub(super) fn round(&mut self, flag: u8) -> Result<bool, Failure> {
        self.begin(flag)?;
        self.end(flag)
    }

    /// Sends the message of a round trip.
    #[inline]
    fn begin(&mut self, flag: u8) -> Result<(), Failure> {
        self.sequence += 1;
        self.ping(flag)
    }

    /// Waits for the echo; see [`Pinger::round`].
    #[inline]
    fn end(&mut self, flag: u8) -> Result<bool, Failure> {
        let lost_before = self.lost;
        let mut watch = Watch::new(&self.port.signals, "waiting for an echo");
        loop {
            if let Some(echo) = self.link.arrived.pop_front() {
                if self.datagrams && self.is_late(echo)? {
                    self.link.repost(echo.slot)?;
                    continue;
                }
                self.check(echo, flag)?;
                self.link.repost(echo.slot)?;
                if self.lost == lost_before {
                    return Ok(true);
                }
                self.discard_late_echoes()?;
                return Ok(false);
            }
            if self.link.poll()? > 0 {
                continue;
            }
            match watch.idle_on(slice::from_mut(self.link))? {
                // A reliable endpoint may be quiet because it is slow.
                Idle::Quiet if self.datagrams => {
                    if !self.repeat(flag, lost_before, watch.silent_since())? {
                        return Ok(false);
                    }
                    watch.progress();
                }
                // The server is done, so that it has the last message, but its echo does not come.
                Idle::WindowDone
                    if self.datagrams
                        && flag == LAST
                        && watch.silent_since().elapsed() >= LATE_ECHO =>
                {
                    self.give_up(lost_before);
                    return Ok(false);
                }
                // The window of streams beside this ping-pong is over.
                Idle::Spin | Idle::Quiet | Idle::WindowDone => {}
                // The caller reads why the server gave up.
                Idle::Message => return Err(server_gave_up()),
            }
        }
    }

    /// Repeats a datagram that was lost, or whose echo was lost; nothing has come since `since`.
    /// Returns false if the datagram is the last one and was sent often enough.
    #[cold]
    fn repeat(&mut self, flag: u8, lost_before: u64, since: Instant) -> Result<bool, Failure> {
        if self.lost_since.is_none() {
            self.lost_since = Some(since);
        }
        if flag == LAST && self.lost - lost_before >= LAST_REPETITIONS {
            self.give_up(lost_before);
            return Ok(false);
        }
        self.lost += 1;
        self.repeated += 1;
        self.ping(flag)?;
        Ok(true)
    }

    /// Stops waiting for an answer to the last message. Only one datagram was certainly lost: a
    /// server that has ended does not answer repetitions.
    #[cold]
    fn give_up(&mut self, lost_before: u64) {
        self.lost = lost_before + 1;
        self.given_up += 1;
    }

    /// Discards the second echo that may come after a repetition.
    #[cold]
    fn discard_late_echoes(&mut self) -> Result<(), Failure> {
        let start = Instant::now();
        while start.elapsed() < LATE_ECHO {
            self.link.poll()?;
            while let Some(echo) = self.link.arrived.pop_front() {
                self.link.repost(echo.slot)?;
            }
        }
        if let Some(since) = self.lost_since.take() {
            self.wasted += since.elapsed();
        }
        Ok(())
    }

    #[inline]
    fn ping(&mut self, flag: u8) -> Result<(), Failure> {
        let mut watch = Watch::new(&self.port.signals, "sending a ping");
        loop {
            if let Some(slot) = self.link.next_tx() {
                let (size, sequence) = (self.point.size_bytes, self.sequence);
                let payload = &mut self.link.payload_mut(slot)?[..size];
                payload[0] = flag;
                if let Some(mark) = payload.get_mut(MARK) {
                    *mark = sequence as u8;
                }
                if self.point.validate {
                    pattern::fill(&mut payload[1..], sequence);
                }
                if self.link.try_send(size)? {
                    return Ok(());
                }
            }
            if self.link.poll()? == 0 && watch.idle_on(slice::from_mut(self.link))? == Idle::Message
            {
                return Err(server_gave_up());
            }
        }
    }

    /// Returns true if the datagram is the echo of an earlier message that was taken for lost.
    fn is_late(&self, echo: Arrival) -> Result<bool, Failure> {
        let size = self.point.size_bytes;
        let payload = self.link.payload(echo.slot)?;
        if echo.len_bytes != size {
            return Ok(true);
        }
        // Contents that can be checked also start with the last byte of their number.
        let is_other = payload[..size].get(MARK).is_some_and(|mark| *mark != self.sequence as u8);
        Ok(is_other && (!self.point.validate || pattern::check(&payload[1..size]).is_ok()))
    }

    #[inline]
    fn check(&mut self, echo: Arrival, flag: u8) -> Result<(), Failure> {
        if !self.point.validate {
            return Ok(());
        }
        let size = self.point.size_bytes;
        self.expected[0] = flag;
        pattern::fill(&mut self.expected[1..], self.sequence);
        if echo.len_bytes != size || self.link.payload(echo.slot)?[..size] != self.expected[..] {
            return Err(Failure::Data(format!(
                "the echo of message {} ({size} bytes) came back wrong: the fabric damages data",
                self.sequence
            )));
        }
        Ok(())
    }
}

/// Makes the first round trip of each endpoint. A client returns the time of the very first one in
/// µs, the connection set-up of the provider included.
pub(crate) fn cold_start<B: Backend>(
    side: Side,
    links: &mut [Link<B>],
    port: &Port,
) -> Result<f64, Failure> {
    let mut first_us = None;
    for link in links {
        link.begin(Lengths::Equal(COLD_START.size_bytes));
        let start = Instant::now();
        match side {
            Side::Client => {
                Pinger::new(link, port, COLD_START).round(LAST)?;
            }
            // A reliable endpoint brings just this message, whatever became of its flag.
            Side::Server => {
                let is_alone = port.endpoint == EndpointKind::Rdm;
                echo::answer(link, port, COLD_START, KEPT_BYTES, is_alone)?;
            }
        }
        let took_us = start.elapsed().as_nanos() as f64 / 1_000.0;
        first_us.get_or_insert(took_us);
    }
    Ok(first_us.unwrap_or(0.0))
}

pub(crate) fn server_gave_up() -> Failure {
    Failure::Remote("the server ended the measurement".to_owned())
}

/// Tells the server that the point is over.
pub(super) fn end<B: Backend>(
    link: &mut Link<B>,
    port: &Port,
    point: PointSpec,
) -> Result<(), Failure> {
    Pinger::new(link, port, point).round(LAST).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::null::{Null, Peer};
    use crate::stream_job::datagrams_alone;

    /// The last message must not be repeated for ever to a server that has ended.
    #[test]
    fn a_point_of_datagrams_ends_though_the_last_echo_is_lost() {
        let (port, job, _peer) = datagrams_alone();
        let null = Null::new(Peer::Loses { first: 121, last: u64::MAX }, 32, 8, 1);
        let mut links = [Link::new(null, &job, Side::Client, 0).expect("a link")];
        let point = PointSpec { limit: Limit::Iterations(20), ..COLD_START };
        let trips = match measure(Part { links: &mut links, port: &port, point }) {
            Ok(Measured::RoundTrips(trips)) => trips,
            other => panic!("{other:?}"),
        };
        // 100 round trips warm up, and repeated messages are not answered.
        assert_eq!((trips.count, trips.lost), (20, 1));
        assert_eq!(trips.sent, 121 + LAST_REPETITIONS);
        assert_eq!(links[0].backend().taken, trips.sent);
    }
}
