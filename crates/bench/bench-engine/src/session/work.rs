//! The figures of a data system's operations, over all threads of the client.

use bench_record::failure::Failure;
use bench_record::spec::{Arrivals, Limit};
use bench_record::{ActionTimes, Distribution, ReceiverCount, Span, Work};

use crate::bench::RoundTrips;
use crate::workload::{Calls, Times};

/// Joins the operations of several threads, and their cost at the servers. Returns the times of all
/// operations, too; `None` if none has ended.
pub(crate) fn of(
    threads: &[Calls],
    served: &[Vec<ReceiverCount>],
    arrivals: Option<Arrivals>,
    limit: Limit,
) -> Result<(Work, Option<RoundTrips>), Failure> {
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
    let spans: Vec<Span> = threads.iter().map(|thread| thread.span).collect();
    let done: Vec<_> = threads.iter().map(|thread| (count(thread) as f64, thread.span)).collect();
    let behind_ns = threads.iter().map(|thread| thread.behind_ns).max().unwrap_or(0);
    let times = together(threads, |thread| &thread.times)?;
    let parts = together(threads, |thread| &thread.parts)?;
    let unended = together(threads, |thread| &thread.unended)?;
    let unended_parts = together(threads, |thread| &thread.unended_parts)?;
    let work = Work {
        calls,
        seconds: Span::seconds_of(limit, &spans),
        mcalls_per_s: Span::rate_of(limit, &done) / 1e6,
        arrivals,
        behind_ms: arrivals.map(|_| behind_ns as f64 / 1e6),
        actions: action_times(&times, &unended)?,
        parts: action_times(&parts, &unended_parts)?,
        reads_per_call: of_all(|thread| thread.traffic.reads),
        messages_per_call: of_all(|thread| thread.traffic.messages),
        bytes_per_call: of_all(|thread| thread.traffic.bytes),
        client_cpu_ns: of_all(|thread| thread.cpu_ns),
        server_cpu_ns: per_call(sum(|count| count.cpu_ns), sum(|count| count.messages)),
        // The caller changes this if several servers did each operation.
        servers_per_call: 1,
        // A figure in ns per byte is the same in s per 10^9 bytes.
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

/// Adds the times of all threads, by name.
fn together(threads: &[Calls], of: fn(&Calls) -> &Times) -> Result<Times, Failure> {
    let names = threads.first().map_or(&[][..], |thread| of(thread).as_slice());
    let mut sums = Vec::with_capacity(names.len());
    for (index, (name, _)) in names.iter().enumerate() {
        let own = threads.iter().filter_map(|thread| of(thread).get(index));
        sums.push((*name, own.fold(RoundTrips::new()?, |sum, (_, times)| sum.and(times))));
    }
    Ok(sums)
}

/// Returns the times by name, of operations that ended and of those that had not. Names without an
/// ended operation are left out.
fn action_times(times: &Times, unended: &Times) -> Result<Vec<ActionTimes>, Failure> {
    let mut all = Vec::new();
    for ((name, times), (_, unended)) in times.iter().zip(unended) {
        if times.count == 0 {
            continue;
        }
        let both = RoundTrips::new()?.and(times).and(unended);
        let Some(distribution) = Distribution::of(&both.histogram, 1) else { continue };
        let (calls, unended) = (times.count, unended.count);
        all.push(ActionTimes { name: (*name).to_owned(), calls, unended, distribution });
    }
    Ok(all)
}
