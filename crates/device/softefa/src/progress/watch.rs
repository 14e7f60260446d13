//! The state that a queue pair shares with its drivers: its sockets, its timer, and its writes.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Due, UnpolledWrites};
use crate::poll_set::{EventFd, PollSet};

/// Whether the sockets are in the service thread's set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Registration {
    Out,
    In,
    Closed,
}

/// The sockets of a queue pair. The number of a closed socket may be reused at once, so the numbers
/// are used under the lock of this only.
#[derive(Debug)]
struct Sockets {
    registration: Registration,
    /// The sockets of its multicast groups.
    of_groups: Vec<RawFd>,
}

/// What the drivers of a queue pair need to know of it.
#[derive(Debug)]
pub(crate) struct Watch {
    receive_fd: RawFd,
    sockets: Mutex<Sockets>,
    has_groups: AtomicBool,
    /// The time at which it needs a turn.
    pub(crate) due: Due,
    /// Whether the program polls for what peers write.
    pub(crate) unpolled_writes: UnpolledWrites,
}

impl Watch {
    /// Makes the state of a queue pair that receives from `receive_fd`.
    pub(crate) fn new(receive_fd: RawFd) -> Self {
        let sockets = Sockets { registration: Registration::Out, of_groups: Vec::new() };
        let (due, unpolled_writes) = (Due::new(), UnpolledWrites::default());
        let has_groups = AtomicBool::new(false);
        Self { receive_fd, sockets: Mutex::new(sockets), has_groups, due, unpolled_writes }
    }

    /// Returns the descriptor that it receives from.
    pub(crate) fn receive_fd(&self) -> RawFd {
        self.receive_fd
    }

    /// Returns true if it also has sockets of multicast groups.
    #[inline]
    pub(crate) fn has_groups(&self) -> bool {
        self.has_groups.load(Ordering::Relaxed)
    }

    /// Adds the socket of a group. `set` is the poll set of the service thread.
    pub(crate) fn add_group(&self, fd: RawFd, set: Option<&PollSet>) {
        let mut own = self.own();
        own.of_groups.push(fd);
        if let (Registration::In, Some(set)) = (own.registration, set) {
            set.add_as(fd, self.receive_fd);
        }
        self.has_groups.store(true, Ordering::Relaxed);
    }

    /// Removes the socket of a group, which is about to be closed.
    pub(crate) fn remove_group(&self, fd: RawFd, set: Option<&PollSet>) {
        let mut own = self.own();
        own.of_groups.retain(|other| *other != fd);
        if let (Registration::In, Some(set)) = (own.registration, set) {
            set.remove(fd);
        }
        self.has_groups.store(!own.of_groups.is_empty(), Ordering::Relaxed);
    }

    /// Adds the sockets to the service thread's set, unless they are closed. All of them are
    /// reported as `receive_fd`. Returns false if the system has no room for them.
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

    /// Removes the sockets from the service thread's set.
    pub(crate) fn leave(&self, set: &PollSet) {
        let mut own = self.own();
        if own.registration == Registration::In {
            self.remove_all(&own, set);
            own.registration = Registration::Out;
        }
    }

    /// Removes the sockets from the service thread's set for good, because they are about to be
    /// closed.
    pub(crate) fn close(&self, set: Option<&PollSet>) {
        let mut own = self.own();
        if let (Registration::In, Some(set)) = (own.registration, set) {
            self.remove_all(&own, set);
        }
        own.registration = Registration::Closed;
    }

    /// Replaces the sockets by `placeholder`, unless they were being closed at the fork: then their
    /// numbers may belong to other files.
    pub(crate) fn replace_sockets(&self, placeholder: &EventFd) {
        let Ok(own) = self.sockets.try_lock() else { return };
        if own.registration != Registration::Closed {
            placeholder.replace(self.receive_fd);
            own.of_groups.iter().for_each(|fd| placeholder.replace(*fd));
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
