//! A set of sockets to wait for, on top of `epoll`. The keys are the descriptors.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

use crate::descriptor::with_descriptor;

/// The most readable sockets that one call reports; the next call reports the others.
const READY_MAX: usize = 64;

/// Sockets that are waited for together. Remove a socket before closing it.
#[derive(Debug)]
pub(crate) struct PollSet {
    epoll: OwnedFd,
}

/// The readable sockets that one call has found.
#[derive(Debug)]
pub(crate) struct Ready {
    fds: [RawFd; READY_MAX],
    len: usize,
}

impl Ready {
    pub(crate) const NONE: Self = Self { fds: [-1; READY_MAX], len: 0 };

    pub(crate) fn contains(&self, fd: RawFd) -> bool {
        self.fds[..self.len].contains(&fd)
    }
}

impl PollSet {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = with_descriptor(|| Ok(epoll::create(CreateFlags::CLOEXEC)?))?;
        Ok(Self { epoll })
    }

    /// Adds `fd`, so that the set reports when it is readable. Adding it twice is harmless. Returns
    /// false if the system has no room; then the caller must check the socket itself.
    pub(crate) fn add(&self, fd: RawFd) -> bool {
        self.add_as(fd, fd)
    }

    /// Adds `fd` as [`PollSet::add`] does, but the set reports `name` when `fd` is readable.
    pub(crate) fn add_as(&self, fd: RawFd, name: RawFd) -> bool {
        let data = EventData::new_u64(name.unsigned_abs().into());
        // SAFETY: only lent to the call; were it closed, the kernel would refuse it.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        match epoll::add(&self.epoll, fd, data, EventFlags::IN) {
            // The system has no memory, or the user's `max_user_watches` is reached.
            Err(Errno::NOMEM | Errno::NOSPC) => false,
            // The socket is in the set already, or is closed; both are harmless.
            Ok(()) | Err(_) => true,
        }
    }

    pub(crate) fn remove(&self, fd: RawFd) {
        // SAFETY: as in `add`.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Waits until a socket is readable, for at most `timeout_ns` (rounded up to milliseconds;
    /// `None` means without limit), and fills `ready`.
    ///
    /// # Errors
    /// The program has closed the descriptor of the set.
    pub(crate) fn wait(&self, timeout_ns: Option<u64>, ready: &mut Ready) -> io::Result<()> {
        ready.len = 0;
        let timeout = timeout_ns.map(|ns| Timespec {
            tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
            #[expect(clippy::cast_possible_wrap, reason = "less than a thousand million")]
            tv_nsec: (ns % 1_000_000_000) as i64,
        });
        let mut room = [MaybeUninit::<epoll::Event>::uninit(); READY_MAX];
        let events = match epoll::wait(&self.epoll, &mut room[..], timeout.as_ref()) {
            Ok((events, _)) => &*events,
            // The next call reports the sockets.
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for (fd, event) in ready.fds.iter_mut().zip(events) {
            // Copied out, because the structure is packed.
            let data = event.data;
            *fd = RawFd::try_from(data.u64()).unwrap_or(-1);
        }
        ready.len = events.len();
        Ok(())
    }
}

/// An event counter: it is readable while it is not zero.
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    /// Makes a semaphore: reading decrements the counter, and blocks at zero unless `O_NONBLOCK` is
    /// set.
    pub(crate) fn semaphore() -> io::Result<Self> {
        Self::new(EventfdFlags::SEMAPHORE)
    }

    /// Makes a doorbell: reading resets the counter and never blocks.
    pub(crate) fn doorbell() -> io::Result<Self> {
        Self::new(EventfdFlags::NONBLOCK)
    }

    /// Makes a counter that replaces a file. It does not make room for its descriptor.
    pub(crate) fn placeholder() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC)?))
    }

    /// Makes the descriptor `fd` of this process refer to this counter.
    pub(crate) fn replace(&self, fd: RawFd) {
        // SAFETY: whoever owns `fd` keeps a descriptor that it may use and close. Fails only when
        // that is closed just now.
        unsafe { libc::dup3(self.fd(), fd, libc::O_CLOEXEC) };
    }

    fn new(flags: EventfdFlags) -> io::Result<Self> {
        with_descriptor(|| Ok(eventfd(0, EventfdFlags::CLOEXEC | flags)?)).map(Self)
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Adds one to the counter.
    pub(crate) fn raise(&self) {
        // It fails only at 2^64 - 2, which leaves the counter readable anyway.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Reads the counter: decrements a semaphore, resets a doorbell.
    ///
    /// # Errors
    /// `EAGAIN` at zero when non-blocking, `EINTR`.
    pub(crate) fn take(&self) -> io::Result<()> {
        let mut count = [0; 8];
        rustix::io::read(&self.0, &mut count)?;
        Ok(())
    }

    /// Reads the counter if it is not zero, without blocking; returns whether it was.
    pub(crate) fn try_take(&self) -> bool {
        let mut count = [0; 8];
        let mut room = [io::IoSliceMut::new(&mut count)];
        // The position -1 means none, as in `read`.
        let (no_position, flags) = (u64::MAX, rustix::io::ReadWriteFlags::NOWAIT);
        rustix::io::preadv2(&self.0, &mut room, no_position, flags).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semaphore_gives_one_at_a_time_and_never_blocks_who_only_tries() {
        let event = EventFd::semaphore().unwrap();
        event.try_take();
        event.raise();
        event.raise();
        event.raise();
        event.take().unwrap();
        event.try_take();
        let set = PollSet::new().unwrap();
        set.add(event.fd());
        let mut ready = Ready::NONE;
        set.wait(Some(0), &mut ready).unwrap();
        assert!(ready.contains(event.fd()), "one of three is left");
        event.try_take();
        set.wait(Some(0), &mut ready).unwrap();
        assert!(!ready.contains(event.fd()), "none is left");
    }

    #[test]
    fn a_socket_may_be_told_by_the_name_of_another() {
        let (set, bell, other) =
            (PollSet::new().unwrap(), EventFd::doorbell().unwrap(), EventFd::doorbell().unwrap());
        let mut ready = Ready::NONE;
        set.add(bell.fd());
        set.add_as(other.fd(), bell.fd());
        other.raise();
        set.wait(None, &mut ready).unwrap();
        assert!(ready.contains(bell.fd()) && !ready.contains(other.fd()));
        set.remove(other.fd());
        set.wait(Some(0), &mut ready).unwrap();
        assert_eq!(ready.len, 0);
    }

    #[test]
    fn removed_socket_is_not_reported() {
        let (set, bell) = (PollSet::new().unwrap(), EventFd::doorbell().unwrap());
        let mut ready = Ready::NONE;
        bell.raise();
        set.add(bell.fd());
        set.wait(None, &mut ready).unwrap();
        assert!(ready.contains(bell.fd()));
        set.remove(bell.fd());
        set.wait(Some(0), &mut ready).unwrap();
        assert_eq!(ready.len, 0);
    }
}
