//! A forked child releases its parent's receiving sockets, ring listeners and gateway connections,
//! so that it keeps neither their ports nor their names. Peers must notice when the parent is gone.

use std::cell::RefCell;
use std::mem::{ManuallyDrop, take};
use std::sync::MutexGuard;

use super::shutdown::try_for;
use super::{SERVICE, State};
use crate::gateway;
use crate::generation::AroundFork;
use crate::poll_set::EventFd;
use crate::progress::live;
use crate::wire;

/// The longest time that a fork waits for each lock, whose holder may not be scheduled.
const MOST_NS: u64 = 100_000_000;

pub(super) const AROUND_FORK: AroundFork =
    AroundFork { prepare: hold_lists, in_parent: release_lists, in_child: release_in_child };

/// The locked lists of queue pairs.
struct HeldLists {
    state: MutexGuard<'static, State>,
    live: MutexGuard<'static, live::All>,
}

thread_local! {
    /// It has no destructor: registering one allocates, and a signal handler may fork inside
    /// `malloc`.
    static HELD: RefCell<ManuallyDrop<Option<HeldLists>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

/// Runs before the fork and locks the lists, so that the child finds them consistent. The wait is
/// bounded, because the forking thread may hold one of the locks itself (in a signal handler); the
/// child then keeps the sockets.
fn hold_lists() {
    // After an earlier fork the lists that this thread locked refer to other files.
    release_lists();
    let Some(service) = SERVICE.get() else { return };
    let state = try_for(MOST_NS, || service.state.try_lock().ok());
    let held = state.and_then(|state| {
        let live = try_for(MOST_NS, live::try_hold)?;
        Some(HeldLists { state, live })
    });
    HELD.with(|place| **place.borrow_mut() = held);
}

fn release_lists() {
    drop(take_held());
}

fn take_held() -> Option<HeldLists> {
    HELD.with(|place| take(&mut **place.borrow_mut()))
}

fn release_in_child() {
    let held = take_held();
    // The descriptor numbers stay in use, because the child still has the objects that own them.
    let Ok(placeholder) = EventFd::placeholder() else { return };
    gateway::GATEWAY_SOCKETS.replace_all(&placeholder);
    wire::RING_LISTENERS.replace_all(&placeholder);
    let Some(held) = held else { return };
    held.live.iter().for_each(|qp| qp.watch().replace_sockets(&placeholder));
    held.state
        .lingering
        .iter()
        .for_each(|lingering| lingering.qp.watch().replace_sockets(&placeholder));
}
