//! The client's side: keeps calls outstanding, or starts them when they are due, and times each.
//!
//! Closed loop: a call starts when one has ended, and is timed from there. Open loop: calls start by
//! a schedule; one that finds no room starts late and is timed from when it was due. One clock read
//! per round with replies, not per call.

use std::time::Instant;

use super::message::{Code, HEADER_BYTES, Header};
use super::popularity::Popularity;
use super::store::{self, KEY_BYTES};
use super::{Place, WorkSpec, cpu_ns, message_bytes};
use crate::backend::Backend;
use crate::bench::open_loop::Schedule;
use crate::bench::rma::Window;
use crate::bench::{Measured, RoundTrips};
use crate::failure::Failure;
use crate::lane::Port;
use crate::link::{Arrival, Link};
use crate::measure::Random;
use crate::pattern;
use crate::spec::{Limit, PointSpec};
use crate::watch::{Idle, Watch};

/// What can be asked for, by name.
pub(crate) const ACTIONS: [&str; 2] = ["get", "put"];
const GET: usize = 0;
const PUT: usize = 1;

/// What one thread's calls came to within the window.
#[derive(Debug)]
pub(crate) struct Calls {
    /// Times of the calls of each of [`ACTIONS`], from start (or when due) to reply.
    pub(crate) times: [RoundTrips; 2],
    pub(crate) seconds: f64,
    /// Processor time of this thread.
    pub(crate) cpu_ns: u64,
    /// Messages of both directions, and their bytes with headers.
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// How far the schedule was behind at the end in ns (open loop).
    pub(crate) behind_ns: u64,
    /// Calls of the whole point, warm-up and end included.
    pub(crate) total: u64,
    pub(crate) validated: u64,
}

/// A call that waits for its reply.
#[derive(Debug, Clone, Copy)]
struct Call {
    is_open: bool,
    action: usize,
    /// Whose value it is about.
    index: u64,
    since: Instant,
}

/// The calls of one endpoint; a call's number is its place.
struct Session {
    calls: Vec<Call>,
    free: Vec<u32>,
}

/// One thread's side of a point.
struct Caller<'a> {
    work: WorkSpec,
    keys: &'a Popularity,
    random: &'a mut Random,
    schedule: Option<Schedule>,
    point: PointSpec,
    list: usize,
    /// Calls to make; `u64::MAX`: until the window is over.
    total: u64,
    window: Window,
    now: Instant,
    ended: u64,
    /// Versions of values written so far.
    version: u64,
    cpu_ns: u64,
    found: Calls,
}

/// The client's side of a point.
pub(super) fn call<B: Backend>(
    links: &mut [Link<B>],
    port: &Port,
    point: PointSpec,
    place: &mut Place,
) -> Result<Measured, Failure> {
    let now = Instant::now();
    let idle = Call { is_open: false, action: GET, index: 0, since: now };
    let depth = u32::try_from(point.depth).unwrap_or(u32::MAX);
    let session = || Session { calls: vec![idle; point.depth], free: (0..depth).rev().collect() };
    let mut sessions: Vec<Session> = links.iter().map(|_| session()).collect();
    let (rate, seed) = (point.rate_per_s, place.random.next());
    let mut caller = Caller {
        work: place.work,
        keys: &place.popularity,
        random: &mut place.random,
        schedule: (rate > 0).then(|| Schedule::new(now, rate, port.arrivals, seed)),
        point,
        list: port.flow.post_list,
        total: match point.limit {
            Limit::DurationMs(_) => u64::MAX,
            Limit::Iterations(n) => n + point.warmup_iterations(),
        },
        window: Window { point, started: now, opened: None },
        now,
        ended: 0,
        version: 0,
        cpu_ns: 0,
        found: Calls {
            times: [RoundTrips::new()?, RoundTrips::new()?],
            seconds: 0.0,
            cpu_ns: 0,
            messages: 0,
            bytes: 0,
            behind_ns: 0,
            total: 0,
            validated: 0,
        },
    };
    caller.measure(links, &mut sessions, port)?;
    caller.close();
    caller.end(links, &mut sessions, port)?;
    Ok(Measured::Calls(Box::new(caller.found)))
}

impl Caller<'_> {
    /// Makes calls until the window is over, or all that were asked for.
    fn measure<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        sessions: &mut [Session],
        port: &Port,
    ) -> Result<(), Failure> {
        let mut watch = Watch::new(&port.signals, "waiting for replies");
        loop {
            if self.schedule.is_some() {
                self.now = Instant::now();
            }
            let mut moved = 0;
            for (link, session) in links.iter_mut().zip(sessions.iter_mut()) {
                moved += self.collect(link, session)?;
                moved += self.issue(link, session)?;
            }
            if moved == 0 {
                if watch.idle()? == Idle::Message {
                    return Err(gave_up());
                }
                if self.schedule.is_none() {
                    continue;
                }
            } else {
                watch.progress();
            }
            let was_open = self.window.opened.is_some();
            if self.window.advance(self.now, self.ended) || self.ended >= self.total {
                return Ok(());
            }
            if !was_open && self.window.opened.is_some() {
                self.found.messages = 0;
                self.found.bytes = 0;
                self.cpu_ns = cpu_ns();
            }
        }
    }

    /// The window is over.
    fn close(&mut self) {
        let (opened, _) = self.window.opened.unwrap_or((self.window.started, 0));
        self.found.seconds = (self.now - opened).as_secs_f64();
        self.found.cpu_ns = cpu_ns() - self.cpu_ns;
        if let Some(schedule) = &self.schedule {
            let behind = self.now.saturating_duration_since(schedule.next);
            self.found.behind_ns = u64::try_from(behind.as_nanos()).unwrap_or(u64::MAX);
        }
        // What still comes counts no more.
        self.total = 0;
    }

    /// Waits for the replies that are still to come.
    fn end<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        sessions: &mut [Session],
        port: &Port,
    ) -> Result<(), Failure> {
        let (messages, bytes) = (self.found.messages, self.found.bytes);
        let mut watch = Watch::new(&port.signals, "waiting for the last replies");
        for (link, session) in links.iter_mut().zip(sessions.iter_mut()) {
            while session.free.len() < session.calls.len() || !link.is_idle() {
                if self.collect(link, session)? > 0 {
                    watch.progress();
                } else if watch.idle()? == Idle::Message {
                    return Err(gave_up());
                }
            }
        }
        (self.found.messages, self.found.bytes) = (messages, bytes);
        if self.point.validate {
            self.found.validated = self.found.total;
        }
        Ok(())
    }

    /// Polls, and takes the replies that have come; answers how many completions there were.
    #[inline]
    fn collect<B: Backend>(
        &mut self,
        link: &mut Link<B>,
        session: &mut Session,
    ) -> Result<usize, Failure> {
        let moved = link.poll()?;
        if !link.arrived.is_empty() {
            self.now = Instant::now();
            while let Some(reply) = link.arrived.pop_front() {
                self.take(link, session, reply)?;
                link.repost(reply.slot)?;
            }
        }
        Ok(moved)
    }

    #[inline]
    fn take<B: Backend>(
        &mut self,
        link: &Link<B>,
        session: &mut Session,
        reply: Arrival,
    ) -> Result<(), Failure> {
        let payload = link.payload(reply.slot)?;
        let payload = &payload[..reply.len_bytes.min(payload.len())];
        let header = Header::read(payload).ok_or_else(|| wrong("is damaged"))?;
        let call = session.calls.get_mut(header.call as usize).filter(|call| call.is_open);
        let call = call.ok_or_else(|| wrong("is for a call that is not outstanding"))?;
        let value = &payload[HEADER_BYTES..];
        match header.code {
            Code::Done => {}
            Code::Missing => return Err(wrong("knows no such key")),
            Code::Damaged => return Err(wrong("says that the call arrived damaged")),
            Code::Get | Code::Put => return Err(wrong("is a call itself")),
        }
        let wanted_bytes = if call.action == GET { self.point.size_bytes } else { 0 };
        let checked = self.point.validate && call.action == GET;
        if value.len() != wanted_bytes || (checked && !store::is_value(value, call.index)) {
            return Err(wrong("holds another value than that of its key"));
        }
        call.is_open = false;
        if self.window.opened.is_some() && self.total > 0 {
            // A call may have been due after the clock was read for this round.
            self.found.times[call.action].note(self.now.saturating_duration_since(call.since));
        }
        session.free.push(header.call);
        self.ended += 1;
        self.found.messages += 1;
        self.found.bytes += reply.len_bytes as u64;
        Ok(())
    }

    /// Starts the calls there is room for, or those that are due; answers how many.
    #[inline]
    fn issue<B: Backend>(
        &mut self,
        link: &mut Link<B>,
        session: &mut Session,
    ) -> Result<usize, Failure> {
        let rest = usize::try_from(self.total - self.found.total).unwrap_or(usize::MAX);
        let room = session.free.len().min(link.free_tx()).min(rest);
        if room < self.list.min(rest) {
            return Ok(0);
        }
        for index in 0..room {
            let due = self.schedule.as_ref().map_or(self.now, |schedule| schedule.next);
            if due > self.now {
                return Ok(index);
            }
            let (Some(number), Some(slot)) = (session.free.last().copied(), link.next_tx()) else {
                return Ok(index);
            };
            let (call, len_bytes) = self.write(link.payload_mut(slot)?, number, due);
            let more = index + 1 < room && !(index + 1).is_multiple_of(self.list);
            if !link.try_post(len_bytes, self.list > 1 && more)? {
                return Ok(index);
            }
            session.free.pop();
            session.calls[number as usize] = call;
            if let Some(schedule) = &mut self.schedule {
                schedule.advance();
            }
            self.found.total += 1;
            self.found.messages += 1;
            self.found.bytes += len_bytes as u64;
        }
        Ok(room)
    }

    /// Writes a call; answers its length, too.
    #[inline]
    fn write(&mut self, message: &mut [u8], number: u32, due: Instant) -> (Call, usize) {
        let index = self.keys.draw(self.random);
        let gets = self.work.gets_percent as usize;
        let is_get = gets == 100 || self.random.below(100) < gets;
        let (action, code) = if is_get { (GET, Code::Get) } else { (PUT, Code::Put) };
        let len_bytes = match is_get {
            true => HEADER_BYTES + self.work.request_bytes,
            false => HEADER_BYTES + KEY_BYTES + self.point.size_bytes,
        };
        debug_assert!(len_bytes <= message_bytes(self.work, self.point.size_bytes));
        Header { len_bytes, call: number, code }.write(message);
        let (key, body) = message[HEADER_BYTES..len_bytes].split_at_mut(KEY_BYTES);
        key.copy_from_slice(&store::key(index));
        if !is_get {
            self.version += 1;
            store::fill(body, index, self.version);
        } else if self.point.validate {
            pattern::fill(body, index);
        }
        (Call { is_open: true, action, index, since: due }, len_bytes)
    }
}

fn wrong(what: &str) -> Failure {
    Failure::Data(format!("a reply {what}: the fabric damages data"))
}

fn gave_up() -> Failure {
    Failure::Remote("the server ended the measurement".to_owned())
}
