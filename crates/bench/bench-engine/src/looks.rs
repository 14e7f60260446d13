//! Measurement of the distance of two processors at this moment: the round trip of one cache line
//! between two threads that are kept on them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench_record::Point;
use bench_record::cores::Cores;
use bench_record::failure::Failure;

use crate::affinity::Pinned;

/// The time that one look takes.
const LOOK: Duration = Duration::from_millis(10);
/// The least number of batches in a look. If processors are so busy that there are fewer, the look
/// has no result.
const BATCHES_MIN: usize = 8;
/// The number of round trips between two clock reads: their time is short beside that of a
/// disturbance.
const BATCH: u64 = 32;
/// The word that ends the round trips, and is never part of one.
const END: u64 = u64::MAX;

/// The looks before and after each block.
#[derive(Debug)]
pub struct Looks {
    pair: Option<Pair>,
    last_ns: Option<f64>,
}

impl Looks {
    /// Makes looks at the processors of both sides; `None`: they are not on one machine, or they
    /// are the same processor.
    pub const fn at(pair: Option<Pair>) -> Self {
        Self { pair, last_ns: None }
    }

    /// Measures a block, and notes the distance of the processors in its point.
    pub fn beside(
        &mut self,
        measure: impl FnOnce() -> Result<Point, Failure>,
    ) -> Result<Point, Failure> {
        let (point, cores) = self.around(measure)?;
        Ok(Point { cores, ..point })
    }

    /// Runs `measure`, and returns its result with the distance of the processors meanwhile.
    pub fn around<T>(
        &mut self,
        measure: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<(T, Option<Cores>), Failure> {
        let Some(pair) = self.pair else { return Ok((measure()?, None)) };
        // The look after the last block is also the look before this one.
        let before_ns = self.last_ns.take().or_else(|| pair.look());
        let found = measure()?;
        self.last_ns = pair.look();
        let cores = before_ns.zip(self.last_ns).map(|(ours, after)| Cores::between(ours, after));
        Ok((found, cores))
    }
}

/// Two processors whose distance is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair(usize, usize);

impl Pair {
    /// Makes a pair; `None` if both are the same processor.
    #[must_use]
    pub fn new(first: usize, second: usize) -> Option<Self> {
        (first != second).then_some(Self(first, second))
    }

    /// Measures the present round trip between the processors in ns: the time that only one of ten
    /// batches stays below, so that threads that are interrupted now and then do not count. `None`
    /// if it cannot be measured (this process may not use a processor, or does not get it).
    pub(crate) fn look(self) -> Option<f64> {
        let line = Line::default();
        std::thread::scope(|scope| {
            let body = || {
                let pinned = Pinned::to(self.1);
                if pinned.is_err() {
                    line.word.store(END, Ordering::Release);
                }
                line.ready.store(true, Ordering::Release);
                echo(&line);
            };
            let echo = std::thread::Builder::new().spawn_scoped(scope, body).ok()?;
            let pinned = Pinned::to(self.0);
            let times = if pinned.is_ok() { ping(&line) } else { Vec::new() };
            line.word.store(END, Ordering::Release);
            // The thread returns no result.
            let _ = echo.join();
            tenth(times)
        })
    }
}

/// The words that both threads write, alone on their cache lines.
#[derive(Default)]
#[repr(align(128))]
struct Line {
    word: AtomicU64,
    ready: AtomicBool,
}

/// Answers every even word with the odd one after it, until the end.
fn echo(line: &Line) {
    let mut next = 2;
    loop {
        match line.word.load(Ordering::Acquire) {
            END => return,
            word if word == next => {
                // The end must not be overwritten.
                let answer =
                    line.word.compare_exchange(word, word + 1, Ordering::AcqRel, Ordering::Acquire);
                if answer.is_err() {
                    return;
                }
                next += 2;
            }
            _ => std::hint::spin_loop(),
        }
    }
}

/// Returns the times of batches in ns; fewer than wanted if the other thread does not get its
/// processor.
fn ping(line: &Line) -> Vec<u64> {
    let started = Instant::now();
    // After ten times the expected time, another program must be using a processor.
    let is_late = || started.elapsed() > LOOK * 10;
    while !line.ready.load(Ordering::Acquire) {
        if is_late() {
            return Vec::new();
        }
        std::thread::yield_now();
    }
    if line.word.load(Ordering::Acquire) == END {
        return Vec::new();
    }
    let mut times = Vec::with_capacity(4096);
    let mut word = 2;
    while started.elapsed() < LOOK && times.len() < times.capacity() {
        let batch = Instant::now();
        for _ in 0..BATCH {
            line.word.store(word, Ordering::Release);
            let mut spins = 0_u32;
            while line.word.load(Ordering::Acquire) != word + 1 {
                std::hint::spin_loop();
                spins = spins.wrapping_add(1);
                if spins % (1 << 14) == 0 && is_late() {
                    return times;
                }
            }
            word += 2;
        }
        times.push(batch.elapsed().as_nanos() as u64);
    }
    times
}

fn tenth(mut times_ns: Vec<u64>) -> Option<f64> {
    if times_ns.len() < BATCHES_MIN {
        return None;
    }
    times_ns.sort_unstable();
    Some(times_ns[times_ns.len() / 10] as f64 / BATCH as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity;

    #[test]
    fn a_line_comes_back_and_takes_its_time() {
        let pair = affinity::or_skip(affinity::pair(), "second processor");
        let Some((first, second)) = pair else { return };
        let pair = Pair::new(first, second).expect("two");
        // If others use the processors there is no result, but the look ends.
        if let Some(round_trip_ns) = pair.look() {
            assert!((5.0..1e6).contains(&round_trip_ns), "{round_trip_ns}");
        }
    }

    #[test]
    fn what_cannot_be_measured_is_not_said() {
        assert_eq!(Pair::new(1, 1), None);
        let pair = Pair::new(0, rustix::thread::CpuSet::MAX_CPU).expect("two");
        assert_eq!(pair.look(), None);
        let pair = Pair::new(rustix::thread::CpuSet::MAX_CPU, 0).expect("two");
        assert_eq!(pair.look(), None);
        assert_eq!(tenth(vec![1; BATCHES_MIN - 1]), None);
        assert_eq!(tenth(vec![3200; 20]), Some(100.0));
    }
}
