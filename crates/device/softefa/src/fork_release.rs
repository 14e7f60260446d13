//! Descriptors by which others know a process, such as gateway connections and ring listeners. A
//! forked child releases them, so that others notice the end of the parent and can use its names.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::poll_set::EventFd;

const NONE: RawFd = -1;

/// A list of up to `N` descriptors, which is changed without a lock so that a child finds it
/// consistent. A child keeps descriptors that found no room in the list.
pub(crate) struct ForkReleased<const N: usize>([AtomicI32; N]);

impl<const N: usize> ForkReleased<N> {
    pub(crate) const fn new() -> Self {
        Self([const { AtomicI32::new(NONE) }; N])
    }

    pub(crate) fn add(&self, fd: RawFd) {
        self.exchange(NONE, fd);
    }

    pub(crate) fn remove(&self, fd: RawFd) {
        self.exchange(fd, NONE);
    }

    fn exchange(&self, before: RawFd, after: RawFd) {
        let (order, failing) = (Ordering::AcqRel, Ordering::Relaxed);
        let is_done =
            |slot: &AtomicI32| slot.compare_exchange(before, after, order, failing).is_ok();
        let _ = self.0.iter().any(is_done);
    }

    /// Replaces each descriptor by `placeholder`, only once, because a child of the child may have
    /// other files there. The numbers stay in use, because the child still has the objects that own
    /// them.
    pub(crate) fn replace_all(&self, placeholder: &EventFd) {
        let all = self.0.iter().map(|slot| slot.swap(NONE, Ordering::AcqRel));
        all.filter(|fd| *fd != NONE).for_each(|fd| placeholder.replace(fd));
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
        let descriptors = ForkReleased::<2>::new();
        let [(gone, mut hears), (stays, hears_nothing)] =
            [(); 2].map(|()| UnixStream::pair().unwrap());
        [&gone, &stays].iter().for_each(|socket| descriptors.add(socket.as_raw_fd()));
        descriptors.remove(stays.as_raw_fd());
        descriptors.replace_all(&EventFd::placeholder().unwrap());
        assert_eq!(hears.read(&mut [0]).unwrap(), 0, "its end");
        hears_nothing.set_nonblocking(true).unwrap();
        assert!((&hears_nothing).read(&mut [0]).is_err(), "still open");
        // The child closes it and opens another file there; then it forks.
        let mut there = OwnedFd::from(gone);
        let (writer, mut reader) = UnixStream::pair().unwrap();
        rustix::io::dup2(&writer, &mut there).unwrap();
        drop(writer);
        descriptors.replace_all(&EventFd::placeholder().unwrap());
        reader.set_nonblocking(true).unwrap();
        assert!(reader.read(&mut [0]).is_err(), "what is there now is not touched");
    }
}
