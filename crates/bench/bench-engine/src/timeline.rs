//! The course of a window: each measuring thread counts in parts of equal length, and sends the
//! parts to the thread that waits for it when the window is over, and each part at once if a user
//! watches ([`crate::live`]).

use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use bench_record::Timeline;
use bench_record::spec::{Limit, PointSpec};

use crate::lane::Report;
use crate::live::Watcher;

/// The number of parts of a window that is not watched.
const PARTS: u64 = 50;
/// The shortest part: shorter ones only show chance.
const PART_MIN: Duration = Duration::from_millis(1);
/// The most parts that are kept of a watched window; longer windows are only printed.
const KEPT_MAX: usize = 10_000;
/// A time longer than any window.
const NEVER: Duration = Duration::from_secs(1 << 32);

/// The operations of one thread in a part of a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) operations: u64,
    pub(crate) sum_ns: u64,
    pub(crate) longest_ns: u64,
}

impl Part {
    /// Adds the same part of another thread.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            operations: self.operations + other.operations,
            sum_ns: self.sum_ns.saturating_add(other.sum_ns),
            longest_ns: self.longest_ns.max(other.longest_ns),
        }
    }
}

/// All parts of a window at one thread.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) part: Duration,
    pub(crate) parts: Vec<Part>,
}

/// The recorder of one thread's course.
pub(crate) struct Recorder {
    part: Duration,
    /// The time at which the current part is over; `None`: the window is not open.
    until: Option<Instant>,
    current: Part,
    /// The parts, with room for all that are kept.
    parts: Vec<Part>,
    watcher: Option<Watcher>,
    reports: Sender<Report>,
    /// The number of parts of the window that are over.
    over: u32,
    /// The number of parts of the window that are not over.
    left: u128,
}

impl Recorder {
    /// Begins the course of a point, whose parts `watcher` gets.
    pub(crate) fn new(point: PointSpec, watcher: Option<Watcher>, reports: Sender<Report>) -> Self {
        let every = watcher.as_ref().map(|watcher| watcher.every);
        let (part, kept) = match (every, point.limit) {
            (Some(every), Limit::DurationMs(ms)) => {
                let parts = Duration::from_millis(ms).as_nanos() / every.as_nanos().max(1);
                (every, usize::try_from(parts).unwrap_or(KEPT_MAX).min(KEPT_MAX))
            }
            (Some(every), Limit::Iterations(_)) => (every, 0),
            (None, Limit::DurationMs(ms)) => {
                let part = (Duration::from_millis(ms) / PARTS as u32).max(PART_MIN);
                (part, PARTS as usize)
            }
            // The length of such a window is not known.
            (None, Limit::Iterations(_)) => (NEVER, 0),
        };
        let left = match point.limit {
            Limit::DurationMs(ms) => Duration::from_millis(ms).as_nanos() / part.as_nanos().max(1),
            Limit::Iterations(_) => u128::MAX,
        };
        let parts = Vec::with_capacity(kept);
        let (until, current, over) = (None, Part::default(), 0);
        Self { part, until, current, parts, watcher, reports, over, left }
    }

    /// Makes a recorder that counts nothing.
    pub(crate) fn idle() -> Self {
        let (reports, _) = channel();
        let (until, current, parts) = (None, Part::default(), Vec::new());
        Self { part: NEVER, until, current, parts, watcher: None, reports, over: 0, left: 0 }
    }

    /// Opens the window.
    pub(crate) fn open(&mut self, now: Instant) {
        self.until = now.checked_add(self.part);
    }

    /// Notes operations that have ended, which took this long each.
    #[inline]
    pub(crate) fn note(&mut self, now: Instant, took: Duration, count: u64) {
        let Some(until) = self.until else { return };
        if now >= until {
            self.advance(now);
        }
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.current.operations += count;
        self.current.sum_ns = self.current.sum_ns.saturating_add(took_ns.saturating_mul(count));
        self.current.longest_ns = self.current.longest_ns.max(took_ns);
    }

    /// Closes the window. A part that is not complete does not count.
    pub(crate) fn close(&mut self, now: Instant) {
        if self.until.is_some_and(|until| now >= until) {
            self.advance(now);
        }
        self.until = None;
        let parts = std::mem::take(&mut self.parts);
        if !parts.is_empty() {
            // The receiver may be gone.
            let _ = self.reports.send(Report::Course(Course { part: self.part, parts }));
        }
    }

    #[cold]
    fn advance(&mut self, now: Instant) {
        while let Some(until) = self.until.filter(|until| now >= *until) {
            if self.left == 0 {
                // Operations after the window belong to none of its parts.
                self.until = None;
                return;
            }
            self.left -= 1;
            let part = std::mem::take(&mut self.current);
            if self.parts.len() < self.parts.capacity() {
                self.parts.push(part);
            }
            if let Some(watcher) = &self.watcher {
                watcher.tell(self.over, part);
            }
            self.over += 1;
            self.until = until.checked_add(self.part);
        }
    }
}

/// Adds the courses of all threads; `None` if there are none.
pub(crate) fn together(courses: &[Course]) -> Option<Timeline> {
    let part = courses.first()?.part;
    let count = courses.iter().map(|own| own.parts.len()).min()?;
    let of = |index: usize| {
        let own = courses.iter().filter_map(|own| own.parts.get(index));
        own.fold(Part::default(), |sum, part| sum.and(*part))
    };
    let parts: Vec<Part> = (0..count).map(of).collect();
    let is_timed = parts.iter().any(|part| part.longest_ns > 0);
    let us = |of: fn(&Part) -> f64| match is_timed {
        true => parts.iter().map(|part| of(part) / 1e3).collect(),
        false => Vec::new(),
    };
    (count > 0).then(|| Timeline {
        part_ms: part.as_secs_f64() * 1e3,
        operations: parts.iter().map(|part| part.operations).collect(),
        mean_us: us(|part| part.sum_ns as f64 / part.operations.max(1) as f64),
        longest_us: us(|part| part.longest_ns as f64),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::live::watcher;

    fn point(limit: Limit) -> PointSpec {
        PointSpec::new(64, 8, limit)
    }

    fn recorder(limit: Limit, watcher: Option<Watcher>) -> (Recorder, Receiver<Report>) {
        let (reports, from) = channel();
        (Recorder::new(point(limit), watcher, reports), from)
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A clock may be read late.
    #[test]
    fn nothing_is_told_behind_the_window() {
        let (watcher, parts) = watcher(ms(100));
        let (mut recorder, reports) = recorder(Limit::DurationMs(500), Some(watcher));
        let start = Instant::now();
        recorder.open(start);
        recorder.note(start + ms(650), ms(1), 3);
        recorder.close(start + ms(900));
        assert_eq!((parts.try_iter().count(), reports.try_iter().count()), (5, 1));
    }

    #[test]
    fn operations_are_counted_where_they_end() {
        let (mut recorder, reports) = recorder(Limit::DurationMs(500), None);
        let start = Instant::now();
        recorder.note(start, ms(7), 100);
        recorder.open(start);
        recorder.note(start + ms(1), ms(1), 2);
        recorder.note(start + ms(9), ms(3), 1);
        // Two parts have no operations.
        recorder.note(start + ms(35), ms(26), 1);
        recorder.close(start + ms(40));
        let Ok(Report::Course(course)) = reports.try_recv() else { panic!("no course") };
        let timeline = together(&[course]).expect("a timeline");
        assert_eq!((timeline.part_ms, timeline.operations), (10.0, vec![3, 0, 0, 1]));
        assert_eq!(timeline.longest_us, [3_000.0, 0.0, 0.0, 26_000.0]);
        assert!((timeline.mean_us[0] - 5_000.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn threads_are_added_and_a_number_of_operations_has_no_course() {
        let part = |operations| Part { operations, sum_ns: 0, longest_ns: 0 };
        let course = |parts: &[u64]| Course {
            part: ms(10),
            parts: parts.iter().map(|n| part(*n)).collect(),
        };
        let timeline = together(&[course(&[1, 2, 3]), course(&[10, 20])]).expect("a timeline");
        assert_eq!((timeline.operations, timeline.mean_us.len()), (vec![11, 22], 0));
        assert!(together(&[]).is_none());
        let (mut recorder, reports) = recorder(Limit::Iterations(5), None);
        let start = Instant::now();
        recorder.open(start);
        recorder.note(start + ms(9), ms(3), 1);
        recorder.close(start + ms(90));
        assert!(reports.try_recv().is_err());
    }

    #[test]
    fn who_watches_is_told_each_part_when_it_is_over() {
        let (watcher, parts) = watcher(ms(100));
        let (mut recorder, _reports) = recorder(Limit::Iterations(5), Some(watcher));
        let start = Instant::now();
        recorder.open(start);
        recorder.note(start + ms(50), ms(1), 1);
        assert!(parts.try_recv().is_err());
        recorder.note(start + ms(150), ms(1), 1);
        let (number, part) = parts.try_recv().expect("a part");
        assert_eq!((number, part.operations), (0, 1));
    }
}
