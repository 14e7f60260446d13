//! The client's side of calls, which keeps them outstanding, or starts them when they are due.

use std::time::Instant;

use bench_record::workload::KEY_BYTES;

use super::demand::Demand;
use super::message::{Code, HEADER_BYTES, Header};
use super::outstanding::Outstanding;
use super::pace::{Activity, Names, Pace};
use super::store;
use crate::pattern;
use crate::workload::prelude::*;

/// The names of the operations that a call may ask for.
const ACTIONS: [&str; 2] = ["get", "put"];
const GET: usize = 0;
const PUT: usize = 1;

/// The meaning of the numbers of keys.
pub(super) trait Naming {
    /// Returns the number of the key with this rank of popularity.
    fn index(&self, rank: u64, value_bytes: usize) -> u64;

    /// Returns the key with this number, on the wire.
    fn key(&self, index: u64) -> [u8; KEY_BYTES];
}

/// A call that waits for its reply.
#[derive(Debug, Clone, Copy)]
struct Call {
    action: usize,
    /// The number of the key whose value the call is about.
    index: u64,
    since: Instant,
}

/// The state of one thread of the client within a point.
struct Caller<'a, N> {
    demand: &'a mut Demand,
    naming: N,
    /// The outstanding calls of each endpoint.
    sessions: Vec<Outstanding<Call>>,
    /// The number of versions of values that were written so far.
    version: u64,
}

/// Runs the client's side of a point.
pub(super) fn call<B: Backend>(
    part: Part<'_, B>,
    demand: &mut Demand,
    naming: impl Naming,
) -> Outcome {
    let Part { links, port, point } = part;
    let pace = Pace::new(point, port, demand.random.next(), Names::of(&ACTIONS))?;
    let sessions = links.iter().map(|_| Outstanding::new(point.depth)).collect();
    let mut caller = Caller { demand, naming, sessions, version: 0 };
    pace.run(links, port, &mut caller)
}

impl<B: Backend, N: Naming> Activity<B> for Caller<'_, N> {
    #[inline]
    fn collect(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
    ) -> Result<usize, Failure> {
        let session = &mut self.sessions[number];
        pace.collect(link, |pace, reply| take(session, pace, reply))
    }

    #[inline]
    fn issue(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
    ) -> Result<usize, Failure> {
        let (list, rest) = (pace.list, pace.rest());
        let room = self.sessions[number].room().min(link.free_tx()).min(rest);
        if room < list.min(rest) {
            return Ok(0);
        }
        for index in 0..room {
            let Some(due) = pace.due() else { return Ok(index) };
            let (Some(place), Some(slot)) = (self.sessions[number].next(), link.next_tx()) else {
                return Ok(index);
            };
            let (call, len_bytes) = self.write(pace.point, link.payload_mut(slot)?, place, due);
            let more = list > 1 && index + 1 < room && (index + 1) % list != 0;
            if !link.try_post(len_bytes, more)? {
                return Ok(index);
            }
            self.sessions[number].begin(call);
            pace.start();
            pace.ask(1);
            pace.message(len_bytes);
        }
        Ok(room)
    }

    fn is_idle(&self, number: usize) -> bool {
        self.sessions[number].is_empty()
    }

    fn next_kind(&mut self) -> usize {
        if self.draw_get() { GET } else { PUT }
    }
}

/// Handles a reply.
#[inline]
fn take(calls: &mut Outstanding<Call>, pace: &mut Pace, reply: &[u8]) -> Result<(), Failure> {
    let (header, value) = Header::of_reply(reply)?;
    let call = calls.end(header.call);
    let call = call.ok_or_else(|| wrong("is for a call that is not outstanding"))?;
    let wanted_bytes = if call.action == GET { pace.point.size_bytes } else { 0 };
    let checked = pace.point.validate && call.action == GET;
    if value.len() != wanted_bytes || (checked && !store::is_value(value, call.index)) {
        return Err(wrong("holds another value than that of its key"));
    }
    pace.end(call.action, call.since, 1);
    Ok(())
}

impl<N: Naming> Caller<'_, N> {
    /// Returns true if the next call is a get.
    #[inline]
    fn draw_get(&mut self) -> bool {
        let gets = self.demand.work.gets_percent as usize;
        gets == 100 || self.demand.random.below(100) < gets
    }

    /// Writes a call into a message. Returns the length of the message, too.
    #[inline]
    fn write(
        &mut self,
        point: PointSpec,
        message: &mut [u8],
        number: u32,
        due: Instant,
    ) -> (Call, usize) {
        let index = self.naming.index(self.demand.draw(), point.size_bytes);
        let is_get = self.draw_get();
        let (action, code) = if is_get { (GET, Code::Get) } else { (PUT, Code::Put) };
        let len_bytes = match is_get {
            true => HEADER_BYTES + self.demand.work.request_bytes,
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
        (Call { action, index, since: due }, len_bytes)
    }
}

/// Makes the failure of a reply that cannot be right.
pub(super) fn wrong(what: &str) -> Failure {
    Failure::Data(format!("a reply {what}: the fabric damages data"))
}
