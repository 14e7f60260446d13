//! Completion events: a program that has nothing to do sleeps until the device wakes it.

use std::ffi::c_int;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::ptr::{NonNull, null_mut};

use verbs_abi::{ibv_comp_channel, ibv_cq};

use crate::device::Device;
use crate::endpoint::Endpoint;
use crate::error::{Error, check};
use crate::sys;

/// A completion channel, destroyed on drop, after its completion queue.
pub(crate) struct Channel(NonNull<ibv_comp_channel>);

impl Channel {
    /// Opens a channel. Reading its events never waits.
    pub(crate) fn open(device: &Device) -> Result<Self, Error> {
        // SAFETY: the device is open.
        let raw = unsafe { sys::ibv_create_comp_channel(device.context()) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_create_comp_channel"))?;
        let this = Self(raw);
        // SAFETY: the descriptor is the channel's, which lives.
        let set = unsafe {
            let flags = libc::fcntl(this.number(), libc::F_GETFL);
            libc::fcntl(this.number(), libc::F_SETFL, flags | libc::O_NONBLOCK)
        };
        if set < 0 {
            return Err(Error::last("fcntl of a completion channel"));
        }
        Ok(this)
    }

    pub(crate) const fn raw(&self) -> *mut ibv_comp_channel {
        self.0.as_ptr()
    }

    fn number(&self) -> c_int {
        // SAFETY: the channel is alive.
        unsafe { self.0.as_ref().fd }
    }

    /// Takes the events that are there; each must be acknowledged before the queue is destroyed.
    fn take(&self) -> u32 {
        let (mut queue, mut context): (*mut ibv_cq, _) = (null_mut(), null_mut());
        let mut count = 0;
        // SAFETY: the channel is alive, both places can be written.
        while unsafe { sys::ibv_get_cq_event(self.raw(), &raw mut queue, &raw mut context) } == 0 {
            count += 1;
        }
        count
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once, after the queue that used it.
        unsafe { sys::ibv_destroy_comp_channel(self.raw()) };
    }
}

impl Endpoint {
    /// Asks for an event at the next completion. Completions that are there already bring none, so
    /// poll once more before waiting for the descriptor of [`Endpoint::events`].
    ///
    /// # Errors
    /// Returns [`Error::NoEvents`] without [`Config::events`](crate::Config::events), else
    /// [`Error::Call`].
    pub fn arm(&mut self) -> Result<(), Error> {
        let channel = self.queue.channel.as_ref().ok_or(Error::NoEvents)?;
        match channel.take() {
            0 => {}
            // SAFETY: so many events of this queue were taken and not acknowledged.
            count => unsafe { sys::ibv_ack_cq_events(self.queue.raw(), count) },
        }
        // SAFETY: the queue is alive.
        check("ibv_req_notify_cq", unsafe { sys::req_notify_cq(self.queue.raw(), 0) })
    }

    /// Returns the descriptor that can be read once the event is there that [`Endpoint::arm`] asked
    /// for.
    ///
    /// # Errors
    /// Returns [`Error::NoEvents`] without [`Config::events`](crate::Config::events).
    pub fn events(&self) -> Result<BorrowedFd<'_>, Error> {
        let channel = self.queue.channel.as_ref().ok_or(Error::NoEvents)?;
        Ok(channel.as_fd())
    }
}

impl std::os::fd::AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the channel.
        unsafe { BorrowedFd::borrow_raw(self.number()) }
    }
}
