//! How long everything is measured.

use std::time::Duration;

/// Fewer messages say nothing, and perftest takes no fewer than five.
const MESSAGES_MIN: u32 = 100;
const SHORTER: u32 = 1000;
const TIME_MIN: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// For figures.
    Whole,
    /// A thousandth of it, to see that everything runs.
    Short,
}

impl Effort {
    pub(crate) fn messages(self, whole: u32) -> u32 {
        match self {
            Self::Whole => whole,
            Self::Short => (whole / SHORTER).max(MESSAGES_MIN),
        }
    }

    pub(crate) fn time(self, whole: Duration) -> Duration {
        match self {
            Self::Whole => whole,
            Self::Short => (whole / SHORTER).max(TIME_MIN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_still_measures_something() {
        let all = |effort: Effort| (effort.messages(500), effort.time(Duration::from_secs(2)));
        assert_eq!(all(Effort::Whole), (500, Duration::from_secs(2)));
        assert_eq!(all(Effort::Short), (100, Duration::from_millis(10)));
        assert_eq!(Effort::Short.messages(4_000_000), 4000);
    }
}
