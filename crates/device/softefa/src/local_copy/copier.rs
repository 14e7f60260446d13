//! The copier: a thread that helps when one queue pair has much to copy.
//!
//! One core cannot copy faster than it reads and writes memory; two can. The thread is started by
//! the first READ that is worth it, and only where there is a second processor to run on. It takes
//! pieces as the queue pair's own turn does ([`super::pull`]) and never holds more than one. It
//! stays with a queue pair until that has nothing more; others do without it meanwhile.
//!
//! Whoever needs all pieces back waits for it, so it must not lose its processor while it has one.
//! It cannot prevent that, but it notices and stays away in proportion: a busy machine has no use
//! for it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::pull::{PullDriver, Pulls};
use crate::generation::PerProcess;
use crate::host;
use crate::lifecycle;

/// The time for which it looks for more before it sleeps: waking it costs the caller several
/// microseconds.
const SPIN_NS: u64 = 50_000;
/// A piece that took longer was interrupted by somebody who wanted the processor.
const LATE_NS: u64 = 1_000_000;
/// Rests for this many times the length of the interruption, which leaves the others 95 %.
const REST_FACTOR: u32 = 20;
const REST_MAX: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Copier {
    called: Mutex<VecDeque<Arc<Pulls>>>,
    bell: Condvar,
}

/// Sends the copier to `pulls`, which must have asked for it ([`Pulls::wants_help`]).
pub(crate) fn call(pulls: &Arc<Pulls>) {
    if let Some(copier) = copier() {
        let mut called = copier.called.lock().unwrap_or_else(PoisonError::into_inner);
        called.push_back(Arc::clone(pulls));
        drop(called);
        copier.bell.notify_one();
    }
}

/// The running copier; `None` where it would only compete with who calls it.
fn copier() -> Option<&'static Copier> {
    static COPIER: PerProcess<Option<&'static Copier>> = PerProcess::new();
    *COPIER.get_or_init(|| {
        // Of those this thread may use, which the new one inherits.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        if processors < 2 {
            return None;
        }
        let copier: &'static Copier = Box::leak(Box::default());
        lifecycle::spawn("softefa-copy", 128 << 10, || copier.run()).then_some(copier)
    })
}

impl Copier {
    fn run(&self) {
        loop {
            let mut called = self.called.lock().unwrap_or_else(PoisonError::into_inner);
            let pulls = loop {
                match called.pop_front() {
                    Some(pulls) => break pulls,
                    None => called = self.bell.wait(called).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(called);
            attend(&pulls);
        }
    }
}

/// Copies until there is nothing more.
fn attend(pulls: &Pulls) {
    let mut now = host::now();
    let mut idle_since = now;
    loop {
        let has_copied = pulls.copy(PullDriver::Copier, 1) > 0;
        let begun = std::mem::replace(&mut now, host::now());
        let took_ns = now.ns_since(begun);
        if has_copied {
            idle_since = now;
            if took_ns > LATE_NS {
                let rest = Duration::from_nanos(took_ns) * REST_FACTOR;
                std::thread::sleep(rest.min(REST_MAX));
                now = host::now();
            }
        } else if now.ns_since(idle_since) < SPIN_NS {
            (0..64).for_each(|_| std::hint::spin_loop());
        } else if pulls.leave() {
            return;
        }
    }
}
