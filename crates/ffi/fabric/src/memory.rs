//! Blocks of memory that outlive every borrow, because a device writes them.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use crate::error::Error;

const PAGE_BYTES: usize = 4096;

/// A page-aligned zeroed block.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) start: NonNull<u8>,
    layout: Layout,
}

impl Memory {
    pub(crate) fn new(len_bytes: usize) -> Result<Self, Error> {
        let layout = Layout::from_size_align(len_bytes, PAGE_BYTES)
            .ok()
            .filter(|l| l.size() > 0)
            .ok_or(Error::NoMemory(len_bytes))?;
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        Ok(Self { start: NonNull::new(start).ok_or(Error::NoMemory(len_bytes))?, layout })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, released once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_block_is_refused() {
        assert_eq!(Memory::new(usize::MAX).unwrap_err(), Error::NoMemory(usize::MAX));
    }
}
