//! The figures of a point.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::ShuffleCount;
use crate::span::Span;
use crate::spec::{Arrivals, Limit};

/// The figures of requests that came by the clock; times are whole round trips in µs.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct OpenLoop {
    pub arrivals: Arrivals,
    /// The number of requests per second that were intended.
    pub offered_per_s: f64,
    /// The number of requests per second whose answer came within the window.
    pub answered_per_s: f64,
    /// The number of requests that were given up, because the fabric was too far behind.
    pub unposted: u64,
    /// The times from the moment for which a request was intended. A request without an answer
    /// counts with its age when it was given up. Absent if no request was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Distribution>,
    /// The times from the moment at which a request was posted, of those that were answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Distribution>,
}

/// The distance of a stream's messages from the order in which they were posted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disorder {
    /// The number of messages that came after a later one of their thread.
    pub overtaken: u64,
    /// The number of messages whose order was checked.
    pub messages: u64,
    /// The largest distance of a message from a later one that came before, in messages.
    pub farthest: u64,
    /// The number of messages that waited until all earlier ones had come, if messages were handed
    /// on in order.
    #[serde(default)]
    pub held: u64,
    /// The most messages that waited at the same time.
    #[serde(default)]
    pub held_most: u64,
}

impl Disorder {
    /// Joins the counts of receivers; `None` if no number was read.
    pub fn of<'a>(counts: impl IntoIterator<Item = &'a ReceiverCount>) -> Option<Self> {
        let all = counts.into_iter().fold(Self::default(), |sum, one| Self {
            overtaken: sum.overtaken + one.overtaken,
            messages: sum.messages + one.numbered,
            farthest: sum.farthest.max(one.farthest),
            held: sum.held + one.held,
            held_most: sum.held_most.max(one.held_most),
        });
        (all.messages > 0).then_some(all)
    }

    /// Returns the share of messages that came after a later one, in percent.
    pub fn overtaken_percent(&self) -> f64 {
        self.overtaken as f64 * 100.0 / self.messages.max(1) as f64
    }
}

/// The times of half round trips in µs; closed loop, one message in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The number of round trips; absent if a tool does not print it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trips: Option<u64>,
    pub mean_us: f64,
    /// The distribution; absent for published figures with only a mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Distribution>,
}

impl Latency {
    /// Returns the median if it is known, otherwise the mean.
    pub fn middle_us(&self) -> f64 {
        self.distribution.map_or(self.mean_us, |found| found.p50_us)
    }

    /// Returns the figures of half of each round trip; `None` if there were none.
    pub fn half(round_ns: &Histogram<u64>, sum_ns: u64, count: u64) -> Option<Self> {
        (count > 0).then(|| Self {
            round_trips: Some(count),
            mean_us: sum_ns as f64 / count as f64 / 2_000.0,
            distribution: Distribution::of(round_ns, 2),
        })
    }
}

/// The percentiles of times in µs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    pub min_us: f64,
    pub p50_us: f64,
    /// The 90th percentile; absent for perftest, which does not print it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90_us: Option<f64>,
    pub p99_us: f64,
    /// The p99.9; absent for fewer than 1,000 times, and for OSU, which does not print it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999_us: Option<f64>,
    /// The p99.99; absent for fewer than 10,000 times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p9999_us: Option<f64>,
    pub max_us: f64,
}

impl Distribution {
    /// Summarizes times in ns, each divided by `ways`; `None` if there are none.
    pub fn of(times_ns: &Histogram<u64>, ways: u32) -> Option<Self> {
        let us = |time_ns: u64| time_ns as f64 / 1_000.0 / f64::from(ways);
        let at = |quantile: f64| us(times_ns.value_at_quantile(quantile));
        // With fewer times the percentile would be the longest time under another name.
        let is_known = |quantile: f64| times_ns.len() as f64 * (1.0 - quantile) >= 0.999;
        let tail = |quantile: f64| is_known(quantile).then(|| at(quantile));
        (!times_ns.is_empty()).then(|| Self {
            min_us: us(times_ns.min()),
            p50_us: at(0.5),
            p90_us: Some(at(0.9)),
            p99_us: at(0.99),
            p999_us: tail(0.999),
            p9999_us: tail(0.9999),
            max_us: us(times_ns.max()),
        })
    }

    /// Returns the distribution of each time divided by `parts`.
    pub fn divided(self, parts: f64) -> Self {
        let part = |us: Option<f64>| us.map(|us| us / parts);
        Self {
            min_us: self.min_us / parts,
            p50_us: self.p50_us / parts,
            p90_us: part(self.p90_us),
            p99_us: self.p99_us / parts,
            p999_us: part(self.p999_us),
            p9999_us: part(self.p9999_us),
            max_us: self.max_us / parts,
        }
    }
}

/// The goodput at the receiver within the measured window; MB = 10^6 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// The number of messages; absent if a tool does not print it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// The length of the window; absent if a tool does not print it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    pub mb_per_s: f64,
    pub gbit_per_s: f64,
    pub mmsg_per_s: f64,
}

impl Bandwidth {
    /// Joins the counts of the threads of one side: their sum, over the time of
    /// [`Span::seconds_of`].
    pub fn of(threads: &[ReceiverCount], limit: Limit) -> Self {
        let sum = |of: fn(&ReceiverCount) -> u64| threads.iter().map(of).sum::<u64>();
        let spans: Vec<Span> = threads.iter().map(ReceiverCount::span).collect();
        let seconds = Span::seconds_of(limit, &spans);
        Self::new(sum(|c| c.messages), sum(|c| c.bytes), seconds)
    }

    /// Adds the bandwidth of another stream at the same time.
    pub fn and(self, other: Self) -> Self {
        Self {
            messages: together(self.messages, other.messages, u64::saturating_add),
            seconds: together(self.seconds, other.seconds, f64::max),
            mb_per_s: self.mb_per_s + other.mb_per_s,
            gbit_per_s: self.gbit_per_s + other.gbit_per_s,
            mmsg_per_s: self.mmsg_per_s + other.mmsg_per_s,
        }
    }

    /// Returns the mean over this many parts.
    pub fn divided(self, parts: u64) -> Self {
        let of_one = |rate: f64| rate / parts as f64;
        Self {
            messages: self.messages.map(|messages| messages / parts.max(1)),
            seconds: self.seconds,
            mb_per_s: of_one(self.mb_per_s),
            gbit_per_s: of_one(self.gbit_per_s),
            mmsg_per_s: of_one(self.mmsg_per_s),
        }
    }

    pub fn new(messages: u64, bytes: u64, seconds: f64) -> Self {
        let rate = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        Self {
            messages: Some(messages),
            seconds: Some(seconds),
            mb_per_s: rate(bytes as f64) / 1e6,
            gbit_per_s: rate(bytes as f64) * 8.0 / 1e9,
            mmsg_per_s: rate(messages as f64) / 1e6,
        }
    }

    /// Makes a bandwidth of which only the rate of messages is known.
    pub fn of_rate(mmsg_per_s: f64, size_bytes: usize) -> Self {
        let mb_per_s = mmsg_per_s * size_bytes as f64;
        let gbit_per_s = mb_per_s * 8.0 / 1e3;
        Self { messages: None, seconds: None, mb_per_s, gbit_per_s, mmsg_per_s }
    }
}

/// Returns the value that is known, or both together.
fn together<T>(one: Option<T>, other: Option<T>, both: impl FnOnce(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(both(one, other)),
        (one, other) => one.or(other),
    }
}

/// The counts of the receiver of a bandwidth point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ReceiverCount {
    /// The number of messages within the window.
    pub messages: u64,
    /// The number of bytes within the window.
    pub bytes: u64,
    /// The length of the window.
    pub seconds: f64,
    /// The moment at which the window opened, in s by a clock that all threads of this side share.
    #[serde(default)]
    pub opened_s: f64,
    /// The number of messages of the whole point, warm-up and tail included.
    pub total: u64,
    /// The number of messages whose content was checked.
    pub validated: u64,
    /// The number of messages whose content was wrong.
    pub wrong: u64,
    /// The number of messages that came twice.
    pub duplicates: u64,
    /// The number of messages whose sequence number was read.
    pub numbered: u64,
    /// The number of messages with a sequence number that came after a later one of their thread.
    pub overtaken: u64,
    /// The largest distance of such a message from a later one that came before, in numbers.
    pub farthest: u64,
    /// The number of messages that waited for earlier ones, if they are handed on in order.
    #[serde(default)]
    pub held: u64,
    /// The most messages that waited at the same time.
    #[serde(default)]
    pub held_most: u64,
    /// The number of transactions that were committed.
    pub committed: u64,
    /// The processor time of the thread for `messages` in ns, if it was read (workloads).
    pub cpu_ns: u64,
    /// The same of the whole process.
    pub process_cpu_ns: u64,
    /// The counts of a shuffle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<ShuffleCount>,
}

impl ReceiverCount {
    /// Returns the window of the receiver.
    pub const fn span(&self) -> Span {
        Span { opened_s: self.opened_s, seconds: self.seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate must not be 4000 messages a second, since only 2000 arrived in any second.
    #[test]
    fn threads_that_take_turns_have_no_rate_of_both() {
        let thread = |opened_s| ReceiverCount {
            messages: 1000,
            bytes: 8000,
            seconds: 0.5,
            opened_s,
            ..ReceiverCount::default()
        };
        let turns = [thread(0.0), thread(1.5)];
        let joined = Bandwidth::of(&turns, Limit::Iterations(1000));
        assert_eq!((joined.messages, joined.seconds), (Some(2000), Some(2.0)));
        assert!(joined.mmsg_per_s <= 2000.0 / 2.0 / 1e6, "{joined:?}");
        assert!((joined.mb_per_s - 0.008).abs() < 1e-12, "{joined:?}");
        // Windows of a certain time lie within each other's streams.
        let together = Bandwidth::of(&turns, Limit::DurationMs(500));
        assert_eq!((together.messages, together.seconds), (Some(2000), Some(0.5)));
        assert!((together.mmsg_per_s - 0.004).abs() < 1e-12, "{together:?}");
    }

    /// Thirteen round trips must have no p99.99, which would be the longest of them.
    #[test]
    fn a_tail_needs_times_beyond_it() {
        let mut times = Histogram::new_with_bounds(1, 1_000_000, 3).expect("bounds");
        let tails = |times: &Histogram<u64>| {
            let found = Distribution::of(times, 1).expect("times");
            (found.p999_us.is_some(), found.p9999_us.is_some())
        };
        for (count, expected) in
            [(13, (false, false)), (1_000, (true, false)), (10_000, (true, true))]
        {
            times.record_n(5, count - times.len()).expect("recorded");
            assert_eq!(tails(&times), expected, "{count}");
        }
    }

    #[test]
    fn of_nothing_there_is_no_figure() {
        let nothing = Histogram::new_with_bounds(1, 1_000_000, 3).expect("bounds");
        assert!(Distribution::of(&nothing, 1).is_none());
        assert!(Latency::half(&nothing, 0, 0).is_none());
        // These round trips were counted, not timed one by one.
        let counted = Latency::half(&nothing, 8_000, 2).expect("a mean");
        assert!(counted.mean_us == 2.0 && counted.distribution.is_none());
    }
}
