//! The thread that waits for messages and timers, so that connections go on while programs do something else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cm::Route;
use softefa::{ManagementPacket, Verdict};

use super::manager::Manager;
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
    let (src, dst, bytes) = (datagram.from, datagram.to, datagram.bytes());
    let unpacked = unpack((!datagram.is_checked).then_some((src, dst)), bytes);
    let verdict = match unpacked {
        Ok(_) => Verdict::Message,
        Err(Unfit::Packet) => Verdict::Unfit,
        Err(Unfit::Icrc) => Verdict::Damaged,
    };
    let mut state = manager.lock();
    let device = state.host.ports.adapters.open_at(*dst.ip());
    if let Some(device) = &device {
        device.received_management(ManagementPacket { src, dst, bytes }, verdict);
    }
    let Ok(mad) = unpacked else { return };
    let route = Route { local: (*dst.ip()).into(), peer: datagram.reply_to.into() };
    let now = manager.now();
    let heard = state.ids.handle_mad(now, route, mad);
    if let Some(device) = device.filter(|_| heard.is_err()) {
        device.ignored_management();
    }
    state.settle(now);
}
