//! What goes by a clock: rates, ramps of them, and looks at what is going on.

use std::time::Duration;

use bench_record::failure::Failure;

use super::{MeasureArgs, millis};

/// Who looks more often sees chance, and disturbs.
const WATCH_MIN_S: f64 = 0.01;

impl MeasureArgs {
    /// Refuses a rate that no clock has, or that contradicts other options.
    pub(super) fn check_rate(&self, rates: &[usize]) -> Result<(), Failure> {
        const RATE_MAX: usize = 1_000_000_000;
        if let Some(rate) = rates.iter().find(|rate| **rate > RATE_MAX) {
            return Err(Failure::Usage(format!("--rate {rate}: give {RATE_MAX} a second at most")));
        }
        if (self.rate.is_some() || self.ramp.is_some()) && self.post_list > 1 {
            let text = "--post-list collects operations, --rate sends each on time: give only one";
            return Err(Failure::Usage(text.to_owned()));
        }
        Ok(())
    }

    /// How often somebody wants to see something.
    pub(super) fn watched_every(&self) -> Result<Option<Duration>, Failure> {
        let Some(seconds) = self.watch else { return Ok(None) };
        let every_ms = millis("--watch", seconds, WATCH_MIN_S)?;
        if self.iterations.is_none() && seconds > self.duration {
            return Err(Failure::Usage(format!(
                "--watch {seconds}: a block of {} s is over by then, give --duration more",
                self.duration
            )));
        }
        Ok(Some(Duration::from_millis(every_ms)))
    }

    /// Refuses a ramp whose blocks are too short to show what it looks for.
    pub(super) fn check_ramp(&self, rates: &[usize]) -> Result<(), Failure> {
        let Some(ramp) = self.ramp else { return Ok(()) };
        if rates.len() > 1 {
            let text = "--ramp finds rates itself: give --rate one, to begin with";
            return Err(Failure::Usage(text.to_owned()));
        }
        let least_s = ramp.block_min_s();
        if self.duration < least_s {
            return Err(Failure::Usage(format!(
                "--ramp {ramp}: a block of {} s is too short for it; give --duration {least_s} or more",
                self.duration
            )));
        }
        Ok(())
    }
}
