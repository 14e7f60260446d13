//! What a data system's calls came to.

use serde::{Deserialize, Serialize};

use super::{Distribution, ReceiverCount};
use crate::bench::RoundTrips;
use crate::failure::Failure;
use crate::spec::Arrivals;
use crate::workload::{ACTIONS, Calls};

/// Calls answered within the measured window, at the callers. What belongs to one call is a mean.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) calls: u64,
    pub(crate) seconds: f64,
    /// Million calls a second.
    pub(crate) mcalls_per_s: f64,
    /// How calls followed each other (open loop); absent: closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) arrivals: Option<Arrivals>,
    /// How late the next call was at the end of the window (open loop): what grows with the window
    /// is more than the fabric can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) behind_ms: Option<f64>,
    /// From start (closed loop) or when due (open loop) to reply, by kind of call.
    pub(crate) actions: Vec<ActionTimes>,
    /// Messages of both directions, and their bytes with the headers of the calls.
    pub(crate) messages_per_call: f64,
    pub(crate) bytes_per_call: f64,
    /// Processor time of the measuring threads on each side, polling included; 0: not enough calls.
    pub(crate) client_cpu_ns: f64,
    pub(crate) server_cpu_ns: f64,
}

/// Times of one kind of call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ActionTimes {
    /// "get" or "put".
    pub(crate) name: String,
    pub(crate) calls: u64,
    pub(crate) distribution: Distribution,
}

impl Work {
    /// Of the calls of several threads, and what they cost their servers; answers the times of all
    /// calls, too.
    pub(crate) fn of(
        threads: &[Calls],
        served: &[ReceiverCount],
        arrivals: Option<Arrivals>,
    ) -> Result<(Self, Distribution), Failure> {
        let count = |thread: &Calls| thread.times.iter().map(|times| times.count).sum::<u64>();
        let calls: u64 = threads.iter().map(count).sum();
        let per_call = |amount: u64, calls: u64| amount as f64 / calls.max(1) as f64;
        let of_all = |what: fn(&Calls) -> u64| per_call(threads.iter().map(what).sum(), calls);
        let sum = |what: fn(&ReceiverCount) -> u64| served.iter().map(what).sum::<u64>();
        let rates = threads.iter().filter(|thread| thread.seconds > 0.0);
        let behind_ns = threads.iter().map(|thread| thread.behind_ns).max().unwrap_or(0);
        let mut work = Self {
            calls,
            seconds: threads.iter().map(|thread| thread.seconds).fold(0.0, f64::max),
            mcalls_per_s: rates.map(|thread| count(thread) as f64 / thread.seconds / 1e6).sum(),
            arrivals,
            behind_ms: arrivals.map(|_| behind_ns as f64 / 1e6),
            actions: Vec::new(),
            messages_per_call: of_all(|thread| thread.messages),
            bytes_per_call: of_all(|thread| thread.bytes),
            client_cpu_ns: of_all(|thread| thread.cpu_ns),
            server_cpu_ns: per_call(sum(|count| count.cpu_ns), sum(|count| count.messages)),
        };
        let mut sums = [RoundTrips::new()?, RoundTrips::new()?];
        for thread in threads {
            let [gets, puts] = sums;
            sums = [gets.and(&thread.times[0]), puts.and(&thread.times[1])];
        }
        work.actions = ActionTimes::of(&sums);
        let [gets, puts] = sums;
        Ok((work, Distribution::of(&gets.and(&puts).histogram, 1)))
    }

    /// Times of one kind of call.
    pub(crate) fn times(&self, action: &str) -> Option<&Distribution> {
        self.actions.iter().find(|own| own.name == action).map(|own| &own.distribution)
    }
}

impl ActionTimes {
    fn of(times: &[RoundTrips; 2]) -> Vec<Self> {
        let named = ACTIONS.into_iter().zip(times).filter(|(_, times)| times.count > 0);
        let own = named.map(|(name, times)| Self {
            name: name.to_owned(),
            calls: times.count,
            distribution: Distribution::of(&times.histogram, 1),
        });
        own.collect()
    }
}
