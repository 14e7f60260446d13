//! Attributes that only RoCE devices have.

use std::ffi::c_int;

use softefa::{Mtu, RoceAttr};

use super::int;
use crate::sys::{self, ibv_device_attr, ibv_odp_caps, ibv_port_attr};

/// The supported flags of `ibv_device_attr`.
const DEVICE_CAP_FLAGS: u32 = sys::IBV_DEVICE_BAD_PKEY_CNTR
    | sys::IBV_DEVICE_BAD_QKEY_CNTR
    | sys::IBV_DEVICE_UD_AV_PORT_ENFORCE
    | sys::IBV_DEVICE_SYS_IMAGE_GUID
    | sys::IBV_DEVICE_RC_RNR_NAK_GEN
    | sys::IBV_DEVICE_SRQ_RESIZE
    | sys::IBV_DEVICE_MEM_WINDOW
    | sys::IBV_DEVICE_XRC
    | sys::IBV_DEVICE_MEM_MGT_EXTENSIONS
    | sys::IBV_DEVICE_MEM_WINDOW_TYPE_2B;

/// The supported extended flags: 8 bytes are written atomically, and written data can be made
/// visible.
pub(super) const CAP_FLAGS_EX: u64 =
    sys::IB_UVERBS_DEVICE_ATOMIC_WRITE | sys::IB_UVERBS_DEVICE_FLUSH_GLOBAL;

/// On-demand paging: nothing is pinned, so all memory is used on demand, including a region of the
/// whole address space.
pub(super) const ODP_CAPS: ibv_odp_caps = ibv_odp_caps {
    general_caps: sys::IBV_ODP_SUPPORT | sys::IBV_ODP_SUPPORT_IMPLICIT,
    rc_odp_caps: ODP_RELIABLE,
    uc_odp_caps: ODP_DATAGRAMS | ODP_WRITE,
    ud_odp_caps: ODP_DATAGRAMS,
};
const ODP_DATAGRAMS: u32 =
    sys::IBV_ODP_SUPPORT_SEND | sys::IBV_ODP_SUPPORT_RECV | sys::IBV_ODP_SUPPORT_SRQ_RECV;
/// For extended connections, too.
pub(super) const ODP_RELIABLE: u32 =
    ODP_DATAGRAMS | ODP_WRITE | sys::IBV_ODP_SUPPORT_READ | sys::IBV_ODP_SUPPORT_ATOMIC;
const ODP_WRITE: u32 = sys::IBV_ODP_SUPPORT_WRITE;

/// The clock of completions counts nanoseconds.
pub(super) const CLOCK_KHZ: u64 = 1_000_000;

/// The local acknowledgement delay as an exponent, 4.096 us x 2^15 = 134 ms, as in rxe.
const LOCAL_CA_ACK_DELAY: u8 = 15;

pub(super) fn add_device(out: &mut ibv_device_attr, roce: &RoceAttr) {
    let rd_atomic = c_int::from(roce.max_rd_atomic);
    out.sys_image_guid_be = out.node_guid_be;
    out.device_cap_flags = DEVICE_CAP_FLAGS;
    out.atomic_cap = sys::IBV_ATOMIC_GLOB;
    out.max_sge_rd = out.max_sge;
    out.max_qp_rd_atom = rd_atomic;
    out.max_qp_init_rd_atom = rd_atomic;
    out.max_res_rd_atom = rd_atomic.saturating_mul(out.max_qp);
    out.max_mw = int(roce.max_mw);
    out.max_srq = int(roce.max_srq);
    out.max_srq_wr = int(roce.max_srq_wr);
    out.max_srq_sge = c_int::from(roce.max_srq_sge);
    out.max_mcast_grp = int(roce.max_mcast_grp);
    out.max_mcast_qp_attach = int(roce.max_mcast_qp_attach);
    out.max_total_mcast_qp_attach = int(roce.max_mcast_grp * roce.max_mcast_qp_attach);
    out.local_ca_ack_delay = LOCAL_CA_ACK_DELAY;
}

pub(super) fn change_port(out: &mut ibv_port_attr, roce: &RoceAttr) {
    out.max_mtu = c_int::from(Mtu::B4096.code());
    out.active_mtu = c_int::from(roce.path_mtu.code());
    out.lmc = 0;
    out.link_layer = sys::IBV_LINK_LAYER_ETHERNET;
    out.flags = sys::IBV_QPF_GRH_REQUIRED;
    out.port_cap_flags = sys::IBV_PORT_CM_SUP | sys::IBV_PORT_IP_BASED_GIDS;
}
