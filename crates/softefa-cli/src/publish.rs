//! Keeps the counter files of the device tree up to date while a program runs.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use softefa::counters;
use softefa::hw_counters::HwCounters;

use crate::failure::Failure;

/// How old the files may be.
const INTERVAL: Duration = Duration::from_millis(100);

/// The thread that writes them. Programs of the run take no part in it.
#[derive(Debug)]
pub(crate) struct Publisher {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Publisher {
    /// Starts to publish what the processes of `run_dir` count.
    ///
    /// # Errors
    /// No thread can be had.
    pub(crate) fn start(files: HwCounters, run_dir: &Path) -> Result<Self, Failure> {
        let (stop, stopped) = mpsc::channel();
        let run_dir = run_dir.to_path_buf();
        let thread = thread::Builder::new()
            .name("counters".into())
            .spawn(move || publish_until(&stopped, files, &run_dir))
            .map_err(|error| Failure::own(format!("no thread for the counters: {error}")))?;
        Ok(Self { stop, thread })
    }

    /// Publishes once more, so that the files agree with what the run counted in the end.
    pub(crate) fn finish(self) {
        drop(self.stop);
        // It panics for nothing it meets; and if it did, the program's result would still count.
        let _ = self.thread.join();
    }
}

fn publish_until(stopped: &mpsc::Receiver<()>, mut files: HwCounters, run_dir: &Path) {
    loop {
        let is_last = !matches!(stopped.recv_timeout(INTERVAL), Err(RecvTimeoutError::Timeout));
        let result = counters::read_dir(run_dir).and_then(|all| files.publish(&all));
        if let Err(error) = result {
            eprintln!("softefa: hw_counters cannot be written any more: {error}");
            return;
        }
        if is_last {
            return;
        }
    }
}
