//! The copier: a thread that helps a queue pair that has much to copy.
//!
//! Two cores copy faster than one, which is limited by its reads and writes of memory. The first
//! READ that is large enough starts the thread, and only if there is a second processor to run on.
//! The copier takes pieces as the queue pair's own turn does ([`super::pull`]), and never holds
//! more than one. It stays with a queue pair until that has nothing more to copy; other queue pairs
//! copy without it meanwhile.
//!
//! A caller that needs all pieces back waits for the copier, so that the copier must not lose its
//! processor while it holds one. It cannot prevent that, but it measures the interruption and rests
//! in proportion: on a busy machine it does not help.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::pull::{PullDriver, Pulls};
use crate::generation::PerProcess;
use crate::host;
use crate::lifecycle;

/// The time for which the copier looks for more pieces before it sleeps, because waking it costs
/// the caller several microseconds.
const SPIN_NS: u64 = 50_000;
/// A piece that took longer was interrupted by another thread that needed the processor.
const LATE_NS: u64 = 1_000_000;
/// The rest as a multiple of the interruption, which leaves 95 % of the time to others.
const REST_FACTOR: u32 = 20;
const REST_MAX: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Copier {
    called: Mutex<VecDeque<Arc<Pulls>>>,
    bell: Condvar,
}

/// Sends the copier to `pulls`, which must have asked for help ([`Pulls::wants_help`]).
pub(crate) fn call(pulls: &Arc<Pulls>) {
    if let Some(copier) = copier() {
        let mut called = copier.called.lock().unwrap_or_else(PoisonError::into_inner);
        called.push_back(Arc::clone(pulls));
        drop(called);
        copier.bell.notify_one();
    }
}

/// Returns the running copier; `None` if it would only compete with its callers.
fn copier() -> Option<&'static Copier> {
    static COPIER: PerProcess<Option<&'static Copier>> = PerProcess::new();
    *COPIER.get_or_init(|| {
        // The number of processors that this thread may use, which the new thread inherits.
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

/// Copies until there is nothing more to copy.
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
