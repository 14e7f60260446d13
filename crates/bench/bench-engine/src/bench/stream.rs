//! The sender of a stream, which keeps a number of operations in flight.

use std::slice;
use std::time::Instant;

use bench_record::spec::{Flow, Limit, Stamp, Window};

use crate::exchange::Signals;
use crate::pattern;
use crate::watch::Watch;
use crate::workload::prelude::*;

/// The posting side of a point.
pub(super) struct Sender {
    point: PointSpec,
    stamp: Stamp,
    flow: Flow,
    /// The number of operations to post; `u64::MAX`: until another thread or the peer ends the
    /// stream.
    total: u64,
    pub(super) sent: u64,
    started: Instant,
}

impl Sender {
    pub(super) fn new(flow: Flow, point: PointSpec) -> Self {
        let total = match point.limit {
            Limit::DurationMs(_) => u64::MAX,
            Limit::Iterations(n) => n + point.warmup_iterations(),
        };
        let stamp = point.stamp();
        Self { point, stamp, flow, total, sent: 0, started: Instant::now() }
    }

    pub(super) const fn is_done(&self) -> bool {
        self.sent >= self.total
    }

    /// Posts as many operations as there is room for and collects completions, on all endpoints.
    /// Returns how many operations were posted or completed.
    #[inline]
    pub(super) fn turn<B: Backend>(&mut self, links: &mut [Link<B>]) -> Result<usize, Failure> {
        let mut moved = 0;
        for link in links.iter_mut() {
            moved += self.fill(link)?;
            moved += link.poll()?;
        }
        Ok(moved)
    }

    /// The number of operations that should have been posted by now.
    #[inline]
    fn due(&self) -> u64 {
        if self.point.rate_per_s == 0 {
            return self.total;
        }
        let due = self.started.elapsed().as_secs_f64() * self.point.rate_per_s as f64;
        self.total.min(due as u64).max(self.sent)
    }

    #[inline]
    fn fill<B: Backend>(&mut self, link: &mut Link<B>) -> Result<usize, Failure> {
        let rest = usize::try_from(self.due() - self.sent).unwrap_or(usize::MAX);
        let room = room(self.flow, self.point.depth, link.in_flight(), rest);
        let list = self.flow.post_list;
        for index in 0..room {
            if self.stamp != Stamp::Nothing {
                if let Some(slot) = link.next_tx() {
                    let payload = &mut link.payload_mut(slot)?[..self.point.size_bytes];
                    match self.stamp {
                        Stamp::Content => pattern::fill(payload, self.sent),
                        _ => pattern::write_number(payload, self.sent),
                    }
                }
            }
            let more = list > 1 && index + 1 < room && (index + 1) % list != 0;
            if !link.try_post(self.point.size_bytes, more)? {
                return Ok(index);
            }
            self.sent += 1;
        }
        Ok(room)
    }
}

/// Returns how many of the `rest` operations that are left an endpoint should take now.
#[inline]
fn room(flow: Flow, depth: usize, in_flight: usize, rest: usize) -> usize {
    let room = depth.saturating_sub(in_flight);
    let at_once = match flow.window {
        Window::Sliding => flow.post_list,
        Window::Refill => flow.post_list.max(depth * 4 / 5),
    };
    if room < at_once.min(rest) { 0 } else { room.min(rest) }
}

/// Waits until all operations are complete that will complete.
pub(crate) fn finish<B: Backend>(links: &mut [Link<B>], signals: &Signals) -> Result<(), Failure> {
    for link in links {
        let mut watch = Watch::new(signals, "waiting for the last operations to complete");
        while !link.is_idle() {
            if link.poll()? > 0 {
                watch.progress();
            } else {
                watch.idle_on(slice::from_mut(link))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(window: Window, post_list: usize) -> Flow {
        Flow { window, post_list, ..Flow::default() }
    }

    #[test]
    fn a_sliding_window_takes_what_has_completed() {
        let flow = flow(Window::Sliding, 1);
        assert_eq!(room(flow, 10, 0, 99), 10);
        assert_eq!(room(flow, 10, 9, 99), 1);
        assert_eq!(room(flow, 10, 10, 99), 0);
        assert_eq!(room(flow, 10, 0, 3), 3);
    }

    #[test]
    fn a_refilled_window_waits_for_four_fifths() {
        let flow = flow(Window::Refill, 1);
        assert_eq!(room(flow, 10, 0, 99), 10);
        assert_eq!(room(flow, 10, 3, 99), 0);
        assert_eq!(room(flow, 10, 2, 99), 8);
        // The last operations do not wait for room for more than are left.
        assert_eq!(room(flow, 10, 8, 2), 2);
        assert_eq!(room(flow, 1, 0, 99), 1);
    }

    #[test]
    fn lists_are_whole_but_for_the_last() {
        let flow = flow(Window::Sliding, 4);
        assert_eq!(room(flow, 10, 7, 99), 0);
        assert_eq!(room(flow, 10, 6, 99), 4);
        assert_eq!(room(flow, 10, 6, 3), 3);
    }
}
