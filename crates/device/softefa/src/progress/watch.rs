//! Where a queue pair stands with the service thread and the completion queues that drive it.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Due, Unseen};
use crate::poll_set::{EventFd, PollSet};

/// The state of the sockets in the service thread's set. A closed socket's number may belong to
/// another file at once, so the numbers are used under this lock only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Registration {
    Out,
    In,
    Closed,
}

/// The sockets of a queue pair.
#[derive(Debug)]
struct Sockets {
    registration: Registration,
    /// The sockets of its multicast groups.
    of_groups: Vec<RawFd>,
}

/// The watch that tells when a queue pair needs a turn.
#[derive(Debug)]
pub(crate) struct Watch {
    receive_fd: RawFd,
    sockets: Mutex<Sockets>,
    has_groups: AtomicBool,
    /// The time at which it needs a turn.
    pub(crate) due: Due,
    /// Whether somebody polls for what peers write.
    pub(crate) unseen: Unseen,
}

impl Watch {
    /// Watches a queue pair that receives from `receive_fd`.
    pub(crate) fn new(receive_fd: RawFd) -> Self {
        let sockets = Sockets { registration: Registration::Out, of_groups: Vec::new() };
        let (due, unseen) = (Due::new(), Unseen::default());
        let has_groups = AtomicBool::new(false);
        Self { receive_fd, sockets: Mutex::new(sockets), has_groups, due, unseen }
    }

    /// Returns the descriptor that it receives from.
    pub(crate) fn receive_fd(&self) -> RawFd {
        self.receive_fd
    }

    /// It has other sockets besides, of multicast groups.
    #[inline]
    pub(crate) fn has_groups(&self) -> bool {
        self.has_groups.load(Ordering::Relaxed)
    }

    /// It receives from the socket of a group, too. `set` is that of the service thread.
    pub(crate) fn add_group(&self, fd: RawFd, set: Option<&PollSet>) {
        let mut own = self.own();
        own.of_groups.push(fd);
        if let (Registration::In, Some(set)) = (own.registration, set) {
            set.add_as(fd, self.receive_fd);
        }
        self.has_groups.store(true, Ordering::Relaxed);
    }

    /// The socket of a group is about to be closed.
    pub(crate) fn remove_group(&self, fd: RawFd, set: Option<&PollSet>) {
        let mut own = self.own();
        own.of_groups.retain(|other| *other != fd);
        if let (Registration::In, Some(set)) = (own.registration, set) {
            set.remove(fd);
        }
        self.has_groups.store(!own.of_groups.is_empty(), Ordering::Relaxed);
    }

    /// The service thread's set has the sockets from now on, unless they are closed. It tells of
    /// all by the number of the first. `false` when the system has no room for them.
    pub(crate) fn join(&self, set: &PollSet) -> bool {
        let mut own = self.own();
        if own.registration != Registration::Out {
            return true;
        }
        let add = |fd: &RawFd| set.add_as(*fd, self.receive_fd);
        if add(&self.receive_fd) && own.of_groups.iter().all(add) {
            own.registration = Registration::In;
            return true;
        }
        self.remove_all(&own, set);
        false
    }

    /// The service thread's set has the sockets no more.
    pub(crate) fn leave(&self, set: &PollSet) {
        let mut own = self.own();
        if own.registration == Registration::In {
            self.remove_all(&own, set);
            own.registration = Registration::Out;
        }
    }

    /// The sockets are about to be closed: no set may keep their numbers.
    pub(crate) fn close(&self, set: Option<&PollSet>) {
        let mut own = self.own();
        if let (Registration::In, Some(set)) = (own.registration, set) {
            self.remove_all(&own, set);
        }
        own.registration = Registration::Closed;
    }

    /// Puts `nothing` in the place of the sockets, unless they were being closed at the fork: then
    /// their numbers may belong to other files.
    pub(crate) fn let_go(&self, nothing: &EventFd) {
        let Ok(own) = self.sockets.try_lock() else { return };
        if own.registration != Registration::Closed {
            nothing.take_the_place_of(self.receive_fd);
            own.of_groups.iter().for_each(|fd| nothing.take_the_place_of(*fd));
        }
    }

    fn remove_all(&self, own: &Sockets, set: &PollSet) {
        set.remove(self.receive_fd);
        own.of_groups.iter().for_each(|fd| set.remove(*fd));
    }

    fn own(&self) -> MutexGuard<'_, Sockets> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
