//! The round trip of one cache line between two threads on two cores: the floor below everything
//! that two programs say to each other.
//!
//! A hypervisor moves virtual cores between physical ones. Near each other a line comes back within
//! some 110 ns, far apart within some 530, and streams follow by factors (docs/PERF.md), so that
//! figures of both are not to be mixed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::socket::{pin, two_cores};

/// How long a look takes.
const LOOK: Duration = Duration::from_millis(10);
/// Round trips between two clock reads: short beside what disturbs them.
const BATCH: u64 = 32;
/// Fewer batches say nothing: the cores are busy with others.
const BATCHES_MIN: usize = 8;
/// Between what is near (110) and what is far (530), in nanoseconds.
const NEAR_NS: f64 = 250.0;
/// Two looks whose ratio is below this are alike.
const ALIKE: f64 = 1.6;
/// A word that no round trip has.
const END: u64 = u64::MAX;

/// What both threads write, alone on its cache lines.
#[derive(Default)]
#[repr(align(128))]
struct Line {
    word: AtomicU64,
    ready: AtomicBool,
}

/// The round trip between the first two cores in nanoseconds: what one batch of ten is faster than.
/// `None`: there are no two, they cannot be had, or others keep them busy.
pub(crate) fn round_trip_ns() -> Option<f64> {
    let [near, far] = two_cores().ok()?;
    between(near, far)
}

fn between(near: usize, far: usize) -> Option<f64> {
    let line = Line::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            if pin(far).is_err() {
                line.word.store(END, Ordering::Release);
            }
            line.ready.store(true, Ordering::Release);
            echo(&line);
        });
        let ping = scope.spawn(|| {
            let times = if pin(near).is_ok() { ping(&line) } else { Vec::new() };
            line.word.store(END, Ordering::Release);
            times
        });
        tenth(ping.join().ok()?)
    })
}

/// Answers every even word with the odd one after it, until the end.
fn echo(line: &Line) {
    let mut next = 2;
    loop {
        let word = line.word.load(Ordering::Acquire);
        if word == END {
            return;
        }
        if word != next {
            std::hint::spin_loop();
            continue;
        }
        // Not over the end, which may have come meanwhile.
        let answered =
            line.word.compare_exchange(word, word + 1, Ordering::AcqRel, Ordering::Acquire);
        if answered.is_err() {
            return;
        }
        next += 2;
    }
}

/// Times of batches in nanoseconds; few when the other thread does not get its core.
fn ping(line: &Line) -> Vec<u64> {
    let started = Instant::now();
    // Ten times as long as it should take: then somebody else has a core.
    let is_late = || started.elapsed() > LOOK * 10;
    while !line.ready.load(Ordering::Acquire) {
        if is_late() {
            return Vec::new();
        }
        thread::yield_now();
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
        times.extend(u64::try_from(batch.elapsed().as_nanos()));
    }
    times
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a batch are few")]
fn tenth(mut times_ns: Vec<u64>) -> Option<f64> {
    if times_ns.len() < BATCHES_MIN {
        return None;
    }
    times_ns.sort_unstable();
    Some(times_ns[times_ns.len() / 10] as f64 / BATCH as f64)
}

/// Where the cores are, as two looks before and after a measurement tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Near,
    Far,
    /// They were moved meanwhile.
    Changed,
    /// It cannot be measured here.
    NotMeasured,
}

impl Phase {
    pub(crate) fn between(before_ns: Option<f64>, after_ns: Option<f64>) -> Self {
        let Some((before, after)) = before_ns.zip(after_ns) else { return Self::NotMeasured };
        let (low, high) = (before.min(after), before.max(after));
        match (low < NEAR_NS, high < NEAR_NS) {
            (true, true) => Self::Near,
            (false, false) => Self::Far,
            // On either side of the border and still alike.
            _ if high < low * ALIKE && low < NEAR_NS => Self::Near,
            _ => Self::Changed,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
            Self::Changed => "changed",
            Self::NotMeasured => "not measured",
        }
    }

    /// For a narrow column.
    pub(crate) const fn short_name(self) -> &'static str {
        match self {
            Self::NotMeasured => "n/a",
            Self::Near | Self::Far | Self::Changed => self.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_back_and_takes_its_time() {
        // Where others have the cores nothing is said, and nothing hangs.
        if let Some(ns) = round_trip_ns() {
            assert!((5.0..1e6).contains(&ns), "{ns}");
        }
    }

    #[test]
    fn cores_that_cannot_be_had_are_not_measured() {
        let none = rustix::thread::CpuSet::MAX_CPU - 1;
        assert_eq!((between(0, none), between(none, 0)), (None, None));
        assert_eq!(tenth(vec![1; BATCHES_MIN - 1]), None);
        assert_eq!(tenth(vec![3200; 20]), Some(100.0));
    }

    #[test]
    fn near_far_and_moved_cores_are_told_apart() {
        let phase = |before, after| Phase::between(Some(before), Some(after));
        assert_eq!(phase(112.0, 118.0), Phase::Near);
        assert_eq!(phase(530.0, 540.0), Phase::Far);
        assert_eq!(phase(112.0, 530.0), Phase::Changed);
        assert_eq!(phase(530.0, 112.0), Phase::Changed);
        assert_eq!((phase(240.0, 260.0), phase(260.0, 240.0)), (Phase::Near, Phase::Near));
        assert_eq!(Phase::between(None, Some(112.0)), Phase::NotMeasured);
    }
}
