//! Registered memory, and message memory cut into slots.

use std::ffi::c_void;
use std::ptr::NonNull;

use verbs_abi::{ibv_mr, ibv_pd};

use crate::device::Device;
use crate::error::Error;
use crate::sys;

const LINE_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

/// A protection domain.
pub(crate) struct ProtectionDomain {
    raw: NonNull<ibv_pd>,
    pub(crate) device: Device,
}

impl ProtectionDomain {
    pub(crate) fn open(device: Device) -> Result<Self, Error> {
        // SAFETY: the device is open.
        let raw = unsafe { sys::ibv_alloc_pd(device.context()) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_alloc_pd"))?;
        Ok(Self { raw, device })
    }

    pub(crate) const fn raw(&self) -> *mut ibv_pd {
        self.raw.as_ptr()
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        // SAFETY: made once, released once, after all that is in it (field order of its owners).
        unsafe { sys::ibv_dealloc_pd(self.raw()) };
    }
}

/// Zeroed memory that the device may use. Its owner drops it before its protection domain and after
/// the queue pair that uses it.
pub(crate) struct Region {
    mr: NonNull<ibv_mr>,
    pages: NonNull<[Page]>,
    len_bytes: usize,
}

impl Region {
    pub(crate) fn new(pd: &ProtectionDomain, len_bytes: usize, access: u32) -> Result<Self, Error> {
        let len_bytes = len_bytes.max(1);
        let count = len_bytes.div_ceil(PAGE_BYTES);
        let mut pages: Vec<Page> = Vec::new();
        pages.try_reserve_exact(count).map_err(|_| Error::NoMemory(len_bytes))?;
        pages.resize(count, Page([0; PAGE_BYTES]));
        let pages = NonNull::from(Box::leak(pages.into_boxed_slice()));
        let start = pages.cast::<c_void>().as_ptr();
        // SAFETY: the memory lives until `drop`, which deregisters it first.
        let mr = unsafe { sys::ibv_reg_mr(pd.raw(), start, len_bytes, access as i32) };
        let Some(mr) = NonNull::new(mr) else {
            let error = Error::last("ibv_reg_mr");
            // SAFETY: leaked above, used by nobody.
            drop(unsafe { Box::from_raw(pages.as_ptr()) });
            return Err(error);
        };
        Ok(Self { mr, pages, len_bytes })
    }

    pub(crate) const fn start(&self) -> *mut u8 {
        self.pages.cast::<u8>().as_ptr()
    }

    pub(crate) const fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Copies bytes to its front.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let (len, window) = (bytes.len() as u64, self.len_bytes as u64);
        if bytes.len() > self.len_bytes {
            return Err(Error::OutsideWindow { offset: 0, len, window });
        }
        // SAFETY: the region is as long as that, and `bytes` cannot overlap it: there are no
        // references to it. The device may read or write it meanwhile, as it may any other time.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start(), bytes.len()) };
        Ok(())
    }

    /// Copies bytes from its front.
    pub(crate) fn read(&self, bytes: &mut [u8]) -> Result<(), Error> {
        let (len, window) = (bytes.len() as u64, self.len_bytes as u64);
        if bytes.len() > self.len_bytes {
            return Err(Error::OutsideWindow { offset: 0, len, window });
        }
        // SAFETY: as in `write`; `bytes` is ours alone.
        unsafe { std::ptr::copy_nonoverlapping(self.start(), bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    pub(crate) fn lkey(&self) -> u32 {
        // SAFETY: the registration is alive.
        unsafe { self.mr.as_ref().lkey }
    }

    pub(crate) fn rkey(&self) -> u32 {
        // SAFETY: the registration is alive.
        unsafe { self.mr.as_ref().rkey }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: registered once. Memory that the device keeps is leaked rather than freed.
        if unsafe { sys::ibv_dereg_mr(self.mr.as_ptr()) } == 0 {
            // SAFETY: leaked in `new`, no longer used by the device.
            drop(unsafe { Box::from_raw(self.pages.as_ptr()) });
        }
    }
}

/// The use of a slot at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    Busy,
    /// Read by the device at any time, and never written.
    Frozen,
}

/// The number and size of slots.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    pub(crate) slots: usize,
    pub(crate) payload_bytes: usize,
    /// Length of the prefix in front of the payload of a received message.
    pub(crate) prefix_bytes: usize,
}

/// Message memory.
pub(crate) struct Slots {
    region: Region,
    geometry: Geometry,
    stride_bytes: usize,
    states: Box<[State]>,
}

impl Slots {
    pub(crate) fn new(
        pd: &ProtectionDomain,
        geometry: Geometry,
        access: u32,
    ) -> Result<Self, Error> {
        let lines = (geometry.prefix_bytes + geometry.payload_bytes).div_ceil(LINE_BYTES);
        // An odd number of lines, so that slots do not all fall into the same cache sets.
        let stride_bytes = (lines | 1) * LINE_BYTES;
        let region = Region::new(pd, stride_bytes.saturating_mul(geometry.slots), access)?;
        let states = vec![State::Free; geometry.slots].into_boxed_slice();
        Ok(Self { region, geometry, stride_bytes, states })
    }

    pub(crate) const fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub(crate) fn lkey(&self) -> u32 {
        self.region.lkey()
    }

    #[inline]
    pub(crate) fn state(&self, slot: usize) -> Result<State, Error> {
        self.states.get(slot).copied().ok_or(Error::NoSuchSlot(slot))
    }

    pub(crate) fn freeze(&mut self, slot: usize) {
        self.states[slot] = State::Frozen;
    }

    /// Takes note that an operation begins on a slot whose state `allows` it.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        slot: usize,
        allows: impl FnOnce(State) -> bool,
    ) -> Result<(), Error> {
        match self.states.get_mut(slot) {
            Some(state) if allows(*state) => {
                if *state == State::Free {
                    *state = State::Busy;
                }
                Ok(())
            }
            Some(_) => Err(Error::SlotBusy(slot)),
            None => Err(Error::NoSuchSlot(slot)),
        }
    }

    /// Takes note that an operation has ended: whatever could be borrowed before can be again.
    /// Returns false if there is no such slot.
    #[inline]
    pub(crate) fn end(&mut self, slot: usize) -> bool {
        let Some(state) = self.states.get_mut(slot) else { return false };
        if *state == State::Busy {
            *state = State::Free;
        }
        true
    }

    /// Returns the start of the slot, to which received messages are written, prefix first.
    #[inline]
    pub(crate) fn start(&self, slot: usize) -> *mut u8 {
        assert!(slot < self.geometry.slots);
        // SAFETY: the slot lies in the region.
        unsafe { self.region.start().add(slot * self.stride_bytes) }
    }

    /// Returns the start of the payload, from which messages are sent.
    #[inline]
    pub(crate) fn payload_start(&self, slot: usize) -> *mut u8 {
        // SAFETY: prefix and payload together fit into a stride.
        unsafe { self.start(slot).add(self.geometry.prefix_bytes) }
    }

    #[inline]
    pub(crate) fn payload(&self, slot: usize) -> Result<&[u8], Error> {
        if self.state(slot)? == State::Busy {
            return Err(Error::SlotBusy(slot));
        }
        // SAFETY: inside the region, initialised, and the device does not write it now.
        Ok(unsafe {
            std::slice::from_raw_parts(self.payload_start(slot), self.geometry.payload_bytes)
        })
    }

    #[inline]
    pub(crate) fn payload_mut(&mut self, slot: usize) -> Result<&mut [u8], Error> {
        if self.state(slot)? != State::Free {
            return Err(Error::SlotBusy(slot));
        }
        // SAFETY: as in `payload`; the exclusive borrow of self makes it the only reference.
        Ok(unsafe {
            std::slice::from_raw_parts_mut(self.payload_start(slot), self.geometry.payload_bytes)
        })
    }

    pub(crate) fn copy(&mut self, from: usize, to: usize, len_bytes: usize) -> Result<(), Error> {
        let max = self.geometry.payload_bytes;
        if len_bytes > max {
            return Err(Error::TooLong { len: len_bytes, max });
        }
        if self.state(from)? == State::Busy {
            return Err(Error::SlotBusy(from));
        }
        if self.state(to)? != State::Free {
            return Err(Error::SlotBusy(to));
        }
        // SAFETY: both slots are long enough and not written by the device; `copy` allows them to
        // be the same.
        unsafe { self.payload_start(from).copy_to(self.payload_start(to), len_bytes) };
        Ok(())
    }
}
