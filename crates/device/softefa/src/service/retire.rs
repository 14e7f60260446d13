//! The end of memory regions: whoever removes one waits for the turns that may still use it.

use super::{Lingering, SERVICE};
use crate::ids::DeviceId;

/// Waits for the turns of the lingering queue pairs of `device`; see [`crate::progress::live`].
pub(super) fn retire_lingering(device: DeviceId, key: u32) {
    let Some(service) = SERVICE.get() else { return };
    let of_device = |lingering: &&Lingering| lingering.device == device;
    let all = service.lock().lingering.iter().filter(of_device).cloned().collect::<Vec<_>>();
    // The lock is released before, because a turn may take long.
    all.iter().for_each(|lingering| lingering.qp.retire(key));
}
