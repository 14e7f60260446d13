//! The server's side of calls, which does what is asked for, answers, and counts the cost.

use std::ops::Range;

use bench_record::ReceiverCount;

use super::message::{Code, HEADER_BYTES, Header};
use super::{cpu_ns, process_cpu_ns};
use crate::bench::stream;
use crate::sleeper::Sleeper;
use crate::workload::prelude::*;

/// The number of rounds between two looks for the end.
const ROUNDS_PER_LOOK: u32 = 64;
/// The number of calls between two readings of the processor time, which are two system calls each.
const CALLS_PER_READING: u64 = 256;

/// The answer to a call.
pub(super) struct Answer {
    /// The number of the call.
    pub(super) call: u32,
    pub(super) code: Code,
    /// The place of the reply's body, as [`Service::body`] knows it; empty: there is no body.
    pub(super) body: Range<usize>,
    /// The number of operations that the call asked for.
    pub(super) operations: u64,
}

impl Answer {
    /// Makes the answer to a call that arrived damaged. The number of the call may be right: then
    /// its caller learns of the damage at once.
    pub(super) fn damaged(call: &[u8]) -> Self {
        let number = call.get(4..).and_then(|rest| rest.first_chunk());
        let call = number.map_or(u32::MAX, |bytes| u32::from_le_bytes(*bytes));
        Self { call, code: Code::Damaged, body: 0..0, operations: 1 }
    }
}

/// A service that answers calls.
pub(super) trait Service {
    /// Does what a call asks for. May be called again if there was no room for the reply.
    fn handle(&mut self, call: &[u8]) -> Answer;

    /// Returns the body of a reply.
    fn body(&self, place: Range<usize>) -> &[u8];
}

/// The processor time of this thread and of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Clocks {
    thread_ns: u64,
    process_ns: u64,
}

impl Clocks {
    fn now() -> Self {
        Self { thread_ns: cpu_ns(), process_ns: process_cpu_ns() }
    }
}

/// The cost of answers: the processor time from the first call to the last reading.
#[derive(Default)]
pub(super) struct Cost {
    calls: u64,
    served: u64,
    /// The number of operations of the first call.
    first: u64,
    /// The clocks when the first call had come.
    start: Clocks,
    /// The number of operations after the first call, at the last reading.
    operations: u64,
    /// The processor time of this thread from the first call to the last reading.
    cpu_ns: u64,
    /// The same of the process.
    process_cpu_ns: u64,
}

impl Cost {
    /// Notes that a call with this many operations was answered.
    #[inline]
    pub(super) fn note(&mut self, operations: u64) {
        self.calls += 1;
        self.served += operations;
        if self.calls == 1 {
            self.first = operations;
            self.start = Clocks::now();
        } else if self.calls % CALLS_PER_READING == 0 {
            self.read();
        }
    }

    /// Notes that an operation begins which is long enough for a separate reading; `end` follows.
    pub(super) fn start(&mut self) {
        if self.start == Clocks::default() {
            self.start = Clocks::now();
        }
    }

    /// Notes that the operation has ended.
    pub(super) fn end(&mut self) {
        self.calls += 1;
        self.served += 1;
        self.read();
    }

    fn read(&mut self) {
        self.cpu_ns = cpu_ns() - self.start.thread_ns;
        self.process_cpu_ns = process_cpu_ns() - self.start.process_ns;
        self.operations = self.served - self.first;
    }

    /// Returns the number of operations so far.
    pub(super) const fn served(&self) -> u64 {
        self.served
    }

    /// Returns the final count; `validate`: all operations were checked.
    pub(super) fn count(mut self, validate: bool) -> ReceiverCount {
        if self.operations == 0 && self.calls > 1 {
            self.read();
        }
        ReceiverCount {
            messages: self.operations,
            cpu_ns: self.cpu_ns,
            process_cpu_ns: self.process_cpu_ns,
            total: self.served,
            validated: if validate { self.served } else { 0 },
            ..ReceiverCount::default()
        }
    }
}

/// Calls `round`, which returns true if anything moved, until the client has had all that it asked
/// for. Returns how much that was.
pub(super) fn until_told<B: Backend>(
    links: &mut [Link<B>],
    port: &Port,
    mut round: impl FnMut(&mut [Link<B>]) -> Result<bool, Failure>,
) -> Result<u64, Failure> {
    let mut rounds = 0_u32;
    let mut sleeper = Sleeper::new();
    loop {
        if !round(links)? {
            sleeper.pause(links, &port.signals)?;
            // A round takes long on a side that sleeps.
            rounds |= if port.signals.sleeps() { ROUNDS_PER_LOOK - 1 } else { 0 };
        }
        rounds = rounds.wrapping_add(1);
        if rounds % ROUNDS_PER_LOOK == 0 {
            if let Some(total) = port.sent()? {
                return Ok(total);
            }
        }
    }
}

/// Answers calls until the client has had all its replies.
pub(super) fn answer<B: Backend>(part: Part<'_, B>, service: &mut impl Service) -> Outcome {
    let Part { links, port, point } = part;
    let mut cost = Cost::default();
    until_told(links, port, |links| {
        let (before, mut found) = (cost.served(), 0);
        for link in links {
            found += link.poll()?;
            serve(link, port.flow.post_list, service, &mut cost)?;
        }
        Ok(found > 0 || cost.served() > before)
    })?;
    stream::finish(links, &port.signals)?;
    Ok(Measured::Received(cost.count(point.validate)))
}

/// Answers the calls that have arrived, as far as there is room for replies.
#[inline]
fn serve<B: Backend>(
    link: &mut Link<B>,
    list: usize,
    service: &mut impl Service,
    cost: &mut Cost,
) -> Result<(), Failure> {
    let room = link.arrived.len().min(link.free_tx());
    for index in 0..room {
        let (Some(call), Some(slot)) = (link.arrived.front().copied(), link.next_tx()) else {
            break;
        };
        let answer = service.handle(link.message(call)?);
        let body = service.body(answer.body);
        let len_bytes = HEADER_BYTES + body.len();
        let reply = link.payload_mut(slot)?;
        reply[HEADER_BYTES..len_bytes].copy_from_slice(body);
        Header { len_bytes, call: answer.call, code: answer.code }.write(reply);
        let more = list > 1 && index + 1 < room && (index + 1) % list != 0;
        // A call whose reply the fabric does not take now is answered again in the next round.
        if !link.try_message(len_bytes, more)? {
            break;
        }
        link.arrived.pop_front();
        link.repost(call.slot)?;
        cost.note(answer.operations);
    }
    Ok(())
}
