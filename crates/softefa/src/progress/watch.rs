//! Where a queue pair stands with the service thread and the completion queues that drive it.

use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Due, Unseen};
use crate::poll_set::{EventFd, PollSet};

/// Where the socket stands with the service thread's set. A closed socket's number may belong to
/// another file at once, so the number is used under this lock only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Registration {
    Out,
    In,
    Closed,
}

/// What tells when a queue pair needs a turn.
#[derive(Debug)]
pub(crate) struct Watch {
    receive_fd: RawFd,
    registration: Mutex<Registration>,
    /// When it needs a turn.
    pub(crate) due: Due,
    /// Whether somebody polls for what peers write.
    pub(crate) unseen: Unseen,
}

impl Watch {
    /// Of a queue pair that receives from `receive_fd`.
    pub(crate) fn new(receive_fd: RawFd) -> Self {
        let (registration, due) = (Mutex::new(Registration::Out), Due::new());
        Self { receive_fd, registration, due, unseen: Unseen::default() }
    }

    /// Where it receives from.
    pub(crate) fn receive_fd(&self) -> RawFd {
        self.receive_fd
    }

    /// The service thread's set has the socket from now on, unless it is closed.
    pub(crate) fn join(&self, sockets: &PollSet) {
        let mut registration = self.registration();
        if *registration == Registration::Out {
            sockets.add(self.receive_fd);
            *registration = Registration::In;
        }
    }

    /// The service thread's set has the socket no more.
    pub(crate) fn leave(&self, sockets: &PollSet) {
        let mut registration = self.registration();
        if *registration == Registration::In {
            sockets.remove(self.receive_fd);
            *registration = Registration::Out;
        }
    }

    /// The socket is about to be closed: no set may keep its number.
    pub(crate) fn close(&self, sockets: Option<&PollSet>) {
        let mut registration = self.registration();
        if let (Registration::In, Some(sockets)) = (*registration, sockets) {
            sockets.remove(self.receive_fd);
        }
        *registration = Registration::Closed;
    }

    /// Puts `nothing` in the place of the socket, unless that was being closed at the fork: then its
    /// number may belong to another file.
    pub(crate) fn let_go(&self, nothing: &EventFd) {
        if let Ok(registration) = self.registration.try_lock()
            && *registration != Registration::Closed
        {
            nothing.take_the_place_of(self.receive_fd);
        }
    }

    fn registration(&self) -> MutexGuard<'_, Registration> {
        self.registration.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
