//! Two threads, each on its own processor, that end together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bench_record::failure::{Failure, plain};
use rustix::thread::{CpuSet, sched_setaffinity};

/// The processors of the sending and of the receiving side; `None`: any.
pub type Cpus = Option<(usize, usize)>;

/// Runs both sides until the measuring one has its figure; each gets the flag that tells it to
/// stop. A side that fails stops the other one, and its failure is returned.
pub(crate) fn run<T: Send>(
    cpus: Cpus,
    measuring: (usize, impl FnOnce(&AtomicBool) -> Result<Option<T>, Failure> + Send),
    other: impl FnOnce(&AtomicBool) -> Result<(), Failure> + Send,
) -> Result<T, Failure> {
    let stop = AtomicBool::new(false);
    let cpu = |side: usize| cpus.map(|(first, second)| if side == 0 { first } else { second });
    let (side, measuring) = measuring;
    let (found, ended) = thread::scope(|scope| {
        let other = scope.spawn(|| {
            let _end = Stop(&stop);
            pin(cpu(1 - side)).and_then(|()| other(&stop))
        });
        let measuring = scope.spawn(|| {
            let _end = Stop(&stop);
            pin(cpu(side)).and_then(|()| measuring(&stop))
        });
        (measuring.join(), other.join())
    });
    let panicked = |_| Failure::Check("a side of a floor panicked".to_owned());
    ended.map_err(panicked)??;
    let early = || Failure::Check("the other side of a floor stopped early".to_owned());
    found.map_err(panicked)??.ok_or_else(early)
}

/// A guard that stops both sides when it is dropped, however its side ends.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Keeps this thread on a processor.
fn pin(cpu: Option<usize>) -> Result<(), Failure> {
    let Some(cpu) = cpu else { return Ok(()) };
    let refused =
        |reason: String| Failure::Usage(format!("cannot run on processor {cpu}: {reason}"));
    if cpu >= CpuSet::MAX_CPU {
        return Err(refused("there are not that many".to_owned()));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|e| refused(plain(&e.into())))
}

/// Repeats `attempt` until it has a result; `None` if the thread is to stop.
pub(crate) fn spin<T>(
    stop: &AtomicBool,
    mut attempt: impl FnMut() -> Result<Option<T>, Failure>,
) -> Result<Option<T>, Failure> {
    loop {
        if let Some(found) = attempt()? {
            return Ok(Some(found));
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        std::hint::spin_loop();
    }
}
