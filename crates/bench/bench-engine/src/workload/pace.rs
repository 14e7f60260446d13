//! The times of a point at the client: when operations start, when the window is open, and which
//! operations count.
//!
//! Closed loop: an operation starts when there is room for it. Open loop: operations start by a
//! schedule; an operation that finds no room starts late and is timed from when it was due. An
//! operation that is on its way when the window closes is waited for and counts with its time; one
//! that never started counts with its age at that moment. The clock is read once per round with
//! completions (open loop: once per round), not once per operation.

use std::time::{Duration, Instant};

use bench_record::Span;
use bench_record::spec::Limit;

use super::calls::{Calls, Times, Traffic};
use super::message::{self, Code};
use super::{cpu_ns, process_cpu_ns};
use crate::bench::open_loop::Schedule;
use crate::bench::rma::Window;
use crate::bench::{RoundTrips, nothing_counted};
use crate::shared_clock::shared_s;
use crate::timeline::Recorder;
use crate::watch::{Idle, Watch};
use crate::workload::prelude::*;

/// The activity of a workload's client on each of its endpoints, which have numbers.
pub(super) trait Activity<B: Backend> {
    /// Polls, and handles the messages that have come. Returns the number of completions.
    fn collect(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
    ) -> Result<usize, Failure>;

    /// Starts as many operations as there is room for and are due. Returns how much was posted.
    fn issue(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
    ) -> Result<usize, Failure>;

    /// Returns true if the window may end by now.
    fn may_close(&self, _pace: &Pace) -> bool {
        true
    }

    /// Gives up, at the end of the window, the work that was not posted.
    fn abandon(&mut self, _pace: &mut Pace, _link: &mut Link<B>, _number: usize) {}

    /// Returns the kind that the next operation would have had.
    fn next_kind(&mut self) -> usize {
        0
    }

    /// Returns true if nothing is on its way.
    fn is_idle(&self, number: usize) -> bool;
}

/// The clock of one thread's side of a point.
pub(super) struct Pace {
    pub(super) point: PointSpec,
    /// The last clock read.
    pub(super) now: Instant,
    /// The number of operations that are handed to the fabric at once.
    pub(super) list: usize,
    pub(super) traffic: Traffic,
    schedule: Option<Schedule>,
    /// The number of operations to start; `u64::MAX`: until the window is over.
    total: u64,
    started: u64,
    ended: u64,
    window: Window,
    /// True if the window is open.
    is_counting: bool,
    /// The time at which the window was closed.
    closed: Option<Instant>,
    cpu_ns: u64,
    process_cpu_ns: u64,
    recorder: Recorder,
    /// True if the parts of operations begin when the operations are due.
    are_parts_due: bool,
    found: Calls,
}

/// The names of operations in the record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) kinds: &'a [&'static str],
    /// The parts that are timed separately.
    pub(super) parts: &'a [&'static str],
    /// True if a part begins when its operation is due, as a wait does: then the part of an
    /// operation that never began counts with the age of the operation.
    pub(super) are_parts_due: bool,
}

impl<'a> Names<'a> {
    /// Makes the names of operations that are timed as a whole.
    pub(super) const fn of(kinds: &'a [&'static str]) -> Self {
        Self { kinds, parts: &[], are_parts_due: false }
    }
}

/// Makes room for times with these names.
fn room(names: &[&'static str]) -> Result<Times, Failure> {
    names.iter().map(|name| Ok((*name, RoundTrips::new()?))).collect()
}

impl Pace {
    /// Makes the clock for operations of these kinds, which have these parts.
    pub(super) fn new(
        point: PointSpec,
        port: &Port,
        seed: u64,
        names: Names<'_>,
    ) -> Result<Self, Failure> {
        let Names { kinds, parts, are_parts_due } = names;
        let (now, rate) = (Instant::now(), point.rate_per_s);
        Ok(Self {
            point,
            now,
            list: port.flow.post_list,
            traffic: Traffic::default(),
            schedule: (rate > 0).then(|| Schedule::new(now, rate, port.arrivals, seed)),
            total: match point.limit {
                Limit::DurationMs(_) => u64::MAX,
                Limit::Iterations(n) => n + point.warmup_iterations(),
            },
            started: 0,
            ended: 0,
            window: Window {
                point,
                warmup_iterations: point.warmup_iterations(),
                started: now,
                opened: None,
            },
            is_counting: false,
            closed: None,
            cpu_ns: 0,
            process_cpu_ns: 0,
            recorder: port.recorder(point),
            are_parts_due,
            found: Calls {
                times: room(kinds)?,
                parts: room(parts)?,
                unended: room(kinds)?,
                unended_parts: room(parts)?,
                span: Span { opened_s: 0.0, seconds: 0.0 },
                cpu_ns: 0,
                process_cpu_ns: 0,
                traffic: Traffic::default(),
                behind_ns: 0,
                total: 0,
                committed: 0,
                validated: 0,
                incast: None,
            },
        })
    }

    /// Starts this many operations before the window, if a number of operations is asked for
    /// instead of a time.
    pub(super) fn with_warmup(mut self, operations: u64) -> Self {
        if let Limit::Iterations(n) = self.point.limit {
            self.total = n + operations;
            self.window.warmup_iterations = operations;
        }
        self
    }

    /// Returns true if the window is open.
    pub(super) const fn is_counting(&self) -> bool {
        self.is_counting
    }

    /// Returns the number of operations of a kind that have ended within the window.
    pub(super) fn counted(&self, kind: usize) -> u64 {
        self.found.times[kind].1.count
    }

    /// Returns the number of operations that may still start.
    #[inline]
    pub(super) fn rest(&self) -> usize {
        usize::try_from(self.total.saturating_sub(self.started)).unwrap_or(usize::MAX)
    }

    /// Returns the moment from which the next operation is timed; `None` if none is to start now.
    #[inline]
    pub(super) fn due(&self) -> Option<Instant> {
        let due = self.schedule.as_ref().map_or(self.now, |schedule| schedule.next);
        (due <= self.now && self.started < self.total).then_some(due)
    }

    /// Notes that the operation that was due has started.
    #[inline]
    pub(super) fn start(&mut self) {
        self.started += 1;
        if let Some(schedule) = &mut self.schedule {
            schedule.advance();
        }
    }

    /// Notes that the server is asked for this many operations.
    #[inline]
    pub(super) const fn ask(&mut self, operations: u64) {
        self.found.total += operations;
    }

    /// Notes that a message of this length was posted or has come.
    #[inline]
    pub(super) const fn message(&mut self, len_bytes: usize) {
        self.traffic.messages += 1;
        self.traffic.bytes += len_bytes as u64;
    }

    /// Polls an endpoint. Messages that have come are handed to `take` one by one, after one clock
    /// read for all. Returns the number of completions.
    #[inline]
    pub(super) fn collect<B: Backend>(
        &mut self,
        link: &mut Link<B>,
        mut take: impl FnMut(&mut Self, &[u8]) -> Result<(), Failure>,
    ) -> Result<usize, Failure> {
        let moved = link.poll()?;
        if !link.arrived.is_empty() {
            self.now = Instant::now();
        }
        link.take_arrived(|message| {
            self.message(message.len());
            take(self, message)
        })?;
        Ok(moved)
    }

    /// Sends a short message. Returns false if the fabric is full.
    pub(super) fn post<B: Backend>(
        &mut self,
        link: &mut Link<B>,
        call: u32,
        code: Code,
        body: &[u8],
    ) -> Result<bool, Failure> {
        let len_bytes = message::post(link, call, code, body)?;
        if let Some(len_bytes) = len_bytes {
            self.message(len_bytes);
        }
        Ok(len_bytes.is_some())
    }

    /// Notes that operations of a kind, all timed from `since`, have ended.
    #[inline]
    pub(super) fn end(&mut self, kind: usize, since: Instant, count: u64) {
        if self.is_counting {
            // An operation may have been due after the clock was read for this round.
            let took = self.now.saturating_duration_since(since);
            self.found.times[kind].1.note_many(took, count);
            self.recorder.note(self.now, took, count);
        } else if self.closed.is_some() {
            // The operation was on its way when the window closed, so that its time is known by
            // now.
            let took = self.now.saturating_duration_since(since);
            self.found.unended[kind].1.note_age(took, count);
        }
        self.ended += count;
    }

    /// Gives up an operation whose first part was not over when the window closed.
    pub(super) fn give_up(&mut self, kind: usize, part: usize, since: Instant) {
        if let Some(closed) = self.closed {
            let age = closed.saturating_duration_since(since);
            self.found.unended[kind].1.note_age(age, 1);
            self.found.unended_parts[part].1.note_age(age, 1);
        }
    }

    /// Notes that a transaction was committed.
    #[inline]
    pub(super) const fn commit(&mut self) {
        self.found.committed += 1;
    }

    /// Returns true if operations start by a schedule.
    pub(super) const fn is_open_loop(&self) -> bool {
        self.schedule.is_some()
    }

    /// Notes that a part of an operation took this long.
    #[inline]
    pub(super) fn part(&mut self, part: usize, took: Duration) {
        if self.is_counting {
            self.found.parts[part].1.note(took);
        }
    }

    /// Measures until the window is over, or all operations that were asked for have ended.
    pub(super) fn run<B: Backend>(
        self,
        links: &mut [Link<B>],
        port: &Port,
        activity: &mut impl Activity<B>,
    ) -> Outcome {
        Ok(Measured::Calls(Box::new(self.calls(links, port, activity)?)))
    }

    /// Measures like `run`, for an activity that adds to the result.
    pub(super) fn calls<B: Backend>(
        mut self,
        links: &mut [Link<B>],
        port: &Port,
        activity: &mut impl Activity<B>,
    ) -> Result<Calls, Failure> {
        self.measure(links, port, activity)?;
        self.close(|| activity.next_kind());
        for (number, link) in links.iter_mut().enumerate() {
            activity.abandon(&mut self, link, number);
        }
        self.drain(links, port, activity)?;
        let has_counted = self.found.times.iter().any(|(_, times)| times.count > 0);
        if !has_counted && matches!(self.point.limit, Limit::Iterations(_)) {
            return Err(nothing_counted(self.point));
        }
        if self.point.validate {
            self.found.validated = self.found.total;
        }
        Ok(self.found)
    }

    /// Returns the time at which the next operation is due; `None` in a closed loop, if no more are
    /// to start, and if the operation is due already.
    fn next_due(&self) -> Option<Instant> {
        let next = self.schedule.as_ref().map(|schedule| schedule.next);
        next.filter(|next| *next > self.now && self.started < self.total)
    }

    fn measure<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        port: &Port,
        activity: &mut impl Activity<B>,
    ) -> Result<(), Failure> {
        let mut watch = Watch::new(&port.signals, "waiting for replies");
        let mut first = 0;
        loop {
            if self.schedule.is_some() {
                self.now = Instant::now();
                // The first link gets the operations that are due, so that each link is first in
                // turn.
                first = (first + 1) % links.len().max(1);
            }
            let mut moved = 0;
            let (sooner, later) = links.split_at_mut(first);
            for (number, link) in (first..).zip(later).chain((0..).zip(sooner)) {
                moved += activity.collect(self, link, number)?;
                moved += activity.issue(self, link, number)?;
            }
            if moved > 0 {
                watch.progress();
            } else if watch.idle_until(links, self.next_due())? == Idle::Message {
                return Err(gave_up());
            } else if self.schedule.is_none() {
                continue;
            } else if (0..links.len()).all(|number| activity.is_idle(number)) {
                // Nothing is on its way: it is not the peer's fault that the next operation is due
                // much later.
                watch.excuse();
            }
            let is_over = self.window.advance(self.now, self.ended) && activity.may_close(self);
            if is_over || self.ended >= self.total {
                return Ok(());
            }
            if !self.is_counting && self.window.opened.is_some() {
                self.is_counting = true;
                self.recorder.open(self.now);
                self.traffic = Traffic::default();
                (self.cpu_ns, self.process_cpu_ns) = (cpu_ns(), process_cpu_ns());
            }
        }
    }

    /// Closes the window. Later operations do not count, and operations that were due count with
    /// their age.
    fn close(&mut self, mut next_kind: impl FnMut() -> usize) {
        let (opened, _) = self.window.opened.unwrap_or((self.window.started, 0));
        let seconds = (self.now - opened).as_secs_f64();
        self.found.span = Span { opened_s: shared_s(opened), seconds };
        self.recorder.close(self.now);
        self.found.cpu_ns = cpu_ns() - self.cpu_ns;
        self.found.process_cpu_ns = process_cpu_ns() - self.process_cpu_ns;
        self.found.traffic = self.traffic;
        let are_parts_due = self.are_parts_due;
        // If a number of operations was asked for, all of them have been done.
        let is_cut_off = matches!(self.point.limit, Limit::DurationMs(_));
        if let Some(schedule) = &mut self.schedule {
            let behind = self.now.saturating_duration_since(schedule.next);
            self.found.behind_ns = u64::try_from(behind.as_nanos()).unwrap_or(u64::MAX);
            if is_cut_off {
                self.closed = Some(self.now);
                let Calls { unended, unended_parts, .. } = &mut self.found;
                schedule.rest(self.now, |due, count| {
                    let age = self.now - due;
                    unended[next_kind()].1.note_age(age, count);
                    if are_parts_due {
                        unended_parts.iter_mut().for_each(|(_, part)| part.note_age(age, count));
                    }
                });
            }
        }
        self.is_counting = false;
        self.total = 0;
    }

    /// Waits for the operations that are still on their way.
    fn drain<B: Backend>(
        &mut self,
        links: &mut [Link<B>],
        port: &Port,
        activity: &mut impl Activity<B>,
    ) -> Result<(), Failure> {
        let mut watch = Watch::new(&port.signals, "waiting for the last replies");
        loop {
            let (mut moved, mut is_left) = (0, false);
            // The links take turns: a message for one link may depend on another link.
            for (number, link) in links.iter_mut().enumerate() {
                moved += activity.collect(self, link, number)?;
                // No new operation starts here, but those that have started may need more messages.
                moved += activity.issue(self, link, number)?;
                is_left |= !activity.is_idle(number) || !link.is_idle();
            }
            if moved > 0 {
                watch.progress();
            } else if !is_left {
                return Ok(());
            } else if watch.idle_on(links)? == Idle::Message {
                return Err(gave_up());
            }
        }
    }
}

pub(crate) fn gave_up() -> Failure {
    Failure::Remote("the server ended the measurement".to_owned())
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::backend::null::{Null, Peer};
    use crate::lane::Command;
    use crate::stream_job::{datagrams_alone, patient_for};

    /// An activity whose operations end in the round in which they start, this many at once.
    struct AtOnce(usize);

    impl Activity<Null> for AtOnce {
        fn collect(
            &mut self,
            _pace: &mut Pace,
            _link: &mut Link<Null>,
            _number: usize,
        ) -> Result<usize, Failure> {
            Ok(0)
        }

        fn issue(
            &mut self,
            pace: &mut Pace,
            _link: &mut Link<Null>,
            _number: usize,
        ) -> Result<usize, Failure> {
            let count = pace.rest().min(self.0);
            for _ in 0..count {
                pace.start();
            }
            pace.now = Instant::now();
            let now = pace.now;
            pace.end(0, now, count as u64);
            Ok(count)
        }

        fn is_idle(&self, _number: usize) -> bool {
            true
        }
    }

    fn point(limit: Limit, rate_per_s: u64) -> PointSpec {
        PointSpec { rate_per_s, ..PointSpec::new(8, 1, limit) }
    }

    /// The age of an operation that never began must not count as the time of each of its parts.
    #[test]
    fn what_never_began_has_no_parts_but_a_wait() {
        let (port, job, _peer) = datagrams_alone();
        let null = Null::new(Peer::Takes, 1, 1, 8);
        let mut links = [Link::new(null, &job, Side::Client, 0).expect("a link")];
        let mut unended = |are_parts_due: bool| {
            let names = Names { kinds: &["call"], parts: &["open", "close"], are_parts_due };
            let point = point(Limit::DurationMs(20), 100_000);
            let pace = Pace::new(point, &port, 1, names).expect("a pace");
            let calls = pace.calls(&mut links, &port, &mut AtOnce(0)).expect("calls");
            let parts: Vec<u64> = calls.unended_parts.iter().map(|(_, own)| own.count).collect();
            (calls.unended[0].1.count, parts)
        };
        let (calls, parts) = unended(false);
        assert!(calls > 0 && parts == [0, 0], "{calls} {parts:?}");
        let (calls, parts) = unended(true);
        assert!(calls > 0 && parts == [calls, calls], "{calls} {parts:?}");
    }

    /// A time in which nothing is due must not be taken for a dead server.
    #[test]
    fn a_sparse_schedule_is_no_dead_peer() {
        let timeout = Duration::from_millis(20);
        let (port, job, _peer) = patient_for(timeout, Command::Sent(0));
        let null = Null::new(Peer::Takes, 1, 1, 8);
        let mut links = [Link::new(null, &job, Side::Client, 0).expect("a link")];
        let sparse = PointSpec { rate_per_s: 1, ..point(Limit::DurationMs(200), 1) };
        let pace = Pace::new(sparse, &port, 1, Names::of(&["call"])).expect("a pace");
        pace.calls(&mut links, &port, &mut AtOnce(0)).expect("nothing was due");
    }

    /// Without a call in the window the rate would be 0 calls a second.
    #[test]
    fn calls_that_all_end_with_the_warm_up_are_no_measurement() {
        let point = point(Limit::Iterations(20), 0);
        let (port, job, _peer) = datagrams_alone();
        let null = Null::new(Peer::Takes, 1, 1, 8);
        let mut links = [Link::new(null, &job, Side::Client, 0).expect("a link")];
        let mut measured = |at_once: usize| {
            let pace = Pace::new(point, &port, 1, Names::of(&["call"])).expect("a pace");
            pace.calls(&mut links, &port, &mut AtOnce(at_once))
        };
        let failure = measured(120).expect_err("nothing is left after the warm-up");
        assert_eq!(failure.exit_code(), 11);
        assert!(failure.to_string().contains("--iterations"), "{failure}");
        // 100 calls warm up, 10 at a time.
        let calls = measured(10).expect("calls");
        assert_eq!(calls.times[0].1.count, 20);
    }
}
