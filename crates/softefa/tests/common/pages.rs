//! Memory that a program gives back while it is registered.
#![allow(unsafe_code)]

/// Pages of their own, which are really gone after [`Pages::unmap`].
pub struct Pages {
    start: *mut libc::c_void,
    bytes: usize,
}

impl Pages {
    /// Bytes of a message.
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

    /// Writes the number of each message into it.
    pub fn number(&self) {
        for number in 0..self.bytes / Self::LEN {
            // SAFETY: inside the mapping, which is aligned to a page.
            unsafe { self.start.cast::<u64>().add(number * Self::LEN / 8).write(number as u64) };
        }
    }

    pub fn unmap(self) {
        // SAFETY: nobody has a reference into it.
        assert_eq!(unsafe { libc::munmap(self.start, self.bytes) }, 0);
    }
}
