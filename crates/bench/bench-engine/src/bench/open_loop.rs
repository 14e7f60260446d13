//! Requests at moments that do not depend on answers (an open loop), echoed by the server. The
//! response time of a request runs from the moment for which it was intended, so that it includes
//! the delay behind a slow answer; the service time runs from the moment at which the request was
//! posted. A request that was never posted, or whose answer was lost, counts with its age when it
//! was given up: otherwise a fabric would look better the slower it is.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bench_record::spec::{Arrivals, EndpointKind, Limit};
use bench_record::{self as record, Distribution, TimesOf};

use super::{RoundTrips, echo, latency};
use crate::exchange::Control;
use crate::lanes::Lanes;
use crate::measure::Random;
use crate::refusal::Refusal;
use crate::timeline::Recorder;
use crate::watch::{Idle, Watch};
use crate::workload::Outstanding;
use crate::workload::prelude::*;

/// The length of the part of a request that the server sends back, in bytes: a flag, three bytes of
/// the serial, and the number.
const HEADER_BYTES: usize = 8;
const SERIAL_MASK: u32 = 0x00ff_ffff;
/// The time after which an unanswered datagram counts as lost, if one that was posted this much
/// later has been answered.
const OVERTAKEN: Duration = Duration::from_millis(10);
/// The multiple of the window after which a schedule that cannot be kept is given up.
const PATIENCE: u32 = 4;

/// A lane of the benchmark.
pub(crate) struct OpenLoop {
    side: Side,
    /// The source of the moments, which are drawn anew for each block.
    random: Random,
}

impl Workload for OpenLoop {
    const LEAST_BYTES: usize = HEADER_BYTES;

    fn depths(job: &JobSpec, _side: Side, _thread: usize) -> (usize, usize) {
        // Both sides send and receive; one more place is for the last message.
        let depth = job.tx_depth.saturating_add(1);
        (depth, depth)
    }

    fn new(task: &Task) -> Result<Self, Failure> {
        Ok(Self { side: task.side, random: task.random() })
    }

    fn run<B: Backend>(&mut self, part: Part<'_, B>) -> Outcome {
        match self.side {
            Side::Client => generate(part, self.random.next()),
            Side::Server => echo::echo_all(part, HEADER_BYTES),
        }
    }

    fn serve(lanes: &Lanes, _control: &mut Control) -> Result<(), Failure> {
        lanes.results().map(|_| ())
    }

    /// Waits for the answers to all requests.
    fn conclude(session: &mut BenchSession, point: PointSpec) -> Result<Point, Failure> {
        let mut all = session.results()?.into_iter().filter_map(|measured| match measured {
            Measured::Loaded(loaded) => Some(*loaded),
            _ => None,
        });
        let first = all.next();
        let first = first.ok_or_else(|| Failure::Check("no thread had answers".to_owned()));
        let loaded = all.fold(first?, |sum, loaded| sum.and(&loaded));
        let seconds = loaded.seconds.max(f64::MIN_POSITIVE);
        // Without answers, ages only show how long the window was, and nothing of the fabric.
        let service = Distribution::of(&loaded.service.histogram, 1);
        let response = service.and_then(|_| Distribution::of(&loaded.response.histogram, 1));
        let times = session.packed(TimesOf::Responses, &loaded.response.histogram);
        Ok(Point {
            lost: Some(loaded.response.lost),
            open_loop: Some(record::OpenLoop {
                arrivals: session.job().arrivals,
                offered_per_s: loaded.intended as f64 / seconds,
                answered_per_s: loaded.answered as f64 / seconds,
                unposted: loaded.unposted,
                response,
                service,
            }),
            times: times.filter(|_| response.is_some()),
            ..session.new_point(point)
        })
    }
}

/// The findings of one thread.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The response times of all requests that were intended for the window.
    pub(crate) response: RoundTrips,
    /// The service times of those that were answered.
    pub(crate) service: RoundTrips,
    /// The number of requests that were intended for the measured window.
    pub(crate) intended: u64,
    /// The number of requests that were answered within the window, whenever they were intended.
    pub(crate) answered: u64,
    pub(crate) seconds: f64,
    /// The number of requests that were never posted, because the fabric was too far behind.
    pub(crate) unposted: u64,
}

/// The most moments that are drawn one by one. Beyond that their mean number is taken, from which
/// the true number differs by less than 0.1 %.
const DRAWN_MAX: f64 = 1_048_576.0;
/// The number of parts into which the time of so many moments is divided.
const PARTS: u32 = 4096;

impl Loaded {
    /// Adds the findings of another thread.
    pub(crate) fn and(self, other: &Self) -> Self {
        Self {
            response: self.response.and(&other.response),
            service: self.service.and(&other.service),
            intended: self.intended.saturating_add(other.intended),
            answered: self.answered + other.answered,
            seconds: self.seconds.max(other.seconds),
            unposted: self.unposted.saturating_add(other.unposted),
        }
    }
}

/// The moments for which requests are intended.
pub(crate) struct Schedule {
    pub(crate) next: Instant,
    interval_s: f64,
    arrivals: Arrivals,
    random: Random,
}

impl Schedule {
    pub(crate) fn new(start: Instant, rate_per_s: u64, arrivals: Arrivals, seed: u64) -> Self {
        let interval_s = 1.0 / rate_per_s.max(1) as f64;
        Self { next: start, interval_s, arrivals, random: Random::new(seed) }
    }

    #[inline]
    pub(crate) fn advance(&mut self) {
        let step_s = match self.arrivals {
            Arrivals::Fixed => self.interval_s,
            // Exponential: 1 - unit is above 0.
            Arrivals::Poisson => -(1.0 - self.random.unit()).ln() * self.interval_s,
        };
        self.next += Duration::from_secs_f64(step_s);
    }

    /// Calls `tell` with the moments that are left before `end`, and the number of requests at
    /// each.
    pub(crate) fn rest(&mut self, end: Instant, mut tell: impl FnMut(Instant, u64)) {
        let left = end.saturating_duration_since(self.next);
        let count = left.as_secs_f64() / self.interval_s;
        if count <= DRAWN_MAX {
            while self.next < end {
                tell(self.next, 1);
                self.advance();
            }
            return;
        }
        let part = left / PARTS;
        let each = (count / f64::from(PARTS)).round() as u64;
        for number in 0..PARTS {
            tell(self.next + part * number + part / 2, each);
        }
        self.next = end;
    }
}

/// A request that was posted and not answered yet.
#[derive(Debug, Clone, Copy)]
struct Request {
    intended: Instant,
    posted: Instant,
    /// The number of requests that were posted before, because request numbers are used again.
    serial: u32,
}

struct Generator<'a, B> {
    link: &'a mut Link<B>,
    port: &'a Port,
    point: PointSpec,
    opens: Instant,
    closes: Instant,
    requests: Outstanding<Request>,
    serial: u32,
    /// The numbers and serials of datagrams in the order in which they were posted; some of them
    /// may be answered by now.
    unanswered: VecDeque<(u32, u32)>,
    found: Loaded,
    recorder: Recorder,
}

/// Runs the client's side of a point.
fn generate<B: Backend>(part: Part<'_, B>, seed: u64) -> Outcome {
    let Part { links, port, point } = part;
    let [link] = links else { return Err(latency::one_endpoint(links.len())) };
    let Limit::DurationMs(ms) = point.limit else {
        return Err(Refusal::OpenLoop.into());
    };
    let start = Instant::now();
    let opens = start + Duration::from_millis(point.warmup_ms);
    let window = Duration::from_millis(ms);
    let mut generator = Generator {
        link,
        port,
        point,
        opens,
        closes: opens + window,
        requests: Outstanding::new(point.depth),
        serial: 0,
        unanswered: VecDeque::new(),
        found: Loaded {
            response: RoundTrips::new()?,
            service: RoundTrips::new()?,
            intended: 0,
            answered: 0,
            seconds: window.as_secs_f64(),
            unposted: 0,
        },
        recorder: port.recorder(point),
    };
    generator.recorder.open(opens);
    let mut schedule = Schedule::new(start, point.rate_per_s, port.arrivals, seed);
    generator.run(&mut schedule, window * PATIENCE)?;
    generator.drain()?;
    let Generator { found, mut recorder, .. } = generator;
    recorder.close(opens + window);
    latency::end(link, port, point)?;
    Ok(Measured::Loaded(Box::new(found)))
}

impl<B: Backend> Generator<'_, B> {
    /// Posts every request that is intended before the window closes, as soon as it is due and
    /// there is room.
    fn run(&mut self, schedule: &mut Schedule, patience: Duration) -> Result<(), Failure> {
        let mut watch = Watch::new(&self.port.signals, "waiting for answers");
        let give_up = self.closes + patience;
        while schedule.next < self.closes {
            let now = Instant::now();
            if now > give_up {
                break;
            }
            let mut moved = false;
            while schedule.next <= now && schedule.next < self.closes && self.post(schedule.next)? {
                schedule.advance();
                moved = true;
            }
            moved |= self.collect()?;
            if moved || self.requests.is_empty() {
                watch.progress();
            } else {
                self.idle(&mut watch)?;
            }
        }
        self.give_up(schedule);
        Ok(())
    }

    /// Counts the requests that were never posted, with their present age.
    fn give_up(&mut self, schedule: &mut Schedule) {
        let (now, opens, found) = (Instant::now(), self.opens, &mut self.found);
        schedule.rest(self.closes, |intended, count| {
            if intended >= opens {
                found.unposted = found.unposted.saturating_add(count);
                found.intended = found.intended.saturating_add(count);
                found.response.note_age(now - intended, count);
            }
        });
    }

    /// Waits for the last answers.
    fn drain(&mut self) -> Result<(), Failure> {
        let mut watch = Watch::new(&self.port.signals, "waiting for the last answers");
        while !self.requests.is_empty() {
            if self.collect()? {
                watch.progress();
            } else {
                self.idle(&mut watch)?;
            }
        }
        Ok(())
    }

    fn idle(&mut self, watch: &mut Watch<'_>) -> Result<(), Failure> {
        match watch.idle()? {
            Idle::Quiet if self.port.endpoint == EndpointKind::Dgram => {
                // All requests that are still on their way are lost.
                self.lose_until(None);
                watch.progress();
            }
            Idle::Spin | Idle::Quiet | Idle::WindowDone => {}
            Idle::Message => return Err(latency::server_gave_up()),
        }
        Ok(())
    }

    /// Gives up the datagrams that were posted before `moment`; `None`: all of them. They count
    /// with their present age. If they were kept for longer, each would take the place of a request
    /// that is due.
    fn lose_until(&mut self, moment: Option<Instant>) {
        while let Some((number, serial)) = self.unanswered.front().copied() {
            match self.requests.get(number) {
                Some(own) if own.serial == serial => {
                    if moment.is_some_and(|moment| own.posted >= moment) {
                        return;
                    }
                    let intended = own.intended;
                    self.requests.end(number);
                    self.found.response.lost += 1;
                    if intended >= self.opens {
                        self.found.response.note_age(intended.elapsed(), 1);
                    }
                }
                // The datagram was answered.
                _ => {}
            }
            self.unanswered.pop_front();
        }
    }

    /// Posts a request. Returns false if the most requests possible are on their way.
    #[inline]
    fn post(&mut self, intended: Instant) -> Result<bool, Failure> {
        let (Some(number), Some(slot)) = (self.requests.next(), self.link.next_tx()) else {
            return Ok(false);
        };
        let serial = self.serial & SERIAL_MASK;
        let word = u64::from(serial) << u32::BITS | u64::from(number);
        let mut header = word.to_be_bytes();
        header[0] = latency::GOES_ON;
        self.link.payload_mut(slot)?[..HEADER_BYTES].copy_from_slice(&header);
        let posted = Instant::now();
        if !self.link.try_send(self.point.size_bytes)? {
            return Ok(false);
        }
        self.requests.begin(Request { intended, posted, serial });
        self.serial = self.serial.wrapping_add(1);
        if self.port.endpoint == EndpointKind::Dgram {
            self.unanswered.push_back((number, serial));
        }
        self.found.intended += u64::from(intended >= self.opens);
        Ok(true)
    }

    /// Handles answers. Returns false if no operation has completed.
    #[inline]
    fn collect(&mut self) -> Result<bool, Failure> {
        if self.link.poll()? == 0 {
            return Ok(false);
        }
        let now = Instant::now();
        while let Some(answer) = self.link.arrived.pop_front() {
            let mut header = [0; HEADER_BYTES];
            header.copy_from_slice(&self.link.payload(answer.slot)?[..HEADER_BYTES]);
            self.link.repost(answer.slot)?;
            header[0] = 0;
            let word = u64::from_be_bytes(header);
            let (serial, number) = ((word >> u32::BITS) as u32, word as u32);
            if number as usize >= self.point.depth {
                return Err(Failure::Data(format!("an answer to request {number}, never sent")));
            }
            // An answer may come after it was given up, when another request has its number.
            if self.requests.get(number).is_none_or(|own| own.serial != serial) {
                continue;
            }
            let Some(Request { intended, posted, .. }) = self.requests.end(number) else {
                continue;
            };
            if self.port.endpoint == EndpointKind::Dgram {
                if let Some(moment) = posted.checked_sub(OVERTAKEN) {
                    self.lose_until(Some(moment));
                }
            }
            // A request that was due before the window and is answered within it counts, because
            // some requests of the window are answered after it.
            self.found.answered += u64::from((self.opens..self.closes).contains(&now));
            if intended >= self.opens {
                self.found.response.note(now - intended);
                self.recorder.note(now, now - intended, 1);
                self.found.service.note(now - posted);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::backend::null::{Null, Peer};
    use crate::stream_job::datagrams_alone;

    #[test]
    fn what_is_left_of_a_schedule_is_told_in_bounded_time() {
        let start = Instant::now();
        let end = start + Duration::from_millis(100);
        for (rate_per_s, wanted) in [(1_000, 100), (1_000_000_000, 100_000_000)] {
            let mut schedule = Schedule::new(start, rate_per_s, Arrivals::Fixed, 3);
            let (mut calls, mut count, mut sum_s) = (0_u32, 0, 0.0);
            schedule.rest(end, |moment, here| {
                assert!(moment < end);
                calls += 1;
                count += here;
                sum_s += (end - moment).as_secs_f64() * here as f64;
            });
            assert!(schedule.next >= end && f64::from(calls) <= DRAWN_MAX, "{calls} calls");
            let (count, wanted) = (count as f64, f64::from(wanted));
            assert!((count / wanted - 1.0).abs() < 0.001, "{count} of {wanted}");
            // Ages lie evenly between 0 and 100 ms.
            assert!((sum_s / count - 0.05).abs() < 0.001, "mean age {} s", sum_s / count);
        }
    }

    fn link(peer: Peer, job: &JobSpec) -> Link<Null> {
        let null = Null::new(peer, 4, 4, HEADER_BYTES);
        Link::new(null, job, Side::Client, 0).expect("a link")
    }

    /// Makes a generator with an open window and room for `depth` requests.
    fn generator<'a>(
        link: &'a mut Link<Null>,
        port: &'a Port,
        depth: usize,
    ) -> Generator<'a, Null> {
        let point = PointSpec {
            rate_per_s: 1,
            ..PointSpec::new(HEADER_BYTES, depth, Limit::DurationMs(1))
        };
        let opens = Instant::now() - Duration::from_secs(1);
        Generator {
            link,
            port,
            point,
            opens,
            closes: opens + Duration::from_secs(3600),
            requests: Outstanding::new(depth),
            serial: 0,
            unanswered: VecDeque::new(),
            found: Loaded {
                response: RoundTrips::new().expect("room"),
                service: RoundTrips::new().expect("room"),
                intended: 0,
                answered: 0,
                seconds: 1.0,
                unposted: 0,
            },
            recorder: port.recorder(point),
        }
    }

    /// A lost datagram must not keep its place for long, while requests wait for places.
    #[test]
    fn a_lost_datagram_makes_room_for_others() {
        let (port, job, _peer) = datagrams_alone();
        let mut link = link(Peer::Repeats { lost: 1 }, &job);
        let mut generator = generator(&mut link, &port, 2);
        let now = Instant::now();
        assert!(generator.post(now).expect("posted"));
        generator.collect().expect("sent");
        assert_eq!((generator.requests.room(), generator.found.response.lost), (1, 0));
        let first = generator.unanswered[0].0;
        generator.requests.get(first).expect("on its way").posted = now - 2 * OVERTAKEN;
        // An answer that comes much later shows that the first one is lost.
        assert!(generator.post(now).expect("posted") && generator.collect().expect("an answer"));
        assert_eq!((generator.requests.room(), generator.found.response.lost), (2, 1));
        let found = &generator.found;
        assert_eq!((found.answered, found.response.count), (1, 2), "with its age");
    }

    /// Answers must count also in a loop that is behind.
    #[test]
    fn whatever_is_answered_within_the_window_counts_as_answered() {
        let (port, job, _peer) = datagrams_alone();
        let mut link = link(Peer::Repeats { lost: 0 }, &job);
        let (now, hour) = (Instant::now(), Duration::from_secs(3600));
        let due = now - Duration::from_millis(1);
        let mut generator = generator(&mut link, &port, 1);
        (generator.opens, generator.closes) = (now + hour, now + 2 * hour);
        let one = |generator: &mut Generator<'_, Null>| {
            assert!(generator.post(due).expect("posted"));
            assert!(generator.collect().expect("an answer"));
            generator.found.answered
        };
        assert_eq!(one(&mut generator), 0, "before the window");
        // The window opens after the moment for which the request was intended, and before the
        // answer.
        generator.opens = now;
        assert_eq!(one(&mut generator), 1, "within it");
        generator.closes = generator.opens;
        assert_eq!(one(&mut generator), 1, "after it");
        let found = &generator.found;
        assert_eq!((found.intended, found.response.count), (0, 0));
    }

    #[test]
    fn schedules_keep_their_rate() {
        let start = Instant::now();
        for arrivals in [Arrivals::Fixed, Arrivals::Poisson] {
            let mut schedule = Schedule::new(start, 1000, arrivals, 3);
            for _ in 0..10_000 {
                schedule.advance();
            }
            let took_s = (schedule.next - start).as_secs_f64();
            assert!((9.5..10.5).contains(&took_s), "{arrivals:?}: {took_s}");
        }
    }
}
