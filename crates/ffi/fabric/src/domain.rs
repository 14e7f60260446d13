//! A device opened for use, and memory registered with it.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::rc::Rc;

use fabric_sys as sys;

use crate::error::Error;
use crate::fabric_root::Fabric;
use crate::info::Info;
use crate::memory::Memory;
use crate::object::Owned;

/// An open domain; cheap to clone, keeps its fabric alive.
#[derive(Debug, Clone)]
pub struct Domain(pub(crate) Rc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    // Field order is closing order: the domain before its fabric and before memory that its
    // provider may still be writing.
    pub(crate) raw: Owned<sys::fid_domain>,
    retired: RefCell<Vec<Memory>>,
    next_key: Cell<u64>,
    pub(crate) fabric: Fabric,
}

impl Domain {
    /// Opens the domain that `info` describes.
    ///
    /// # Errors
    /// Returns [`Error::Call`] with the provider's reason.
    pub fn open(fabric: &Fabric, info: &Info) -> Result<Self, Error> {
        // SAFETY: fabric and info are alive during the call.
        let raw = Owned::open("fi_domain", |out| unsafe {
            sys::call::fi_domain(fabric.0.raw(), info.raw(), out)
        })?;
        let (retired, next_key) = (RefCell::default(), Cell::new(1));
        Ok(Self(Rc::new(Inner { raw, retired, next_key, fabric: fabric.clone() })))
    }

    /// Registers memory for `access` (`FI_SEND` and so on).
    pub(crate) fn register(
        &self,
        memory: NonNull<u8>,
        len_bytes: usize,
        access: u64,
    ) -> Result<Region, Error> {
        let key = self.0.next_key.get();
        self.0.next_key.set(key + 1);
        // SAFETY: the caller owns `len_bytes` bytes at `memory` and keeps them until the region
        // is closed (Buffers drops its region before its memory, Window retires its memory).
        let raw = Owned::open("fi_mr_reg", |out| unsafe {
            sys::call::fi_mr_reg(
                self.0.raw.raw(),
                memory.as_ptr().cast(),
                len_bytes,
                access,
                key,
                out,
            )
        })?;
        Ok(Region { raw, domain: self.clone() })
    }
}

impl Domain {
    /// Keeps memory until the domain is closed.
    pub(crate) fn retire(&self, memory: Memory) {
        self.0.retired.borrow_mut().push(memory);
    }
}

/// Registered memory, released on drop.
#[derive(Debug)]
pub(crate) struct Region {
    raw: Owned<sys::fid_mr>,
    domain: Domain,
}

impl Region {
    /// Returns the descriptor that operations on this memory carry.
    pub(crate) fn descriptor(&self) -> *mut c_void {
        // SAFETY: the registration is alive.
        unsafe { (*self.raw.raw()).mem_desc }
    }

    /// Returns the domain of the registration.
    pub(crate) const fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Returns the key that peers name the memory by.
    pub(crate) fn key(&self) -> u64 {
        // SAFETY: the registration is alive.
        unsafe { (*self.raw.raw()).key }
    }
}
