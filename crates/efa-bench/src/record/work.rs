//! What a data system's operations came to.

use serde::{Deserialize, Serialize};

use super::{Distribution, ReceiverCount};
use crate::bench::RoundTrips;
use crate::failure::Failure;
use crate::spec::Arrivals;
use crate::workload::{Calls, Times};

/// Operations (calls, records) done within the measured window, at the client. What belongs to one
/// operation is a mean.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) calls: u64,
    pub(crate) seconds: f64,
    /// Million operations a second.
    pub(crate) mcalls_per_s: f64,
    /// How operations followed each other (open loop); absent: closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) arrivals: Option<Arrivals>,
    /// How late the next operation was at the end of the window (open loop): what grows with the
    /// window is more than the fabric can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) behind_ms: Option<f64>,
    /// From start (closed loop) or when due (open loop) to end, by kind of operation.
    pub(crate) actions: Vec<ActionTimes>,
    /// Parts of those times: "wait", until the message with a record was posted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) parts: Vec<ActionTimes>,
    /// READs of the peer's memory (index); 0 in files of workloads without.
    #[serde(default)]
    pub(crate) reads_per_call: f64,
    /// Messages of both directions, and bytes of all that crossed the fabric with the headers of the
    /// calls.
    pub(crate) messages_per_call: f64,
    pub(crate) bytes_per_call: f64,
    /// Processor time of the measuring threads on each side, polling included; 0: not enough calls.
    pub(crate) client_cpu_ns: f64,
    pub(crate) server_cpu_ns: f64,
    /// The same of whole processes, threads of the fabric included.
    #[serde(default)]
    pub(crate) client_process_cpu_ns: f64,
    #[serde(default)]
    pub(crate) server_process_cpu_ns: f64,
    /// Processor time of the measuring threads for 10^9 bytes of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_cpu_s_per_gb: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) server_cpu_s_per_gb: Option<f64>,
}

/// Times of one kind of operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ActionTimes {
    /// "get", "put", "record", "lookup", "commit", "abort".
    pub(crate) name: String,
    /// Those that ended within the window.
    pub(crate) calls: u64,
    /// Those that were due and not done at its end (open loop).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) unended: u64,
    /// Of both: what was not done counts with the age that it had at the end.
    pub(crate) distribution: Distribution,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Work {
    /// Of the operations of several threads, and what they cost their servers; answers the times of
    /// all operations, too; `None` where none has ended.
    pub(crate) fn of(
        threads: &[Calls],
        served: &[Vec<ReceiverCount>],
        arrivals: Option<Arrivals>,
    ) -> Result<(Self, Option<RoundTrips>), Failure> {
        let count = |thread: &Calls| thread.times.iter().map(|(_, times)| times.count).sum::<u64>();
        let calls: u64 = threads.iter().map(count).sum();
        let per_call = |amount: u64, calls: u64| amount as f64 / calls.max(1) as f64;
        let of_all = |what: fn(&Calls) -> u64| per_call(threads.iter().map(what).sum(), calls);
        let sum = |what: fn(&ReceiverCount) -> u64| served.iter().flatten().map(what).sum::<u64>();
        // Each thread reads the time of the same process.
        let client_process_ns = threads.iter().map(|thread| thread.process_cpu_ns).max();
        let process_ns =
            |server: &Vec<_>| server.iter().map(|count: &ReceiverCount| count.process_cpu_ns).max();
        let server_process_ns: u64 = served.iter().filter_map(process_ns).sum();
        let per_byte = |ns: u64, bytes: u64| (bytes > 0).then(|| ns as f64 / bytes as f64);
        let rates = threads.iter().filter(|thread| thread.seconds > 0.0);
        let behind_ns = threads.iter().map(|thread| thread.behind_ns).max().unwrap_or(0);
        let times = together(threads, |thread| &thread.times)?;
        let parts = together(threads, |thread| &thread.parts)?;
        let unended = together(threads, |thread| &thread.unended)?;
        let unended_parts = together(threads, |thread| &thread.unended_parts)?;
        let work = Self {
            calls,
            seconds: threads.iter().map(|thread| thread.seconds).fold(0.0, f64::max),
            mcalls_per_s: rates.map(|thread| count(thread) as f64 / thread.seconds / 1e6).sum(),
            arrivals,
            behind_ms: arrivals.map(|_| behind_ns as f64 / 1e6),
            actions: ActionTimes::of(&times, &unended)?,
            parts: ActionTimes::of(&parts, &unended_parts)?,
            reads_per_call: of_all(|thread| thread.traffic.reads),
            messages_per_call: of_all(|thread| thread.traffic.messages),
            bytes_per_call: of_all(|thread| thread.traffic.bytes),
            client_cpu_ns: of_all(|thread| thread.cpu_ns),
            server_cpu_ns: per_call(sum(|count| count.cpu_ns), sum(|count| count.messages)),
            // ns for a byte are s for 10^9.
            client_cpu_s_per_gb: per_byte(
                threads.iter().map(|thread| thread.cpu_ns).sum(),
                threads.iter().map(|thread| thread.traffic.content_bytes).sum(),
            ),
            server_cpu_s_per_gb: per_byte(sum(|count| count.cpu_ns), sum(|count| count.bytes)),
            client_process_cpu_ns: per_call(client_process_ns.unwrap_or(0), calls),
            server_process_cpu_ns: per_call(server_process_ns, sum(|count| count.messages)),
        };
        let every = times.iter().chain(&unended);
        let all = every.fold(RoundTrips::new()?, |sum, (_, times)| sum.and(times));
        Ok((work, (calls > 0).then_some(all)))
    }

    /// Times of one kind of operation.
    pub(crate) fn times(&self, action: &str) -> Option<&Distribution> {
        find(&self.actions, action)
    }

    /// Times of one part of the operations.
    pub(crate) fn part(&self, part: &str) -> Option<&Distribution> {
        find(&self.parts, part)
    }
}

fn find<'a>(times: &'a [ActionTimes], name: &str) -> Option<&'a Distribution> {
    times.iter().find(|own| own.name == name).map(|own| &own.distribution)
}

/// The times of all threads, by name.
fn together(threads: &[Calls], of: fn(&Calls) -> &Times) -> Result<Times, Failure> {
    let names = threads.first().map_or(&[][..], |thread| of(thread).as_slice());
    let mut sums = Vec::with_capacity(names.len());
    for (index, (name, _)) in names.iter().enumerate() {
        let own = threads.iter().filter_map(|thread| of(thread).get(index));
        sums.push((*name, own.fold(RoundTrips::new()?, |sum, (_, times)| sum.and(times))));
    }
    Ok(sums)
}

impl ActionTimes {
    /// By name: of those that ended, and of those that had not. Where none ended there is no figure.
    fn of(times: &Times, unended: &Times) -> Result<Vec<Self>, Failure> {
        let mut all = Vec::new();
        for ((name, times), (_, unended)) in times.iter().zip(unended) {
            if times.count == 0 {
                continue;
            }
            let both = RoundTrips::new()?.and(times).and(unended);
            let Some(distribution) = Distribution::of(&both.histogram, 1) else { continue };
            let (calls, unended) = (times.count, unended.count);
            all.push(Self { name: (*name).to_owned(), calls, unended, distribution });
        }
        Ok(all)
    }
}
