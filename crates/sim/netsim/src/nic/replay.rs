//! Each published figure's benchmark on the model, with the result in the figure's unit.

use super::experiment::{Calls, Experiment, Measured, Pattern, Window};
use super::profile::Profile;
use published::{Fabric, Measurement, Operation, Unit};
use std::collections::BTreeMap;

/// Maximum number of completions that perftest takes at once.
const PERFTEST_POLL: u32 = 16;
/// Maximum number of completions that efa-bench takes at once.
const EFA_BENCH_POLL: u32 = 10;
/// Number of messages per completion that perftest asks for on reliable connections, up to its
/// window.
const PERFTEST_MODERATION: u32 = 100;
/// Number of messages in a batch of the generators of table C.8.
const GENERATOR_BATCH: u32 = 10;
/// Length of a message of these generators.
const GENERATOR_BYTES: u32 = 8192;

/// Runs benchmarks, each once.
#[derive(Debug)]
pub(super) struct Replay<'a> {
    profile: &'a Profile,
    seed: u64,
    known: BTreeMap<Experiment, Measured>,
}

impl<'a> Replay<'a> {
    pub(super) fn new(profile: &'a Profile, seed: u64) -> Self {
        Self { profile, seed, known: BTreeMap::new() }
    }

    /// Returns the model's figure where `row` was published.
    pub(super) fn modelled(&mut self, row: &Measurement) -> f64 {
        let experiment = experiment(row);
        let run = || experiment.run(self.profile, self.seed);
        let measured = *self.known.entry(experiment).or_insert_with(run);
        in_unit(row, &measured)
    }
}

fn in_unit(row: &Measurement, measured: &Measured) -> f64 {
    if let Some(value) = row.in_unit(measured.mmsg_per_s) {
        return value;
    }
    match row.unit {
        Unit::MeanUs => measured.latency.mean_us,
        Unit::MinUs => measured.latency.min_us,
        Unit::P50Us => measured.latency.p50_us,
        Unit::P99Us => measured.latency.p99_us,
        _ => unreachable!("every other unit is a rate"),
    }
}

/// Returns the benchmark that a figure comes from.
fn experiment(row: &Measurement) -> Experiment {
    let &Measurement { size_bytes, depth, threads, queue_pairs, wait_ns, .. } = row;
    let ping_pong = Pattern::PingPong { is_reliable: row.operation != Operation::Datagram };
    let sliding = |poll_max| Window { depth, refill: 1, poll_max, moderation: 1 };
    let efa_bench = sliding(EFA_BENCH_POLL);
    let one = |window| Pattern::Stream { window, threads, queue_pairs };
    let (calls, pattern) = match row.table {
        "c1" | "c6.1" | "c6.2" => (Calls::Verbs, ping_pong),
        "c7" | "c9" => (Calls::Library, ping_pong),
        "c5.1" | "c5.2" => (Calls::Library, one(efa_bench)),
        "c5.3" => (Calls::Library, one(batch(depth, 0.8))),
        "c8.1" | "c8.2" => {
            let window = batch(GENERATOR_BATCH, 1.0);
            let bytes = GENERATOR_BYTES;
            (Calls::Library, Pattern::Loaded { window, threads, bytes, wait_ns })
        }
        "c10.1" | "c10.2" => remote_memory(row, batch(depth, 0.9)),
        // C.2, C.3, C.4: perftest, which moderates completions on reliable connections.
        _ if row.fabric == Fabric::Rc => {
            let moderation = PERFTEST_MODERATION.min(depth);
            (Calls::Verbs, one(Window { moderation, ..sliding(PERFTEST_POLL) }))
        }
        _ => (Calls::Verbs, one(sliding(PERFTEST_POLL))),
    };
    Experiment { calls, size_bytes, pattern }
}

fn remote_memory(row: &Measurement, window: Window) -> (Calls, Pattern) {
    let stream = Pattern::Stream { window, threads: 1, queue_pairs: 1 };
    match row.operation {
        Operation::Read => (Calls::RemoteMemory, Pattern::Read { window }),
        Operation::Write => (Calls::RemoteMemory, stream),
        _ => (Calls::Library, stream),
    }
}

/// Returns a window that is filled again when this part of it has completed.
fn batch(depth: u32, part: f64) -> Window {
    let refill = ((f64::from(depth) * part) as u32).max(1);
    Window { depth, refill, poll_max: EFA_BENCH_POLL, moderation: 1 }
}
