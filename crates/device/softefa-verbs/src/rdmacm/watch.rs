//! The sockets and the timer that the thread waits for.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use super::marks::HIDDEN;

/// Events taken at a time.
const BATCH: usize = 32;

#[derive(Debug)]
pub(super) struct Watch {
    epoll: OwnedFd,
    timer: OwnedFd,
}

/// An event to handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ready {
    Timer,
    /// The socket with this descriptor is readable.
    Socket(RawFd),
}

impl Watch {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: neither call has a precondition; the results are checked.
        let epoll = owned(|| unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: as above.
        let timer = owned(|| unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        let watch = Self { epoll, timer };
        watch.add(watch.timer.as_raw_fd())?;
        HIDDEN.add(watch.epoll.as_raw_fd());
        HIDDEN.add(watch.timer.as_raw_fd());
        Ok(watch)
    }

    /// Adds a socket.
    pub(super) fn add(&self, fd: RawFd) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: fd as u64 };
        self.control(libc::EPOLL_CTL_ADD, fd, &raw mut event)
    }

    /// Removes a socket before it is closed, because a forked child may still have it open.
    pub(super) fn forget(&self, fd: RawFd) {
        // Cannot fail, because it was added.
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut());
    }

    fn control(&self, what: i32, fd: RawFd, event: *mut libc::epoll_event) -> io::Result<()> {
        // SAFETY: null or a valid event.
        let code = unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), what, fd, event) };
        if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Sets the timer.
    pub(super) fn set_timer(&self, after: Duration) {
        // A timer of 0 would never expire.
        let after = after.max(Duration::from_nanos(1));
        let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let tv_sec = libc::time_t::try_from(after.as_secs()).unwrap_or(libc::time_t::MAX);
        let it_value = libc::timespec { tv_sec, tv_nsec: after.subsec_nanos().into() };
        let when = libc::itimerspec { it_interval: never, it_value };
        // SAFETY: an open timer and a valid time.
        unsafe {
            libc::timerfd_settime(self.timer.as_raw_fd(), 0, &raw const when, std::ptr::null_mut());
        }
    }

    /// Waits until there is something to handle. An expired timer is reported once.
    ///
    /// # Errors
    /// There is nothing to wait for any more.
    pub(super) fn wait(&self) -> io::Result<Vec<Ready>> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; BATCH];
        // SAFETY: the array has as many events as said.
        let count = unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), BATCH as i32, -1)
        };
        let count = match usize::try_from(count) {
            Ok(count) => count,
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => 0,
                error => return Err(error),
            },
        };
        Ok(events[..count].iter().map(|event| self.ready(event.u64 as RawFd)).collect())
    }

    fn ready(&self, fd: RawFd) -> Ready {
        if fd != self.timer.as_raw_fd() {
            return Ready::Socket(fd);
        }
        let mut expired = 0_u64;
        // SAFETY: 8 bytes, the size of the variable; the timer does not block.
        unsafe { libc::read(fd, (&raw mut expired).cast(), size_of::<u64>()) };
        Ready::Timer
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        HIDDEN.remove(self.epoll.as_raw_fd());
        HIDDEN.remove(self.timer.as_raw_fd());
    }
}

fn owned(open: impl Fn() -> RawFd) -> io::Result<OwnedFd> {
    softefa::with_descriptor(|| {
        let fd = open();
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else owns.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_told_once() {
        let watch = Watch::new().unwrap();
        watch.set_timer(Duration::ZERO);
        assert_eq!(watch.wait().unwrap(), [Ready::Timer]);
        watch.set_timer(Duration::from_millis(1));
        assert_eq!(watch.wait().unwrap(), [Ready::Timer]);
    }

    #[test]
    fn sockets_are_told_until_they_are_forgotten() {
        let watch = Watch::new().unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        watch.add(socket.as_raw_fd()).unwrap();
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        assert_eq!(watch.wait().unwrap(), [Ready::Socket(socket.as_raw_fd())]);
        watch.forget(socket.as_raw_fd());
        watch.set_timer(Duration::ZERO);
        assert_eq!(watch.wait().unwrap(), [Ready::Timer]);
    }
}
