//! Attributes of connected queue pairs: checking them against the device, and storing them.

use super::attr::{ModifyError, ModifyQp};
use crate::device::Device;
use crate::qp_state::{QpQuery, QpState};

/// The bits of packet numbers and queue pair numbers; other bits of the attribute are ignored, as
/// on hardware.
const MASK_24: u32 = 0xff_ffff;
/// The payload lengths of a full packet for which verbs has names.
const PATH_MTUS: [u32; 5] = [256, 512, 1024, 2048, 4096];

impl ModifyQp {
    /// Checks that the device can reach the peer as the attributes say.
    pub(super) fn check_path(&self, device: &Device) -> Result<(), ModifyError> {
        if let Some(path) = self.path {
            if !path.is_global {
                return Err(ModifyError::NotGlobal);
            }
            if path.sgid_index >= device.attr().gids() {
                let (attribute, value) = ("sgid_index", u32::from(path.sgid_index));
                return Err(ModifyError::Value { attribute, value });
            }
            let foreign = ModifyError::ForeignGid(path.dgid);
            device.addr_of(path.dgid).ok_or(foreign)?;
        }
        match self.path_mtu_bytes {
            Some(value)
                if !PATH_MTUS.contains(&value) || value > device.attr().packet_max_bytes() =>
            {
                Err(ModifyError::Value { attribute: "path_mtu", value })
            }
            _ => Ok(()),
        }
    }

    /// Stores the given attributes in `attrs`, except state and queue key.
    pub(super) fn apply(&self, attrs: &mut QpQuery) {
        let psn = |given: Option<u32>, before| given.map_or(before, |psn| psn & MASK_24);
        // The EFA driver keeps all of it.
        attrs.sq_psn = self.sq_psn.unwrap_or(attrs.sq_psn);
        attrs.rq_psn = psn(self.rq_psn, attrs.rq_psn);
        attrs.dest_qpn = psn(self.dest_qpn, attrs.dest_qpn);
        attrs.rnr_retry = self.rnr_retry.unwrap_or(attrs.rnr_retry);
        attrs.access = self.access.unwrap_or(attrs.access);
        attrs.path = self.path.unwrap_or(attrs.path);
        attrs.path_mtu_bytes = self.path_mtu_bytes.unwrap_or(attrs.path_mtu_bytes);
        attrs.max_rd_atomic = self.max_rd_atomic.unwrap_or(attrs.max_rd_atomic);
        attrs.max_dest_rd_atomic = self.max_dest_rd_atomic.unwrap_or(attrs.max_dest_rd_atomic);
        attrs.min_rnr_timer = self.min_rnr_timer.unwrap_or(attrs.min_rnr_timer);
        attrs.timeout = self.timeout.unwrap_or(attrs.timeout);
        attrs.retry_cnt = self.retry_cnt.unwrap_or(attrs.retry_cnt);
        let begins_to_drain = self.state == Some(QpState::SendQueueDrained)
            && attrs.state != QpState::SendQueueDrained;
        attrs.sqd_notify = self.sqd_notify.unwrap_or(attrs.sqd_notify && !begins_to_drain);
    }
}
