//! Keeps the counter files of the device tree up to date while a program runs.

use std::path::Path;
use std::time::Duration;

use softefa::counters;
use softefa::hw_counters::HwCounters;

use crate::background::Background;
use crate::failure::Failure;

/// How old the files may be.
const INTERVAL: Duration = Duration::from_millis(100);

/// The thread that writes them. Programs of the run take no part in it.
#[derive(Debug)]
pub(crate) struct Publisher(Background);

impl Publisher {
    /// Starts to publish what the processes of `run_dir` count.
    ///
    /// # Errors
    /// No thread can be had.
    pub(crate) fn start(mut files: HwCounters, run_dir: &Path) -> Result<Self, Failure> {
        let run_dir = run_dir.to_path_buf();
        let tick = move |_| files.publish(&counters::read_dir(&run_dir)?);
        Background::start("counters", INTERVAL, tick).map(Self)
    }

    /// Publishes once more, so that the files agree with what the run counted in the end.
    pub(crate) fn finish(self) {
        if let Err(error) = self.0.finish() {
            eprintln!("softefa: hw_counters could not be kept up to date: {error}");
        }
    }
}
