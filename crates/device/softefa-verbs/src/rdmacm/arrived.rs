//! Queue pairs whose first data has arrived, to be reported to the connection manager (CM-4.4).
//!
//! They are reported with the lock of the queue pair held, so nothing here waits for the manager.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use softefa::PerProcess;

use super::watch::Watch;

#[derive(Default)]
struct Arrived {
    list: Vec<(IpAddr, u32)>,
    /// The watch of the thread that handles them.
    watch: Option<Arc<Watch>>,
}

static ARRIVED: PerProcess<Mutex<Arrived>> = PerProcess::new();

fn lock() -> MutexGuard<'static, Arrived> {
    ARRIVED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reports later arrivals to the thread behind `watch`.
pub(super) fn set_watch(watch: &Arc<Watch>) {
    lock().watch = Some(Arc::clone(watch));
    softefa::on_first_data(note);
}

fn note(device: IpAddr, qpn: u32) {
    let mut arrived = lock();
    if let Some(watch) = arrived.watch.clone() {
        arrived.list.push((device, qpn));
        watch.set_timer(Duration::ZERO);
    }
}

/// Takes all queue pairs.
pub(super) fn take() -> Vec<(IpAddr, u32)> {
    std::mem::take(&mut lock().list)
}

/// Wakes the thread again: its timer may have been set to a later time since.
pub(super) fn wake_thread() {
    let arrived = lock();
    if let Some(watch) = arrived.watch.as_ref().filter(|_| !arrived.list.is_empty()) {
        watch.set_timer(Duration::ZERO);
    }
}
