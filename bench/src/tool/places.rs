//! Which processors programs run on, and with what priority: the same for every tool, so that it is
//! set from outside.

use rustix::thread::{CpuSet, sched_getaffinity};

/// Words in front of a program.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    pub(super) server: Vec<String>,
    pub(super) client: Vec<String>,
}

impl Places {
    /// A processor for each side, with real-time priority if wanted; `None`: wherever there is
    /// room.
    pub(crate) fn new(cpus: Option<&[usize]>, realtime: bool) -> Self {
        let words = |side: usize| {
            let mut words = Vec::new();
            if realtime {
                // In turn with its own threads: first in, first out would leave those no time at
                // all.
                words.extend(["chrt", "-r", "10"].map(str::to_owned));
            }
            if let Some(cpu) = cpus.and_then(|cpus| cpus.get(side)) {
                words.extend(["taskset".to_owned(), "-c".to_owned(), cpu.to_string()]);
            }
            words
        };
        Self { server: words(0), client: words(1) }
    }
}

/// The first two processors that this process may use, if it may use two.
pub(crate) fn two_cpus() -> Option<Vec<usize>> {
    let set = sched_getaffinity(None).ok()?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).take(2).collect();
    (cpus.len() == 2).then_some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_comes_before_the_processor() {
        let places = Places::new(Some(&[3, 5]), true);
        assert_eq!(places.server.join(" "), "chrt -r 10 taskset -c 3");
        assert_eq!(places.client.join(" "), "chrt -r 10 taskset -c 5");
        let places = Places::new(None, false);
        assert!(places.server.is_empty() && places.client.is_empty());
    }
}
