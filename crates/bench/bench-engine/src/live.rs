//! Lines about an open window, for a user who watches.
//!
//! Every measuring thread reports each part of the window when it is over. Another thread adds the
//! parts of all threads and prints the lines, so that a slow terminal cannot delay a measuring
//! thread.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use report::Voice;

use crate::timeline::Part;

/// The output for a user who watches, and the interval between two lines.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub(crate) every: Duration,
    pub(crate) voice: Voice,
}

/// A sender of the parts of one thread, with their numbers in the window.
#[derive(Debug, Clone)]
pub(crate) struct Watcher {
    pub(crate) every: Duration,
    parts: Sender<(u32, Part)>,
}

impl Watcher {
    /// Sends a part; the receiver may be gone.
    pub(crate) fn tell(&self, number: u32, part: Part) {
        let _ = self.parts.send((number, part));
    }
}

/// Makes a watcher, and the receiver of the parts that it sends.
pub(crate) fn watcher(every: Duration) -> (Watcher, Receiver<(u32, Part)>) {
    let (parts, told) = channel();
    (Watcher { every, parts }, told)
}

/// The sum of the parts of all threads.
pub(crate) struct Watched {
    live: Live,
    told: Receiver<(u32, Part)>,
    /// The number of threads that report.
    threads: usize,
    /// The parts that some threads have reported, and the number of these threads.
    open: RefCell<BTreeMap<u32, (usize, Part)>>,
}

impl Watched {
    /// Makes the sum of this many threads, and the watcher for each of them.
    pub(crate) fn new(live: &Live, threads: usize) -> (Self, Watcher) {
        let (watcher, told) = watcher(live.every);
        (Self { live: live.clone(), told, threads, open: RefCell::default() }, watcher)
    }

    /// The time between two looks for parts.
    pub(crate) fn pause(&self) -> Duration {
        self.live.every / 2
    }

    /// Prints the parts that all threads have reported.
    pub(crate) fn say(&self) {
        for (number, part) in self.sums() {
            self.live.say(number, part);
        }
    }

    /// Ends the window.
    pub(crate) fn close(&self) {
        self.say();
        self.open.borrow_mut().clear();
    }

    fn sums(&self) -> Vec<(u32, Part)> {
        let mut open = self.open.borrow_mut();
        for (number, part) in self.told.try_iter() {
            let (threads, sum) = open.entry(number).or_default();
            (*threads, *sum) = (*threads + 1, sum.and(part));
        }
        let is_whole = |&(threads, _): &(usize, Part)| threads == self.threads;
        let whole: Vec<u32> =
            open.iter().filter(|(_, sum)| is_whole(sum)).map(|(number, _)| *number).collect();
        whole.into_iter().filter_map(|number| Some((number, open.remove(&number)?.1))).collect()
    }
}

impl Live {
    /// Prints the part with this number:
    /// "[   2.00-   3.00 s]       103422/s   mean 9.52 µs   longest 412 µs".
    fn say(&self, number: u32, part: Part) {
        let (from, every) =
            (self.every.as_secs_f64() * f64::from(number), self.every.as_secs_f64());
        let rate = part.operations as f64 / every;
        let mut line = format!("[{from:>7.2}-{:>7.2} s] {rate:>12.0}/s", from + every);
        if part.longest_ns > 0 {
            let us = |ns: f64| report::significant(ns / 1e3);
            let mean_ns = part.sum_ns as f64 / part.operations.max(1) as f64;
            line +=
                &format!("   mean {} µs   longest {} µs", us(mean_ns), us(part.longest_ns as f64));
        }
        self.voice.say(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of one thread must not be printed as the sum of all.
    #[test]
    fn a_part_is_the_sum_of_all_threads() {
        let voice = report::Progress::new(0, true).voice();
        let live = Live { every: Duration::from_secs(1), voice };
        let (watched, watcher) = Watched::new(&live, 2);
        let part = |operations| Part { operations, sum_ns: 10, longest_ns: operations };
        watcher.tell(0, part(3));
        assert_eq!(watched.sums(), []);
        watcher.tell(1, part(4));
        watcher.tell(0, part(5));
        let sum = Part { operations: 8, sum_ns: 20, longest_ns: 5 };
        assert_eq!(watched.sums(), [(0, sum)]);
        // A part that the other thread did not report belongs to no later window.
        watched.close();
        watcher.tell(1, part(1));
        assert_eq!(watched.sums(), []);
    }
}
