//! A clock that all threads of this process share, so that their windows can be compared.

use std::sync::OnceLock;
use std::time::Instant;

/// Returns a moment in s since an origin that is the same for all threads.
pub(crate) fn shared_s(moment: Instant) -> f64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let origin = *ORIGIN.get_or_init(Instant::now);
    // Moments before the first call are negative.
    let before = origin.saturating_duration_since(moment);
    moment.saturating_duration_since(origin).as_secs_f64() - before.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn moments_keep_their_distance_also_from_before_the_first_call() {
        let now = Instant::now();
        let later = now + Duration::from_secs(2);
        let distance = |from, to| shared_s(to) - shared_s(from);
        assert!((distance(now, later) - 2.0).abs() < 1e-6);
        let earlier = now.checked_sub(Duration::from_secs(3)).unwrap_or(now);
        assert!((distance(earlier, later) - (later - earlier).as_secs_f64()).abs() < 1e-6);
    }
}
