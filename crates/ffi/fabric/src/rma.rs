//! Reading and writing a peer's window.

use std::ffi::c_void;

use fabric_sys::{self as sys, call};

use crate::address::Peer;
use crate::buffers::Operation;
use crate::endpoint::{Claim, Endpoint};
use crate::error::Error;
use crate::post::{Post, PostOptions};
use crate::window::RemoteMemory;

impl Endpoint {
    /// Reads all of `remote` into the start of `slot`, which is busy until its completion.
    ///
    /// # Errors
    /// Returns [`Error::OtherVector`], [`Error::SlotBusy`], [`Error::NoSuchSlot`],
    /// [`Error::TooLong`] or [`Error::Call`].
    #[inline]
    pub fn read(&mut self, slot: usize, peer: Peer, remote: RemoteMemory) -> Result<Post, Error> {
        let (to, len_bytes) = (self.number_of(peer)?, bytes(remote));
        let claim = self.claim(slot, len_bytes)?;
        let (start, desc, context) = (claim.start.cast(), claim.descriptor, claim.context);
        let RemoteMemory { addr, key, .. } = remote;
        // SAFETY: the slot is free and stays untouched until its completion (`posted` makes it
        // busy); its memory, registration and context live until the endpoint is closed.
        let ret =
            unsafe { call::fi_read(claim.ep, start, len_bytes, desc, to, addr, key, context) };
        self.posted("fi_read", ret, slot, Some(Operation::Read))
    }

    /// Writes the start of `slot` over all of `remote`; the slot is busy until its completion.
    ///
    /// # Errors
    /// Fails as [`Endpoint::read`] does.
    #[inline]
    pub fn write(&mut self, slot: usize, peer: Peer, remote: RemoteMemory) -> Result<Post, Error> {
        let (to, len_bytes) = (self.number_of(peer)?, bytes(remote));
        let claim = self.claim(slot, len_bytes)?;
        let (start, desc, context) = (claim.start.cast(), claim.descriptor, claim.context);
        let RemoteMemory { addr, key, .. } = remote;
        // SAFETY: as in `read`.
        let ret =
            unsafe { call::fi_write(claim.ep, start, len_bytes, desc, to, addr, key, context) };
        self.posted("fi_write", ret, slot, Some(Operation::Write))
    }

    /// Writes as [`Endpoint::write`] does, with immediate data (the peer gets a
    /// [`RemoteWrite`](crate::CompletionKind::RemoteWrite)) or another moment of completion.
    ///
    /// # Errors
    /// Fails as [`Endpoint::read`] does.
    pub fn write_with(
        &mut self,
        slot: usize,
        peer: Peer,
        remote: RemoteMemory,
        options: PostOptions,
    ) -> Result<Post, Error> {
        let to = self.number_of(peer)?;
        let claim = self.claim_source(slot, bytes(remote), options)?;
        let mut parts = Parts::of(&claim, remote);
        let msg = parts.message(&claim, to, options);
        // SAFETY: as in `read`; the arguments themselves are read during the call only.
        let ret = unsafe { call::fi_writemsg(claim.ep, &raw const msg, options.flags()) };
        self.posted("fi_writemsg", ret, slot, Some(Operation::Write))
    }

    /// Reads as [`Endpoint::read`] does, with another moment of completion or more to come.
    ///
    /// # Errors
    /// Fails as [`Endpoint::read`] does.
    pub fn read_with(
        &mut self,
        slot: usize,
        peer: Peer,
        remote: RemoteMemory,
        options: PostOptions,
    ) -> Result<Post, Error> {
        let to = self.number_of(peer)?;
        let claim = self.claim(slot, bytes(remote))?;
        let mut parts = Parts::of(&claim, remote);
        let msg = parts.message(&claim, to, options);
        // SAFETY: as in `read`; the arguments themselves are read during the call only.
        let ret = unsafe { call::fi_readmsg(claim.ep, &raw const msg, options.flags()) };
        self.posted("fi_readmsg", ret, slot, Some(Operation::Read))
    }

    /// Writes the start of `slot` over all of `remote` by copy: the slot is free again on return
    /// and no completion follows. The length is at most `Info::inject_bytes`.
    ///
    /// # Errors
    /// Fails as [`Endpoint::read`] does.
    #[inline]
    pub fn inject_write(
        &mut self,
        slot: usize,
        peer: Peer,
        remote: RemoteMemory,
    ) -> Result<Post, Error> {
        let (to, len_bytes) = (self.number_of(peer)?, bytes(remote));
        let claim = self.claim(slot, len_bytes)?;
        let RemoteMemory { addr, key, .. } = remote;
        // SAFETY: the slot is free; the provider does not touch it after the call.
        let ret = unsafe {
            call::fi_inject_write(claim.ep, claim.start.cast(), len_bytes, to, addr, key)
        };
        self.posted("fi_inject_write", ret, slot, None)
    }
}

/// The memory of both sides of one operation, in the form that the calls with flags take.
struct Parts {
    local: sys::fi_iovec,
    remote: sys::fi_rma_iov,
    descriptor: *mut c_void,
}

impl Parts {
    fn of(claim: &Claim, remote: RemoteMemory) -> Self {
        let len = bytes(remote);
        Self {
            local: sys::fi_iovec { iov_base: claim.start.cast(), iov_len: len },
            remote: sys::fi_rma_iov { addr: remote.addr, len, key: remote.key },
            descriptor: claim.descriptor,
        }
    }

    /// Returns a message that points into `self`.
    fn message(&mut self, claim: &Claim, to: u64, options: PostOptions) -> sys::fi_msg_rma {
        sys::fi_msg_rma {
            msg_iov: &raw const self.local,
            desc: &raw mut self.descriptor,
            iov_count: 1,
            addr: to,
            rma_iov: &raw const self.remote,
            rma_iov_count: 1,
            context: claim.context,
            data: options.data.unwrap_or(0),
        }
    }
}

/// Returns the length in bytes. A length that no slot can hold is refused with the others that do
/// not fit.
fn bytes(remote: RemoteMemory) -> usize {
    usize::try_from(remote.len).unwrap_or(usize::MAX)
}
