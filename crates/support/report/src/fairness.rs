//! Equality of shares.

/// Returns Jain's fairness index (Jain, Chiu, Hawe, 1984): 1 when all rates are equal, 1/n when one
/// of n has everything.
pub fn jain(rates: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for rate in rates {
        count += 1.0;
        sum += rate;
        squares += rate * rate;
    }
    if squares > 0.0 { sum * sum / (count * squares) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rates_are_fair_and_one_that_has_all_is_not() {
        assert_eq!(jain([3.0; 4].into_iter()), 1.0);
        assert_eq!(jain([1.0, 0.0, 0.0, 0.0].into_iter()), 0.25);
        assert_eq!(jain([0.0; 2].into_iter()), 1.0);
    }
}
