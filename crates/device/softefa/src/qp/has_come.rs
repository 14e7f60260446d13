//! What has come for a queue pair and was not read yet, before a change of state.
//!
//! An adapter had taken it when it came. Here it lies in a socket or in memory until the program or
//! the service thread looks, and neither does while the process is stopped or the machine is busy.

use crate::host;
use crate::shell::{AckTiming, Side};

/// Takes all of it, wherever it lies. Of a flood without end it takes more than buffers hold.
#[cold]
pub(super) fn take(side: &mut dyn Side) {
    const TURNS_MAX: usize = 1024;
    side.shell_mut().takes_all = true;
    for _ in 0..TURNS_MAX {
        side.shell_mut().poll_everything();
        side.service_turn(host::now(), AckTiming::AtOnce);
        if side.shell().has_emptied_wire() {
            break;
        }
    }
    side.shell_mut().takes_all = false;
}

/// The queue pair is in RESET: what has come for its connection is dropped, and what waits to leave
/// is not sent.
pub(super) fn end_connection(side: &mut dyn Side) {
    side.shell_mut().forget_unsent();
    take(side);
    side.shell_mut().has_past = true;
}

/// Before the queue pair hears again (RC-5.9): what peers sent to its connection before the last
/// RESET may have the numbers of the next one, and in this state it is dropped. For one without a
/// past nothing can have come but what its peer sent too early, which is kept.
pub(super) fn forget_past(side: &mut dyn Side) {
    if std::mem::take(&mut side.shell_mut().has_past) {
        take(side);
    }
}
