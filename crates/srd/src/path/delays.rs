//! The median queueing delay of a connection, over what was measured lately on all paths.

use crate::Instant;
use std::collections::VecDeque;

/// Samples the median is taken of, at most.
const SAMPLES: usize = 32;

/// The latest delays, and those of about one round trip in order: a sample more or less moves a few
/// words, where finding the median anew cost a sixth of a simulation.
#[derive(Debug, Default)]
pub(super) struct Delays {
    /// Time in ticks, nanoseconds; the latest last.
    samples: VecDeque<(u32, u32)>,
    /// Delays of as many of the last samples as are young, the smallest first.
    young: Vec<u32>,
    median_ns: u64,
}

impl Delays {
    /// Adds a sample. Returns the median of what was measured within about one round trip.
    pub(super) fn add(&mut self, now: Instant, delay_ns: u64, base_ns: u64) -> u64 {
        let ticks = now.as_ticks();
        if self.samples.len() >= SAMPLES {
            if self.young.len() >= SAMPLES {
                self.drop_oldest_young();
            }
            self.samples.pop_front();
        }
        let delay_ns = u32::try_from(delay_ns).unwrap_or(u32::MAX);
        self.samples.push_back((ticks, delay_ns));
        self.insert(delay_ns);
        let young_ticks = (base_ns + self.median_ns) >> 4;
        let is_young = |at: u32| u64::from(ticks.wrapping_sub(at)) <= young_ticks;
        // A median that has grown makes older samples young again.
        while let Some(&(at, delay_ns)) =
            self.first_young().checked_sub(1).map(|i| &self.samples[i])
            && is_young(at)
        {
            self.insert(delay_ns);
        }
        while self.young.len() > 1 && !is_young(self.samples[self.first_young()].0) {
            self.drop_oldest_young();
        }
        self.median_ns = u64::from(self.young[self.young.len() / 2]);
        self.median_ns
    }

    /// Where the young samples begin.
    fn first_young(&self) -> usize {
        self.samples.len() - self.young.len()
    }

    fn insert(&mut self, delay_ns: u32) {
        let place = self.rank(delay_ns);
        self.young.insert(place, delay_ns);
    }

    fn drop_oldest_young(&mut self) {
        let (_, delay_ns) = self.samples[self.first_young()];
        let place = self.rank(delay_ns);
        self.young.remove(place);
    }

    /// How many young delays are smaller: at most [`SAMPLES`], so counting beats searching.
    fn rank(&self, delay_ns: u32) -> usize {
        self.young.iter().map(|&other| u32::from(other < delay_ns)).sum::<u32>() as usize
    }

    /// Heap bytes in use.
    pub(super) fn heap_bytes(&self) -> usize {
        self.samples.capacity() * 8 + self.young.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// The same by its definition: from the latest back to the first that is too old.
    fn median_of(samples: &[(u64, u64)], span_ns: u64) -> u64 {
        let now_ticks = samples[samples.len() - 1].0 >> 4;
        let lately = samples.iter().rev().take(SAMPLES);
        let mut young: Vec<u64> = lately
            .take_while(|(at_ns, _)| now_ticks - (at_ns >> 4) <= span_ns >> 4)
            .map(|&(_, delay_ns)| delay_ns)
            .collect();
        young.sort_unstable();
        young[young.len() / 2]
    }

    #[test]
    fn is_the_median_of_the_young_whatever_it_was_before() {
        let mut rng = Rng::new(7);
        let (mut delays, mut samples) = (Delays::default(), Vec::new());
        let (mut now_ns, mut median_ns) = (1000, 0);
        for round in 0..20_000 {
            // Bursts at one time, steady packets, and now and then a pause.
            now_ns += [0, 16, 300, 20_000][rng.below(4) as usize];
            let delay_ns = rng.below([10, 1000, 50_000][round / 50 % 3]);
            let base_ns = 500 + rng.below(3) * 4000;
            samples.push((now_ns, delay_ns));
            let span_ns = base_ns + median_ns;
            median_ns = median_of(&samples, span_ns);
            let now = Instant::from_ns(now_ns);
            assert_eq!(delays.add(now, delay_ns, base_ns), median_ns, "round {round}");
            assert!(delays.samples.len() <= SAMPLES && delays.young.len() <= SAMPLES);
        }
    }
}
