//! The memory of a ring: a file without a name, sealed so that its length is fixed (SRD-12.2).

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::fs::{MemfdFlags, SealFlags};

use super::ring;
use super::ring_listener::RingListener;
use crate::address::NOWHERE;
use crate::descriptor::with_descriptor;
use crate::generation::PerProcess;
use crate::mapped::{self, Mapped};
use crate::memory::{self, Gone, Piece};

/// The bytes for records: more than a window, so that a ring is full only if its reader is stopped.
const RING_BYTES: usize = 2 << 20;
const WORDS: usize = ring::words_for(RING_BYTES);
const BYTES: u64 = (WORDS * size_of::<u64>()) as u64;
/// The words of a page. The head of a ring, which is never freed, is in the first page.
const PAGE_WORDS: usize = 4096 / size_of::<u64>();
/// The most memory of the rings of a process, each way.
const ALL_BYTES_MAX: usize = 256 << 20;
/// Up to this length, the few instructions that survive a hole copy faster than a loop over words.
const SHORT_BYTES: usize = 128;
/// From this length on, they copy faster again.
const LONG_BYTES: usize = 512;

/// The file system type that `statfs(2)` reports for a file of `memfd_create(2)` with normal pages.
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

/// The file may neither shrink, which would end its reader, nor grow, nor be unsealed.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A share of the memory that the rings of this process may take.
#[derive(Debug)]
struct Share(&'static AtomicUsize);

impl Share {
    fn take(of: &'static AtomicUsize) -> io::Result<Self> {
        let before = of.fetch_add(RING_BYTES, Ordering::Relaxed);
        let share = Self(of);
        if before + RING_BYTES > ALL_BYTES_MAX {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        Ok(share)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.fetch_sub(RING_BYTES, Ordering::Relaxed);
    }
}

/// The words of a ring.
#[derive(Debug)]
pub(super) struct Segment {
    words: Mapped,
    inode: u64,
    _share: Share,
}

impl Segment {
    /// Creates a ring to be written, and its file for the reader.
    pub(super) fn create() -> io::Result<(Self, OwnedFd)> {
        static WRITTEN: PerProcess<AtomicUsize> = PerProcess::new();
        let share = Share::take(WRITTEN.get_or_init(AtomicUsize::default))?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = with_descriptor(|| Ok(rustix::fs::memfd_create("softefa-ring", flags)?))?;
        // All memory is allocated now, because a page that the system cannot provide later ends the
        // program with SIGBUS.
        let file = File::from(file);
        mapped::reserve(&file, 0, BYTES)?;
        rustix::fs::fcntl_add_seals(&file, SEALS)?;
        let inode = rustix::fs::fstat(&file)?.st_ino;
        let words = Mapped::new(&file, WORDS)?;
        Ok((Self { words, inode, _share: share }, file.into()))
    }

    /// Maps the ring of another process, to be read.
    pub(super) fn open(file: OwnedFd) -> io::Result<Self> {
        static READ: PerProcess<AtomicUsize> = PerProcess::new();
        let share = Share::take(READ.get_or_init(AtomicUsize::default))?;
        let refuse = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
        if !is_sealed(file.as_fd())? {
            return refuse("a ring that may change its length");
        }
        let stat = rustix::fs::fstat(&file)?;
        if u64::try_from(stat.st_size) != Ok(BYTES) {
            return refuse("a ring of another length");
        }
        // A page of another kind, for example of the pool of huge pages, may be one that the system
        // cannot provide again after another process has punched a hole.
        if rustix::fs::fstatfs(&file)?.f_type != TMPFS_MAGIC {
            return refuse("a ring that is no file in memory");
        }
        let words = Mapped::new(&File::from(file), WORDS)?;
        Ok(Self { words, inode: stat.st_ino, _share: share })
    }

    /// Returns the number of its file, which is unique on the machine while this one exists.
    pub(super) fn inode(&self) -> u64 {
        self.inode
    }

    pub(super) fn words(&self) -> &[AtomicU64] {
        &self.words
    }

    /// Frees the memory of records, which nobody has read, wherever the file may be. They read as
    /// zeros from now on.
    pub(super) fn discard(&self) {
        self.words.discard_from(PAGE_WORDS);
    }

    /// Writes `pieces` from `word` on. The first is memory of ours, and each lies inside the ring.
    pub(super) fn write(&self, word: usize, pieces: &[Piece]) -> Result<(), Gone> {
        let mut at = self.addr_of(word);
        for piece in pieces {
            memory::copy_to(at, piece.addr, piece.len)?;
            at += piece.len as u64;
        }
        Ok(())
    }

    /// Appends the `len` bytes from `word` on to `out`. Another process may change them meanwhile,
    /// so only the copy counts.
    #[inline]
    pub(super) fn read(&self, word: usize, len: usize, out: &mut Vec<u8>) {
        let words = &self.words[word..word + len.div_ceil(size_of::<u64>())];
        if (len <= SHORT_BYTES || len >= LONG_BYTES)
            && memory::copy_out(self.addr_of(word), len, out).is_ok()
        {
            return;
        }
        let start = out.len();
        out.resize(start + size_of_val(words), 0);
        for (word, bytes) in words.iter().zip(out[start..].chunks_exact_mut(size_of::<u64>())) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        out.truncate(start + len);
    }

    /// Returns the `len` bytes that begin `skipped` bytes after `word`. They may change at any
    /// time.
    pub(super) fn piece(&self, word: usize, skipped: usize, len: usize) -> Piece {
        assert!(word * size_of::<u64>() + skipped + len <= self.words.len() * size_of::<u64>());
        Piece { addr: self.addr_of(word) + skipped as u64, len }
    }

    fn addr_of(&self, word: usize) -> u64 {
        self.words[word..].as_ptr() as usize as u64
    }
}

fn is_sealed(file: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(rustix::fs::fcntl_get_seals(file)?.contains(SEALS))
}

/// Checks whether this process can share memory with others as [`crate::WireChoice::Shm`] needs it.
///
/// # Errors
/// The refusal of the operating system: files in memory (`memfd_create`), their sealing, their
/// mapping, or abstract Unix sockets.
pub fn check() -> io::Result<()> {
    let (_, file) = Segment::create()?;
    Segment::open(file)?;
    // No queue pair has this name.
    let nobody = SocketAddr::new(NOWHERE, 0);
    match RingListener::open(nobody) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(()),
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_writes_the_other_reads() {
        let (ours, file) = Segment::create().unwrap();
        let theirs = Segment::open(file).unwrap();
        for len in [0, 1, 7, 8, 9, 511, 512, 9000] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8 ^ 0x5A).collect();
            let piece =
                |bytes: &[u8]| Piece { addr: bytes.as_ptr() as usize as u64, len: bytes.len() };
            let (head, rest) = bytes.split_at(len / 3);
            ours.write(40, &[piece(head), piece(rest)]).unwrap();
            let mut out = vec![1];
            theirs.read(40, len, &mut out);
            assert_eq!(out, [&[1][..], &bytes].concat());
        }
    }

    /// If memory is short, a missing page ends the program when it is touched.
    #[test]
    fn a_ring_has_all_its_memory_before_it_is_used() {
        let (_segment, file) = Segment::create().unwrap();
        let had_bytes = rustix::fs::fstat(&file).unwrap().st_blocks * 512;
        assert!(u64::try_from(had_bytes).unwrap() >= BYTES, "{had_bytes}");
    }

    #[test]
    fn what_nobody_reads_takes_no_memory() {
        let (segment, file) = Segment::create().unwrap();
        segment.words()[1].store(7, Ordering::Relaxed);
        segment.words()[WORDS - 1].store(7, Ordering::Relaxed);
        segment.discard();
        assert!(rustix::fs::fstat(&file).unwrap().st_blocks * 512 <= 4096);
        assert_eq!(segment.words()[1].load(Ordering::Relaxed), 7);
        let theirs = Segment::open(file).unwrap();
        assert_eq!(theirs.words()[WORDS - 1].load(Ordering::Relaxed), 0);
    }

    /// A file that shrinks would end its reader with SIGBUS.
    #[test]
    fn a_file_that_may_shrink_is_refused() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("loose", flags).unwrap();
        rustix::fs::ftruncate(&file, (WORDS * 8) as u64).unwrap();
        assert_eq!(Segment::open(file).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    /// Huge pages are longer, and can be missing after a hole was punched.
    #[test]
    fn a_file_of_another_length_is_refused() {
        for bytes in [4096, BYTES - 1, BYTES + 1, 4 << 20] {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let file = rustix::fs::memfd_create("strange", flags).unwrap();
            rustix::fs::ftruncate(&file, bytes).unwrap();
            rustix::fs::fcntl_add_seals(&file, SEALS).unwrap();
            let error = Segment::open(file).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{bytes}");
        }
    }

    #[test]
    fn a_process_has_rings_up_to_a_bound() {
        // Using up the limit of the process would leave nothing for the tests that run beside this
        // one.
        static TAKEN: AtomicUsize = AtomicUsize::new(0);
        let mut all: Vec<Share> = std::iter::from_fn(|| Share::take(&TAKEN).ok()).collect();
        assert_eq!(all.len(), ALL_BYTES_MAX / RING_BYTES);
        assert_eq!(Share::take(&TAKEN).unwrap_err().kind(), io::ErrorKind::QuotaExceeded);
        all.pop();
        Share::take(&TAKEN).unwrap();
    }
}
