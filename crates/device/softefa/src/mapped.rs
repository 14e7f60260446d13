//! Files of 64-bit words that several processes map. Access is through atomics only, so that
//! neither side needs the other's cooperation, or even its life: any word may hold anything.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Makes the bytes of `file` be there that are to be mapped: who touches a page that the system
/// cannot give, for want of memory or of room on a disk, is ended with SIGBUS.
///
/// # Errors
/// There is no room, or the program may not have files as long as that.
pub(crate) fn reserve(file: &File, at: u64, bytes: u64) -> io::Result<()> {
    check_size(at + bytes)?;
    loop {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), at, bytes) {
            Err(Errno::INTR) => {}
            // A file system that does not know how: it is as long as that at least.
            Err(Errno::OPNOTSUPP) => {
                let len = file.metadata()?.len();
                return file.set_len(len.max(at + bytes));
            }
            result => return Ok(result?),
        }
    }
}

/// A file longer than the program's limit (`ulimit -f`) would end the program with SIGXFSZ.
///
/// # Errors
/// It is longer.
pub(crate) fn check_size(bytes: u64) -> io::Result<()> {
    if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < bytes) {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("the limit of file sizes, ulimit -f, is below {} KiB", bytes.div_ceil(1024)),
        ));
    }
    Ok(())
}

/// A shared mapping of the start of a file.
#[derive(Debug)]
pub(crate) struct Mapped {
    words: NonNull<AtomicU64>,
    len: usize,
}

// SAFETY: nothing but atomics is reached through it.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps the first `len` words of a file that is open for reading and writing.
    ///
    /// # Errors
    /// The file is shorter than that, or the operating system refuses.
    pub(crate) fn new(file: &File, len: usize) -> io::Result<Self> {
        let bytes = len * size_of::<AtomicU64>();
        if file.metadata()?.len() < bytes as u64 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a fresh mapping at an address of the kernel's choice; the result is checked.
        let at = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, kind, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let words = NonNull::new(at.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { words, len })
    }

    /// Gives the pages of the file back that lie behind its first `kept` words, a multiple of a
    /// page: whoever reads them finds zeros.
    pub(crate) fn discard_from(&self, kept: usize) {
        let words = &self[kept..];
        // SAFETY: pages of a mapping of ours, which stays; nothing but atomics is reached there.
        unsafe {
            let start = words.as_ptr().cast_mut().cast();
            libc::madvise(start, size_of_val(words), libc::MADV_REMOVE);
        }
    }
}

impl Deref for Mapped {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: mapped with this length for as long as `self` lives; atomics may be shared with
        // other processes.
        unsafe { slice::from_raw_parts(self.words.as_ptr(), self.len) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: this is the mapping `new` made, and no borrow of it outlives `self`.
        unsafe { libc::munmap(self.words.as_ptr().cast(), self.len * size_of::<AtomicU64>()) };
    }
}

/// Some words: of a file, or of this process alone. The file stays mapped as long as one of these
/// is there.
#[derive(Debug, Clone)]
pub(crate) struct Words {
    /// In what `keep` keeps.
    words: NonNull<[AtomicU64]>,
    _keep: Keep,
}

#[derive(Debug, Clone)]
enum Keep {
    Own(#[expect(dead_code, reason = "kept, not looked at")] Arc<[AtomicU64]>),
    Shared(#[expect(dead_code, reason = "kept, not looked at")] Arc<Mapped>),
}

// SAFETY: nothing but atomics is reached through it.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// `len` words that only this process sees, all zero.
    pub(crate) fn own(len: usize) -> Self {
        let own: Arc<[AtomicU64]> = (0..len).map(|_| AtomicU64::new(0)).collect();
        Self { words: NonNull::from(&*own), _keep: Keep::Own(own) }
    }

    /// The words of `file` at these places, which it has.
    pub(crate) fn shared(file: &Arc<Mapped>, at: Range<usize>) -> Self {
        Self { words: NonNull::from(&file[at]), _keep: Keep::Shared(Arc::clone(file)) }
    }
}

impl Deref for Words {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the memory lives where it is as long as what keeps it does, and that is here.
        unsafe { self.words.as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn two_mappings_share_their_words_and_a_short_file_is_refused() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(32).unwrap();
        let (a, b) = (Mapped::new(&file, 4).unwrap(), Mapped::new(&file, 4).unwrap());
        a[3].store(7, Ordering::Relaxed);
        assert_eq!(b[3].load(Ordering::Relaxed), 7);
        let part = Words::shared(&Arc::new(a), 3..4);
        assert_eq!((part.len(), part[0].load(Ordering::Relaxed)), (1, 7));
        drop(part);
        assert_eq!(b[3].load(Ordering::Relaxed), 7, "unmapping one leaves the other");
        assert!(Mapped::new(&file, 5).is_err());
    }
}
