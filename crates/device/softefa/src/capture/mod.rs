//! Captures: the datagrams that a device sends and receives, for readers that ask while it runs.
//!
//! ```text
//! reader: extends a deadline in the counters file --> process: is it set? (one load per burst)
//! reader: copies records out of the ring          <-- process: copies datagrams into a ring in a file
//! ```
//! The process never waits for a reader and makes no system call for one: the newest records
//! overwrite the oldest, and readers count what they missed. If a reader dies, its deadline passes.
//! Records of all queue pairs go through one lock, which is taken only while there is a reader.

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

/// Bytes of the ring file of a device. The file is sparse, and is made when a reader asks.
const RING_BYTES: usize = 16 << 20;

/// Returns the path of a device's ring.
fn ring_path(run_dir: &Path, device: &str, pid: u32) -> PathBuf {
    run_dir.join("capture").join(format!("{device}.{pid}"))
}

/// The writing side of a capture, to which a device gives its datagrams.
#[derive(Debug)]
pub(crate) struct Capture {
    request: Request,
    /// The path of the ring; `None` if no reader could find it.
    path: Option<PathBuf>,
    state: Mutex<State>,
    made: Generation,
}

#[derive(Debug)]
enum State {
    Closed,
    Open(Writer),
    /// The ring could not be made, and nothing is captured.
    Failed,
}

impl State {
    fn failed(error: &io::Error) -> Self {
        say(&format!("softefa: nothing more is captured here: {error}"));
        Self::Failed
    }
}

impl Capture {
    /// Makes a capture for a device that no reader can find.
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

    /// Returns true if a reader asks for records, or did a moment ago.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.request.is_set()
    }

    /// Records a datagram. `copy` appends the bytes of the datagram to the vector that it is given,
    /// at most as many as its second argument says.
    #[cold]
    pub(crate) fn record(&self, head: &Record, copy: impl FnOnce(usize, &mut Vec<u8>)) {
        // The ring of a child is its parent's, too.
        if !self.made.is_current() || !self.request.is_current(host::now()) {
            return;
        }
        // Opening a file is a cancellation point, at which a cancelled thread would end.
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
        // The records hold secrets of other programs: keys, tokens, payload.
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let ring = Writer::open(&options.open(path)?, RING_BYTES, start_ticks);
        // The file is of an earlier process with this id, whose readers keep it open.
        ring.or_else(|_| {
            fs::remove_file(path)?;
            Writer::open(&options.open(path)?, RING_BYTES, start_ticks)
        })
    }
}
