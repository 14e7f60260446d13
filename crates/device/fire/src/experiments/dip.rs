//! How long goodput drops after a fault.

/// Goodput has recovered when [`BACK`] of the usual has arrived for this long.
const WINDOW_MS: usize = 10;
/// It must also last this long: a flow that stalls may drain what lies in a socket.
const LASTING_MS: usize = 100;
/// The share of the usual goodput that counts as recovered.
const BACK: f64 = 0.85;
/// The usual goodput is measured over this many milliseconds before.
pub(super) const BEFORE_MS: usize = 500;
/// A dip that begins later has another cause.
pub(super) const BEGINS_MS: usize = 50;

/// A dip in a series of bytes per millisecond.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Dip {
    /// Usual bytes per millisecond.
    pub(super) usual: f64,
    /// Where it begins, in milliseconds after the fault.
    pub(super) begins_ms: usize,
    /// From there until goodput is back, 0 without a dip; the rest of the series if it never is.
    pub(super) ms: usize,
    /// What is missing within a second of the fault, as milliseconds of what is usual.
    pub(super) missing_ms: f64,
}

/// The dip after a fault at place `fault` of `bytes`.
pub(super) fn of(bytes: &[u64], fault: usize) -> Dip {
    let sum = |part: &[u64]| part.iter().sum::<u64>() as f64;
    let fault = fault.min(bytes.len());
    let before = &bytes[fault.saturating_sub(BEFORE_MS)..fault];
    let usual = sum(before) / (before.len().max(1)) as f64;
    let after = &bytes[fault..];
    let is_usual = |window: &[u64]| sum(window) >= BACK * usual * window.len() as f64;
    let is_back = |window: &[u64]| is_usual(&window[..WINDOW_MS]) && is_usual(window);
    let begins = after.windows(WINDOW_MS).take(BEGINS_MS).position(|window| !is_usual(window));
    let lasts = begins.map(|begins| {
        let rest = after.windows(LASTING_MS).skip(begins).position(is_back);
        rest.unwrap_or(after.len() - begins)
    });
    let second = &after[..after.len().min(1000)];
    Dip {
        usual,
        begins_ms: begins.unwrap_or_default(),
        ms: lasts.unwrap_or_default(),
        missing_ms: (second.len() as f64 * usual - sum(second)) / usual.max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dip_is_as_long_as_it_is() {
        let mut bytes = vec![100; 2000];
        let none = Dip { usual: 100.0, begins_ms: 0, ms: 0, missing_ms: 0.0 };
        assert_eq!(of(&bytes, 1000), none);
        bytes[1003..1030].fill(0);
        let dip = of(&bytes, 1000);
        assert_eq!((dip.ms, dip.missing_ms), (29, 27.0));
        bytes[1003..1300].fill(0);
        bytes[1050..1060].fill(200);
        assert_eq!(of(&bytes, 1000).ms, 299, "what comes in between is no end");
        bytes[1000..].fill(84);
        assert_eq!(of(&bytes, 1000).ms, 1000, "it never comes back");
    }

    #[test]
    fn a_quarter_less_is_a_dip_and_later_ones_are_others() {
        let mut bytes = vec![100; 2000];
        bytes[1000..1016].fill(75);
        assert_eq!(of(&bytes, 1000).ms, 10);
        let mut bytes = vec![100; 2000];
        bytes[1100..1130].fill(0);
        assert_eq!(of(&bytes, 1000).ms, 0);
    }

    /// What stutters 40 ms after a fault, as flows do that have nothing to do with it, stutters for
    /// as long as it does. It counted from the fault on.
    #[test]
    fn a_late_dip_is_no_longer_than_it_is() {
        let mut bytes = vec![100; 2000];
        bytes[1040..1045].fill(0);
        let dip = of(&bytes, 1000);
        assert_eq!((dip.begins_ms, dip.ms), (32, 12));
    }

    #[test]
    fn nothing_at_all_is_no_panic() {
        assert_eq!(of(&[], 10).ms, 0);
    }
}
