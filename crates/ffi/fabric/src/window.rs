//! Windows: memory that peers read and write without asking.

use std::mem::ManuallyDrop;
use std::ptr;

use fabric_sys as sys;

use crate::domain::{Domain, Region};
use crate::error::Error;
use crate::info::Info;
use crate::memory::Memory;

/// Registered memory that peers may read, write and change atomically while it exists. It is never
/// lent as a reference, because a peer may write at any moment; bytes go in and out by copy, and a
/// copy made while a peer writes may be half old, half new.
///
/// Providers that emulate RMA move its bytes only while an endpoint of the domain is polled, and
/// may be in the middle of it when the window goes: its memory stays allocated until the domain is
/// closed.
#[derive(Debug)]
pub struct Window {
    region: Region,
    /// Memory, taken when dropped.
    memory: ManuallyDrop<Memory>,
    len_bytes: usize,
    needs_virtual_addresses: bool,
}

impl Window {
    /// Allocates and registers `len_bytes` zeroed bytes; `info` is what `domain` was opened with.
    ///
    /// # Errors
    /// Returns [`Error::NoMemory`] or [`Error::Call`].
    pub fn open(domain: &Domain, info: &Info, len_bytes: usize) -> Result<Self, Error> {
        let memory = Memory::new(len_bytes)?;
        let access = sys::FI_REMOTE_READ | sys::FI_REMOTE_WRITE;
        let region = domain.register(memory.start, len_bytes, access)?;
        let needs_virtual_addresses = info.needs_virtual_addresses();
        Ok(Self { region, memory: ManuallyDrop::new(memory), len_bytes, needs_virtual_addresses })
    }

    /// Returns the parameters that peers need to use the window.
    #[must_use]
    pub fn remote(&self) -> RemoteMemory {
        let start =
            if self.needs_virtual_addresses { self.memory.start.as_ptr() as u64 } else { 0 };
        RemoteMemory { addr: start, len: self.len_bytes as u64, key: self.region.key() }
    }

    /// Copies bytes from `offset` on.
    ///
    /// # Errors
    /// Returns [`Error::OutsideWindow`].
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), Error> {
        let start = self.inside(offset, into.len())?;
        // SAFETY: `inside` checked the range; `into` is ours alone and cannot overlap the window,
        // to which there are no references.
        unsafe { ptr::copy_nonoverlapping(start, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Copies bytes to `offset` and on.
    ///
    /// # Errors
    /// Returns [`Error::OutsideWindow`].
    pub fn write(&mut self, offset: usize, from: &[u8]) -> Result<(), Error> {
        let start = self.inside(offset, from.len())?;
        // SAFETY: as in `read`.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), start, from.len()) };
        Ok(())
    }

    fn inside(&self, offset: usize, len: usize) -> Result<*mut u8, Error> {
        // Peers have the same rule.
        let whole = RemoteMemory { addr: 0, len: self.len_bytes as u64, key: 0 };
        whole.part(offset as u64, len as u64)?;
        // SAFETY: the offset lies in the block, or just behind it when `len` is zero.
        Ok(unsafe { self.memory.start.as_ptr().add(offset) })
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: taken once, here, and not used afterwards.
        let memory = unsafe { ManuallyDrop::take(&mut self.memory) };
        self.region.domain().retire(memory);
    }
}

/// A peer's [`Window`], or a part of it. Its bytes travel by other means than the fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteMemory {
    pub(crate) addr: u64,
    pub(crate) len: u64,
    pub(crate) key: u64,
}

impl RemoteMemory {
    /// Length of [`RemoteMemory::to_bytes`].
    pub const BYTES: usize = 24;

    /// Returns it as bytes, to send to a peer.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip([self.addr, self.len, self.key]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads the bytes of a peer. Wrong ones make operations fail; they cannot harm this side.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |at: usize| {
            bytes[at..at + 8].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
        };
        Self { addr: word(0), len: word(8), key: word(16) }
    }

    /// Returns `len` bytes of it, from byte `offset` on.
    ///
    /// # Errors
    /// Returns [`Error::OutsideWindow`].
    pub fn part(self, offset: u64, len: u64) -> Result<Self, Error> {
        let end = offset.checked_add(len).filter(|&end| end <= self.len);
        if end.is_none() {
            return Err(Error::OutsideWindow { offset, len, window: self.len });
        }
        Ok(Self { addr: self.addr.wrapping_add(offset), len, key: self.key })
    }

    /// Returns its length in bytes.
    #[must_use]
    pub const fn len_bytes(self) -> u64 {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_memory_survives_the_exchange() {
        let whole = RemoteMemory { addr: 0x7fff_0123_4567_89ab, len: 1 << 40, key: u64::MAX };
        assert_eq!(RemoteMemory::from_bytes(&whole.to_bytes()), whole);
    }

    #[test]
    fn parts_stay_inside() {
        let whole = RemoteMemory { addr: 4096, len: 100, key: 7 };
        assert_eq!(whole.part(40, 60), Ok(RemoteMemory { addr: 4136, len: 60, key: 7 }));
        assert_eq!(whole.part(100, 0).map(RemoteMemory::len_bytes), Ok(0));
        for (offset, len) in [(41, 60), (101, 0), (u64::MAX, 2)] {
            assert_eq!(
                whole.part(offset, len),
                Err(Error::OutsideWindow { offset, len, window: 100 })
            );
        }
    }
}
