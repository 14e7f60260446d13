//! Connections that are opened, used for one round trip and closed, one after the other.
//!
//! A thread has one endpoint that lasts. Over it both sides tell each other the addresses of the
//! endpoints that come and go, so that the times include no control connection:
//!
//! ```text
//! client   say "open" ──► open ──► exchange addresses, connect ──► one round trip ──► close
//! server   hear it ─────► open ──► exchange addresses, connect ──► echo ────────────► close
//! ```

mod talk;

use std::sync::Arc;
use std::time::Instant;

use bench_record as record;
use bench_record::Distribution;
use fabric::OutOfBand as _;

use self::talk::Talk;
use super::pace::{Activity, Names, Pace};
use super::server::until_told;
use crate::backend::{Lengths, Opener, Wants};
use crate::bench::stream;
use crate::measure::Random;
use crate::session::work;
use crate::workload::prelude::*;

/// The number of sends and receives of the endpoint that lasts, and of each other one: few.
const DEPTH: usize = 16;
/// The length of the longest address that is exchanged, with its length field, in bytes.
const MESSAGE_BYTES: usize = 1024;
/// The client's message that a connection comes.
const OPEN: &[u8] = b"open";
/// The byte that goes over the connection and back.
const BYTE: &[u8] = b"x";

const KINDS: [&str; 1] = ["connection"];
const PARTS: [&str; 4] = ["open", "connect", "first message", "close"];

/// A lane of the workload.
pub(super) struct Connections {
    job: Arc<JobSpec>,
    side: Side,
    /// The requirements with which each endpoint that comes and goes is opened.
    wants: Wants,
    /// The source of the moments, which are drawn anew for each block.
    random: Random,
}

impl Workload for Connections {
    const SENDS_DEPTH: bool = false;

    fn depths(_job: &JobSpec, _side: Side, _thread: usize) -> (usize, usize) {
        (DEPTH, DEPTH)
    }

    fn message_bytes(_job: &JobSpec, size_bytes: usize, _parameter: usize) -> usize {
        size_bytes.max(MESSAGE_BYTES)
    }

    fn new(task: &Task) -> Result<Self, Failure> {
        let source = task.peers.first().and_then(|(_, source)| source.clone());
        // The client opens and closes connections, as elsewhere: the ports of connections that
        // ended stay taken for a minute at the side that closes first, and the server needs ports
        // to listen on.
        let opener = if task.side == Side::Client { Opener::Us } else { Opener::Peer };
        let wants = Wants { source, opener, ..task.wants.clone() };
        let random = task.random();
        Ok(Self { job: Arc::clone(&task.job), side: task.side, wants, random })
    }

    fn run<B: Backend>(&mut self, part: Part<'_, B>) -> Outcome {
        match self.side {
            Side::Client => {
                let seed = self.random.next();
                self.call(part, seed)
            }
            Side::Server => self.answer(part),
        }
    }

    fn conclude(session: &mut BenchSession, point: PointSpec) -> Result<Point, Failure> {
        let (calls, served) = session.shared_counts()?;
        let arrivals = (point.rate_per_s > 0).then_some(session.job().arrivals);
        let (work, times) = work::of(&calls, &served, arrivals, point.limit)?;
        let connections = record::Connections {
            count: work.calls,
            per_s: work.mcalls_per_s * 1e6,
            parts: work.parts,
            client_cpu_us: Some(work.client_process_cpu_ns / 1e3),
            arrivals,
            behind_ms: work.behind_ms,
        };
        Ok(Point {
            rx_depth: 0,
            operation_time: times.and_then(|times| Distribution::of(&times.histogram, 1)),
            connections: Some(connections),
            ..session.new_point(point)
        })
    }
}

impl Connections {
    fn call<B: Backend>(&self, part: Part<'_, B>, seed: u64) -> Outcome {
        let Part { links, port, point } = part;
        // The parts begin one after the other, the first one with the connection.
        let names = Names { kinds: &KINDS, parts: &PARTS, are_parts_due: false };
        let pace = Pace::new(point, port, seed, names)?;
        pace.run(links, port, &mut Caller { room: self, port })
    }

    fn answer<B: Backend>(&self, part: Part<'_, B>) -> Outcome {
        let Part { links, port, .. } = part;
        let mut total = 0;
        until_told(links, port, |links| {
            let Some(lasting) = links.first_mut() else { return Ok(false) };
            let mut talk = Talk::new(lasting, port, self.side);
            if talk.hear()?.is_none() {
                return Ok(false);
            }
            let prepared = B::prepare(&self.wants)?;
            let mut link = self.connect(prepared, &mut talk)?;
            let mut talk = Talk::new(&mut link, port, self.side);
            let byte = talk.listen()?;
            talk.say(&byte)?;
            total += 1;
            Ok(true)
        })?;
        stream::finish(links, &port.signals)?;
        Ok(Measured::Received(record::ReceiverCount { total, ..Default::default() }))
    }

    fn connect<B: Backend>(
        &self,
        prepared: B::Prepared,
        talk: &mut Talk<'_, B>,
    ) -> Result<Link<B>, Failure> {
        let connected = B::connect(prepared, talk);
        // The reason why it ended says more than the failure of the exchange.
        let connected = talk.explained(connected)?;
        let mut link = Link::new(connected, &self.job, self.side, 0)?;
        link.begin(Lengths::Leading);
        // The first message must find a receive.
        let met = talk.barrier().map_err(Failure::Fabric);
        talk.explained(met)?;
        Ok(link)
    }
}

/// The client's side of a point.
struct Caller<'a> {
    room: &'a Connections,
    port: &'a Port,
}

impl Caller<'_> {
    /// Makes one connection. Returns the moment at which it began, and those at which its parts
    /// ended, except the last part.
    fn make<B: Backend>(&self, lasting: &mut Link<B>) -> Result<[Instant; 4], Failure> {
        let mut talk = Talk::new(lasting, self.port, Side::Client);
        talk.say(OPEN)?;
        let start = Instant::now();
        let prepared = B::prepare(&self.room.wants)?;
        let opened = Instant::now();
        let mut link = self.room.connect(prepared, &mut talk)?;
        let connected = Instant::now();
        let mut talk = Talk::new(&mut link, self.port, Side::Client);
        talk.say(BYTE)?;
        match talk.listen()?.as_slice() {
            BYTE => Ok([start, opened, connected, Instant::now()]),
            other => Err(Failure::Data(format!(
                "the first answer over a connection is {other:?} instead of {BYTE:?}: the fabric damages data"
            ))),
        }
    }
}

impl<B: Backend> Activity<B> for Caller<'_> {
    fn collect(
        &mut self,
        _pace: &mut Pace,
        link: &mut Link<B>,
        _number: usize,
    ) -> Result<usize, Failure> {
        link.poll()
    }

    fn issue(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        _number: usize,
    ) -> Result<usize, Failure> {
        if pace.rest() == 0 {
            return Ok(0);
        }
        let Some(due) = pace.due() else { return Ok(0) };
        pace.start();
        pace.ask(1);
        let moments = self.make(link)?;
        let [start, .., answered] = moments;
        pace.now = answered;
        let is_late = pace.is_open_loop();
        pace.end(0, if is_late { due } else { start }, 1);
        for (part, (from, to)) in moments.iter().zip(&moments[1..]).enumerate() {
            pace.part(part, *to - *from);
        }
        pace.now = Instant::now();
        pace.part(PARTS.len() - 1, pace.now - answered);
        Ok(1)
    }

    fn is_idle(&self, _number: usize) -> bool {
        true
    }
}
