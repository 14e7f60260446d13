//! The window of a node, and the totals within it. Clocks of two hosts differ, so that each node
//! uses its own clock, from the moment at which it may begin.

use std::time::Instant;

use bench_record::spec::Limit;
use bench_record::spec::PointSpec;

use crate::bench::rma::Window;
use crate::workload::{cpu_ns, process_cpu_ns};

/// The number of tuples that are made between two looks for messages.
const BATCH: u64 = 128;

/// The totals so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    pub(super) tuples_made: u64,
    /// The number of buffers that were sent to other nodes.
    pub(super) buffers_sent: u64,
    /// The number of bytes of tuples in these buffers.
    pub(super) bytes_sent: u64,
    /// The number of buffers that came from other nodes.
    pub(super) buffers_taken: u64,
    /// The number of bytes of tuples in these buffers.
    pub(super) bytes_taken: u64,
    /// The number of tuples of this node's partition, from other nodes and from itself.
    pub(super) tuples_taken: u64,
}

/// The totals and processor times at one moment; the difference of two readings is what happened
/// between them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) at: Instant,
    pub(super) totals: Totals,
    pub(super) cpu_ns: u64,
    pub(super) process_cpu_ns: u64,
}

impl Reading {
    fn new(at: Instant, totals: Totals) -> Self {
        Self { at, totals, cpu_ns: cpu_ns(), process_cpu_ns: process_cpu_ns() }
    }
}

/// The clock of one thread's part of a point.
pub(super) struct Clock {
    window: Window,
    limit: Limit,
    opened: Option<Reading>,
    closed: Option<Reading>,
}

impl Clock {
    /// Starts the clock at the moment at which the node may begin. If a number of tuples is asked
    /// for, all of them count.
    pub(super) fn start(point: PointSpec) -> Self {
        let now = Instant::now();
        let is_open = matches!(point.limit, Limit::Iterations(_));
        Self {
            window: Window {
                point,
                warmup_iterations: 0,
                started: now,
                opened: is_open.then_some((now, 0)),
            },
            limit: point.limit,
            // Tuples that came before this node began count, too.
            opened: is_open.then(|| Reading::new(now, Totals::default())),
            closed: None,
        }
    }

    /// Returns the time at which the clock started.
    pub(super) const fn started(&self) -> Instant {
        self.window.started
    }

    /// Returns the number of tuples to make before the next look.
    #[inline]
    pub(super) fn batch(&self, made: u64) -> u64 {
        match self.limit {
            Limit::Iterations(n) => BATCH.min(n.saturating_sub(made)),
            Limit::DurationMs(_) => BATCH,
        }
    }

    /// Opens the window, and closes a window of a certain time. Returns true if all tuples are
    /// made.
    #[inline]
    pub(super) fn advance(&mut self, now: Instant, totals: Totals) -> bool {
        let is_over = self.window.advance(now, totals.tuples_made);
        if self.opened.is_none() {
            if self.window.opened.is_some() {
                self.opened = Some(Reading::new(now, totals));
            }
            return false;
        }
        if is_over {
            self.close(now, totals);
        }
        is_over || self.batch(totals.tuples_made) == 0
    }

    /// Closes the window: later tuples do not count.
    pub(super) fn close(&mut self, now: Instant, totals: Totals) {
        self.closed.get_or_insert_with(|| Reading::new(now, totals));
    }

    /// Returns both ends of the window, once it is over.
    pub(super) fn window(&self) -> Option<(Reading, Reading)> {
        self.opened.zip(self.closed)
    }
}
