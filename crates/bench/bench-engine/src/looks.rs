//! How far apart two processors are right now: the round trip of one cache line between two threads
//! that are kept on them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench_record::Point;
use bench_record::cores::Cores;
use bench_record::failure::Failure;

use crate::affinity::Pinned;

/// The time that a look takes.
const LOOK: Duration = Duration::from_millis(10);
/// Where processors are so busy with others that not even this many batches come about, nothing is
/// said.
const BATCHES_MIN: usize = 8;
/// Round trips between two clock reads: short beside what disturbs them.
const BATCH: u64 = 32;
/// A word that is never a round trip's.
const END: u64 = u64::MAX;

/// Looks before and after each block.
#[derive(Debug)]
pub struct Looks {
    pair: Option<Pair>,
    last_ns: Option<f64>,
}

impl Looks {
    /// At the processors of both sides; `None`: they are not those of one machine, or there is one.
    pub const fn at(pair: Option<Pair>) -> Self {
        Self { pair, last_ns: None }
    }

    /// Measures a block, and says in its point where the processors were.
    pub fn beside(
        &mut self,
        measure: impl FnOnce() -> Result<Point, Failure>,
    ) -> Result<Point, Failure> {
        let (point, cores) = self.around(measure)?;
        Ok(Point { cores, ..point })
    }

    /// Does what takes a while, and says where the processors were meanwhile.
    pub fn around<T>(
        &mut self,
        measure: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<(T, Option<Cores>), Failure> {
        let Some(pair) = self.pair else { return Ok((measure()?, None)) };
        // What was seen after the last block was seen before this one.
        let before_ns = self.last_ns.take().or_else(|| pair.look());
        let found = measure()?;
        self.last_ns = pair.look();
        let cores = before_ns.zip(self.last_ns).map(|(ours, after)| Cores::between(ours, after));
        Ok((found, cores))
    }
}

/// Two processors to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair(usize, usize);

impl Pair {
    /// `None` of one and the same.
    #[must_use]
    pub fn new(first: usize, second: usize) -> Option<Self> {
        (first != second).then_some(Self(first, second))
    }

    /// The round trip between them now in ns: what one of ten batches is faster than, so that
    /// threads that look up now and then do not count. `None`: it cannot be measured (a processor
    /// is not ours, or is not given to us).
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
            // It returns nothing that could be missed.
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

/// Times of batches in ns; fewer than wanted when the other thread does not get its processor.
fn ping(line: &Line) -> Vec<u64> {
    let started = Instant::now();
    // Ten times as long as it should take: then somebody else has a processor.
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
        // Others may have the processors: then nothing is said, and nothing hangs.
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
