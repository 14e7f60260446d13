//! Reading and writing a peer's window.

use fabric_sys::{self as sys, call};

use crate::address::Peer;
use crate::buffers::Operation;
use crate::endpoint::{Endpoint, Post, PostOptions};
use crate::error::Error;
use crate::window::RemoteMemory;

impl Endpoint {
    /// Reads all of `remote` into the start of `slot`, which is busy until its completion.
    ///
    /// # Errors
    /// [`Error::SlotBusy`], [`Error::NoSuchSlot`], [`Error::TooLong`], [`Error::Call`].
    #[inline]
    pub fn read(&mut self, slot: usize, peer: Peer, remote: RemoteMemory) -> Result<Post, Error> {
        let len_bytes = bytes(remote);
        let claim = self.claim(slot, len_bytes)?;
        let (start, desc, context) = (claim.start.cast(), claim.descriptor, claim.context);
        let RemoteMemory { addr, key, .. } = remote;
        // SAFETY: the slot is free and stays untouched until its completion (`posted` makes it
        // busy); its memory, registration and context live until the endpoint is closed.
        let ret =
            unsafe { call::fi_read(claim.ep, start, len_bytes, desc, peer.0, addr, key, context) };
        self.posted("fi_read", ret, slot, Some(Operation::Read))
    }

    /// Writes the start of `slot` over all of `remote`; the slot is busy until its completion.
    ///
    /// # Errors
    /// As [`Endpoint::read`].
    #[inline]
    pub fn write(&mut self, slot: usize, peer: Peer, remote: RemoteMemory) -> Result<Post, Error> {
        let len_bytes = bytes(remote);
        let claim = self.claim(slot, len_bytes)?;
        let (start, desc, context) = (claim.start.cast(), claim.descriptor, claim.context);
        let RemoteMemory { addr, key, .. } = remote;
        // SAFETY: as in `read`.
        let ret =
            unsafe { call::fi_write(claim.ep, start, len_bytes, desc, peer.0, addr, key, context) };
        self.posted("fi_write", ret, slot, Some(Operation::Write))
    }

    /// As [`Endpoint::write`], with immediate data (the peer gets a
    /// [`RemoteWrite`](crate::CompletionKind::RemoteWrite)) or another moment of completion.
    ///
    /// # Errors
    /// As [`Endpoint::read`].
    pub fn write_with(
        &mut self,
        slot: usize,
        peer: Peer,
        remote: RemoteMemory,
        options: PostOptions,
    ) -> Result<Post, Error> {
        let len_bytes = bytes(remote);
        let claim = self.claim(slot, len_bytes)?;
        let iov = sys::fi_iovec { iov_base: claim.start.cast(), iov_len: len_bytes };
        let rma_iov = sys::fi_rma_iov { addr: remote.addr, len: len_bytes, key: remote.key };
        let mut desc = claim.descriptor;
        let msg = sys::fi_msg_rma {
            msg_iov: &raw const iov,
            desc: &raw mut desc,
            iov_count: 1,
            addr: peer.0,
            rma_iov: &raw const rma_iov,
            rma_iov_count: 1,
            context: claim.context,
            data: options.data.unwrap_or(0),
        };
        // SAFETY: as in `read`; the arguments themselves are read during the call only.
        let ret = unsafe { call::fi_writemsg(claim.ep, &raw const msg, options.flags()) };
        self.posted("fi_writemsg", ret, slot, Some(Operation::Write))
    }
}

/// More than a slot can hold is refused with the other lengths that do not fit.
fn bytes(remote: RemoteMemory) -> usize {
    usize::try_from(remote.len).unwrap_or(usize::MAX)
}
