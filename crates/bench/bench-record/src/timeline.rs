//! The course of a window.

use serde::{Deserialize, Serialize};

/// The window of a point in parts of equal length, of all threads together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// The length of a part in ms.
    pub part_ms: f64,
    /// The number of operations that ended in each part.
    pub operations: Vec<u64>,
    /// The mean time of the operations in each part in µs; 0 if none ended. Empty if operations are
    /// not timed one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mean_us: Vec<f64>,
    /// The longest time of the operations in each part in µs, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub longest_us: Vec<f64>,
}

/// A time in which much less was done than usual.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slump {
    /// The beginning of the slump in ms, counted from the opening of the window.
    pub from_ms: f64,
    pub lasts_ms: f64,
    /// The rate of the slowest part of the slump, in percent of that of the middle part.
    pub least_percent: f64,
}

/// The share of the middle part below which a part belongs to a slump.
const SLUMP: f64 = 0.5;
/// The least number of operations in the middle part: parts with fewer differ by chance.
const OPERATIONS_MIN: u64 = 50;
/// The least number of parts that shows what is usual.
const PARTS_MIN: usize = 8;

impl Timeline {
    /// Returns the longest slump; `None` if there is none, or the parts are too short to tell.
    #[must_use]
    pub fn slump(&self) -> Option<Slump> {
        let mut sorted = self.operations.clone();
        sorted.sort_unstable();
        let middle = *sorted.get(sorted.len() / 2)?;
        if self.operations.len() < PARTS_MIN || middle < OPERATIONS_MIN {
            return None;
        }
        let is_slow = |count: &u64| (*count as f64) < middle as f64 * SLUMP;
        let (mut first, mut longest) = (0, 0..0);
        for part in self.operations.chunk_by(|one, other| is_slow(one) == is_slow(other)) {
            let own = first..first + part.len();
            first = own.end;
            if part.first().is_some_and(is_slow) && own.len() > longest.len() {
                longest = own;
            }
        }
        let least = self.operations.get(longest.clone())?.iter().min()?;
        Some(Slump {
            from_ms: longest.start as f64 * self.part_ms,
            lasts_ms: longest.len() as f64 * self.part_ms,
            least_percent: *least as f64 * 100.0 / middle as f64,
        })
    }

    /// Returns how much of the window was lost in a slump in ms, for choosing the worst of several
    /// blocks.
    #[must_use]
    pub fn lost_ms(&self) -> f64 {
        self.slump().map_or(0.0, |own| own.lasts_ms * (100.0 - own.least_percent) / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(operations: &[u64]) -> Timeline {
        let operations = operations.to_vec();
        Timeline { part_ms: 5.0, operations, mean_us: Vec::new(), longest_us: Vec::new() }
    }

    #[test]
    fn the_longest_slump_is_told_with_its_depth() {
        let own = timeline(&[100, 100, 40, 100, 30, 0, 20, 100, 100, 101]);
        let slump = Slump { from_ms: 20.0, lasts_ms: 15.0, least_percent: 0.0 };
        assert_eq!(own.slump(), Some(slump));
        assert!((own.lost_ms() - 15.0).abs() < 1e-9);
        let at_the_end = timeline(&[100, 100, 100, 100, 100, 100, 100, 10]);
        assert_eq!(
            at_the_end.slump().map(|own| (own.from_ms, own.least_percent)),
            Some((35.0, 10.0))
        );
    }

    #[test]
    fn nothing_is_said_of_what_chance_does() {
        assert_eq!(timeline(&[100; 20]).slump(), None);
        assert_eq!(timeline(&[]).slump(), None);
        assert_eq!(timeline(&[100, 0, 100]).slump(), None, "too few parts");
        assert_eq!(timeline(&[3, 1, 3, 4, 0, 3, 3, 3, 3]).slump(), None, "too few operations");
    }
}
