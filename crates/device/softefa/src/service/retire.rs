//! Memory that ends: whoever takes it away waits for the turns that do not know of its end.

use super::{Lingering, SERVICE};
use crate::ids::DeviceId;

/// Waits for the turns of the queue pairs of `device` that linger, see [`crate::progress::live`].
pub(super) fn retire_lingering(device: DeviceId, key: u32) {
    let Some(service) = SERVICE.get() else { return };
    let of_device = |lingering: &&Lingering| lingering.device == device;
    let all = service.lock().lingering.iter().filter(of_device).cloned().collect::<Vec<_>>();
    // Not under that lock: a turn may take long.
    all.iter().for_each(|lingering| lingering.driven.retire(key));
}
