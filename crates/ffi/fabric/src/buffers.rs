//! The message memory of an endpoint: one registered block cut into slots.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use fabric_sys::fi_context2;

use crate::cq::Completion;
use crate::domain::{Domain, Region};
use crate::error::Error;
use crate::memory::Memory;

const LINE_BYTES: usize = 64;
const CONTEXT_BYTES: usize = size_of::<fi_context2>();
/// Number of bits that count lives of a slot; the bits above tell the pools of a process apart, so
/// that a completion of one endpoint says nothing about the memory of another.
const LIFE_BITS: u32 = 40;

/// The number of slots, and their size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Number of slots, numbered from 0.
    pub slots: usize,
    /// Payload bytes of each slot.
    pub payload_bytes: usize,
    /// Bytes in front of the payload that belong to the provider (`Info::prefix_bytes`).
    pub prefix_bytes: usize,
}

impl Geometry {
    /// Returns the distance of two slots: whole cache lines, an odd number of them, so that the
    /// slots of a large power of two do not all fall into the same cache sets.
    const fn stride_bytes(self) -> usize {
        let lines = (self.prefix_bytes + self.payload_bytes).div_ceil(LINE_BYTES);
        (lines | 1) * LINE_BYTES
    }
}

/// The operation of a provider on a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Send,
    Receive,
    /// Takes messages until it is used up.
    ReceiveMany,
    Read,
    Write,
    Atomic,
    /// Sends and writes at any time, any number at once; the slot is never written.
    Constant,
}

/// A range of bytes that was received into a slot, in one of the slot's lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) slot: usize,
    life: u64,
    start: usize,
    end: usize,
}

impl Span {
    pub(crate) const NOWHERE: Self = Self { slot: usize::MAX, life: 0, start: 0, end: 0 };
}

/// Slots of message memory and the per-operation scratch space that providers demand.
#[derive(Debug)]
pub struct Buffers {
    // Field order is release order: the registration before the memory.
    region: Option<Region>,
    memory: Memory,
    geometry: Geometry,
    stride_bytes: usize,
    /// The operation in flight, if any.
    states: Box<[Option<Operation>]>,
    /// Number of the present life; it grows with each operation that may write the slot.
    lives: Box<[u64]>,
    contexts: Memory,
}

impl Buffers {
    /// Allocates zeroed slots and registers them for `access` (0: not at all).
    ///
    /// # Errors
    /// Returns [`Error::NoMemory`] when there is no memory, [`Error::Call`] when registration
    /// fails.
    pub(crate) fn new(domain: &Domain, geometry: Geometry, access: u64) -> Result<Self, Error> {
        let stride_bytes = geometry.stride_bytes();
        let total_bytes = stride_bytes.saturating_mul(geometry.slots.max(1));
        let memory = Memory::new(total_bytes)?;
        let region = (access != 0)
            .then(|| domain.register(memory.start, total_bytes, access))
            .transpose()?;
        let contexts = Memory::new(geometry.slots.max(1).saturating_mul(CONTEXT_BYTES))?;
        let states = vec![None; geometry.slots].into_boxed_slice();
        static POOLS: AtomicU64 = AtomicU64::new(1);
        let first_life = POOLS.fetch_add(1, Ordering::Relaxed) << LIFE_BITS;
        let lives = vec![first_life; geometry.slots].into_boxed_slice();
        Ok(Self { region, memory, geometry, stride_bytes, states, lives, contexts })
    }

    /// Returns the geometry.
    #[must_use]
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Reads the payload of a slot that has no operation in flight.
    ///
    /// # Errors
    /// Returns [`Error::SlotBusy`] or [`Error::NoSuchSlot`].
    pub fn payload(&self, slot: usize) -> Result<&[u8], Error> {
        self.claim_free(slot)?;
        // SAFETY: the slot lies inside the block (claim_free checked the number), is initialised
        // (zeroed), and no provider touches it while its state is free.
        Ok(unsafe {
            std::slice::from_raw_parts(self.payload_start(slot), self.geometry.payload_bytes)
        })
    }

    /// Writes the payload of a slot that has no operation in flight.
    ///
    /// # Errors
    /// Returns [`Error::SlotBusy`] or [`Error::NoSuchSlot`].
    pub fn payload_mut(&mut self, slot: usize) -> Result<&mut [u8], Error> {
        self.claim_free(slot)?;
        // SAFETY: as in `payload`; the exclusive borrow of self makes it the only reference.
        Ok(unsafe {
            std::slice::from_raw_parts_mut(self.payload_start(slot), self.geometry.payload_bytes)
        })
    }

    /// Returns the bytes of a message that was received, until its slot is posted again. Messages
    /// of a [`Endpoint::receive_many`](crate::Endpoint::receive_many) can be read while the slot
    /// takes further ones.
    ///
    /// # Errors
    /// Returns [`Error::Overwritten`] when the slot was posted again since; also for completions of
    /// other buffers and of anything but a receive.
    pub fn message(&self, received: &Completion) -> Result<&[u8], Error> {
        let Span { slot, life, start, end } = received.span;
        if self.lives.get(slot) != Some(&life) {
            return Err(Error::Overwritten(slot));
        }
        // SAFETY: `span` checked that the range lies in the slot's payload. The provider wrote it
        // and does not come back to it: the slot's life is still the one that the message came in.
        Ok(unsafe { std::slice::from_raw_parts(self.payload_start(slot).add(start), end - start) })
    }

    /// Copies the first `len_bytes` of one free slot's payload into another's.
    ///
    /// # Errors
    /// Returns [`Error::SlotBusy`], [`Error::NoSuchSlot`] or [`Error::TooLong`].
    pub fn copy(&mut self, from: usize, to: usize, len_bytes: usize) -> Result<(), Error> {
        if len_bytes > self.geometry.payload_bytes {
            return Err(Error::TooLong { len: len_bytes, max: self.geometry.payload_bytes });
        }
        self.claim_free(from)?;
        self.claim_free(to)?;
        // SAFETY: both slots lie inside the block, are long enough, and no provider touches them
        // while they are free; `copy` allows them to be the same.
        unsafe { self.payload_start(from).copy_to(self.payload_start(to), len_bytes) };
        Ok(())
    }

    #[inline]
    pub(crate) fn claim_free(&self, slot: usize) -> Result<(), Error> {
        match self.states.get(slot) {
            Some(None) => Ok(()),
            Some(_) => Err(Error::SlotBusy(slot)),
            None => Err(Error::NoSuchSlot(slot)),
        }
    }

    /// Checks that the slot can be sent or written from: it is free or frozen.
    #[inline]
    pub(crate) fn claim_source(&self, slot: usize) -> Result<(), Error> {
        if self.states.get(slot) == Some(&Some(Operation::Constant)) {
            return Ok(());
        }
        self.claim_free(slot)
    }

    /// Takes note that the operation has begun.
    #[inline]
    pub(crate) fn begin(&mut self, slot: usize, operation: Operation) {
        if self.states[slot] != Some(Operation::Constant) {
            self.states[slot] = Some(operation);
        }
        self.lives[slot] += 1;
    }

    /// Takes note that the operation has ended; the slot is free, unless it is frozen.
    #[inline]
    pub(crate) fn end(&mut self, slot: usize) {
        if self.states[slot] != Some(Operation::Constant) {
            self.states[slot] = None;
        }
    }

    #[inline]
    pub(crate) fn operation(&self, slot: usize) -> Option<Operation> {
        self.states[slot]
    }

    /// Returns a range of a slot's payload in its present life; `None` when it is not inside.
    #[inline]
    pub(crate) fn span(&self, slot: usize, range: Range<usize>) -> Option<Span> {
        let Range { start, end } = range;
        let is_inside = start <= end && end <= self.geometry.payload_bytes;
        is_inside.then(|| Span { slot, life: self.lives[slot], start, end })
    }

    /// Returns the offset in a slot's payload of an address of the provider's.
    #[inline]
    pub(crate) fn offset_of(&self, slot: usize, address: *mut c_void) -> Option<usize> {
        (address as usize).checked_sub(self.payload_start(slot) as usize)
    }

    /// Returns the start of the slot including the provider's prefix.
    #[inline]
    pub(crate) fn message_start(&self, slot: usize) -> *mut u8 {
        debug_assert!(slot < self.geometry.slots);
        // SAFETY: callers checked the slot number; the result stays inside the block.
        unsafe { self.memory.start.as_ptr().add(slot * self.stride_bytes) }
    }

    #[inline]
    fn payload_start(&self, slot: usize) -> *mut u8 {
        // SAFETY: prefix and payload together fit into a stride.
        unsafe { self.message_start(slot).add(self.geometry.prefix_bytes) }
    }

    /// Returns the scratch space of a slot, also its name in completions.
    #[inline]
    pub(crate) fn context(&self, slot: usize) -> *mut c_void {
        assert!(slot < self.geometry.slots);
        // SAFETY: the block has CONTEXT_BYTES for each slot.
        unsafe { self.contexts.start.as_ptr().add(slot * CONTEXT_BYTES).cast() }
    }

    /// Returns the slot whose scratch space `context` is; `None` for a foreign pointer.
    #[inline]
    pub(crate) fn slot_of(&self, context: *mut c_void) -> Option<usize> {
        let offset = (context as usize).checked_sub(self.contexts.start.as_ptr() as usize)?;
        let slot = offset / CONTEXT_BYTES;
        (offset % CONTEXT_BYTES == 0 && slot < self.geometry.slots).then_some(slot)
    }

    #[inline]
    pub(crate) fn descriptor(&self) -> *mut c_void {
        self.region.as_ref().map_or(std::ptr::null_mut(), Region::descriptor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_a_power_of_two_do_not_share_cache_sets() {
        let stride =
            |payload_bytes| Geometry { slots: 1, payload_bytes, prefix_bytes: 0 }.stride_bytes();
        assert_eq!(stride(1), 64);
        assert_eq!(stride(64), 64);
        assert_eq!(stride(65), 192);
        assert_eq!(stride(8192), 8192 + 64);
    }
}
