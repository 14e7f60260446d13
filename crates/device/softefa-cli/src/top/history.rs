//! The activity of devices and queue pairs in the last minute, for small charts.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The length of the history.
pub(super) const HISTORY_LENGTH: Duration = Duration::from_secs(60);
/// The characters of a chart, from nothing to the largest value that was seen.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The owner of samples: a process and its object.
pub(super) type Key<'a> = (u32, &'a str);

/// The rates between two samples: bytes carried and packets sent again, per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Activity {
    pub(super) carried: f64,
    pub(super) repeated: f64,
}

/// The activity of the last minute.
#[derive(Debug, Default)]
pub(super) struct History {
    tracks: Vec<Track>,
    now: Option<Instant>,
}

#[derive(Debug)]
struct Track {
    pid: u32,
    name: String,
    activities: VecDeque<(Instant, Activity)>,
}

impl History {
    /// Adds the activity at one time; tracks without any are forgotten.
    pub(super) fn add<'a>(&mut self, at: Instant, activities: &[(Key<'a>, Activity)]) {
        self.now = Some(at);
        self.tracks.retain(|track| activities.iter().any(|(key, _)| track.key() == *key));
        for (key, activity) in activities {
            let known = self.tracks.iter().position(|track| track.key() == *key);
            let place = known.unwrap_or_else(|| {
                let (pid, name) = *key;
                self.tracks.push(Track { pid, name: name.to_owned(), activities: VecDeque::new() });
                self.tracks.len() - 1
            });
            let series = &mut self.tracks[place].activities;
            series.push_back((at, *activity));
            while series.front().is_some_and(|(then, _)| at.duration_since(*then) >= HISTORY_LENGTH)
            {
                series.pop_front();
            }
        }
    }

    /// Draws the last minute in `width` characters, the latest to the right; blank before the first
    /// sample, and empty for an unknown key.
    pub(super) fn picture(&self, key: Key<'_>, width: usize, of: fn(&Activity) -> f64) -> String {
        let Some((track, now)) = self.tracks.iter().find(|track| track.key() == key).zip(self.now)
        else {
            return String::new();
        };
        let mut cells = vec![(0u32, 0.0); width];
        for (at, activity) in &track.activities {
            let age = now.duration_since(*at).as_secs_f64() / HISTORY_LENGTH.as_secs_f64();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "0 to width"
            )]
            let back = (age * width as f64) as usize;
            if let Some((count, sum)) =
                (width - 1).checked_sub(back).and_then(|at| cells.get_mut(at))
            {
                *count += 1;
                *sum += of(activity);
            }
        }
        let mean = |(count, sum): &(u32, f64)| (*count > 0).then(|| sum / f64::from(*count));
        let most = cells.iter().filter_map(mean).fold(0.0, f64::max);
        // Samples that are further apart than the width of a character leave no gaps.
        let mut last = None;
        let filled = cells.iter().map(|cell| {
            last = mean(cell).or(last);
            last.map_or(' ', |value| level(value, most))
        });
        filled.collect()
    }
}

/// Returns the character of a value; the lowest one is for zero only.
fn level(value: f64, most: f64) -> char {
    let share = if most > 0.0 { value / most } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 7")]
    let index = (share * (LEVELS.len() - 1) as f64).ceil() as usize;
    LEVELS[index.min(LEVELS.len() - 1)]
}

impl Track {
    fn key(&self) -> Key<'_> {
        (self.pid, &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity(carried: f64) -> Activity {
        Activity { carried, repeated: 0.0 }
    }

    #[test]
    fn the_picture_is_relative_to_the_most_and_ends_with_what_it_shows() {
        let (mut history, begin) = (History::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        for (seconds, carried) in [(0, 0.0), (6, 50.0), (12, 100.0)] {
            history.add(at(seconds), &[((7, "a"), activity(carried)), ((8, "a"), activity(0.0))]);
        }
        let picture =
            |history: &History, pid| history.picture((pid, "a"), 10, |activity| activity.carried);
        assert_eq!(picture(&history, 7), "       ▁▅█");
        assert_eq!(picture(&history, 8), "       ▁▁▁");
        assert_eq!(history.picture((7, "a"), 10, |activity| activity.repeated), "       ▁▁▁");
        for seconds in 13..80 {
            history.add(at(seconds), &[((8, "a"), activity(1.0))]);
        }
        assert_eq!(picture(&history, 7), "");
        assert_eq!(picture(&history, 8), "█".repeat(10));
        assert_eq!(history.tracks[0].activities.len(), 60, "older looks are forgotten");
    }

    #[test]
    fn rare_looks_leave_no_holes() {
        let (mut history, begin) = (History::default(), Instant::now());
        for seconds in [0, 20, 40] {
            history.add(begin + Duration::from_secs(seconds), &[((7, "a"), activity(2.0))]);
        }
        let picture = history.picture((7, "a"), 12, |activity| activity.carried);
        assert_eq!(picture, "   █████████");
    }
}
