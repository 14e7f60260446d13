//! Processors: keeps the two polling sides of one machine off each other's.
//!
//! Two threads that poll without sleeping and share a processor take turns of milliseconds, and a
//! scheduler puts them together when other programs keep the machine busy. Only the measuring
//! thread is pinned, and only after the provider has started its own threads, which stay free.

use std::fs;

use bench_record::failure::{Failure, plain};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Processors this thread may use, in order.
pub(crate) fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Two processors for the server and the client of one machine: different cores where there are
/// two. `None` with a single processor.
pub fn pair() -> Option<(usize, usize)> {
    let cpus = allowed();
    let first = *cpus.first()?;
    let path = format!("/sys/devices/system/cpu/cpu{first}/topology/thread_siblings_list");
    let siblings = parse_cpus(&fs::read_to_string(path).unwrap_or_default());
    let other_core = cpus.iter().copied().find(|cpu| *cpu != first && !siblings.contains(cpu));
    Some((first, other_core.or_else(|| cpus.get(1).copied())?))
}

/// A processor for the other side of one that is on these: of another core where there is one.
/// `None`: there is no other.
pub fn beside(taken: &[usize]) -> Option<usize> {
    let siblings = |cpu: &usize| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        parse_cpus(&fs::read_to_string(path).unwrap_or_default())
    };
    let near: Vec<usize> = taken.iter().flat_map(siblings).collect();
    let others: Vec<usize> = allowed().into_iter().filter(|cpu| !taken.contains(cpu)).collect();
    others.iter().copied().find(|cpu| !near.contains(cpu)).or_else(|| others.first().copied())
}

/// This thread, kept on some processors until dropped.
#[derive(Debug)]
pub(crate) struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Keeps this thread on `cpu`.
    pub(crate) fn to(cpu: usize) -> Result<Self, Failure> {
        Self::among(&[cpu])
    }

    /// Keeps this thread, and those that it starts, on these processors.
    pub(crate) fn among(cpus: &[usize]) -> Result<Self, Failure> {
        let unpinnable = |reason: String| {
            Failure::Usage(format!(
                "cannot run on processors {cpus:?} ({reason}): this process may use {:?}",
                allowed()
            ))
        };
        if cpus.iter().any(|cpu| *cpu >= CpuSet::MAX_CPU) {
            return Err(unpinnable("there are not that many".to_owned()));
        }
        let before = sched_getaffinity(None).map_err(|e| unpinnable(plain(&e.into())))?;
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu));
        sched_setaffinity(None, &set).map_err(|e| unpinnable(plain(&e.into())))?;
        Ok(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Should a processor have gone meanwhile, the thread stays where it is.
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// A kernel list of processors: "0,4" or "0-3,8".
pub(crate) fn parse_cpus(text: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(low), Ok(high)) = (low.parse::<usize>(), high.parse::<usize>()) {
            cpus.extend(low..=high.min(low + CpuSet::MAX_CPU));
        }
    }
    cpus
}

/// Says that a test is not made because this machine lacks something, which CI must not.
#[cfg(test)]
pub(crate) fn or_skip<T>(found: Option<T>, what: &str) -> Option<T> {
    assert!(found.is_some() || std::env::var_os("CI").is_none(), "no {what} here");
    if found.is_none() {
        eprintln!("SKIPPED, NOT TESTED: no {what} here");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "second processor";

    #[test]
    fn kernel_lists_are_read() {
        assert_eq!(parse_cpus("0,4\n"), [0, 4]);
        assert_eq!(parse_cpus("0-2,8"), [0, 1, 2, 8]);
        assert!(parse_cpus("").is_empty());
    }

    /// Both sides polled on one processor when the other one was named: 4 ms instead of 3.5 us.
    #[test]
    fn the_other_side_gets_another_processor() {
        let Some((first, second)) = or_skip(pair(), TWO) else { return };
        assert!(beside(&[first]).is_some_and(|cpu| cpu != first));
        assert!(beside(&[second]).is_some_and(|cpu| cpu != second));
        assert_eq!(beside(&allowed()), None);
    }

    #[test]
    fn a_pinned_thread_has_one_processor() {
        let Some((first, second)) = or_skip(pair(), TWO) else { return };
        assert_ne!(first, second);
        std::thread::spawn(move || {
            let before = allowed();
            let pinned = Pinned::to(second).expect("an allowed processor");
            assert_eq!(allowed(), [second]);
            assert!(pair().is_none());
            drop(pinned);
            assert_eq!(allowed(), before);
        })
        .join()
        .expect("thread");
        let error = Pinned::to(CpuSet::MAX_CPU).unwrap_err().to_string();
        assert!(error.contains("may use"), "{error}");
    }
}
