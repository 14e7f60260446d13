//! The thread that waits for messages and timers, so that connections go on while programs do something else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cm::Route;

use super::manager::{Counts, Manager};
use super::packet::{Unfit, unpack};
use super::socket::Datagram;
use super::watch::{Ready, Watch};

const STACK_BYTES: usize = 256 << 10;

/// Whether the system gives a thread.
pub(super) fn start(manager: &'static Manager, watch: Arc<Watch>) -> bool {
    softefa::spawn("softefa-cm", STACK_BYTES, move || run(manager, &watch))
}

fn run(manager: &'static Manager, watch: &Watch) {
    // Without descriptors, which a program has closed one by one, there is nothing to wait for.
    while let Ok(ready) = watch.wait() {
        for ready in ready {
            // A mistake of ours costs what it happened in, and not all that come later.
            let _ = catch_unwind(AssertUnwindSafe(|| serve(manager, ready)));
        }
    }
}

fn serve(manager: &Manager, ready: Ready) {
    let fd = match ready {
        Ready::Timer => return manager.lock().on_timer(manager.now()),
        Ready::Socket(fd) => fd,
    };
    let Some(socket) = manager.lock().host.ports.socket(fd).cloned() else { return };
    let mut came = Vec::new();
    socket.receive(&mut came);
    for datagram in &came {
        hear(manager, datagram);
    }
    let mut state = manager.lock();
    let now = manager.now();
    state.take_refused(now, &socket);
    state.settle(now);
}

/// Checks a datagram before anything else learns of it.
fn hear(manager: &Manager, datagram: &Datagram) {
    let counts = &manager.counts;
    let mad = match unpack(datagram.from, datagram.to, datagram.bytes()) {
        Ok(mad) => mad,
        Err(Unfit::Packet) => return Counts::add(&counts.unfit),
        Err(Unfit::Icrc) => return Counts::add(&counts.damaged),
    };
    Counts::add(&counts.received);
    let route = Route { local: (*datagram.to.ip()).into(), peer: datagram.from.into() };
    let mut state = manager.lock();
    let now = manager.now();
    if state.ids.handle_mad(now, route, mad).is_err() {
        Counts::add(&counts.dropped);
    }
    state.settle(now);
}
