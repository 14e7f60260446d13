//! The last acknowledgements of queue pairs, repeated when a device is closed or the process exits.

use std::sync::Arc;

use super::{Lingering, SERVICE, catch_panic, close};
use crate::host;
use crate::ids::DeviceId;
use crate::progress::{Linger, live};

/// The number of times that the last acknowledgements are repeated.
const ACK_REPETITIONS: usize = 3;

/// Closes all lingering queue pairs, because the process needs descriptors; returns whether there
/// were any.
pub(crate) fn close_lingering() -> bool {
    let Some(service) = SERVICE.get() else { return false };
    let closing: Vec<_> = service.lock().take_beyond(0).collect();
    close(&closing, service.sockets());
    !closing.is_empty()
}

/// Ends the lingering of the queue pairs of `device`, which its program has closed: repeats their
/// last acknowledgements, as at process exit, and closes their sockets.
pub(crate) fn close_device(device: DeviceId) {
    let Some(service) = SERVICE.get() else { return };
    let mut state = service.lock();
    let is_of_device = |l: &Lingering| l.device == device;
    let (closing, others): (Vec<_>, Vec<_>) =
        std::mem::take(&mut state.lingering).into_iter().partition(is_of_device);
    state.lingering = others;
    drop(state);
    let closing: Vec<_> = closing.into_iter().map(|l| l.qp).collect();
    repeat_last_acks(&closing);
    close(&closing, service.sockets());
}

/// Repeats the last acknowledgements of all live and lingering queue pairs. It runs at process
/// exit, where a panic must not become an abort.
pub(crate) fn repeat_acks_at_exit() {
    let _ = catch_panic(try_repeat_acks);
}

fn try_repeat_acks() {
    let Some(service) = SERVICE.get() else { return };
    // The wait is bounded, because a thread that was ended inside a turn never releases the lock.
    let Some(state) = try_for_a_moment(|| service.state.try_lock().ok()) else { return };
    let Some(live) = try_for_a_moment(live::try_hold) else { return };
    let lingering = state.lingering.iter().map(|lingering| Arc::clone(&lingering.qp));
    let all: Vec<_> = live.iter().map(|qp| qp.lingering()).chain(lingering).collect();
    drop((live, state));
    repeat_last_acks(&all);
}

/// Repeats the last acknowledgements of `all` several times, because no retransmission will be
/// answered later.
pub(super) fn repeat_last_acks(all: &[Arc<dyn Linger>]) {
    if all.is_empty() {
        return;
    }
    for round in 0..ACK_REPETITIONS {
        if round > 0 {
            // The rounds are spaced, so that one full buffer does not drop all copies.
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        for qp in all {
            try_for_a_moment(|| qp.final_acks(host::now()).then_some(()));
        }
    }
}

/// Retries for up to a millisecond.
fn try_for_a_moment<T>(attempt: impl FnMut() -> Option<T>) -> Option<T> {
    try_for(1_000_000, attempt)
}

/// Retries for up to `most_ns`.
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
