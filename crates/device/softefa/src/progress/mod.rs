//! Progress: who drives queue pairs, and what a driver needs to know of one.
//!
//! Polled completion queues and the service thread drive queue pairs; the end of a region or an
//! address handle waits for their turns. None of them depends on the type of a queue pair: it is
//! [`Live`] until it is destroyed, and may [`Linger`] afterwards.

pub(crate) mod held;
pub(crate) mod live;

mod due;
mod family;
mod unpolled_writes;
mod wakeup;
mod watch;

use std::net::IpAddr;
use std::sync::Arc;

use srd::Instant;

use crate::ids::{DeviceId, PdId};
use crate::poll_set::PollSet;

pub(crate) use due::Due;
pub(crate) use family::{Family, Sibling};
pub(crate) use unpolled_writes::UnpolledWrites;
pub(crate) use wakeup::Wakeup;
pub(crate) use watch::Watch;

/// The outcome of a turn of the service thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Served {
    /// The program polls, or another thread holds the lock, perhaps without being scheduled.
    Busy,
    /// The turn is done; the next one is needed then even if nothing arrives.
    Until(Option<Instant>),
}

/// A queue pair that is not destroyed.
pub(crate) trait Live: Send + Sync {
    /// Returns the device.
    fn device(&self) -> DeviceId;

    /// Returns the protection domain.
    fn pd(&self) -> PdId;

    /// Returns the state of its sockets and timers that its drivers share.
    fn watch(&self) -> &Watch;

    /// Returns the part that outlives its destruction.
    fn lingering(&self) -> Arc<dyn Linger>;

    /// Takes a turn for a polling program, unless another thread holds the lock.
    fn app_turn(&self, now: Instant);

    /// Sends what waits for the next post or poll, because the program calls something else.
    /// Returns false if another thread holds the lock, so that something may still wait.
    fn release_held(&self, now: Instant) -> bool;

    /// Returns true if it has this number and its device has this address.
    fn is_at(&self, device: IpAddr, qpn: u32) -> bool;

    /// Receives what has arrived, and completes the work requests that this ends.
    fn take_in(&self);

    /// Returns true if a successful completion has not been polled yet.
    fn has_unseen_success(&self) -> bool;

    /// Takes a turn of the service thread, unless the program polls and does not sleep.
    fn service_turn(&self, now: Instant) -> Served;

    /// Prepares for a program that sleeps until a completion: from now on every arrival wakes the
    /// service thread. Returns true if the thread must be woken at once.
    fn end_light_sleep(&self) -> bool;

    /// Retires region `key`, and waits for the turn in progress.
    fn retire(&self, key: u32);

    /// Flushes the work requests to `addr`, whose last address handle is gone, unless another
    /// thread has made a new one meanwhile: work requests that are posted with the new handle must
    /// not end, and the others end with it.
    fn flush_toward(&self, now: Instant, addr: IpAddr);

    /// Returns true if a turn has panicked. Its state may be inconsistent, so it can only be
    /// failed.
    fn is_broken(&self) -> bool;

    /// Returns true after [`Live::fail`].
    fn has_failed(&self) -> bool;

    /// Fails the queue pair, because the adapter is broken: posted work requests end as on a dead
    /// device (sends with [`crate::Status::LocalQpInternalError`], receives flushed), posts are
    /// refused, and it is not driven again. Peers get no notice, as from hardware that is gone.
    fn fail(&self);

    /// Makes its device refuse new queue pairs from now on; returns the device's name on the first
    /// call.
    fn fail_device(&self) -> Option<String>;
}

/// A destroyed queue pair that lingers, or a live one at process exit.
pub(crate) trait Linger: Send + Sync {
    /// Returns the state of its sockets and timers that its drivers share.
    fn watch(&self) -> &Watch;

    /// Acknowledges and refuses what arrives. The next turn is due at [`Due::at_ns`]; returns false
    /// if another thread holds the lock.
    fn linger_turn(&self, now: Instant) -> bool;

    /// Retires region `key`, and waits for the turn in progress.
    fn retire(&self, key: u32);

    /// Repeats the last acknowledgements before the process exits; returns false if another thread
    /// holds the lock.
    fn final_acks(&self, now: Instant) -> bool;

    /// Closes the socket, so that the kernel answers for this number. `sockets` is the poll set of
    /// the service thread, if it runs. Calling it twice is harmless.
    fn close(&self, sockets: Option<&PollSet>);
}
