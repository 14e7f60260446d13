//! Tells people how far a long command is: a bar on a terminal, lines elsewhere, nothing with -q.
//!
//! Nothing here runs while a point is measured: no ticker thread takes time from a benchmark.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Progress over a known number of points, on the standard error stream.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    plain: bool,
    done: usize,
    total: usize,
}

impl Progress {
    /// Of `total` points; nothing is shown when `quiet`.
    #[must_use]
    pub fn new(total: usize, quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = (terminal && !quiet).then(|| {
            let bar =
                ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template(
                "{bar:24} {pos}/{len}  {msg}  elapsed {elapsed}, left about {eta}",
            );
            if let Ok(style) = style {
                bar.set_style(style);
            }
            bar.tick();
            bar
        });
        Self { bar, plain: !terminal && !quiet, done: 0, total }
    }

    /// Something starts that may take a while.
    pub fn starting(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
        }
    }

    /// One point is done.
    pub fn point(&mut self, what: &str) {
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
            bar.inc(1);
        } else if self.plain {
            eprintln!("[{}/{}] {what}", self.done, self.total);
        }
    }

    /// More points than were known.
    pub fn extend(&mut self, count: usize) {
        self.total += count;
        if let Some(bar) = &self.bar {
            bar.inc_length(count as u64);
        }
    }

    /// Points that will not be measured.
    pub fn skip(&mut self, count: usize) {
        self.done += count;
        if let Some(bar) = &self.bar {
            bar.inc(count as u64);
        }
    }

    /// A line that must not be lost behind the bar.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
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
