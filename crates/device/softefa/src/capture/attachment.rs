//! The reading side of a capture, which follows a device of another process.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::record::Record;
use super::ring::Reader;
use super::ring_path;
use crate::counters::{self, ProcessCounters};
use crate::host;
use crate::mapped::Mapped;

/// The time for which a device goes on recording after its reader has gone.
const LEASE_NS: u64 = 2_000_000_000;

/// A device that is being read.
#[derive(Debug)]
pub struct Attachment {
    counters_file: Mapped,
    path: PathBuf,
    snap_bytes: u32,
    ring: Option<Reader>,
}

impl Attachment {
    /// Asks the device for its datagrams from now on, the first `snap_bytes` of each. Call
    /// [`Attachment::renew`] at least once per second to go on.
    ///
    /// # Errors
    /// The files of the device cannot be opened, because its run has ended.
    pub fn new(run_dir: &Path, device: &ProcessCounters, snap_bytes: u32) -> io::Result<Self> {
        let mut attachment = Self::from_start(run_dir, device, snap_bytes)?;
        if let Some(ring) = &mut attachment.ring {
            ring.skip();
        }
        attachment.renew();
        Ok(attachment)
    }

    /// Reads a device that records all its life ([`crate::Config::capture_bytes`]), from the first
    /// datagram.
    ///
    /// # Errors
    /// The errors of [`Attachment::new`].
    pub fn from_start(
        run_dir: &Path,
        device: &ProcessCounters,
        snap_bytes: u32,
    ) -> io::Result<Self> {
        let counters_file = counters::map(run_dir, device)?;
        let path = ring_path(run_dir, &device.device, device.pid);
        let mut attachment = Self { counters_file, path, snap_bytes, ring: None };
        attachment.open_ring()?;
        Ok(attachment)
    }

    /// Asks the device to record for two more seconds.
    pub fn renew(&self) {
        let until = host::now().plus_ns(LEASE_NS);
        counters::ask(counters::request_words(&self.counters_file), until, self.snap_bytes);
    }

    /// Returns the next datagram, or `None` if there is none yet.
    ///
    /// # Errors
    /// The ring exists but cannot be opened.
    pub fn read(&mut self) -> io::Result<Option<Record>> {
        self.open_ring()?;
        let mut record = self.ring.as_mut().and_then(Reader::next);
        if let Some(record) = &mut record {
            // Another reader may have asked for more.
            record.bytes.truncate(self.snap_bytes as usize);
        }
        Ok(record)
    }

    /// Returns the number of datagrams that were overwritten before they were read.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.ring.as_ref().map_or(0, Reader::lost)
    }

    /// Opens the ring, which the device makes when it has something to record.
    fn open_ring(&mut self) -> io::Result<()> {
        if self.ring.is_some() {
            return Ok(());
        }
        match OpenOptions::new().read(true).write(true).open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(file) => {
                self.ring = open_finished(&file)?;
                Ok(())
            }
        }
    }
}

/// Opens a ring; `None` while the device is still making it.
fn open_finished(file: &File) -> io::Result<Option<Reader>> {
    match Reader::open(file) {
        Ok(reader) => Ok(Some(reader)),
        Err(error) => match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => Ok(None),
            _ => Err(error),
        },
    }
}
