//! The thread that waits for messages and timers, so that connections go on while programs do
//! something else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cm::Route;
use softefa::mad::{Unfit, unpack};
use softefa::{ManagementPacket, Verdict};

use super::manager::Manager;
use super::socket::{Datagram, Socket, Unopened};
use super::watch::{Ready, Watch};

const STACK_BYTES: usize = 256 << 10;

/// Starts the thread; returns whether the system permits it.
pub(super) fn start(manager: &'static Manager, watch: Arc<Watch>) -> bool {
    softefa::spawn("softefa-cm", STACK_BYTES, move || run(manager, &watch))
}

fn run(manager: &'static Manager, watch: &Watch) {
    // Without descriptors, which a program has closed one by one, there is nothing to wait for.
    while let Ok(ready) = watch.wait() {
        for ready in ready {
            // A panic loses the event that caused it, but not all later ones.
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
        handle_datagram(manager, &socket, datagram);
    }
    let mut state = manager.lock();
    let now = manager.now();
    state.take_refused(now, &socket);
    state.settle(now);
}

/// Returns the message in a datagram, and how to count it.
fn judge(datagram: &Datagram) -> (Option<&[u8]>, Verdict) {
    let packet = match datagram.packet() {
        Ok(packet) => packet,
        Err(Unopened { refusal, is_known }) => {
            return (None, Verdict::Sealed { refusal, is_known });
        }
    };
    match unpack((!datagram.is_checked).then_some((datagram.from, datagram.to)), packet) {
        Ok(mad) => (Some(mad), Verdict::Message),
        Err(Unfit::Packet) => (None, Verdict::Unfit),
        Err(Unfit::Icrc) => (None, Verdict::Damaged),
    }
}

/// Checks a datagram before anything else sees it.
fn handle_datagram(manager: &Manager, socket: &Socket, datagram: &Datagram) {
    let (src, dst, bytes) = (datagram.from, datagram.to, datagram.bytes());
    if let Some(notice) = datagram.notice() {
        return manager.lock().take_notice(manager.now(), socket, &notice, src);
    }
    let (mad, verdict) = judge(datagram);
    let mut state = manager.lock();
    let device = state.host.ports.adapters.open_at(dst.ip());
    if let Some(device) = &device {
        device.received_management(ManagementPacket { src, dst, bytes }, verdict);
    }
    let Some(mad) = mad else {
        if matches!(verdict, Verdict::Sealed { is_known: false, .. }) {
            state.send_notice(manager.now(), socket, datagram);
        }
        return;
    };
    let route = Route { local: dst.ip(), peer: datagram.reply_to };
    let now = manager.now();
    let heard = state.ids.handle_mad(now, route, mad);
    if let Some(device) = device.filter(|_| heard.is_err()) {
        device.ignored_management();
    }
    state.settle(now);
}
