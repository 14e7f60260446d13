//! Progress of a long command: a bar on a terminal, lines elsewhere, nothing with -q.
//!
//! Nothing here runs while a point is measured: no ticker thread takes time from a benchmark.

use std::fmt::Display;
use std::io::IsTerminal;
use std::io::Write as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::sparkline::sparkline;

/// Progress over a known number of points, on the standard error stream.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    plain: bool,
    done: usize,
    total: usize,
    /// Latest figure of each point, for those who watch; `None` until it is known.
    curve: Vec<Option<f64>>,
}

const BY_POINTS: &str = "{bar:24} {pos}/{len}  {wide_msg}  elapsed {elapsed}, left about {eta}";
const BY_TIME: &str = "{bar:24} {percent} %  {wide_msg}  elapsed {elapsed}, left about {eta}";

impl Progress {
    /// Shows the progress of `total` points; nothing is shown when `quiet`.
    #[must_use]
    pub fn new(total: usize, quiet: bool) -> Self {
        Self::with(total, quiet, BY_POINTS)
    }

    /// Shows the progress of work that is estimated to take `total_s` seconds; nothing is shown
    /// when `quiet`.
    #[must_use]
    pub fn timed(total_s: f64, quiet: bool) -> Self {
        Self::with(millis(total_s), quiet, BY_TIME)
    }

    fn with(total: usize, quiet: bool, template: &str) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = (terminal && !quiet).then(|| {
            let bar =
                ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.tick();
            bar
        });
        Self { bar, plain: !terminal && !quiet, done: 0, total, curve: Vec::new() }
    }

    /// Advances by work that was estimated to take `seconds`; shown on a terminal only.
    pub fn advance(&mut self, seconds: f64, what: &str) {
        let done = millis(seconds);
        self.done += done;
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
            bar.inc(done as u64);
        }
    }

    /// Prints a line where there is no bar.
    pub fn line(&self, text: &str) {
        if self.plain {
            say(text);
        }
    }

    /// Prints a line beside the bar or without one; nothing when quiet.
    pub fn remark(&self, text: &str) {
        if self.plain || self.bar.is_some() {
            self.say(text);
        }
    }

    /// Announces something that may take a while.
    pub fn starting(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
        }
    }

    /// Counts a point that is done.
    pub fn point(&mut self, what: &str) {
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
            bar.inc(1);
        } else if self.plain {
            say(format_args!("[{}/{}] {what}", self.done, self.total));
        }
    }

    /// Counts one more measurement of the point of that number, with the resulting `figure`: on a
    /// terminal each point is a line when it is first known, and the bar has the curve of all of
    /// them so far.
    pub fn point_of(&mut self, number: usize, figure: Option<f64>, what: &str) {
        if self.curve.len() <= number {
            self.curve.resize(number + 1, None);
        }
        let is_first = self.curve[number].is_none();
        self.curve[number] = figure.or(self.curve[number]);
        let Some(bar) = &self.bar else { return self.point(what) };
        if is_first {
            bar.println(what);
        }
        let line = sparkline(&self.curve);
        self.point(&if line.is_empty() { what.to_owned() } else { format!("{line} {what}") });
    }

    /// Starts a new curve, because other points follow.
    pub fn new_curve(&mut self) {
        self.curve.clear();
    }

    /// Adds points that were not known before.
    pub fn extend(&mut self, count: usize) {
        self.total += count;
        if let Some(bar) = &self.bar {
            bar.inc_length(count as u64);
        }
    }

    /// Removes points that will not be measured.
    pub fn skip(&mut self, count: usize) {
        self.done += count;
        if let Some(bar) = &self.bar {
            bar.inc(count as u64);
        }
    }

    /// Prints a line that must not be lost behind the bar.
    pub fn say(&self, text: &str) {
        self.voice().say(text);
    }

    /// Returns a voice for code that has lines to print and does not know the progress.
    #[must_use]
    pub fn voice(&self) -> Voice {
        Voice(self.bar.clone())
    }
}

/// Converts to whole milliseconds; 0 where there is less than none.
fn millis(seconds: f64) -> usize {
    Duration::try_from_secs_f64(seconds).map_or(0, |time| time.as_millis() as usize)
}

/// Prints a line on standard error. An error is ignored, because the disk is full or nobody reads
/// it: results do not depend on it.
pub fn say(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Writes to standard output. A closed pipe is no failure, because its reader has had enough.
///
/// # Errors
/// Returns every other error of writing, such as a full disk.
pub fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// A printer of lines beside the bar of a [`Progress`], usable from anywhere.
#[derive(Debug, Clone)]
pub struct Voice(Option<ProgressBar>);

impl Voice {
    /// Prints a line that must not be lost behind the bar.
    pub fn say(&self, text: &str) {
        match &self.0 {
            Some(bar) => bar.suspend(|| say(text)),
            None => say(text),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
