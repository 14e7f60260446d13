//! The event queue beside a binary heap, with the pattern of a network: every event brings another
//! one a hop later, one in ten is a timer further away.
//!
//! `cargo run --release -p netsim --example event_queue [pending] [events]`
#![allow(clippy::disallowed_methods, reason = "it measures the real time that virtual time costs")]

use netsim::{Time, Wheel};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

const HOP_PS: u64 = 1_332_000;
const TIMER_PS: u64 = 40_000_000;

/// A cheap generator; both queues get the same events.
struct Dice(u64);

impl Dice {
    fn delay_ps(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let roll = self.0 >> 33;
        if roll % 10 == 0 { TIMER_PS + roll % 1_000_000 } else { HOP_PS + roll % 100_000 }
    }
}

trait Queue {
    fn push(&mut self, at: Time, event: [u32; 3]);
    fn pop(&mut self) -> Option<(Time, [u32; 3])>;
}

impl Queue for Wheel<[u32; 3]> {
    fn push(&mut self, at: Time, event: [u32; 3]) {
        Self::push(self, at, event);
    }

    fn pop(&mut self) -> Option<(Time, [u32; 3])> {
        Self::pop(self)
    }
}

/// Heap of time, order of insertion and event, with the earliest on top.
#[derive(Default)]
struct Heap(BinaryHeap<Reverse<(Time, u64, [u32; 3])>>, u64);

impl Queue for Heap {
    fn push(&mut self, at: Time, event: [u32; 3]) {
        self.1 += 1;
        self.0.push(Reverse((at, self.1, event)));
    }

    fn pop(&mut self) -> Option<(Time, [u32; 3])> {
        self.0.pop().map(|Reverse((at, _, event))| (at, event))
    }
}

/// Returns the nanoseconds per event, and the sum of all times, which must not depend on the queue.
fn measure(queue: &mut dyn Queue, pending: u64, events: u64) -> (f64, u64) {
    let mut dice = Dice(1);
    for i in 0..pending {
        queue.push(Time::from_ps(dice.delay_ps()), [i as u32; 3]);
    }
    let (start, mut sum) = (Instant::now(), 0u64);
    for _ in 0..events {
        let Some((at, event)) = queue.pop() else { break };
        sum = sum.wrapping_mul(31).wrapping_add(at.as_ps());
        queue.push(at.plus_ps(dice.delay_ps()), event);
    }
    (start.elapsed().as_nanos() as f64 / events as f64, sum)
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().unwrap_or(0));
    let pending = args.next().unwrap_or(100_000).max(1);
    let events = args.next().unwrap_or(10_000_000).max(1);
    let (wheel_ns, wheel) = measure(&mut Wheel::default(), pending, events);
    let (heap_ns, heap) = measure(&mut Heap::default(), pending, events);
    assert_eq!(wheel, heap, "both queues give the same order");
    println!("{pending} pending: wheel {wheel_ns:.0} ns, heap {heap_ns:.0} ns per event");
}
