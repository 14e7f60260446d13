//! The median queueing delay of a connection over recent samples from all paths.

use crate::Instant;

/// The largest number of samples for the median; a power of two.
const SAMPLES: usize = 32;

/// The latest delays, with those of about one round trip kept sorted: adding or removing a sample
/// moves a few words, while computing the median afresh takes a sixth of a simulation's time.
#[derive(Debug, Default)]
pub(super) struct Delays {
    /// Allocated with the first sample, because many peers never have one.
    samples: Option<Box<Samples>>,
    median_ns: u64,
}

#[derive(Debug, Default)]
struct Samples {
    /// Time in ticks and delay in nanoseconds; sample number `n` is at `n % SAMPLES`.
    latest: [(u32, u32); SAMPLES],
    /// The number of the next sample; wraps.
    next: u32,
    /// The delays of the latest samples that are young, sorted.
    young: [u32; SAMPLES],
    young_len: usize,
    /// The number of samples in `latest`, at most [`SAMPLES`].
    len: usize,
}

impl Delays {
    /// Adds a sample and returns the median of the samples within about one round trip.
    #[inline]
    pub(super) fn add(&mut self, now: Instant, delay_ns: u64, base_ns: u64) -> u64 {
        let samples = self.samples.get_or_insert_default();
        let ticks = now.as_ticks();
        samples.push(ticks, u32::try_from(delay_ns).unwrap_or(u32::MAX));
        let young_ticks = (base_ns + self.median_ns) >> 4;
        let is_young = |(at, _): (u32, u32)| u64::from(ticks.wrapping_sub(at)) <= young_ticks;
        // A larger median extends the span, so older samples count as young again.
        while samples.young_len < samples.len {
            let older = samples.back(samples.young_len + 1);
            if !is_young(older) {
                break;
            }
            samples.insert(older.1);
        }
        while samples.young_len > 1 {
            let oldest = samples.back(samples.young_len);
            if is_young(oldest) {
                break;
            }
            samples.remove(oldest.1);
        }
        self.median_ns = u64::from(samples.young[samples.young_len / 2 % SAMPLES]);
        self.median_ns
    }

    /// Forgets the samples, none of which is young any more, but keeps their median.
    pub(super) fn shrink(&mut self) {
        self.samples = None;
    }

    /// Heap bytes in use.
    pub(super) fn heap_bytes(&self) -> usize {
        if self.samples.is_some() { size_of::<Samples>() } else { 0 }
    }
}

impl Samples {
    /// Returns the sample that was added `steps` samples ago, 1 for the latest.
    #[inline]
    fn back(&self, steps: usize) -> (u32, u32) {
        self.latest[self.next.wrapping_sub(steps as u32) as usize % SAMPLES]
    }

    #[inline]
    fn push(&mut self, ticks: u32, delay_ns: u32) {
        if self.young_len >= SAMPLES {
            self.remove(self.back(SAMPLES).1);
        }
        self.latest[self.next as usize % SAMPLES] = (ticks, delay_ns);
        self.next = self.next.wrapping_add(1);
        self.len = (self.len + 1).min(SAMPLES);
        self.insert(delay_ns);
    }

    #[inline]
    fn insert(&mut self, delay_ns: u32) {
        let (place, len) = (self.rank(delay_ns), self.young_len);
        if place < len {
            self.young.copy_within(place..len, place + 1);
        }
        self.young[place] = delay_ns;
        self.young_len = len + 1;
    }

    #[inline]
    fn remove(&mut self, delay_ns: u32) {
        let (place, len) = (self.rank(delay_ns), self.young_len);
        if place + 1 < len {
            self.young.copy_within(place + 1..len, place);
        }
        self.young_len = len - 1;
    }

    /// Returns how many young delays are smaller. There are at most [`SAMPLES`], so counting beats
    /// searching.
    #[inline]
    fn rank(&self, delay_ns: u32) -> usize {
        let young = &self.young[..self.young_len];
        young.iter().map(|&other| u32::from(other < delay_ns)).sum::<u32>() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// The definition of the median: from the latest sample back to the first that is too old.
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
            // Bursts at one time, steady packets and occasional pauses.
            now_ns += [0, 16, 300, 20_000][rng.below(4) as usize];
            let delay_ns = rng.below([10, 1000, 50_000][round / 50 % 3]);
            let base_ns = 500 + rng.below(3) * 4000;
            samples.push((now_ns, delay_ns));
            let span_ns = base_ns + median_ns;
            median_ns = median_of(&samples, span_ns);
            let now = Instant::from_ns(now_ns);
            assert_eq!(delays.add(now, delay_ns, base_ns), median_ns, "round {round}");
            let samples = delays.samples.as_ref().unwrap();
            assert!(samples.len <= SAMPLES && samples.young_len <= samples.len);
        }
    }
}
