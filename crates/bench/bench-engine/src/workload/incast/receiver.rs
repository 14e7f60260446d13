//! The receiver, which lets the flows go, takes their messages, and times each transfer to its last
//! byte.

use std::time::{Duration, Instant};

use bench_record::spec::Limit;
use bench_record::workload::IncastSpec;
use bench_record::{Disorder, IdealFrom, Incast};

use super::shares::Meter;
use super::times::Times;
use super::{ENDLESS, Found, IncastRequest, request};
use crate::measure::Random;
use crate::pattern::{self, Overtaken, SEQUENCE_BYTES, Seen};
use crate::refusal::Refusal;
use crate::watch::{Idle, Watch};
use crate::workload::message::{self, Code, HEADER_BYTES, Header};
use crate::workload::pace::{Activity, Names, Pace, gave_up};
use crate::workload::prelude::*;

const KINDS: [&str; 1] = ["transfer"];
const TRANSFER: usize = 0;
/// The number of transfers of one flow alone before each block; the middle one counts.
const ALONE: usize = 5;
/// The most bytes of such a transfer, unless a transfer is longer.
const ALONE_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    /// The flow is to be started, as soon as there is room for the message.
    ToAsk,
    ToStop,
    Running,
    Stopping,
}

/// The flow that comes over one endpoint.
struct Flow {
    state: State,
    /// The number of bytes that are still to come.
    left_bytes: u64,
    /// The number of messages of the point so far.
    messages: u64,
    seen: Seen,
    overtaken: Overtaken,
    /// The low bits of the number of messages that the sender has announced.
    promised: Option<u32>,
}

impl Flow {
    fn new() -> Self {
        Self {
            state: State::Idle,
            left_bytes: 0,
            messages: 0,
            seen: Seen::new(),
            overtaken: Overtaken::default(),
            promised: None,
        }
    }

    /// Takes a message. Returns how many bytes of the transfer it held.
    #[inline]
    fn take(&mut self, message: &[u8], validate: bool) -> Result<u64, Failure> {
        let header = Header::read(message).ok_or_else(|| wrong("is damaged"))?;
        match (header.code, self.state) {
            (Code::Chunk, State::Running | State::ToStop | State::Stopping) => {}
            (Code::Done, State::Stopping) => {
                self.promised = Some(header.call);
                return Ok(0);
            }
            (Code::Damaged, _) => return Err(wrong("says that a request arrived damaged")),
            _ => return Err(wrong("was not asked for")),
        }
        let body = &message[HEADER_BYTES..];
        let number = pattern::widened(header.call, self.messages);
        let wanted = (body.len() >= SEQUENCE_BYTES).then_some(number);
        if validate && pattern::check(body) != Ok(wanted) {
            return Err(wrong("holds other bytes than were sent"));
        }
        let bytes = body.len() as u64;
        let left_bytes = self.left_bytes.checked_sub(bytes);
        self.left_bytes = left_bytes.ok_or_else(|| wrong("is more than was asked for"))?;
        self.seen.note(number);
        self.overtaken.note(number);
        self.messages += 1;
        Ok(bytes)
    }

    fn has_ended(&self) -> bool {
        match self.state {
            State::Running => self.left_bytes == 0,
            State::Stopping => self.promised == Some(self.messages as u32),
            _ => false,
        }
    }
}

/// The state of one thread of the receiver within a point.
struct Receiver {
    point: PointSpec,
    flows: Vec<Flow>,
    /// The number of flows that have not ended.
    running: usize,
    /// The time since when the flows run.
    since: Instant,
    times: Times,
    /// The meter of flows without an end.
    meter: Option<Meter>,
}

/// Runs the client's side of a point.
pub(super) fn receive<B: Backend>(
    part: Part<'_, B>,
    asked: IncastRequest,
    random: &mut Random,
) -> Outcome {
    let Part { links, port, point } = part;
    let mut receiver = Receiver::new(links.len(), point, asked.spec)?;
    let burst_bytes = point.size_bytes as u64 * links.len() as u64;
    let (asked, from, bytes_per_s) = match asked.link_mbit_per_s {
        0 => {
            let bytes = burst_bytes.min(ALONE_BYTES_MAX).max(point.size_bytes as u64);
            let bytes_per_s = receiver.alone(links, port, bytes)?;
            (ALONE as u64, IdealFrom::SingleFlow, bytes_per_s)
        }
        mbit => (0, IdealFrom::Link, mbit as f64 * 1e6 / 8.0),
    };
    let pace = Pace::new(point, port, random.next(), Names::of(&KINDS))?;
    let mut pace = pace.with_warmup(links.len() as u64);
    pace.ask(asked);
    let mut calls = pace.calls(links, port, &mut receiver)?;
    let ideal_us = burst_bytes as f64 / bytes_per_s * 1e6;
    let incast = Incast {
        flows: links.len(),
        ideal_gbps: bytes_per_s * 8.0 / 1e9,
        ideal_from: from,
        bursts: receiver.times.summary(ideal_us).filter(|_| receiver.meter.is_none()),
        shares: receiver.meter.as_ref().and_then(Meter::summary),
    };
    calls.incast = Some(Found { incast, disorder: receiver.disorder()? });
    Ok(Measured::Calls(Box::new(calls)))
}

impl Receiver {
    fn new(flows: usize, point: PointSpec, spec: IncastSpec) -> Result<Self, Failure> {
        let meter = match (spec.interval_ms, point.limit) {
            (None, _) => None,
            (Some(interval_ms), Limit::DurationMs(ms)) => {
                let (interval, window) = (Duration::from_millis(interval_ms), ms.max(1));
                Some(Meter::new(flows, interval, Duration::from_millis(window)))
            }
            (Some(_), Limit::Iterations(_)) => {
                return Err(Refusal::PersistentFlows.into());
            }
        };
        Ok(Self {
            point,
            flows: (0..flows).map(|_| Flow::new()).collect(),
            running: 0,
            since: Instant::now(),
            times: Times::new(flows),
            meter,
        })
    }

    /// Measures the rate of one flow while the others are silent, in bytes a second.
    fn alone<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        port: &Port,
        bytes: u64,
    ) -> Result<f64, Failure> {
        let mut bytes_per_s = [0.0; ALONE];
        for (turn, own) in bytes_per_s.iter_mut().enumerate() {
            let number = turn % links.len();
            let took = self.transfer(&mut links[number], port, number, bytes)?;
            *own = bytes as f64 / took.as_secs_f64().max(1e-9);
        }
        bytes_per_s.sort_by(f64::total_cmp);
        Ok(bytes_per_s[ALONE / 2])
    }

    /// Runs a transfer of one flow. Returns how long it took.
    fn transfer<B: Backend>(
        &mut self,
        link: &mut Link<B>,
        port: &Port,
        number: usize,
        bytes: u64,
    ) -> Result<Duration, Failure> {
        let (flow, validate) = (&mut self.flows[number], self.point.validate);
        let mut watch = Watch::new(&port.signals, "waiting for a transfer");
        let since = Instant::now();
        (flow.state, flow.left_bytes) = (State::ToAsk, bytes);
        while !flow.has_ended() {
            if flow.state == State::ToAsk
                && message::post(link, 0, Code::Go, &request(bytes))?.is_some()
            {
                flow.state = State::Running;
            }
            if link.poll()? > 0 {
                watch.progress();
                link.take_arrived(|message| flow.take(message, validate).map(|_| ()))?;
            } else if watch.idle()? == Idle::Message {
                return Err(gave_up());
            }
        }
        flow.state = State::Idle;
        Ok(since.elapsed())
    }

    /// Starts all flows.
    fn begin(&mut self) {
        let bytes = if self.meter.is_some() { ENDLESS } else { self.point.size_bytes as u64 };
        for flow in &mut self.flows {
            (flow.state, flow.left_bytes) = (State::ToAsk, bytes);
        }
        self.running = self.flows.len();
        self.since = Instant::now();
    }

    /// Notes that a flow has ended.
    fn end(&mut self, pace: &mut Pace, number: usize) {
        self.flows[number].state = State::Idle;
        self.running -= 1;
        pace.end(TRANSFER, self.since, 1);
        self.times.note(pace.now.saturating_duration_since(self.since));
        if self.running == 0 {
            self.times.end_burst(pace.is_counting());
        }
    }

    /// Returns how far messages came out of the order of their flows. Fails if some came twice.
    fn disorder(&self) -> Result<Disorder, Failure> {
        let sum = |of: fn(&Flow) -> u64| self.flows.iter().map(of).sum::<u64>();
        let duplicates = sum(|flow| flow.seen.duplicates);
        if duplicates > 0 {
            return Err(Failure::Data(format!("{duplicates} messages arrived twice")));
        }
        Ok(Disorder {
            overtaken: sum(|flow| flow.overtaken.count),
            messages: sum(|flow| flow.messages),
            farthest: self.flows.iter().map(|flow| flow.overtaken.farthest).max().unwrap_or(0),
            ..Disorder::default()
        })
    }
}

impl<B: Backend> Activity<B> for Receiver {
    #[inline]
    fn collect(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
    ) -> Result<usize, Failure> {
        let Self { flows, meter, point, .. } = self;
        let flow = &mut flows[number];
        // The flow sends nothing yet, and others wait to be started, too.
        if flow.state == State::ToAsk && link.next_tx().is_some() {
            return Ok(0);
        }
        let moved = pace.collect(link, |pace, message| {
            let bytes = flow.take(message, point.validate)?;
            pace.traffic.chunks += u64::from(bytes > 0);
            pace.traffic.content_bytes += bytes;
            if let Some(meter) = meter {
                meter.note(number, bytes);
            }
            Ok(())
        })?;
        if let (Some(meter), true) = (meter, pace.is_counting()) {
            meter.advance(pace.now);
        }
        if moved > 0 && flow.has_ended() {
            self.end(pace, number);
        }
        Ok(moved)
    }

    #[inline]
    fn issue(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
    ) -> Result<usize, Failure> {
        if number == 0 && self.running == 0 && pace.due().is_some() {
            self.begin();
        }
        let flow = &mut self.flows[number];
        match flow.state {
            State::ToAsk if pace.post(link, 0, Code::Go, &request(flow.left_bytes))? => {
                flow.state = State::Running;
                pace.start();
                pace.ask(1);
                Ok(1)
            }
            State::ToStop if pace.post(link, 0, Code::Stop, &[])? => {
                flow.state = State::Stopping;
                Ok(1)
            }
            _ => Ok(0),
        }
    }

    /// Keeps the window open until a whole burst or interval is over; before that it has no figure.
    fn may_close(&self, _pace: &Pace) -> bool {
        match &self.meter {
            Some(meter) => meter.intervals() > 0,
            None => self.times.bursts() > 0,
        }
    }

    fn abandon(&mut self, _pace: &mut Pace, _link: &mut Link<B>, number: usize) {
        let flow = &mut self.flows[number];
        if self.meter.is_some() && flow.state == State::Running {
            flow.state = State::ToStop;
        }
    }

    fn is_idle(&self, number: usize) -> bool {
        self.flows[number].state == State::Idle
    }
}

fn wrong(what: &str) -> Failure {
    Failure::Data(format!("a message of a flow {what}: the fabric damages data"))
}
