//! The time in equal parts, and the events in each of them.

/// The number of parts on a page, over all queue pairs.
const BINS_IN_ALL: usize = 12_000;
const BINS_MIN: usize = 250;
const BINS_MAX: usize = 1_500;

/// The parts of a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bins {
    pub(super) from_ns: u64,
    /// The time behind the last event.
    pub(super) to_ns: u64,
    pub(super) count: usize,
}

impl Bins {
    /// Creates as many bins as fit on a page with this many queue pairs.
    pub(super) fn new([from_ns, last_ns]: [u64; 2], queue_pairs: usize) -> Self {
        let count = (BINS_IN_ALL / queue_pairs.max(1)).clamp(BINS_MIN, BINS_MAX);
        Self { from_ns, to_ns: last_ns.saturating_add(1), count }
    }

    /// Returns the part that contains a time.
    pub(super) fn at(self, at_ns: u64) -> usize {
        let since = at_ns.saturating_sub(self.from_ns);
        // A span at the end of time is empty.
        let span = (self.to_ns - self.from_ns).max(1);
        let bin = u128::from(since) * self.count as u128 / u128::from(span);
        usize::try_from(bin).unwrap_or(usize::MAX).min(self.count - 1)
    }

    /// Counts the moments in each part that has any; part and count alternate.
    pub(super) fn counts(self, moments: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut counts = vec![0; self.count];
        moments.for_each(|at_ns| counts[self.at(at_ns)] += 1);
        let filled = counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
        filled.flat_map(|(bin, count)| [bin as u64, count]).collect()
    }

    /// Returns part, mean and maximum of the values in it, in turn, in the order of time.
    pub(super) fn means(self, values: &[(u64, u64)]) -> Vec<u64> {
        let mut sums = vec![(0u128, 0u128, 0u64); self.count];
        for (at_ns, value) in values {
            let (count, sum, most) = &mut sums[self.at(*at_ns)];
            *count += 1;
            *sum += u128::from(*value);
            *most = (*most).max(*value);
        }
        let filled = sums.into_iter().enumerate().filter(|(_, (count, ..))| *count > 0);
        filled
            .flat_map(|(bin, (count, sum, most))| [bin as u64, (sum / count) as u64, most])
            .collect()
    }

    /// Returns the largest number of spans that were open in each part. A span without an end is
    /// open until the end of the log.
    pub(super) fn most_open(self, spans: impl Iterator<Item = (u64, Option<u64>)>) -> Vec<u64> {
        let mut steps: Vec<(u64, i64)> = spans
            .flat_map(|(start, end)| [Some((start, 1)), end.map(|end| (end, -1))])
            .flatten()
            .collect();
        // The beginning of a span counts before the end of another one at the same time.
        steps.sort_by_key(|(at_ns, step)| (*at_ns, -step));
        let mut most = vec![0; self.count];
        let (mut open, mut reached) = (0i64, 0);
        for (at_ns, step) in steps {
            let bin = self.at(at_ns);
            most[reached..=bin].iter_mut().for_each(|seen: &mut u64| {
                *seen = (*seen).max(open.unsigned_abs());
            });
            open += step;
            reached = bin;
            most[bin] = most[bin].max(open.unsigned_abs());
        }
        most[reached..].iter_mut().skip(1).for_each(|seen| *seen = open.unsigned_abs());
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BINS: Bins = Bins { from_ns: 100, to_ns: 200, count: 10 };

    #[test]
    fn moments_fall_into_their_parts() {
        assert_eq!(
            [BINS.at(100), BINS.at(109), BINS.at(110), BINS.at(199), BINS.at(9_999)],
            [0, 0, 1, 9, 9]
        );
        assert_eq!(BINS.counts([100, 105, 199].into_iter()), [0, 2, 9, 1]);
        assert_eq!(BINS.means(&[(100, 4), (101, 8), (150, 1)]), [0, 6, 8, 5, 1, 1]);
        let all = Bins::new([0, 0], 1);
        assert_eq!((all.at(0), all.count), (0, BINS_MAX));
        assert_eq!(Bins::new([0, u64::MAX - 1], 10_000).at(u64::MAX - 1), BINS_MIN - 1);
    }

    /// A file may be damaged, or be that of another program.
    #[test]
    fn the_greatest_numbers_do_no_harm() {
        for from_ns in [0, u64::MAX] {
            let all = Bins::new([from_ns, u64::MAX], 10_000);
            assert_eq!(all.at(u64::MAX) == BINS_MIN - 1, from_ns == 0);
        }
        assert_eq!(BINS.means(&[(100, u64::MAX), (101, u64::MAX)]), [0, u64::MAX, u64::MAX]);
    }

    #[test]
    fn what_is_open_is_counted_until_it_ends() {
        let spans = [(105, Some(125)), (106, Some(107)), (180, None)];
        assert_eq!(BINS.most_open(spans.into_iter()), [2, 1, 1, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(BINS.most_open([(195, None)].into_iter())[8..], [0, 1]);
        assert_eq!(BINS.most_open([].into_iter()), [0; 10]);
    }
}
