//! Periodic work in a thread beside the program.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::failure::Failure;

/// A thread that repeats a task.
#[derive(Debug)]
pub(crate) struct Background {
    stop: Sender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl Background {
    /// Calls `tick` every `interval` until it fails; when the work is to end, calls it once more
    /// with `true`.
    ///
    /// # Errors
    /// No thread can be had.
    pub(crate) fn start(
        name: &str,
        interval: Duration,
        mut tick: impl FnMut(bool) -> io::Result<()> + Send + 'static,
    ) -> Result<Self, Failure> {
        let (stop, stopped) = mpsc::channel();
        let work = move || loop {
            let is_last = stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout);
            tick(is_last)?;
            if is_last {
                return Ok(());
            }
        };
        let thread = thread::Builder::new().name(name.into()).spawn(work);
        let thread = thread
            .map_err(|error| Failure::of_machine(format!("no thread for the {name}: {error}")))?;
        Ok(Self { stop, thread })
    }

    /// Ends the work after a last call.
    ///
    /// # Errors
    /// The error with which the work failed before.
    pub(crate) fn finish(self) -> io::Result<()> {
        drop(self.stop);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("its thread panicked")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_call_is_told_and_a_failure_is_kept() {
        let (told, calls) = mpsc::channel();
        let quick = Duration::from_millis(1);
        let work = Background::start("test", quick, move |is_last| {
            told.send(is_last).map_err(io::Error::other)
        });
        let work = work.unwrap();
        assert_eq!(calls.recv(), Ok(false));
        work.finish().unwrap();
        assert_eq!(calls.iter().last(), Some(true));
        let work = Background::start("test", quick, |_| Err(io::Error::other("disk full")));
        assert_eq!(work.unwrap().finish().unwrap_err().to_string(), "disk full");
    }
}
