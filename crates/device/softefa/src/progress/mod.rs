//! Who gives turns to queue pairs, and how they are told apart.
//!
//! Completion queues that are polled and the service thread drive queue pairs; regions and address
//! handles that end wait for them. None of them needs to know what a queue pair is: it is [`Live`]
//! until it is destroyed and may [`Linger`] afterwards.

pub(crate) mod held;
pub(crate) mod live;

mod call;
mod due;
mod family;
mod unseen;
mod watch;

use std::net::IpAddr;
use std::sync::Arc;

use srd::Instant;

use crate::ids::{DeviceId, PdId};
use crate::poll_set::PollSet;

pub(crate) use call::Call;
pub(crate) use due::Due;
pub(crate) use family::{Family, Sibling};
pub(crate) use unseen::Unseen;
pub(crate) use watch::Watch;

/// The outcome of a turn of the service thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Served {
    /// The program is at it, perhaps scheduled away in the middle.
    Busy,
    /// Done; the next turn is needed then even if nothing arrives.
    Until(Option<Instant>),
}

/// A queue pair that is not destroyed.
pub(crate) trait Live: Send + Sync {
    /// Its device.
    fn device(&self) -> DeviceId;

    /// Its protection domain.
    fn pd(&self) -> PdId;

    /// Returns where it stands with those who drive it.
    fn watch(&self) -> &Watch;

    /// Returns what is left of it after its destruction.
    fn lingering(&self) -> Arc<dyn Linger>;

    /// A turn on behalf of a polling program. Skipped when another thread is at it.
    fn app_turn(&self, now: Instant);

    /// The program calls something else than posts and polls: what waits for those leaves. False
    /// when another thread is at it, so that it may still wait.
    fn release_held(&self, now: Instant) -> bool;

    /// It has this number, and its device this address.
    fn is_at(&self, device: IpAddr, qpn: u32) -> bool;

    /// Takes what has come, and completes what that ends.
    fn take_in(&self);

    /// Something was done whose completion the program has not polled.
    fn has_unseen_success(&self) -> bool;

    /// A turn of the service thread, unless the program polls and does not sleep.
    fn service_turn(&self, now: Instant) -> Served;

    /// The program goes to sleep until a completion comes: whatever arrives from now on wakes the
    /// service thread, which must be woken at once if this answers `true`.
    fn sleep_soundly(&self) -> bool;

    /// Region `key` is gone; waits for the turn that is under way.
    fn retire(&self, key: u32);

    /// The last address handle for `addr` is gone: what is on its way there is flushed, unless
    /// another thread has made a new one meanwhile. What is posted with that one must not end, and
    /// the rest ends with it.
    fn flush_toward(&self, now: Instant, addr: IpAddr);

    /// A turn panicked, the program's or the service thread's: what it left half done is only good
    /// to be ended.
    fn is_broken(&self) -> bool;

    /// See [`Live::fail`].
    fn has_failed(&self) -> bool;

    /// The adapter broke: what was posted ends as on a device that died (sends with
    /// [`crate::Status::LocalQpInternalError`], receives flushed), nothing more is taken, and
    /// nobody drives the queue pair again. Peers hear nothing, as of hardware that is gone.
    fn fail(&self);

    /// Lets its device take no queue pairs from now on; answers the device's name if that is new.
    fn fail_device(&self) -> Option<String>;
}

/// A destroyed queue pair that still answers for what it accepted, or a living one at its end.
pub(crate) trait Linger: Send + Sync {
    /// Returns where it stands with those who drive it.
    fn watch(&self) -> &Watch;

    /// Acknowledges and refuses. The next turn is due at [`Due::at_ns`]; `false` while another
    /// thread is at it.
    fn linger_turn(&self, now: Instant) -> bool;

    /// Region `key` is gone; waits for the turn that is under way.
    fn retire(&self, key: u32);

    /// Repeats the last acknowledgements, for a process that is about to end; `false` while another
    /// thread is at it.
    fn final_acks(&self, now: Instant) -> bool;

    /// Closes the socket: from now on the kernel answers for this number. `sockets` is the set of
    /// the service thread, if that runs. Idempotent.
    fn close(&self, sockets: Option<&PollSet>);
}
