//! The last words of queue pairs: of a device that is closed, of a process that ends.

use std::sync::Arc;

use super::{Lingering, SERVICE, catch_panic, close};
use crate::host;
use crate::ids::DeviceId;
use crate::progress::{Linger, live};

/// The number of times that the last acknowledgements are repeated.
const GOODBYES: usize = 3;

/// Closes the sockets of all queue pairs that linger, because the process needs descriptors;
/// whether there were any.
pub(crate) fn give_up_lingering() -> bool {
    let Some(service) = SERVICE.get() else { return false };
    let given_up: Vec<_> = service.lock().give_up_beyond(0).collect();
    close(&given_up, service.sockets());
    !given_up.is_empty()
}

/// Ends the lingering of `device`, which its program has closed: the last acknowledgements are
/// repeated, as at the end of a process, and the sockets closed.
pub(crate) fn say_farewell(device: DeviceId) {
    let Some(service) = SERVICE.get() else { return };
    let mut ward = service.lock();
    let is_of_device = |l: &Lingering| l.device == device;
    let (given_up, others): (Vec<_>, Vec<_>) =
        std::mem::take(&mut ward.lingering).into_iter().partition(is_of_device);
    ward.lingering = others;
    drop(ward);
    let given_up: Vec<_> = given_up.into_iter().map(|l| l.driven).collect();
    repeat_last_acks(&given_up);
    close(&given_up, service.sockets());
}

/// Repeats the last acknowledgements of all queue pairs, living and lingering. Called on the way
/// out of a process, which a panic must not turn into an abort.
pub(crate) fn say_goodbye() {
    let _ = catch_panic(try_say_goodbye);
}

fn try_say_goodbye() {
    let Some(service) = SERVICE.get() else { return };
    // Not for ever: a thread that was ended inside a turn never gives the lock back.
    let Some(ward) = try_for_a_moment(|| service.ward.try_lock().ok()) else { return };
    let Some(live) = try_for_a_moment(live::try_hold) else { return };
    let lingering = ward.lingering.iter().map(|lingering| Arc::clone(&lingering.driven));
    let all: Vec<_> = live.iter().map(|qp| qp.lingering()).chain(lingering).collect();
    drop((live, ward));
    repeat_last_acks(&all);
}

/// Repeats the last acknowledgements of `all`, several times, because nobody will answer for them.
pub(super) fn repeat_last_acks(all: &[Arc<dyn Linger>]) {
    if all.is_empty() {
        return;
    }
    for round in 0..GOODBYES {
        if round > 0 {
            // Apart, so that one full buffer does not eat all copies.
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        for driven in all {
            try_for_a_moment(|| driven.final_acks(host::now()).then_some(()));
        }
    }
}

/// Tries again for up to a millisecond.
fn try_for_a_moment<T>(attempt: impl FnMut() -> Option<T>) -> Option<T> {
    try_for(1_000_000, attempt)
}

/// Tries again for so long.
pub(super) fn try_for<T>(most_ns: u64, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let start = host::now();
    loop {
        let result = attempt();
        if result.is_some() || host::now().ns_since(start) > most_ns {
            return result;
        }
        std::thread::yield_now();
    }
}
