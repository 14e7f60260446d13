//! Captures for Wireshark: `softefa pcap` of running programs, `softefa run --pcap` of one run.

mod collector;
mod file;
mod packet;
mod pcapng;
mod reader;
mod unseal;

use std::env;
use std::fs::File;
use std::io::{self, stdout};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use softefa::config::ENV_KEY_FILE;
use softefa::counters;
use softefa::seal::SealKey;

use crate::args::PcapArgs;
use crate::background::Background;
use crate::devices;
use crate::eprint::eprint_line;
use crate::failure::Failure;
use crate::run_dir;
use crate::wake::{Waker, Woken};
use collector::{Filter, Scope};
use file::{Capture, Output, Summary};
use unseal::Unsealer;

pub(crate) use pcapng::Direction;
pub(crate) use reader::{Packet, Reader};

/// The interval between two readings of the devices, whose rings must not overflow meanwhile.
const INTERVAL: Duration = Duration::from_millis(10);

/// Opens `path`, or standard output for `-`.
fn open(path: &Path) -> Result<Output, Failure> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(stdout()));
    }
    let file = File::create(path).map_err(|error| failure(path, &error))?;
    Ok(Box::new(file))
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("capture cannot be written to {}: {error}", path.display()))
}

/// Prints the result to standard error, because the file may be standard output.
fn report(path: &Path, summary: &Summary) {
    let Summary { packets, lost, closed, cut } = summary;
    let path = path.display();
    eprint_line!(
        "softefa: {packets} packets captured to {path}, {lost} lost because they came too fast"
    );
    if closed + cut > 0 {
        eprint_line!(
            "softefa: {} of them are still sealed: {closed} do not open with this key, {cut} were cut by --snaplen",
            closed + cut
        );
    }
}

/// Returns the key to open datagrams with, from the option or else the environment.
fn key(args: &PcapArgs) -> Result<Option<SealKey>, Failure> {
    let variable = env::var_os(ENV_KEY_FILE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let path = args.key_file.as_ref().or(variable.as_ref());
    let key = path.map(|path| devices::key(path)).transpose()?;
    devices::warn_of_exposure(key.as_ref());
    Ok(key)
}

/// Captures until it is stopped.
///
/// # Errors
/// The file cannot be written, or a device cannot be read.
pub(crate) fn pcap(args: &PcapArgs) -> Result<u8, Failure> {
    let unsealer = Unsealer::new(key(args)?.as_ref());
    let mut waker = Waker::new(&[SIGINT, SIGTERM, SIGHUP], false)?;
    let filter =
        Filter { devices: args.devices.clone(), qpns: args.qpns.clone(), snap_bytes: args.snaplen };
    let failed = |error: io::Error| failure(&args.write, &error);
    let mut capture =
        Capture::new(Scope::All, filter, open(&args.write)?, args.count).map_err(failed)?;
    capture.unseal(unsealer);
    note_absent(&args.devices);
    let end = args.duration.map(|duration| Instant::now() + duration);
    loop {
        match capture.advance(false) {
            // The reader is gone, for example because Wireshark was closed.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
            result => result.map_err(failed)?,
        }
        let is_over = capture.is_full() || end.is_some_and(|end| Instant::now() >= end);
        if is_over || waker.wait_until(Instant::now() + INTERVAL) != Woken::Time {
            report(&args.write, &capture.finish().map_err(failed)?);
            return Ok(0);
        }
    }
}

/// Warns about devices that no process has open: they may be opened later, or be misspelt.
fn note_absent(names: &[String]) {
    let runs = run_dir::live_runs();
    let open = runs.iter().flat_map(|run| counters::read_dir(&run.path).unwrap_or_default());
    let open: Vec<String> = open.map(|device| device.device).collect();
    for name in names.iter().filter(|name| !open.contains(name)) {
        eprint_line!(
            "softefa: no program has a device {name} open yet; softefa info shows those that do"
        );
    }
}

/// Records one run beside its program.
#[derive(Debug)]
pub(crate) struct Recorder {
    work: Background,
    path: PathBuf,
}

/// The recording of a run that has not begun, with its file opened before the program starts.
pub(crate) struct Recording<'a> {
    path: &'a Path,
    output: Output,
}

impl<'a> Recording<'a> {
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn open(path: &'a Path) -> Result<Self, Failure> {
        Ok(Self { path, output: open(path)? })
    }

    /// Starts to record the devices of `run_dir`.
    ///
    /// # Errors
    /// The file cannot be written, or the system permits no thread.
    pub(crate) fn start(self, run_dir: &Path, snap_bytes: u32) -> Result<Recorder, Failure> {
        let filter = Filter { snap_bytes, ..Filter::default() };
        let scope = Scope::Run(run_dir.to_path_buf());
        let path = self.path.to_path_buf();
        let mut capture = Capture::new(scope, filter, self.output, None)
            .map_err(|error| failure(&path, &error))?;
        let shown = path.clone();
        let tick = move |is_last: bool| {
            if !is_last {
                return capture.advance(false);
            }
            report(&shown, &capture.finish()?);
            Ok(())
        };
        let work = Background::start("capture", INTERVAL, tick)?;
        Ok(Recorder { work, path })
    }
}

impl Recorder {
    /// Writes the remaining packets, and ends the file.
    ///
    /// # Errors
    /// The file could not be written.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        match self.work.finish() {
            // The reader is gone.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result.map_err(|error| failure(&self.path, &error)),
        }
    }
}
