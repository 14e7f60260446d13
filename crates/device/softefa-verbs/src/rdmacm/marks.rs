//! The set of our file descriptors, as bits that are read without a lock.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

/// Descriptors from here on cannot be marked: Linux has no more unless its user says so
/// (`fs.nr_open`).
const FDS_MAX: usize = 1 << 20;

/// Descriptors of programs that stand for the device.
pub(super) static CHANNELS: Marks = Marks::new();
/// Sockets and other descriptors that programs do not know of; a forked child closes them.
pub(super) static HIDDEN: Marks = Marks::new();

/// A set of descriptors. Untouched pages of it take no memory.
pub(super) struct Marks {
    count: AtomicUsize,
    highest: AtomicI32,
    bits: [AtomicU64; FDS_MAX / 64],
}

impl Marks {
    const fn new() -> Self {
        Self {
            count: AtomicUsize::new(0),
            highest: AtomicI32::new(-1),
            bits: [const { AtomicU64::new(0) }; FDS_MAX / 64],
        }
    }

    /// Returns whether any descriptor is marked.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0
    }

    /// Returns whether `fd` is marked.
    pub(super) fn has(&self, fd: RawFd) -> bool {
        self.word(fd).is_some_and(|(word, bit)| word.load(Ordering::Acquire) & bit != 0)
    }

    fn word(&self, fd: RawFd) -> Option<(&AtomicU64, u64)> {
        let fd = usize::try_from(fd).ok()?;
        Some((self.bits.get(fd / 64)?, 1 << (fd % 64)))
    }

    /// Marks `fd`; `false` when its number is too high.
    pub(super) fn add(&self, fd: RawFd) -> bool {
        let Some((word, bit)) = self.word(fd) else { return false };
        self.highest.fetch_max(fd, Ordering::Relaxed);
        if word.fetch_or(bit, Ordering::Release) & bit == 0 {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// Removes the mark, if there is one.
    pub(super) fn remove(&self, fd: RawFd) {
        let Some((word, bit)) = self.word(fd) else { return };
        if word.fetch_and(!bit, Ordering::Release) & bit != 0 {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns all marked descriptors in ascending order. Neither waits nor allocates.
    pub(super) fn all(&self) -> impl Iterator<Item = RawFd> {
        let end = match self.count.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.highest.load(Ordering::Relaxed).saturating_add(1),
        };
        (0..end).filter(|fd| self.has(*fd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_marked_is_found_until_it_is_removed() {
        let marks = Box::leak(Box::new(Marks::new()));
        assert!(!marks.has(3) && marks.all().next().is_none());
        assert!(marks.add(3) && marks.add(3) && marks.add(700));
        assert!(marks.has(3) && marks.has(700) && !marks.has(4) && !marks.has(-1));
        assert!(marks.all().eq([3, 700]));
        marks.remove(3);
        marks.remove(3);
        assert!(!marks.has(3) && marks.has(700));
        assert!(!marks.add(i32::MAX) && !marks.add(-1) && !marks.has(i32::MAX));
        marks.remove(i32::MAX);
        marks.remove(700);
        assert!(marks.all().next().is_none());
    }
}
