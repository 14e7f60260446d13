//! Percentiles. There is one definition, nearest rank: the smallest value that the given percentage
//! of all values does not exceed. It is always a value that occurred, and for fewer than a hundred
//! values the 99th percentile is the largest. (Histograms of `efa-bench` and of queues count
//! alike.)

/// Returns the rank, from 1, of a percentile of `count` values.
pub(crate) const fn rank(count: usize, percent: usize) -> usize {
    let rank = (count * percent).div_ceil(100);
    if rank == 0 { 1 } else { rank }
}

/// Returns a percentile of values in rising order; there must be at least one.
pub(crate) fn nearest_rank<T: Copy>(sorted: &[T], percent: usize) -> T {
    assert!(percent <= 100 && !sorted.is_empty(), "no value has the rank");
    sorted[rank(sorted.len(), percent) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_smallest_value_that_so_many_do_not_exceed() {
        let values: Vec<u32> = (1..=200).collect();
        let at = |percent| nearest_rank(&values, percent);
        assert_eq!([0, 1, 50, 90, 99, 100].map(at), [1, 2, 100, 180, 198, 200]);
        assert_eq!(nearest_rank(&[7, 8], 50), 7, "not the mean of the middle two");
        assert_eq!(nearest_rank(&values[..99], 99), 99);
        assert_eq!(nearest_rank(&values[..1], 99), 1);
    }
}
