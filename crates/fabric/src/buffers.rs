//! The message memory of an endpoint: one registered block cut into slots.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::ptr::NonNull;

use fabric_sys::fi_context2;

use crate::domain::{Domain, Region};
use crate::error::Error;

const PAGE_BYTES: usize = 4096;
const LINE_BYTES: usize = 64;
const CONTEXT_BYTES: usize = size_of::<fi_context2>();

/// How many slots, and how large.
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
    /// Distance of two slots: whole cache lines, an odd number of them, so that the slots of a
    /// large power of two do not all fall into the same cache sets.
    const fn stride_bytes(self) -> usize {
        let lines = (self.prefix_bytes + self.payload_bytes).div_ceil(LINE_BYTES);
        (lines | 1) * LINE_BYTES
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotState {
    Free,
    Sending,
    Receiving,
}

/// Slots of message memory and the per-operation scratch space that providers demand.
#[derive(Debug)]
pub struct Buffers {
    // Field order is release order: the registration before the memory.
    region: Option<Region>,
    memory: Memory,
    geometry: Geometry,
    stride_bytes: usize,
    states: Box<[SlotState]>,
    contexts: Memory,
}

impl Buffers {
    /// Allocates zeroed slots and registers them when `register` says so.
    ///
    /// # Errors
    /// [`Error::NoMemory`] when there is no memory, [`Error::Call`] when registration fails.
    pub fn new(domain: &Domain, geometry: Geometry, register: bool) -> Result<Self, Error> {
        let stride_bytes = geometry.stride_bytes();
        let total_bytes = stride_bytes.saturating_mul(geometry.slots.max(1));
        let memory = Memory::new(total_bytes)?;
        let region =
            if register { Some(domain.register(memory.start, total_bytes)?) } else { None };
        let contexts = Memory::new(geometry.slots.max(1).saturating_mul(CONTEXT_BYTES))?;
        let states = vec![SlotState::Free; geometry.slots].into_boxed_slice();
        Ok(Self { region, memory, geometry, stride_bytes, states, contexts })
    }

    /// The geometry.
    #[must_use]
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Reads the payload of a slot that has no operation in flight.
    ///
    /// # Errors
    /// [`Error::SlotBusy`], [`Error::NoSuchSlot`].
    pub fn payload(&self, slot: usize) -> Result<&[u8], Error> {
        self.claim_free(slot)?;
        // SAFETY: the slot lies inside the block (claim_free checked the number), is initialised
        // (zeroed), and no provider touches it while its state is Free.
        Ok(unsafe {
            std::slice::from_raw_parts(self.payload_start(slot), self.geometry.payload_bytes)
        })
    }

    /// Writes the payload of a slot that has no operation in flight.
    ///
    /// # Errors
    /// [`Error::SlotBusy`], [`Error::NoSuchSlot`].
    pub fn payload_mut(&mut self, slot: usize) -> Result<&mut [u8], Error> {
        self.claim_free(slot)?;
        // SAFETY: as in `payload`; the exclusive borrow of self makes it the only reference.
        Ok(unsafe {
            std::slice::from_raw_parts_mut(self.payload_start(slot), self.geometry.payload_bytes)
        })
    }

    /// Copies the first `len_bytes` of one free slot's payload into another's.
    ///
    /// # Errors
    /// [`Error::SlotBusy`], [`Error::NoSuchSlot`], [`Error::TooLong`].
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
            Some(SlotState::Free) => Ok(()),
            Some(_) => Err(Error::SlotBusy(slot)),
            None => Err(Error::NoSuchSlot(slot)),
        }
    }

    #[inline]
    pub(crate) fn set_state(&mut self, slot: usize, state: SlotState) {
        self.states[slot] = state;
    }

    #[inline]
    pub(crate) fn state(&self, slot: usize) -> SlotState {
        self.states[slot]
    }

    /// Start of the slot including the provider's prefix.
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

    /// The scratch space of a slot, also its name in completions.
    #[inline]
    pub(crate) fn context(&self, slot: usize) -> *mut c_void {
        assert!(slot < self.geometry.slots);
        // SAFETY: the block has CONTEXT_BYTES for each slot.
        unsafe { self.contexts.start.as_ptr().add(slot * CONTEXT_BYTES).cast() }
    }

    /// The slot whose scratch space `context` is; `None` for a foreign pointer.
    #[inline]
    pub(crate) fn slot_of(&self, context: *mut c_void) -> Option<usize> {
        let offset = (context as usize).checked_sub(self.contexts.start.as_ptr() as usize)?;
        let slot = offset / CONTEXT_BYTES;
        (offset.is_multiple_of(CONTEXT_BYTES) && slot < self.geometry.slots).then_some(slot)
    }

    #[inline]
    pub(crate) fn descriptor(&self) -> *mut c_void {
        self.region.as_ref().map_or(std::ptr::null_mut(), Region::descriptor)
    }
}

/// A page-aligned zeroed block.
#[derive(Debug)]
struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

impl Memory {
    fn new(len_bytes: usize) -> Result<Self, Error> {
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
    fn slots_of_a_power_of_two_do_not_share_cache_sets() {
        let stride =
            |payload_bytes| Geometry { slots: 1, payload_bytes, prefix_bytes: 0 }.stride_bytes();
        assert_eq!(stride(1), 64);
        assert_eq!(stride(64), 64);
        assert_eq!(stride(65), 192);
        assert_eq!(stride(8192), 8192 + 64);
    }

    #[test]
    fn an_impossible_block_is_refused() {
        assert_eq!(Memory::new(usize::MAX).unwrap_err(), Error::NoMemory(usize::MAX));
    }
}
