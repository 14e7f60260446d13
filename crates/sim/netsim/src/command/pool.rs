//! Work on several threads. A run is one thread and knows nothing of the others.

use anyhow::Result;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Period at which the flag to stop is checked.
const LOOK: Duration = Duration::from_millis(50);

/// An event while the pool works.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<T> {
    /// This item is done.
    Ended(usize, T),
    /// The flag to stop is set, and not all items are done. No item is begun any more; those that
    /// are under way go on.
    Interrupted,
}

/// Returns the number of threads: as many as wanted, else one per core.
pub(crate) fn jobs(wanted: Option<u32>) -> usize {
    let cores = || thread::available_parallelism().map_or(1, NonZero::get);
    wanted.map_or_else(cores, |jobs| jobs as usize)
}

/// Does `work` on all items with `jobs` threads, and calls `step` in the calling thread at each
/// end. Ends early when `step` fails, after what is under way.
pub(crate) fn run<I: Sync, T: Send>(
    jobs: usize,
    items: &[I],
    work: impl Fn(&I) -> T + Sync,
    stop: &AtomicBool,
    mut step: impl FnMut(Step<T>) -> Result<()>,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let given_up = AtomicBool::new(false);
    let (sender, results) = mpsc::channel();
    let worker = |results: mpsc::Sender<(usize, T)>| {
        while !stop.load(Ordering::Relaxed) && !given_up.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(number) else { return };
            if results.send((number, work(item))).is_err() {
                return;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs.min(items.len()) {
            let sender = sender.clone();
            scope.spawn(|| worker(sender));
        }
        drop(sender);
        let (mut told, mut ended) = (false, 0);
        loop {
            let received = results.recv_timeout(LOOK);
            // All threads have ended: perhaps because each saw the flag between two items.
            let is_over = matches!(received, Err(RecvTimeoutError::Disconnected));
            let mut result = Ok(());
            if let Ok((number, item)) = received {
                ended += 1;
                result = step(Step::Ended(number, item));
            }
            if !told && ended < items.len() && stop.load(Ordering::Relaxed) {
                told = true;
                result = result.and_then(|()| step(Step::Interrupted));
            }
            if is_over {
                return result;
            }
            if result.is_err() {
                given_up.store(true, Ordering::Relaxed);
                return result;
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_done_once() {
        let items: Vec<u64> = (0..100).collect();
        for jobs in [1, 3, 200] {
            let mut seen = Vec::new();
            let stop = AtomicBool::new(false);
            let take = |step| {
                let Step::Ended(number, square) = step else { panic!("nobody stopped it") };
                assert_eq!(square, items[number] * items[number]);
                seen.push(number);
                Ok(())
            };
            run(jobs, &items, |n| n * n, &stop, take).unwrap();
            seen.sort_unstable();
            assert_eq!(seen, (0..100).collect::<Vec<_>>());
        }
    }

    #[test]
    fn stopping_is_told_once_and_begins_nothing_more() {
        let stop = AtomicBool::new(false);
        let (mut ended, mut told) = (0, 0);
        let work = |n: &u64| {
            if *n == 2 {
                stop.store(true, Ordering::Relaxed);
            }
        };
        let items: Vec<u64> = (0..1000).collect();
        run(1, &items, work, &stop, |step| {
            match step {
                Step::Ended(..) => ended += 1,
                Step::Interrupted => told += 1,
            }
            Ok(())
        })
        .unwrap();
        assert_eq!((ended, told), (3, 1));
    }

    /// Threads that saw the flag between two items once ended as if all items were done.
    #[test]
    fn stopping_between_two_items_is_told() {
        let stop = AtomicBool::new(true);
        let mut told = 0;
        run(
            2,
            &[1, 2, 3],
            |_| (),
            &stop,
            |step| {
                told += usize::from(step == Step::Interrupted);
                Ok(())
            },
        )
        .expect("no step fails");
        assert_eq!(told, 1);
    }

    #[test]
    fn a_failing_step_ends_it() {
        let stop = AtomicBool::new(false);
        let items = [0; 1000];
        let result = run(2, &items, |_| (), &stop, |_| anyhow::bail!("the disk is full"));
        assert_eq!(result.unwrap_err().to_string(), "the disk is full");
    }
}
