//! Did a figure change, or is it noise? For comparisons that end in an exit code.

/// Which way a figure gets better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Times, losses.
    Less,
    /// Rates, fairness.
    More,
}

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Better by more than the noise.
    Improved,
    /// Within the noise.
    Same,
    /// Worse by more than the noise.
    Regressed,
}

impl Change {
    /// The change from `base` to `new`, of which up to `noise_percent` are noise.
    #[must_use]
    pub fn of(base: f64, new: f64, better: Better, noise_percent: f64) -> Self {
        let worse_percent = match better {
            _ if base == new => 0.0,
            Better::More => (base / new - 1.0) * 100.0,
            Better::Less => (new / base - 1.0) * 100.0,
        };
        match worse_percent {
            worse if worse > noise_percent => Self::Regressed,
            worse if worse < -noise_percent => Self::Improved,
            _ => Self::Same,
        }
    }

    /// A word for a table; the bad one cannot be overlooked.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Improved => "improved",
            Self::Same => "same",
            Self::Regressed => "REGRESSED",
        }
    }
}

/// 97.5 % quantile of Student's t by degrees of freedom, from 1.
const STUDENT_T: [f64; 9] = [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];
const STUDENT_T_MANY: f64 = 2.0;

/// How far the mean of `ratios` may be off: half of its 95 % confidence interval, in percent of
/// one. For figures measured in pairs, such as two transports with the same seeds. `None` for
/// fewer than two.
#[must_use]
pub fn noise_of_pairs(ratios: &[f64]) -> Option<f64> {
    let (_, error) = mean_and_error(ratios)?;
    Some(100.0 * quantile(ratios.len() - 1) * error)
}

/// How far the ratio of the means of `new` and `base` may be off: half of its 95 % confidence
/// interval, in percent of the ratio, to first order. For figures measured apart. `None` when one
/// of them has fewer than two values or no mean to divide by.
#[must_use]
pub fn noise_of_ratio(base: &[f64], new: &[f64]) -> Option<f64> {
    let (base_mean, base_error) = mean_and_error(base)?;
    let (new_mean, new_error) = mean_and_error(new)?;
    if base_mean == 0.0 || new_mean == 0.0 {
        return None;
    }
    let relative = (base_error / base_mean).hypot(new_error / new_mean);
    // The smaller set decides: rather too careful than too sure.
    let freedom = base.len().min(new.len()) - 1;
    Some(100.0 * quantile(freedom) * relative)
}

fn quantile(freedom: usize) -> f64 {
    STUDENT_T.get(freedom.wrapping_sub(1)).copied().unwrap_or(STUDENT_T_MANY)
}

/// Mean and standard error.
fn mean_and_error(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < 2 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 values")]
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Some((mean, (variance / count).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_beyond_the_noise_changed() {
        let of = |base, new, better| Change::of(base, new, better, 5.0);
        assert_eq!(of(100.0, 104.0, Better::Less), Change::Same);
        assert_eq!(of(100.0, 106.0, Better::Less), Change::Regressed);
        assert_eq!(of(100.0, 94.0, Better::Less), Change::Improved);
        assert_eq!(of(100.0, 94.0, Better::More), Change::Regressed);
        assert_eq!(of(0.0, 0.0, Better::More), Change::Same);
        assert_eq!(of(1.0, 0.0, Better::More), Change::Regressed);
    }

    #[test]
    fn noise_shrinks_with_more_values_and_less_spread() {
        assert_eq!(noise_of_pairs(&[1.0]), None);
        // Mean 1, standard error 0.1, one degree of freedom.
        let two = noise_of_pairs(&[0.9, 1.1]).expect("two values");
        assert!((two - 127.1).abs() < 1e-9, "{two}");
        let wide = noise_of_ratio(&[90.0, 110.0, 100.0], &[45.0, 55.0, 50.0]).expect("noise");
        let narrow = noise_of_ratio(&[99.0, 101.0, 100.0], &[49.0, 51.0, 50.0]).expect("noise");
        assert!(narrow < wide / 4.0, "{narrow} of {wide}");
        assert_eq!(noise_of_ratio(&[1.0, 2.0], &[3.0]), None);
        assert_eq!(noise_of_ratio(&[0.0, 0.0], &[3.0, 3.0]), None);
    }
}
