//! Round trips of one message at a time.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bench_record::failure::Failure;
use bench_record::spec::PointSpec;
use bench_record::{Latency, Point};
use hdrhistogram::Histogram;

use crate::sides::{self, Cpus, spin};
use crate::window::Window;
use crate::{Receiver, Sender};

/// The number of round trips between two clock reads, on a wire where one costs no more than such a
/// read.
const BATCH: u32 = 16;
/// The time after which a message that is not back counts as lost.
const PATIENCE: Duration = Duration::from_secs(5);
const LOST_NS: u64 = PATIENCE.as_nanos() as u64;
/// The number of turns between two looks at the clock for `PATIENCE`, so that the looks do not
/// affect the figures.
const PATIENT_TURNS: u32 = 1 << 20;

/// Measures the time of each round trip.
pub(crate) fn of_each<S: Sender, R: Receiver>(
    spec: PointSpec,
    cpus: Cpus,
    near: (S, R),
    far: (S, R),
) -> Result<Point, Failure> {
    let mut all =
        Histogram::new_with_bounds(1, LOST_NS, 3).map_err(|e| Failure::Check(e.to_string()))?;
    let mut sum_ns = 0;
    for ns in times_ns(spec, cpus, 1, near, far)? {
        all.saturating_record(ns.max(1));
        sum_ns += ns;
    }
    Ok(Point { latency: Latency::half(&all, sum_ns, all.len()), ..point(spec) })
}

/// Measures the middle of the means of batches.
pub(crate) fn of_batches<S: Sender, R: Receiver>(
    spec: PointSpec,
    cpus: Cpus,
    near: (S, R),
    far: (S, R),
) -> Result<Point, Failure> {
    let mut times_ns = times_ns(spec, cpus, BATCH, near, far)?;
    let count = times_ns.len();
    let (_, middle_ns, _) = times_ns.select_nth_unstable(count / 2);
    let latency = Latency {
        round_trips: Some(count as u64 * u64::from(BATCH)),
        mean_us: *middle_ns as f64 / f64::from(BATCH) / 2_000.0,
        distribution: None,
    };
    Ok(Point { latency: Some(latency), ..point(spec) })
}

fn point(spec: PointSpec) -> Point {
    Point { warmup_ms: spec.warmup_ms, ..Point::new(spec.size_bytes, 1) }
}

/// Measures the times of batches of `batch` round trips in ns.
fn times_ns<S: Sender, R: Receiver>(
    spec: PointSpec,
    cpus: Cpus,
    batch: u32,
    mut near: (S, R),
    mut far: (S, R),
) -> Result<Vec<u64>, Failure> {
    let bytes = spec.size_bytes;
    let ping = |stop: &AtomicBool| ping(Window::of(spec), batch, bytes, &mut near, stop);
    let echo = |stop: &AtomicBool| {
        let mut message = vec![0; bytes];
        while pass(&mut far, &mut message, stop)?.is_some() {}
        Ok(())
    };
    sides::run(cpus, (0, ping), echo)
}

fn ping<S: Sender, R: Receiver>(
    window: Window,
    batch: u32,
    bytes: usize,
    (to, from): &mut (S, R),
    stop: &AtomicBool,
) -> Result<Option<Vec<u64>>, Failure> {
    let (sent, mut message) = (vec![0; bytes], vec![0; bytes]);
    let mut times_ns = Vec::with_capacity(1 << 16);
    let (start, mut count) = (Instant::now(), 0);
    let (mut before, mut begun) = (start, None);
    loop {
        for _ in 0..batch {
            let mut turns = 0_u32;
            let answer = || {
                turns += 1;
                if turns % PATIENT_TURNS == 0 && before.elapsed() > PATIENCE {
                    return Err(Failure::Check("a message of a floor was lost".to_owned()));
                }
                from.receive(&mut message)
            };
            // With one message under way there is always room.
            to.send(&sent)?;
            if spin(stop, answer)?.is_none() {
                return Ok(None);
            }
        }
        let now = Instant::now();
        count += u64::from(batch);
        match begun {
            None if window.begins(now - start, count) => begun = Some((now, count)),
            None => {}
            Some((since, first)) => {
                times_ns.push((now - before).as_nanos() as u64);
                if window.ends(now - since, count - first) {
                    return Ok(Some(times_ns));
                }
            }
        }
        before = now;
    }
}

/// Sends the next message back; `None` if the thread is to stop.
fn pass<S: Sender, R: Receiver>(
    (to, from): &mut (S, R),
    message: &mut [u8],
    stop: &AtomicBool,
) -> Result<Option<()>, Failure> {
    let Some(bytes) = spin(stop, || from.receive(message))? else { return Ok(None) };
    spin(stop, || Ok(to.send(&message[..bytes])?.then_some(())))
}
