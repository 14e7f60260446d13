//! Keeps the counter files of the device tree up to date while a program runs.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use softefa::counters;
use softefa::hw_counters::{HwCounters, LIFESPAN_MS};

use crate::background::Background;
use crate::eprint::eprint_line;
use crate::failure::Failure;

/// The interval between two updates.
const INTERVAL: Duration = Duration::from_millis(LIFESPAN_MS);

/// The thread that writes the files. Programs of the run take no part in it.
#[derive(Debug)]
pub(crate) struct Publisher(Background);

impl Publisher {
    /// Starts to publish the counters of the processes of `run_dir`.
    ///
    /// # Errors
    /// The system permits no thread.
    pub(crate) fn start(files: HwCounters, run_dir: &Path) -> Result<Self, Failure> {
        Background::start("counters", INTERVAL, tick(files, run_dir.to_path_buf())).map(Self)
    }

    /// Publishes once more, so that the files agree with the final counters of the run.
    pub(crate) fn finish(self) {
        if let Err(error) = self.0.finish() {
            eprint_line!("softefa: hw_counters are not up to date: {error}");
        }
    }
}

/// Returns the task that is repeated. A failure is reported once and does not end it, because a
/// full disk may have room later.
fn tick(mut files: HwCounters, run_dir: PathBuf) -> impl FnMut(bool) -> io::Result<()> {
    let mut is_said = false;
    move |_| {
        let published = counters::read_dir(&run_dir).and_then(|all| files.publish(&all));
        if let Err(error) = published {
            if !std::mem::replace(&mut is_said, true) {
                eprint_line!("softefa: hw_counters are not up to date: {error}");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use softefa::{Config, Device};

    use super::*;

    #[test]
    fn what_fails_is_tried_again() {
        let (tree, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let run_dir = Some(run.path().to_path_buf());
        let config = Config { run_dir, ..Config::default() };
        let device = &config.devices[0];
        let device_dir = tree.path().join("class/infiniband").join(&device.name);
        fs::create_dir_all(device_dir.join("ports/1")).unwrap();
        let files = HwCounters::create(tree.path(), &config).unwrap();
        let mut tick = tick(files, run.path().to_path_buf());
        // It is no directory, so that reading it fails.
        fs::write(run.path().join("counters"), "").unwrap();
        assert!(counters::read_dir(run.path()).is_err());
        tick(false).unwrap();
        fs::remove_file(run.path().join("counters")).unwrap();
        let opened = Device::open(device, &config).unwrap();
        opened.alloc_pd().unwrap();
        tick(false).unwrap();
        let commands = device_dir.join("hw_counters/submitted_cmds");
        assert_eq!(fs::read_to_string(commands).unwrap(), "1\n");
    }
}
