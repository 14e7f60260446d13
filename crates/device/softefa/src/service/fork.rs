//! A forked child lets go of the receiving sockets and doors of its parent, so that it does not
//! keep their ports and names, and of its ways to gateways. Peers must hear when nobody is there.

use std::cell::RefCell;
use std::mem::{ManuallyDrop, take};
use std::sync::MutexGuard;

use super::farewell::try_for;
use super::{SERVICE, Ward};
use crate::gateway;
use crate::generation::AroundFork;
use crate::poll_set::EventFd;
use crate::progress::live;
use crate::wire;

/// The longest time that a fork waits for each list: whoever has it may have lost its processor.
const MOST_NS: u64 = 100_000_000;

pub(super) const AROUND_FORK: AroundFork =
    AroundFork { prepare: hold, in_parent: release, in_child: let_go };

/// The lists of queue pairs, which nobody changes while they are held.
struct HeldLists {
    ward: MutexGuard<'static, Ward>,
    live: MutexGuard<'static, live::All>,
}

thread_local! {
    /// Without a destructor: to register one allocates, and a handler may fork in the midst of
    /// `malloc`.
    static HELD: RefCell<ManuallyDrop<Option<HeldLists>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

/// Before the fork: the child finds the lists whole. Not for ever, because the thread that forks
/// may have one of them (in a handler of a signal); the sockets stay with the child then.
fn hold() {
    // What this thread held before an earlier fork means other files by now.
    release();
    let Some(service) = SERVICE.get() else { return };
    let ward = try_for(MOST_NS, || service.ward.try_lock().ok());
    let held = ward.and_then(|ward| {
        let live = try_for(MOST_NS, live::try_hold)?;
        Some(HeldLists { ward, live })
    });
    HELD.with(|place| **place.borrow_mut() = held);
}

fn release() {
    drop(take_held());
}

fn take_held() -> Option<HeldLists> {
    HELD.with(|place| take(&mut **place.borrow_mut()))
}

fn let_go() {
    let held = take_held();
    // Its numbers stay in use, because the child still has the objects they are in.
    let Ok(nothing) = EventFd::placeholder() else { return };
    gateway::KEPT.let_go(&nothing);
    wire::DOORS.let_go(&nothing);
    let Some(held) = held else { return };
    held.live.iter().for_each(|qp| qp.watch().let_go(&nothing));
    held.ward.lingering.iter().for_each(|lingering| lingering.driven.watch().let_go(&nothing));
}
