//! Descriptors of a process that others know it by: its ways to gateways, its doors. A forked child
//! lets go of them, so that others hear when the process is gone, and can use its names.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::poll_set::EventFd;

const NONE: RawFd = -1;

/// A list of up to `N`, changed without a lock, so that a child finds it whole. A child keeps what
/// is beyond them.
pub(crate) struct Kept<const N: usize>([AtomicI32; N]);

impl<const N: usize> Kept<N> {
    pub(crate) const fn new() -> Self {
        Self([const { AtomicI32::new(NONE) }; N])
    }

    pub(crate) fn add(&self, fd: RawFd) {
        self.replace(NONE, fd);
    }

    pub(crate) fn remove(&self, fd: RawFd) {
        self.replace(fd, NONE);
    }

    fn replace(&self, before: RawFd, after: RawFd) {
        let (order, failing) = (Ordering::AcqRel, Ordering::Relaxed);
        let is_done =
            |place: &AtomicI32| place.compare_exchange(before, after, order, failing).is_ok();
        let _ = self.0.iter().any(is_done);
    }

    /// Makes each of them `nothing`, once: a child of the child may have other files there. Their
    /// numbers stay in use, because the child still has the objects they are in.
    pub(crate) fn let_go(&self, nothing: &EventFd) {
        let all = self.0.iter().map(|place| place.swap(NONE, Ordering::AcqRel));
        all.filter(|fd| *fd != NONE).for_each(|fd| nothing.take_the_place_of(fd));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_other_end_hears_of_what_is_let_go() {
        let kept = Kept::<2>::new();
        let [(gone, mut hears), (stays, hears_nothing)] =
            [(); 2].map(|()| UnixStream::pair().unwrap());
        [&gone, &stays].iter().for_each(|socket| kept.add(socket.as_raw_fd()));
        kept.remove(stays.as_raw_fd());
        kept.let_go(&EventFd::placeholder().unwrap());
        assert_eq!(hears.read(&mut [0]).unwrap(), 0, "its end");
        hears_nothing.set_nonblocking(true).unwrap();
        assert!((&hears_nothing).read(&mut [0]).is_err(), "still open");
        // The child closes it and opens something else there; then it forks.
        let mut there = OwnedFd::from(gone);
        let (writer, mut reader) = UnixStream::pair().unwrap();
        rustix::io::dup2(&writer, &mut there).unwrap();
        drop(writer);
        kept.let_go(&EventFd::placeholder().unwrap());
        reader.set_nonblocking(true).unwrap();
        assert!(reader.read(&mut [0]).is_err(), "what is there now is not touched");
    }
}
