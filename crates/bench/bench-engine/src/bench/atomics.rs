//! Atomics on the peer's memory, counted by the initiator and checked by both sides.
//!
//! All FETCH_ADDs of an endpoint add 1 to the same word: each value must be fetched exactly once,
//! and the final value must be the number of operations. Each slot has a word of its own that its
//! COMPARE_SWAPs count up by one. A swap that finds another number than the last one left shows
//! that an operation was lost or repeated. So operations in flight need no order.

use std::time::Instant;

use bench_record::spec::{Limit, Operation};
use bench_record::{self as record, Bandwidth, Distribution, ReceiverCount, TimesOf};

use super::latency::server_gave_up;
use super::rma::{Window, until_told};
use super::{RoundTrips, counted};
use crate::backend::{Atomic, WORD_BYTES};
use crate::shared_clock::shared_s;
use crate::watch::{Idle, Watch};
use crate::workload::prelude::*;

/// The distance from one word to the next in bytes, so that each word has a cache line to itself.
const STRIDE_BYTES: usize = 64;
/// The number of words of each slot: an operand, a value to compare with, and the fetched value.
const WORDS_PER_SLOT: usize = 3;

/// A lane of the benchmark.
pub(crate) struct Atomics {
    side: Side,
    operation: Operation,
    /// The length of the memory that the peer changes, in bytes, on each endpoint.
    window_bytes: usize,
}

impl Workload for Atomics {
    const LEAST_BYTES: usize = WORD_BYTES;

    fn depths(job: &JobSpec, side: Side, _thread: usize) -> (usize, usize) {
        match side {
            Side::Client => (job.tx_depth, 1),
            Side::Server => (1, 1),
        }
    }

    fn message_bytes(_job: &JobSpec, size_bytes: usize, _parameter: usize) -> usize {
        size_bytes.saturating_mul(WORDS_PER_SLOT)
    }

    fn window_bytes(job: &JobSpec, side: Side) -> usize {
        match side {
            Side::Client => STRIDE_BYTES,
            Side::Server => job.tx_depth.max(1).saturating_mul(STRIDE_BYTES),
        }
    }

    fn refusal(size_bytes: usize, _parameter: usize, _rx_depth: usize) -> Option<String> {
        (size_bytes != WORD_BYTES).then(|| format!("an atomic is about {WORD_BYTES} B"))
    }

    fn new(task: &Task) -> Result<Self, Failure> {
        let (side, operation) = (task.side, task.job.operation);
        Ok(Self { side, operation, window_bytes: task.wants.window_bytes })
    }

    /// Sets all words to 0.
    fn begin<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        _point: PointSpec,
    ) -> Result<(), Failure> {
        match self.side {
            Side::Client => links.iter_mut().for_each(Link::keep_atomics),
            Side::Server => {
                let zeros = vec![0; self.window_bytes];
                links.iter_mut().try_for_each(|link| link.write_window(&zeros))?;
            }
        }
        Ok(())
    }

    fn run<B: Backend>(&mut self, part: Part<'_, B>) -> Outcome {
        match self.side {
            Side::Client => initiate(part, self.operation),
            Side::Server => self.count(part.links, part.port),
        }
    }

    /// Waits until all threads have done their operations, then compares their number with the
    /// server's memory.
    fn conclude(session: &mut BenchSession, point: PointSpec) -> Result<Point, Failure> {
        let (mut counts, mut times) = (Vec::new(), Vec::new());
        for measured in session.slow_results()? {
            if let Measured::Initiated(count, trips) = measured {
                counts.push(count);
                times.extend(trips);
            }
        }
        let done: Vec<u64> = counts.iter().map(|count| count.total).collect();
        let found = session.counts(done.clone())?.into_iter().flatten().map(|count| count.total);
        compare(&done, &found.collect::<Vec<u64>>())?;
        counted(point, &counts)?;
        let times = times.into_iter().map(|trips| *trips).reduce(|sum, trips| sum.and(&trips));
        let times = times.as_ref().map(|trips| &trips.histogram);
        let checked = done.iter().sum();
        Ok(Point {
            rx_depth: 0,
            sent: checked,
            bandwidth: Some(Bandwidth::of(&counts, point.limit)),
            operation_time: times.and_then(|times| Distribution::of(times, 1)),
            times: times.and_then(|times| session.packed(TimesOf::Operations, times)),
            atomics: Some(record::Atomics { checked }),
            ..session.new_point(point)
        })
    }
}

/// Compares, thread by thread, the operations that were done with the operations that the memory
/// shows. Fails if they differ.
fn compare(done: &[u64], found: &[u64]) -> Result<(), Failure> {
    if done == found {
        return Ok(());
    }
    let each = |counts: &[u64]| counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" + ");
    Err(Failure::Data(format!(
        "{} operations were done, the peer's memory shows {}: the fabric loses or repeats atomics",
        each(done),
        each(found)
    )))
}

impl Atomics {
    /// Runs the server's side of a point: makes progress until the client has ended, then counts
    /// the operations that the words show.
    fn count<B: Backend>(&self, links: &mut [Link<B>], port: &Port) -> Outcome {
        let done = until_told(links, port)?;
        let mut words = vec![0; self.window_bytes];
        let mut total = sum_of_words(links, &mut words)?;
        // Operations that fetch nothing may complete before the peer's memory shows them.
        let mut watch = Watch::deaf(&port.signals, "waiting for the last operations");
        while self.operation == Operation::Add && total < done {
            for link in links.iter_mut() {
                link.poll()?;
            }
            let before = total;
            total = sum_of_words(links, &mut words)?;
            if total > before {
                watch.progress();
                continue;
            }
            match watch.idle_on(links) {
                Ok(_) => {}
                // A missing operation shows in the sum.
                Err(Failure::Timeout { .. }) => break,
                Err(failure) => return Err(failure),
            }
        }
        Ok(Measured::Received(ReceiverCount { total, ..ReceiverCount::default() }))
    }
}

/// Returns the number of operations that the memory of all endpoints shows. `words` has room for
/// the memory of one endpoint.
fn sum_of_words<B: Backend>(links: &[Link<B>], words: &mut [u8]) -> Result<u64, Failure> {
    let mut sum = 0_u64;
    for link in links {
        link.read_window(words)?;
        for stride in words.chunks(STRIDE_BYTES) {
            if let Some(word) = stride.first_chunk() {
                sum = sum.wrapping_add(u64::from_ne_bytes(*word));
            }
        }
    }
    Ok(sum)
}

/// The words of an endpoint as the initiator expects them.
#[derive(Debug)]
struct Words {
    operation: Operation,
    done: u64,
    /// The expected number in the word of each slot.
    numbers: Vec<u64>,
    /// The sum of the fetched values less that of the expected values, and the same for their
    /// squares: both are 0 if each value was fetched once.
    balance: [u64; 2],
}

impl Words {
    fn new(operation: Operation, slots: usize) -> Self {
        Self { operation, done: 0, numbers: vec![0; slots], balance: [0; 2] }
    }

    /// Returns the next operation of a slot, and the offset of its word in bytes.
    #[inline]
    fn next(&self, slot: usize) -> (Atomic, u64) {
        match self.operation {
            Operation::CompareSwap => {
                let compare = self.numbers[slot];
                let swap = compare.wrapping_add(1);
                (Atomic::CompareSwap { compare, swap }, (slot * STRIDE_BYTES) as u64)
            }
            Operation::Add => (Atomic::Add, 0),
            _ => (Atomic::FetchAdd, 0),
        }
    }

    /// Notes that the operation of a slot is done, and checks the value that it has fetched.
    #[inline]
    fn take(&mut self, slot: usize, fetched: u64) -> Result<(), Failure> {
        if self.operation == Operation::CompareSwap {
            let number = self.numbers[slot];
            if fetched != number {
                return Err(Failure::Data(format!(
                    "a compare_swap found {fetched} where {number} was left: the fabric loses or \
                     repeats atomics"
                )));
            }
            self.numbers[slot] = number.wrapping_add(1);
        } else {
            let expected = self.done;
            for (balance, of) in self.balance.iter_mut().zip([|_| 1, |value| value]) {
                let part = |value: u64| value.wrapping_mul(of(value));
                *balance = balance.wrapping_add(part(fetched)).wrapping_sub(part(expected));
            }
        }
        self.done += 1;
        Ok(())
    }

    /// Notes all operations that are done on the endpoint of these words.
    #[inline]
    fn take_all<B: Backend>(&mut self, link: &mut Link<B>) -> Result<(), Failure> {
        while let Some(slot) = link.fetched.pop_front() {
            let fetched = match self.operation {
                // A plain addition fetches nothing: the expected value stands in for it.
                Operation::Add => self.done,
                _ => link.fetched_word(slot)?,
            };
            self.take(slot, fetched)?;
            link.put_back(slot);
        }
        Ok(())
    }

    /// Fails if a value was fetched twice, or never.
    fn check(&self) -> Result<(), Failure> {
        match self.balance {
            [0, 0] => Ok(()),
            _ => Err(Failure::Data(format!(
                "{} operations did not fetch each value below that once: the fabric loses or repeats \
                 atomics",
                self.done
            ))),
        }
    }
}

/// The client's side of a point.
struct Initiator {
    depth: usize,
    /// The number of operations to post; `u64::MAX`: until the window is over.
    total: u64,
    posted: u64,
    /// The words of each endpoint.
    words: Vec<Words>,
}

impl Initiator {
    fn new<B: Backend>(links: &[Link<B>], point: PointSpec, operation: Operation) -> Self {
        let total = match point.limit {
            Limit::DurationMs(_) => u64::MAX,
            Limit::Iterations(n) => n.saturating_add(point.warmup_iterations()),
        };
        let words = links.iter().map(|link| Words::new(operation, link.backend().tx_slots()));
        Self { depth: point.depth, total, posted: 0, words: words.collect() }
    }

    /// Posts as many operations as there is room for and notes those that are done. Returns how
    /// many operations were posted or done.
    #[inline]
    fn turn<B: Backend>(&mut self, links: &mut [Link<B>]) -> Result<usize, Failure> {
        let mut moved = 0;
        for (link, words) in links.iter_mut().zip(&mut self.words) {
            while self.posted < self.total && link.in_flight() < self.depth {
                let Some(slot) = link.next_tx() else { break };
                let (atomic, offset) = words.next(slot);
                if !link.try_atomic(atomic, offset)? {
                    break;
                }
                self.posted += 1;
                moved += 1;
            }
            moved += link.poll()?;
            words.take_all(link)?;
        }
        Ok(moved)
    }

    #[inline]
    fn done(&self) -> u64 {
        self.words.iter().map(|words| words.done).sum()
    }

    /// Waits until all posted operations are done, and checks the fetched values.
    fn finish<B: Backend>(mut self, links: &mut [Link<B>], port: &Port) -> Result<u64, Failure> {
        self.total = self.posted;
        let mut watch = Watch::new(&port.signals, "waiting for the last operations to complete");
        while self.done() < self.posted {
            match self.turn(links)? {
                0 if watch.idle_on(links)? == Idle::Message => return Err(server_gave_up()),
                0 => {}
                _ => watch.progress(),
            }
        }
        self.words.iter().try_for_each(Words::check)?;
        Ok(self.posted)
    }
}

fn initiate<B: Backend>(part: Part<'_, B>, operation: Operation) -> Outcome {
    let Part { links, port, point } = part;
    let mut initiator = Initiator::new(links, point, operation);
    let mut window = Window {
        point,
        warmup_iterations: point.warmup_iterations(),
        started: Instant::now(),
        opened: None,
    };
    // Operations that come one at a time can be timed.
    let mut trips = RoundTrips::new()?;
    let is_timed = point.depth == 1 && links.len() == 1;
    let (mut last, mut seen) = (window.started, 0);
    let mut watch = Watch::new(&port.signals, "waiting for the peer's memory");
    while seen < initiator.total {
        let moved = initiator.turn(links)?;
        let done = initiator.done();
        if done == seen {
            if moved == 0 && watch.idle_on(links)? == Idle::Message {
                return Err(server_gave_up());
            }
            continue;
        }
        watch.progress();
        let now = Instant::now();
        if is_timed && window.opened.is_some() {
            trips.note(now - last);
        }
        (last, seen) = (now, done);
        if window.advance(now, done) {
            break;
        }
    }
    let (opened, at_start) = window.opened.unwrap_or((window.started, 0));
    let messages = seen.saturating_sub(at_start);
    let count = ReceiverCount {
        messages,
        bytes: messages * WORD_BYTES as u64,
        seconds: (last - opened).as_secs_f64(),
        opened_s: shared_s(opened),
        total: initiator.finish(links, port)?,
        ..ReceiverCount::default()
    };
    Ok(Measured::Initiated(count, is_timed.then(|| Box::new(trips))))
}

#[cfg(test)]
mod tests;
