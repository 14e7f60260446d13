//! Detects stalls of the processors. A virtual machine's host, or the kernel, may stop one for tens
//! of milliseconds; a flow that stands still meanwhile does so for no fault of the network.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::thread::{CpuSet, gettid, sched_setaffinity};

use crate::{clock, machine, tool};

const EVERY: Duration = Duration::from_millis(1);
/// A thread that wakes later than this was kept from running.
const LATE_MS: u64 = 4;
/// The priority of the threads, above that of what is timed ([`machine::RealTimePriority`]).
const PRIORITY: u32 = 2;

/// A thread per processor that wakes every millisecond.
pub(crate) struct StallDetector {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Range<u64>>>>,
}

impl StallDetector {
    pub(crate) fn begin() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let start = |processor| {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || watch(processor, &is_over))
        };
        Self { threads: (0..machine::processors()).map(start).collect(), is_over }
    }

    /// Stops the threads and returns the stalls they saw.
    pub(crate) fn end(mut self) -> Stalls {
        self.is_over.store(true, Ordering::Relaxed);
        let seen = self.threads.drain(..).filter_map(|thread| thread.join().ok());
        Stalls::of(seen.flatten().collect())
    }
}

impl Drop for StallDetector {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn watch(processor: usize, is_over: &AtomicBool) -> Vec<Range<u64>> {
    let mut only = CpuSet::new();
    only.set(processor);
    // Where either is refused, it sees more stalls than other programs do, or fewer.
    let _ = sched_setaffinity(None, &only);
    let thread = gettid().as_raw_nonzero();
    let _ = tool::run("chrt", &format!("--fifo --pid {PRIORITY} {thread}"));
    let (mut stalls, mut last_ms) = (Vec::new(), clock::now_ms());
    while !is_over.load(Ordering::Relaxed) {
        thread::sleep(EVERY);
        let now_ms = clock::now_ms();
        if now_ms - last_ms > LATE_MS {
            stalls.push(last_ms..now_ms);
        }
        last_ms = now_ms;
    }
    stalls
}

/// Times, in milliseconds of [`clock`], in which a processor did not run; they do not overlap.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stalls(Vec<Range<u64>>);

impl Stalls {
    fn of(mut all: Vec<Range<u64>>) -> Self {
        all.sort_unstable_by_key(|stall| stall.start);
        let mut apart: Vec<Range<u64>> = Vec::new();
        for stall in all {
            match apart.last_mut().filter(|last| last.end >= stall.start) {
                Some(last) => last.end = last.end.max(stall.end),
                None => apart.push(stall),
            }
        }
        Self(apart)
    }

    /// Returns the milliseconds of `time` in which a processor did not run.
    pub(crate) fn within_ms(&self, time: &Range<u64>) -> u64 {
        let part = |stall: &Range<u64>| {
            stall.end.min(time.end).saturating_sub(stall.start.max(time.start))
        };
        self.0.iter().map(part).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_of_several_processors_count_once() {
        let stalls = Stalls::of(vec![30..40, 10..15, 12..20, 20..22]);
        assert_eq!(stalls, Stalls(vec![10..22, 30..40]));
        let within = [0..5, 0..100, 11..13, 21..35, 40..50].map(|time| stalls.within_ms(&time));
        assert_eq!(within, [0, 22, 2, 6, 0]);
    }

    #[test]
    fn a_witness_ends() {
        let stalls = StallDetector::begin();
        assert!(!stalls.threads.is_empty());
        stalls.end();
    }
}
