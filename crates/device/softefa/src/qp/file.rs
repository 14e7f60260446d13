//! The XRC domains that are found by a file.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::xrcd::{OpenXrcdError, Xrcd};
use crate::generation::PerProcess;
use crate::ids::DeviceId;

/// The identity of a file. The file is kept open, so that its number is not reused.
pub(super) struct FileId {
    device: u64,
    inode: u64,
    _file: OwnedFd,
}

impl FileId {
    pub(super) fn of(file: OwnedFd) -> io::Result<Self> {
        let stat = rustix::fs::fstat(&file)?;
        Ok(Self { device: stat.st_dev, inode: stat.st_ino, _file: file })
    }

    fn is(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

struct Entry {
    device: DeviceId,
    file: FileId,
    domain: Weak<Xrcd>,
}

static SHARED: PerProcess<Mutex<Vec<Entry>>> = PerProcess::new();

/// Returns the domain of `file` on this device, which `open` makes if needed; others find it from
/// now on.
pub(super) fn shared(
    device: DeviceId,
    file: FileId,
    open: impl FnOnce(Option<Arc<Xrcd>>) -> Result<Arc<Xrcd>, OpenXrcdError>,
) -> Result<Arc<Xrcd>, OpenXrcdError> {
    let entries = SHARED.get_or_init(Mutex::default);
    let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
    entries.retain(|entry| entry.domain.strong_count() > 0);
    let is_it = |entry: &&Entry| entry.device == device && entry.file.is(&file);
    let present = entries.iter().find(is_it).and_then(|entry| entry.domain.upgrade());
    let is_new = present.is_none();
    let domain = open(present)?;
    if is_new {
        entries.push(Entry { device, file, domain: Arc::downgrade(&domain) });
    }
    Ok(domain)
}
