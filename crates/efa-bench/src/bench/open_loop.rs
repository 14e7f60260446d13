//! Requests that come when they come, not when the last answer has come (an open loop), and are
//! echoed by the server. A request's response time runs from the moment for which it was intended,
//! so that what a slow answer holds up is not left out; its service time runs from the moment it
//! was posted.

use std::time::{Duration, Instant};

use super::{Measured, RoundTrips, latency};
use crate::backend::Backend;
use crate::failure::Failure;
use crate::lane::Port;
use crate::link::Link;
use crate::measure::Random;
use crate::spec::{Arrivals, EndpointKind, Limit, PointSpec};
use crate::watch::{Idle, Watch};

/// Bytes of a request that the server sends back: a flag, and which request it is.
pub(crate) const HEADER_BYTES: usize = 8;
/// A schedule that cannot be kept is given up after so many times its length.
const PATIENCE: u32 = 4;

/// What one thread found.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) response: RoundTrips,
    pub(crate) service: RoundTrips,
    /// Requests intended for the measured window, and those answered in it.
    pub(crate) intended: u64,
    pub(crate) answered: u64,
    pub(crate) seconds: f64,
    /// Requests that were never posted, because the fabric was too far behind.
    pub(crate) unposted: u64,
}

impl Loaded {
    /// Together with those of another thread.
    pub(crate) fn and(self, other: &Self) -> Self {
        Self {
            response: self.response.and(&other.response),
            service: self.service.and(&other.service),
            intended: self.intended + other.intended,
            answered: self.answered + other.answered,
            seconds: self.seconds.max(other.seconds),
            unposted: self.unposted + other.unposted,
        }
    }
}

/// Moments for which requests are intended.
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
}

/// A request that is on its way.
#[derive(Debug, Clone, Copy)]
struct Request {
    intended: Instant,
    posted: Instant,
}

struct Generator<'a, B> {
    link: &'a mut Link<B>,
    port: &'a Port,
    point: PointSpec,
    opens: Instant,
    closes: Instant,
    /// By number; `free` are the numbers that no request has.
    requests: Vec<Option<Request>>,
    free: Vec<usize>,
    found: Loaded,
}

/// The client's side of a point.
pub(crate) fn generate<B: Backend>(
    links: &mut [Link<B>],
    port: &Port,
    point: PointSpec,
) -> Result<Measured, Failure> {
    let [link] = links else { return Err(latency::one_endpoint(links.len())) };
    let Limit::DurationMs(ms) = point.limit else {
        return Err(Failure::Usage("an open loop has a time, not a number: use -t".to_owned()));
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
        requests: vec![None; point.depth],
        free: (0..point.depth).rev().collect(),
        found: Loaded {
            response: RoundTrips::new()?,
            service: RoundTrips::new()?,
            intended: 0,
            answered: 0,
            seconds: window.as_secs_f64(),
            unposted: 0,
        },
    };
    let seed = port.seed ^ point.rate_per_s;
    let mut schedule = Schedule::new(start, point.rate_per_s, port.arrivals, seed);
    generator.run(&mut schedule, window * PATIENCE)?;
    generator.drain()?;
    let found = generator.found;
    latency::end(link, port, point)?;
    Ok(Measured::Loaded(Box::new(found)))
}

impl<B: Backend> Generator<'_, B> {
    /// Posts every request that is intended before the window closes, as soon as it is due and can
    /// be.
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
            if moved || self.free.len() == self.point.depth {
                watch.progress();
            } else {
                self.idle(&mut watch)?;
            }
        }
        while schedule.next < self.closes {
            self.found.unposted += 1;
            self.found.intended += u64::from(schedule.next >= self.opens);
            schedule.advance();
        }
        Ok(())
    }

    /// Waits for the last answers.
    fn drain(&mut self) -> Result<(), Failure> {
        let mut watch = Watch::new(&self.port.signals, "waiting for the last answers");
        while self.free.len() < self.point.depth {
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
                // Whatever is still on its way is lost.
                let depth = self.point.depth;
                self.found.response.lost += (depth - self.free.len()) as u64;
                self.requests.fill(None);
                self.free.clear();
                self.free.extend((0..depth).rev());
                watch.progress();
            }
            Idle::Spin | Idle::Quiet | Idle::WindowDone => {}
            Idle::Message => return Err(latency::server_gave_up()),
        }
        Ok(())
    }

    /// Posts a request; false when as many are on their way as may be.
    #[inline]
    fn post(&mut self, intended: Instant) -> Result<bool, Failure> {
        let (Some(&number), Some(slot)) = (self.free.last(), self.link.next_tx()) else {
            return Ok(false);
        };
        let mut header = (number as u64).to_be_bytes();
        header[0] = latency::GOES_ON;
        self.link.payload_mut(slot)?[..HEADER_BYTES].copy_from_slice(&header);
        let posted = Instant::now();
        if !self.link.try_send(self.point.size_bytes)? {
            return Ok(false);
        }
        self.free.pop();
        self.requests[number] = Some(Request { intended, posted });
        self.found.intended += u64::from(intended >= self.opens);
        Ok(true)
    }

    /// Takes answers; false when there was nothing.
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
            let number = usize::try_from(u64::from_be_bytes(header)).unwrap_or(usize::MAX);
            let Some(request) = self.requests.get_mut(number) else {
                return Err(Failure::Data(format!("an answer to request {number}, never sent")));
            };
            // An answer that was given up for lost may come after all.
            let Some(Request { intended, posted }) = request.take() else { continue };
            self.free.push(number);
            if intended >= self.opens {
                self.found.response.note(now - intended);
                self.found.service.note(now - posted);
                self.found.answered += u64::from(now < self.closes);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
