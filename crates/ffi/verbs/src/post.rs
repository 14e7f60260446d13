//! Posting.

use std::ptr::null_mut;

use verbs_abi::{ibv_recv_wr, ibv_sge};

use crate::endpoint::{Endpoint, Remote};
use crate::error::Error;
use crate::memory::State;
use crate::poster::{Atomic, Request, Work};
use crate::prepare::Transport;
use crate::sys;

/// Outcome of posting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Post {
    /// The operation is in flight, or waits for the rest of its list.
    Done,
    /// The queue is full: poll, then try again.
    Again,
}

/// The options of a post.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostOptions {
    /// Whether more is posted at once: the list goes to the device with the first request that has
    /// no more behind it, with the next poll, or when it is full (256).
    pub more: bool,
    /// Whether the bytes travel in the request itself: at most
    /// [`Prepared::inline_bytes`](crate::Prepared::inline_bytes).
    pub inline: bool,
    /// Whether a completion follows. Without one the slot must be frozen.
    pub signaled: bool,
}

impl Default for PostOptions {
    fn default() -> Self {
        Self { more: false, inline: false, signaled: true }
    }
}

impl Endpoint {
    /// Sends the first `len_bytes` of `slot`; the slot is busy until its completion.
    ///
    /// # Errors
    /// Returns [`Error::SlotBusy`], [`Error::NoSuchSlot`], [`Error::TooLong`] or [`Error::Call`].
    #[inline]
    pub fn send(
        &mut self,
        slot: usize,
        len_bytes: usize,
        options: PostOptions,
    ) -> Result<Post, Error> {
        self.post(slot, len_bytes, Work::Send, options)
    }

    /// Reads `len_bytes` of the peer's window from byte `offset` on into `slot`.
    ///
    /// # Errors
    /// Fails as [`Endpoint::send`] does, and with [`Error::OutsideWindow`].
    #[inline]
    pub fn read(
        &mut self,
        slot: usize,
        len_bytes: usize,
        remote: Remote,
        offset: u64,
        options: PostOptions,
    ) -> Result<Post, Error> {
        let addr = inside(remote, offset, len_bytes)?;
        self.post(slot, len_bytes, Work::Read { addr, rkey: remote.rkey }, options)
    }

    /// Writes the first `len_bytes` of `slot` into the peer's window from byte `offset` on.
    ///
    /// # Errors
    /// Fails as [`Endpoint::read`] does.
    #[inline]
    pub fn write(
        &mut self,
        slot: usize,
        len_bytes: usize,
        remote: Remote,
        offset: u64,
        options: PostOptions,
    ) -> Result<Post, Error> {
        let addr = inside(remote, offset, len_bytes)?;
        self.post(slot, len_bytes, Work::Write { addr, rkey: remote.rkey }, options)
    }

    /// Does an atomic with the 8 bytes of the peer's window from byte `offset` on, a multiple of 8;
    /// their previous value comes into the front of `slot`, in the byte order of this machine.
    ///
    /// # Errors
    /// Fails as [`Endpoint::read`] does, and with [`Error::NoAtomics`].
    #[inline]
    pub fn atomic(
        &mut self,
        slot: usize,
        atomic: Atomic,
        remote: Remote,
        offset: u64,
        options: PostOptions,
    ) -> Result<Post, Error> {
        if self.qp.transport != Transport::Rc {
            return Err(Error::NoAtomics(self.qp.transport.name()));
        }
        let addr = inside(remote, offset, Atomic::BYTES)?;
        self.post(slot, Atomic::BYTES, Work::Atomic { addr, rkey: remote.rkey, atomic }, options)
    }

    /// Offers `slot` to the next message; busy until its completion.
    ///
    /// # Errors
    /// Returns [`Error::SlotBusy`], [`Error::NoSuchSlot`] or [`Error::Call`].
    #[inline]
    pub fn receive(&mut self, slot: usize) -> Result<Post, Error> {
        if slot < self.tx_slots() {
            return Err(Error::NoSuchSlot(slot));
        }
        self.slots.begin(slot, |state| state == State::Free)?;
        let geometry = self.slots.geometry();
        let mut sge = ibv_sge {
            addr: self.slots.start(slot) as u64,
            length: (geometry.prefix_bytes + geometry.payload_bytes) as u32,
            lkey: self.slots.lkey(),
        };
        let (wr_id, sg_list) = (slot as u64, &raw mut sge);
        let mut wr = ibv_recv_wr { wr_id, next: null_mut(), sg_list, num_sge: 1 };
        // SAFETY: the queue pair is alive; the request is read during the call; its memory stays
        // untouched until the completion (`State::Busy`) and registered until the end.
        let errno = unsafe { sys::post_recv(self.qp.raw(), &raw mut wr) };
        if errno == 0 {
            return Ok(Post::Done);
        }
        self.slots.end(slot);
        match errno.abs() {
            libc::ENOMEM => Ok(Post::Again),
            _ => Err(Error::number("ibv_post_recv", errno)),
        }
    }

    #[inline(always)] // So that each kind of work becomes a few stores: 200 instructions otherwise.
    fn post(
        &mut self,
        slot: usize,
        len_bytes: usize,
        work: Work,
        options: PostOptions,
    ) -> Result<Post, Error> {
        let max = self.slots.geometry().payload_bytes;
        if len_bytes > max {
            return Err(Error::TooLong { len: len_bytes, max });
        }
        if slot >= self.tx_slots() {
            return Err(Error::NoSuchSlot(slot));
        }
        if self.poster.is_full() && !self.make_room()? {
            return Ok(Post::Again);
        }
        let PostOptions { more, inline, signaled } = options;
        let is_written = matches!(work, Work::Read { .. } | Work::Atomic { .. });
        self.slots.begin(slot, |state| match state {
            // Nobody hears when an operation without completion ends.
            State::Free => signaled,
            State::Frozen => !is_written,
            State::Busy => false,
        })?;
        let part = ibv_sge {
            addr: self.slots.payload_start(slot) as u64,
            length: len_bytes as u32,
            lkey: self.slots.lkey(),
        };
        self.poster.push(Request { slot, part, work, inline, signaled }, &self.peer);
        if !more {
            // A later poll hands over what the device does not take now.
            self.flush()?;
        }
        Ok(Post::Done)
    }

    #[cold]
    fn make_room(&mut self) -> Result<bool, Error> {
        self.flush()
    }

    /// Gives the list to the device; returns false when it does not take all of it.
    #[inline(always)] // As `post`.
    pub(crate) fn flush(&mut self) -> Result<bool, Error> {
        // SAFETY: what is pending names slots that are busy or frozen, which stay as they are until
        // their completion and registered until the end.
        unsafe { self.poster.hand_over(&self.qp, &self.peer) }
    }
}

/// Returns the address of a range in the peer's memory.
#[inline]
fn inside(remote: Remote, offset: u64, len_bytes: usize) -> Result<u64, Error> {
    let len = len_bytes as u64;
    match offset.checked_add(len) {
        Some(end) if end <= remote.len => Ok(remote.addr.wrapping_add(offset)),
        _ => Err(Error::OutsideWindow { offset, len, window: remote.len }),
    }
}
