//! The client's side of calls: keeps them outstanding, or starts them when they are due.

use std::time::Instant;

use bench_record::failure::Failure;
use bench_record::spec::PointSpec;
use bench_record::workload::KEY_BYTES;

use super::message::{Code, HEADER_BYTES, Header};
use super::pace::{Activity, Pace};
use super::popularity::Popularity;
use super::store;
use super::{Place, WorkSpec, index};
use crate::backend::Backend;
use crate::bench::Measured;
use crate::lane::Port;
use crate::link::Link;
use crate::measure::Random;
use crate::pattern;

/// What can be asked for, by name.
const ACTIONS: [&str; 2] = ["get", "put"];
const GET: usize = 0;
const PUT: usize = 1;

/// What the numbers of keys mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    Store,
    Tree,
}

impl Naming {
    /// The number of the key that is asked for as often as `rank` says.
    #[inline]
    const fn index(self, rank: u64, value_bytes: usize) -> u64 {
        match self {
            Self::Store => rank,
            Self::Tree => index::scattered(rank, value_bytes),
        }
    }

    /// The key with a number, on the wire.
    #[inline]
    fn key(self, index: u64) -> [u8; KEY_BYTES] {
        match self {
            Self::Store => store::key(index),
            Self::Tree => index::wire_key(index),
        }
    }
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
    naming: Naming,
    random: &'a mut Random,
    sessions: Vec<Session>,
    /// Versions of values written so far.
    version: u64,
}

/// The client's side of a point.
pub(super) fn call<B: Backend>(
    links: &mut [Link<B>],
    port: &Port,
    point: PointSpec,
    place: &mut Place,
    naming: Naming,
) -> Result<Measured, Failure> {
    let idle = Call { is_open: false, action: GET, index: 0, since: Instant::now() };
    let depth = u32::try_from(point.depth).unwrap_or(u32::MAX);
    let session = || Session { calls: vec![idle; point.depth], free: (0..depth).rev().collect() };
    let pace = Pace::new(point, port, place.random.next(), (&ACTIONS, &[]))?;
    let mut caller = Caller {
        work: place.work,
        keys: &place.popularity,
        naming,
        random: &mut place.random,
        sessions: links.iter().map(|_| session()).collect(),
        version: 0,
    };
    pace.run(links, port, &mut caller)
}

impl<B: Backend> Activity<B> for Caller<'_> {
    #[inline]
    fn collect(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
    ) -> Result<usize, Failure> {
        let session = &mut self.sessions[number];
        pace.collect(link, |pace, reply| session.take(pace, reply))
    }

    #[inline]
    fn issue(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
    ) -> Result<usize, Failure> {
        let (list, rest) = (pace.list, pace.rest());
        let room = self.sessions[number].free.len().min(link.free_tx()).min(rest);
        if room < list.min(rest) {
            return Ok(0);
        }
        for index in 0..room {
            let Some(due) = pace.due() else { return Ok(index) };
            let free = self.sessions[number].free.last().copied();
            let (Some(place), Some(slot)) = (free, link.next_tx()) else { return Ok(index) };
            let (call, len_bytes) = self.write(pace.point, link.payload_mut(slot)?, place, due);
            let more = index + 1 < room && !(index + 1).is_multiple_of(list);
            if !link.try_post(len_bytes, list > 1 && more)? {
                return Ok(index);
            }
            let session = &mut self.sessions[number];
            session.free.pop();
            session.calls[place as usize] = call;
            pace.start();
            pace.ask(1);
            pace.message(len_bytes);
        }
        Ok(room)
    }

    fn is_idle(&self, number: usize) -> bool {
        let session = &self.sessions[number];
        session.free.len() == session.calls.len()
    }

    fn next_kind(&mut self) -> usize {
        if self.draw_get() { GET } else { PUT }
    }
}

impl Session {
    /// Takes a reply.
    #[inline]
    fn take(&mut self, pace: &mut Pace, reply: &[u8]) -> Result<(), Failure> {
        let (header, value) = Header::of_reply(reply)?;
        let call = self.calls.get_mut(header.call as usize).filter(|call| call.is_open);
        let call = call.ok_or_else(|| wrong("is for a call that is not outstanding"))?;
        let wanted_bytes = if call.action == GET { pace.point.size_bytes } else { 0 };
        let checked = pace.point.validate && call.action == GET;
        if value.len() != wanted_bytes || (checked && !store::is_value(value, call.index)) {
            return Err(wrong("holds another value than that of its key"));
        }
        call.is_open = false;
        pace.end(call.action, call.since, 1);
        self.free.push(header.call);
        Ok(())
    }
}

impl Caller<'_> {
    /// Whether the next call is a get.
    #[inline]
    fn draw_get(&mut self) -> bool {
        let gets = self.work.gets_percent as usize;
        gets == 100 || self.random.below(100) < gets
    }

    /// Writes a call; answers its length, too.
    #[inline]
    fn write(
        &mut self,
        point: PointSpec,
        message: &mut [u8],
        number: u32,
        due: Instant,
    ) -> (Call, usize) {
        let index = self.naming.index(self.keys.draw(self.random), point.size_bytes);
        let is_get = self.draw_get();
        let (action, code) = if is_get { (GET, Code::Get) } else { (PUT, Code::Put) };
        let len_bytes = match is_get {
            true => HEADER_BYTES + self.work.request_bytes,
            false => HEADER_BYTES + KEY_BYTES + point.size_bytes,
        };
        Header { len_bytes, call: number, code }.write(message);
        let (key, body) = message[HEADER_BYTES..len_bytes].split_at_mut(KEY_BYTES);
        key.copy_from_slice(&self.naming.key(index));
        if !is_get {
            self.version += 1;
            store::fill(body, index, self.version);
        } else if point.validate {
            pattern::fill(body, index);
        }
        (Call { is_open: true, action, index, since: due }, len_bytes)
    }
}

/// A reply that cannot be right.
pub(super) fn wrong(what: &str) -> Failure {
    Failure::Data(format!("a reply {what}: the fabric damages data"))
}
