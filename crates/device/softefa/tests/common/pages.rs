//! Memory that a program unmaps while it is registered.
#![allow(unsafe_code)]

/// Pages of their own, which cannot be read after [`Pages::unmap`].
pub struct Pages {
    start: *mut libc::c_void,
    bytes: usize,
}

impl Pages {
    /// Length of a message.
    pub const LEN: usize = 4096;

    pub fn new(bytes: usize) -> Self {
        let (read_write, private) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, anywhere.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, read_write, private, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Self { start, bytes }
    }

    pub fn addr(&self) -> u64 {
        self.start as u64
    }

    /// Writes the number of each message into its place.
    pub fn number(&self) {
        for number in 0..self.bytes / Self::LEN {
            // SAFETY: inside the mapping, which is aligned to a page.
            unsafe { self.start.cast::<u64>().add(number * Self::LEN / 8).write(number as u64) };
        }
    }

    /// Makes the pages unreadable. The addresses stay taken, because otherwise a stack or a heap of
    /// another thread could get them, and the pages could be read again.
    pub fn unmap(self) {
        let taken = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: there is no reference into it, and all of it is a mapping of ours.
        let start = unsafe { libc::mmap(self.start, self.bytes, libc::PROT_NONE, taken, -1, 0) };
        assert_eq!(start, self.start);
    }
}
