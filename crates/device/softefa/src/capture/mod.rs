//! What a device's wire carried, for those who ask while it runs.
//!
//! ```text
//! reader: extends a deadline in the counters file --> process: is it set? (one load per burst)
//! reader: copies records out of the ring          <-- process: copies datagrams into a ring in a file
//! ```
//! The process never waits and makes no system call for it: the newest records overwrite the
//! oldest, and readers count what they missed. A reader that dies lets the deadline pass. Records
//! of all queue pairs go through one lock, which is taken only while somebody reads.

mod attachment;
mod record;
mod ring;

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::counters::Request;
use crate::generation::Generation;
use crate::host;
use crate::process;
use crate::say::say;
use crate::uncancelled::Uncancelled;

pub use attachment::Attachment;
pub use record::{Fate, Protocol, Qpns, Record};

use ring::Writer;

/// Bytes of the ring file of a device. It is sparse, and is made when somebody asks.
const RING_BYTES: usize = 16 << 20;

/// Returns where the ring of a device lies.
fn ring_path(run_dir: &Path, device: &str, pid: u32) -> PathBuf {
    run_dir.join("capture").join(format!("{device}.{pid}"))
}

/// The writing side: what a device gives to captures.
#[derive(Debug)]
pub(crate) struct Capture {
    request: Request,
    /// `None` when nobody could find the ring.
    path: Option<PathBuf>,
    state: Mutex<State>,
    made: Generation,
}

#[derive(Debug)]
enum State {
    Closed,
    Open(Writer),
    /// It could not be made; nothing is captured.
    Failed,
}

impl State {
    fn failed(error: &io::Error) -> Self {
        say(&format!("softefa: nothing more is captured here: {error}"));
        Self::Failed
    }
}

impl Capture {
    /// Makes a capture for a device nobody can look at.
    pub(crate) fn never() -> Self {
        Self::new(Request::never(), None)
    }

    /// Makes a capture for a device in `run_dir`.
    pub(crate) fn in_dir(run_dir: &Path, device: &str, request: Request) -> Self {
        let path = Some(ring_path(run_dir, device, std::process::id()));
        Self::new(request, path)
    }

    fn new(request: Request, path: Option<PathBuf>) -> Self {
        Self { request, path, state: Mutex::new(State::Closed), made: Generation::current() }
    }

    /// Somebody reads, or did a moment ago.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.request.is_set()
    }

    /// Records a datagram. `copy` appends its bytes to the vector it is given, at most as many as
    /// it is told.
    #[cold]
    pub(crate) fn record(&self, head: &Record, copy: impl FnOnce(usize, &mut Vec<u8>)) {
        // The ring of a child is its parent's, too.
        if !self.made.is_current() || !self.request.is_current(host::now()) {
            return;
        }
        // Files are opened with calls that a cancelled thread would end in.
        let _uncancelled = Uncancelled::begin();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Closed) {
            *state = self.open().map_or_else(|error| State::failed(&error), State::Open);
        }
        if let State::Open(writer) = &mut *state {
            if let Err(error) = writer.push(head, self.request.snap_bytes(), copy) {
                *state = State::failed(&error);
            }
        }
    }

    fn open(&self) -> io::Result<Writer> {
        let path = self.path.as_deref().ok_or(io::ErrorKind::NotFound)?;
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let start_ticks = process::start_ticks(std::process::id()).unwrap_or_default();
        let mut options = OpenOptions::new();
        // What it records are other programs' secrets: keys, tokens, payload.
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let ring = Writer::open(&options.open(path)?, RING_BYTES, start_ticks);
        // Of an earlier process with this id: its readers keep the file they have open.
        ring.or_else(|_| {
            fs::remove_file(path)?;
            Writer::open(&options.open(path)?, RING_BYTES, start_ticks)
        })
    }
}
