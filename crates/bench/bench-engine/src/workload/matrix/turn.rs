//! A turn of a node with another one: round trips, then a stream.

use std::time::{Duration, Instant};

use bench_record::spec::Limit;
use bench_record::{Bandwidth, Distribution, Latency};

use super::node::{Event, Node};
use super::word::{FIGURES, Kind, WORD_BYTES, Word, damaged};
use crate::bench::RoundTrips;
use crate::measure::Random;
use crate::watch::Watch;
use crate::workload::prelude::*;

/// The number of posts of a stream between two looks at the clock.
const POSTS_PER_LOOK: u64 = 64;

/// The figures of a turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Found {
    pub(super) latency: Latency,
    messages: u64,
    took: Duration,
}

impl Found {
    /// Returns the bandwidth of the stream, whose messages have this length.
    pub(super) fn bandwidth(&self, size_bytes: usize) -> Bandwidth {
        let bytes = self.messages.saturating_mul(size_bytes as u64);
        Bandwidth::new(self.messages, bytes, self.took.as_secs_f64())
    }

    pub(super) fn to_words(self) -> [u64; FIGURES] {
        let times = self.latency.distribution.unwrap_or_default();
        let us = |us: Option<f64>| us.unwrap_or_default().to_bits();
        [
            self.latency.round_trips.unwrap_or_default(),
            self.latency.mean_us.to_bits(),
            times.min_us.to_bits(),
            times.p50_us.to_bits(),
            us(times.p90_us),
            times.p99_us.to_bits(),
            us(times.p999_us),
            us(times.p9999_us),
            times.max_us.to_bits(),
            self.messages,
            u64::try_from(self.took.as_nanos()).unwrap_or(u64::MAX),
        ]
    }

    /// Returns the check of all figures.
    pub(super) fn check(words: &[u64; FIGURES]) -> u64 {
        words.iter().fold(0, |check, word| Random::new(check ^ word).next())
    }

    /// Reads the words that `to_words` wrote.
    ///
    /// # Errors
    /// It is damaged.
    pub(super) fn read(head: Word, words: Option<[u64; FIGURES]>) -> Result<Self, Failure> {
        let words = words.filter(|words| Self::check(words) == head.number);
        let [round_trips, mean, min, p50, p90, p99, p999, p9999, max, messages, took_ns] =
            words.ok_or_else(damaged)?;
        let us = f64::from_bits;
        let distribution = Distribution {
            min_us: us(min),
            p50_us: us(p50),
            p90_us: Some(us(p90)),
            p99_us: us(p99),
            p999_us: Some(us(p999)),
            p9999_us: Some(us(p9999)),
            max_us: us(max),
        };
        let latency = Latency {
            round_trips: Some(round_trips),
            mean_us: us(mean),
            distribution: Some(distribution),
        };
        Ok(Self { latency, messages, took: Duration::from_nanos(took_ns) })
    }
}

/// Returns true if the round trips, or the stream, have taken their half of the window or have
/// reached their number.
fn is_over(limit: Limit, took: Duration, count: u64) -> bool {
    match limit {
        Limit::DurationMs(ms) => count > 0 && took >= Duration::from_millis(ms) / 2,
        Limit::Iterations(n) => count >= n,
    }
}

impl<B: Backend> Node<'_, B> {
    /// Leads this node's turn with another node.
    pub(super) fn lead(&mut self, to: usize) -> Result<Found, Failure> {
        let endpoint = self.endpoint(to);
        let mut sign = Sign { every: self.port.signals.timeout() / 4, last: Instant::now() };
        let warmup = match self.point.limit {
            Limit::DurationMs(_) => Limit::DurationMs(2 * self.point.warmup_ms),
            Limit::Iterations(_) => Limit::Iterations(self.point.warmup_iterations()),
        };
        self.round_trips(endpoint, warmup, &mut sign)?;
        let trips = self.round_trips(endpoint, self.point.limit, &mut sign)?;
        let latency = Latency::half(&trips.histogram, trips.sum_ns, trips.count);
        let latency = latency.ok_or_else(|| Failure::Check("no round trip ended".to_owned()))?;
        let (messages, took) = self.stream(endpoint, &mut sign)?;
        Ok(Found { latency, messages, took })
    }

    fn round_trips(
        &mut self,
        endpoint: usize,
        limit: Limit,
        sign: &mut Sign,
    ) -> Result<RoundTrips, Failure> {
        let mut trips = RoundTrips::new()?;
        let start = Instant::now();
        let mut before = start;
        while !is_over(limit, before - start, trips.count) {
            let ping = Word { kind: Kind::Ping, number: trips.count };
            self.say(endpoint, ping, self.point.size_bytes)?;
            self.answered(endpoint, Kind::Echo, trips.count)?;
            let now = Instant::now();
            trips.note(now - before);
            before = now;
            self.give(sign, now)?;
        }
        Ok(trips)
    }

    /// Sends a stream. Returns the number of its messages, and the time until all were there.
    fn stream(&mut self, endpoint: usize, sign: &mut Sign) -> Result<(u64, Duration), Failure> {
        let (size_bytes, depth) = (self.point.size_bytes, self.point.depth);
        let start = Instant::now();
        let (mut sent, mut now) = (0, start);
        let mut watch = Watch::new(&self.port.signals, "sending a stream to another node");
        while !is_over(self.point.limit, now - start, sent) {
            let data = Word { kind: Kind::Data, number: sent };
            let has_room = self.links[endpoint].in_flight() < depth;
            if has_room && self.try_say(endpoint, data, size_bytes)? {
                sent += 1;
                watch.progress();
            } else if self.links[endpoint].poll()? == 0 {
                self.wait(&mut watch)?;
                now = Instant::now();
            }
            if sent % POSTS_PER_LOOK == 0 {
                now = Instant::now();
                self.give(sign, now)?;
            }
        }
        self.say(endpoint, Word { kind: Kind::Last, number: sent }, WORD_BYTES)?;
        self.answered(endpoint, Kind::Done, sent)?;
        Ok((sent, start.elapsed()))
    }

    /// Waits for the answer with this number.
    #[inline]
    fn answered(&mut self, endpoint: usize, kind: Kind, number: u64) -> Result<(), Failure> {
        let mut watch = Watch::new(&self.port.signals, "waiting for the answer of another node");
        loop {
            match self.attend(endpoint)? {
                (_, Some(Event::Answered(own, other))) if (own, other) == (kind, number) => {
                    return Ok(());
                }
                (_, Some(other)) => return Err(out_of_turn(&other)),
                (0, None) => self.wait(&mut watch)?,
                _ => watch.progress(),
            }
        }
    }

    /// Says now and then that the turn goes on, so that a long turn is not taken for a dead node.
    #[inline]
    fn give(&mut self, sign: &mut Sign, now: Instant) -> Result<(), Failure> {
        if self.rank == 0 || now - sign.last < sign.every {
            return Ok(());
        }
        sign.last = now;
        self.say(self.endpoint(0), Word { kind: Kind::GoesOn, number: 0 }, WORD_BYTES)
    }
}

/// The time of the last sign of life.
struct Sign {
    every: Duration,
    last: Instant,
}

pub(super) fn out_of_turn(event: &Event) -> Failure {
    Failure::Data(format!("{event:?} came out of its turn: the fabric damages data"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_survive_and_damage_is_noticed() {
        let times = |us| Distribution {
            p90_us: Some(us),
            p999_us: Some(us),
            p9999_us: Some(us),
            max_us: us * 2.0,
            ..Distribution::default()
        };
        let latency =
            Latency { round_trips: Some(7), mean_us: 1.5, distribution: Some(times(0.75)) };
        let found = Found { latency, messages: 3, took: Duration::from_nanos(1_000_000_007) };
        let words = found.to_words();
        let head = Word { kind: Kind::Figures, number: Found::check(&words) };
        assert_eq!(Found::read(head, Some(words)).ok(), Some(found));
        for bit in 0..FIGURES * 64 {
            let mut damaged = words;
            damaged[bit / 64] ^= 1 << (bit % 64);
            assert!(Found::read(head, Some(damaged)).is_err(), "bit {bit}");
        }
        assert!(Found::read(head, None).is_err());
        let bandwidth = found.bandwidth(1000);
        assert!((bandwidth.mb_per_s - 0.003).abs() < 1e-6, "{bandwidth:?}");
    }
}
