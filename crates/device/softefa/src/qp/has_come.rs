//! Receives what has arrived for a queue pair and was not read yet, before a change of state.
//!
//! An adapter would have received it on arrival. Here it lies in a socket or in memory until the
//! program or the service thread takes a turn, which neither does while the process is stopped or
//! the machine is busy.

use crate::host;
use crate::shell::{AckTiming, Side};

/// Receives everything from sockets and rings. From an endless flood it takes more than buffers
/// hold.
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

/// Empties the wire for RESET: what has arrived for the connection is dropped, and what waits to be
/// sent is not sent.
pub(super) fn end_connection(side: &mut dyn Side) {
    side.shell_mut().forget_unsent();
    take(side);
    side.shell_mut().has_past = true;
}

/// Empties the wire before the queue pair receives again (RC-5.9): packets for its connection
/// before the last RESET may have the numbers of the next one, so they are dropped. If it had no
/// connection before, only early packets of its peer can have arrived, and they are kept.
pub(super) fn forget_past(side: &mut dyn Side) {
    if std::mem::take(&mut side.shell_mut().has_past) {
        take(side);
    }
}
