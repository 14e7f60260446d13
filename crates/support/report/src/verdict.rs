//! Verdicts on changed figures: is it a change, or noise? For comparisons that end in an exit code.
//!
//! A change has to be larger than a bound, below which two runs of one program differ anyway, and
//! where figures were repeated, no chance: the [`Interval`] of its ratio must not hold 1.

use crate::interval::Interval;

/// The direction in which a figure gets better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Times, losses.
    Less,
    /// Rates, fairness.
    More,
}

/// The change of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Better by more than the noise.
    Improved,
    /// Within the noise.
    Same,
    /// Worse by more than the noise.
    Regressed,
    /// Undecided: the interval of the ratio holds both no change and one beyond the noise.
    Inconclusive,
}

impl Change {
    /// Judges the change from `base` to `new`, of which up to `noise_percent` are noise. If there
    /// is an interval of their ratio, a change is one only if the interval does not hold 1, and
    /// "the same" only if all of the interval is noise. A figure below zero, or one that is no
    /// number, is undecided.
    #[must_use]
    pub fn of(
        base: f64,
        new: f64,
        better: Better,
        noise_percent: f64,
        ratio: Option<Interval>,
    ) -> Self {
        let is_figure = |value: f64| value.is_finite() && value >= 0.0;
        if !is_figure(base) || !is_figure(new) {
            return Self::Inconclusive;
        }
        let noise = 1.0 + noise_percent / 100.0;
        let may_be_more =
            |ratio: Interval| ratio.low.is_nan() || ratio.low * noise < 1.0 || ratio.high > noise;
        let is_open = ratio.is_some_and(may_be_more);
        if ratio.is_some_and(|ratio| ratio.holds(1.0)) {
            return if is_open { Self::Inconclusive } else { Self::Same };
        }
        let worse_percent = match better {
            _ if base == new => 0.0,
            Better::More => (base / new - 1.0) * 100.0,
            Better::Less => (new / base - 1.0) * 100.0,
        };
        match worse_percent {
            worse if worse > noise_percent => Self::Regressed,
            worse if worse < -noise_percent => Self::Improved,
            _ if is_open => Self::Inconclusive,
            _ => Self::Same,
        }
    }

    /// Returns a word for a table; the bad one cannot be overlooked.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Improved => "improved",
            Self::Same => "same",
            Self::Regressed => "REGRESSED",
            Self::Inconclusive => "inconclusive",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_beyond_the_noise_changed() {
        let of = |base, new, better| Change::of(base, new, better, 5.0, None);
        assert_eq!(of(100.0, 104.0, Better::Less), Change::Same);
        assert_eq!(of(100.0, 106.0, Better::Less), Change::Regressed);
        assert_eq!(of(100.0, 94.0, Better::Less), Change::Improved);
        assert_eq!(of(100.0, 94.0, Better::More), Change::Regressed);
        assert_eq!(of(0.0, 0.0, Better::More), Change::Same);
        assert_eq!(of(1.0, 0.0, Better::More), Change::Regressed);
        let of =
            |low, high| Change::of(100.0, 110.0, Better::More, 5.0, Some(Interval { low, high }));
        assert_eq!(of(0.98, 1.2), Change::Inconclusive);
        assert_eq!(of(1.02, 1.2), Change::Improved);
    }

    /// A time below zero once was an improvement, and one that was no number the same.
    #[test]
    fn what_is_no_figure_changes_nothing() {
        for odd in [-1.8, f64::NAN, f64::INFINITY] {
            for better in [Better::Less, Better::More] {
                for (base, new) in [(5.0, odd), (odd, 5.0), (odd, odd)] {
                    let change = Change::of(base, new, better, 5.0, None);
                    assert_eq!(change, Change::Inconclusive, "{base} {new}");
                }
            }
        }
        // A count may have become zero.
        assert_eq!(Change::of(10.0, 0.0, Better::Less, 5.0, None), Change::Improved);
    }

    #[test]
    fn what_the_interval_cannot_tell_is_not_the_same() {
        let of = |new, low, high| {
            Change::of(100.0, new, Better::Less, 5.0, Some(Interval { low, high }))
        };
        // A median of 7950 that may have become 6.34, or not.
        assert_eq!(of(0.08, 0.001, 1.004), Change::Inconclusive);
        assert_eq!(of(100.0, 0.97, 1.04), Change::Same);
        assert_eq!(of(100.0, 0.94, 1.04), Change::Inconclusive);
        assert_eq!(of(100.0, 0.97, 1.06), Change::Inconclusive);
        assert_eq!(of(100.0, 1.0, 1.0), Change::Same);
        // A change for sure, but perhaps one within the noise.
        assert_eq!(of(103.0, 1.01, 1.04), Change::Same);
        assert_eq!(of(103.0, 1.01, 1.2), Change::Inconclusive);
        assert_eq!(of(110.0, 1.01, 1.2), Change::Regressed);
        assert_eq!(of(100.0, f64::NAN, f64::NAN), Change::Inconclusive);
    }
}
