//! Placement of the two polling sides of one machine on different processors.
//!
//! Two threads that poll without sleeping and share a processor take turns of milliseconds, and a
//! scheduler puts them together when other programs keep the machine busy. Only the measuring
//! thread is pinned, and only after the provider has started its own threads, which stay free.

use std::fs;

use bench_record::failure::{Failure, plain};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors that this thread may use, in order.
pub(crate) fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Chooses two processors for the server and the client of one machine, on different cores where
/// there are two. Returns `None` if there is only one processor.
pub fn pair() -> Option<(usize, usize)> {
    let cpus = allowed();
    let first = *cpus.first()?;
    let path = format!("/sys/devices/system/cpu/cpu{first}/topology/thread_siblings_list");
    let siblings = parse_cpus(&fs::read_to_string(path).unwrap_or_default());
    let other_core = cpus.iter().copied().find(|cpu| *cpu != first && !siblings.contains(cpu));
    Some((first, other_core.or_else(|| cpus.get(1).copied())?))
}

/// Chooses a processor for the other side of one that runs on the processors `taken`, on another
/// core where there is one. Returns `None` if no processor is left.
pub fn beside(taken: &[usize]) -> Option<usize> {
    let siblings = |cpu: &usize| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        parse_cpus(&fs::read_to_string(path).unwrap_or_default())
    };
    let near: Vec<usize> = taken.iter().flat_map(siblings).collect();
    let others: Vec<usize> = allowed().into_iter().filter(|cpu| !taken.contains(cpu)).collect();
    others.iter().copied().find(|cpu| !near.contains(cpu)).or_else(|| others.first().copied())
}

/// A guard that keeps this thread on certain processors until it is dropped.
#[derive(Debug)]
pub(crate) struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Keeps this thread on `cpu`.
    pub(crate) fn to(cpu: usize) -> Result<Self, Failure> {
        Self::among(&[cpu])
    }

    /// Keeps this thread, and the threads that it starts, on these processors.
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
        // The thread stays where it is if one of the processors has gone meanwhile.
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// Parses the kernel's notation of a list of processors: "0,4" or "0-3,8".
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

/// Says that a test is skipped because this machine lacks something. Fails in CI, where nothing may
/// be skipped.
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

    /// A named processor of one side must not be given to the other side, which polls, too.
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
