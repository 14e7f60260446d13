//! The popularity of keys.

use crate::measure::Random;

/// The distribution by which keys are asked for.
pub(super) enum Popularity {
    /// All keys are equally popular.
    Uniform { keys: usize },
    /// Key number k is asked for in proportion to 1 / (k + 1)^theta, drawn as Gray et al. (SIGMOD
    /// 1994) and YCSB do.
    Zipf { keys: f64, theta: f64, zeta: f64, eta: f64 },
}

impl Popularity {
    /// Makes a distribution; `zipf_hundredths`: theta times 100, 1 to 99; 0: all keys are equally
    /// popular.
    pub(super) fn new(keys: usize, zipf_hundredths: u32) -> Self {
        if zipf_hundredths == 0 || keys < 3 {
            return Self::Uniform { keys };
        }
        let theta = f64::from(zipf_hundredths) / 100.0;
        let zeta: f64 = (1..=keys).map(|rank| (rank as f64).powf(-theta)).sum();
        let zeta_of_two = 1.0 + 0.5_f64.powf(theta);
        let keys = keys as f64;
        let eta = (1.0 - (2.0 / keys).powf(1.0 - theta)) / (1.0 - zeta_of_two / zeta);
        Self::Zipf { keys, theta, zeta, eta }
    }

    /// Draws the number of a key.
    #[inline]
    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        let (keys, theta, zeta, eta) = match *self {
            Self::Uniform { keys } => return random.below(keys) as u64,
            Self::Zipf { keys, theta, zeta, eta } => (keys, theta, zeta, eta),
        };
        let unit = random.unit();
        let scaled = unit * zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(theta) {
            return 1;
        }
        let place = keys * (eta * unit - eta + 1.0).powf(1.0 / (1.0 - theta));
        (place as u64).min(keys as u64 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 400_000;

    fn counts(zipf_hundredths: u32, keys: usize) -> Vec<f64> {
        let popularity = Popularity::new(keys, zipf_hundredths);
        let mut random = Random::new(3);
        let mut counts = vec![0.0; keys];
        for _ in 0..DRAWS {
            counts[popularity.draw(&mut random) as usize] += 1.0 / DRAWS as f64;
        }
        counts
    }

    #[test]
    fn uniform_keys_are_all_alike() {
        assert!(counts(0, 10).iter().all(|share| (share - 0.1).abs() < 0.005));
    }

    #[test]
    fn zipf_keys_have_their_shares() {
        let keys = 1000;
        let shares = counts(99, keys);
        let zeta: f64 = (1..=keys).map(|rank| (rank as f64).powf(-0.99)).sum();
        // The first two keys are exact, the others are approximated by the method.
        for rank in [1, 2] {
            let exact = (rank as f64).powf(-0.99) / zeta;
            assert!((shares[rank - 1] / exact - 1.0).abs() < 0.05, "{rank}: {}", shares[rank - 1]);
        }
        let exact: f64 = (1..=100_u32).map(|rank| f64::from(rank).powf(-0.99) / zeta).sum();
        let top: f64 = shares[..100].iter().sum();
        assert!((top / exact - 1.0).abs() < 0.03, "{top} instead of {exact}");
        assert!(shares[keys / 2..].iter().sum::<f64>() > 0.0);
    }
}
