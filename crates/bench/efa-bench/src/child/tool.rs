//! Another program as a child: its output is kept, and it ends when this process does.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use bench_engine::interrupt::{self, Reached};
use bench_record::failure::Failure;

use super::{forward_lines, said, spawn};

/// A running program. Dropping it ends it and whatever it started in its process group.
pub(crate) struct Tool {
    child: Child,
    lines: mpsc::Receiver<String>,
    complaints: mpsc::Receiver<String>,
    reached: Option<Reached>,
}

impl Tool {
    /// Starts a command line.
    pub(crate) fn start(words: &[String]) -> Result<Self, Failure> {
        let (program, arguments) =
            words.split_first().ok_or_else(|| Failure::Usage("an empty command".to_owned()))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn(interrupt::apart(&mut command))?;
        let reached = Some(Reached::new(&child));
        let (to_lines, lines) = mpsc::channel();
        let (to_complaints, complaints) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            forward_lines(stdout, to_lines);
        }
        if let Some(stderr) = child.stderr.take() {
            forward_lines(stderr, to_complaints);
        }
        Ok(Self { child, lines, complaints, reached })
    }

    /// Returns whether the program has ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.reached.as_ref().is_none_or(Reached::has_ended)
    }

    /// Returns what the program wrote to standard error, as "; it said: ...", or nothing.
    pub(crate) fn last_words(&mut self) -> String {
        said(&self.complaints)
    }

    /// Waits for the end of the program, and returns what it printed.
    pub(crate) fn finish(mut self, patience: Duration) -> Result<String, Failure> {
        let deadline = Instant::now() + patience;
        let mut text = String::new();
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => text += &(line + "\n"),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let seconds = patience.as_secs_f64();
                    let doing = format!("a program ran{}", self.last_words());
                    return Err(Failure::Timeout { doing, seconds });
                }
            }
        }
        drop(self.reached.take());
        let status = self.child.wait();
        let status = status.map_err(|e| Failure::Check(format!("waiting for a program: {e}")))?;
        interrupt::check()?;
        if status.success() {
            return Ok(text);
        }
        // Many tools print errors to standard output.
        let shown = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        Err(Failure::Check(format!("ended with {status}{}; {shown}", self.last_words())))
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let Some(reached) = self.reached.take() else { return };
        reached.end_group();
        drop(reached);
        // The program has ended, so this cannot wait.
        let _ = self.child.wait();
    }
}
