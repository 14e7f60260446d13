//! What devices did in the looks before, for small pictures of it.

use std::collections::VecDeque;

use softefa::counters::Counter;

use super::sample::{Rates, Row};

/// Looks that are remembered.
const LOOKS: usize = 16;
/// From nothing to the most that was seen.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The traffic of each device in the last looks.
#[derive(Debug, Default)]
pub(super) struct History(Vec<Track>);

#[derive(Debug)]
struct Track {
    pid: u32,
    device: String,
    bytes_per_s: VecDeque<f64>,
}

impl History {
    /// Adds a look; devices that are gone are forgotten.
    pub(super) fn add(&mut self, rates: &Rates) {
        self.0.retain(|track| rates.rows.iter().any(|row| track.is_of(row)));
        for row in &rates.rows {
            let track = match self.0.iter().position(|track| track.is_of(row)) {
                Some(at) => &mut self.0[at],
                None => {
                    let (pid, device) = (row.pid, row.device.clone());
                    self.0.push(Track { pid, device, bytes_per_s: VecDeque::new() });
                    let last = self.0.len() - 1;
                    &mut self.0[last]
                }
            };
            if track.bytes_per_s.len() == LOOKS {
                track.bytes_per_s.pop_front();
            }
            track.bytes_per_s.push_back(row.rate(Counter::TxBytes) + row.rate(Counter::RxBytes));
        }
    }

    /// A character for each look, the latest to the right.
    pub(super) fn picture(&self, row: &Row) -> String {
        let Some(track) = self.0.iter().find(|track| track.is_of(row)) else {
            return String::new();
        };
        let most = track.bytes_per_s.iter().copied().fold(0.0, f64::max);
        let level = |value: &f64| {
            let share = if most > 0.0 { value / most } else { 0.0 };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 7")]
            LEVELS[(share * (LEVELS.len() - 1) as f64).round() as usize]
        };
        track.bytes_per_s.iter().map(level).collect()
    }
}

impl Track {
    fn is_of(&self, row: &Row) -> bool {
        self.pid == row.pid && self.device == row.device
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_is_relative_to_the_most_and_ends_with_the_device() {
        let mut history = History::default();
        for bytes in [0.0, 50.0, 100.0] {
            history.add(&Rates::of_bytes(&[(7, bytes), (8, 0.0)]));
        }
        let row = |pid| Rates::of_bytes(&[(pid, 0.0)]).rows.remove(0);
        assert_eq!(
            (history.picture(&row(7)), history.picture(&row(8))),
            ("▁▅█".into(), "▁▁▁".into())
        );
        for _ in 0..2 * LOOKS {
            history.add(&Rates::of_bytes(&[(8, 1.0)]));
        }
        assert_eq!(history.picture(&row(7)), "");
        assert_eq!(history.picture(&row(8)), "█".repeat(LOOKS));
    }
}
