//! The attributes of the device in the structures of the verbs API.

mod roce;

use std::ffi::{c_char, c_int};

use softefa::{DeviceAttr, DeviceCaps, Rate};

use crate::sys::{self, efadv_device_attr, ibv_device_attr, ibv_device_attr_ex, ibv_port_attr};

/// Caps limits that an `int` cannot hold.
fn int(value: u32) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

/// Returns the device attributes; features that the device lacks stay zero.
pub(crate) fn device(nic: &softefa::Device) -> ibv_device_attr {
    let attr = nic.attr();
    // SAFETY: all-zero bytes are a valid structure of numbers.
    let mut out: ibv_device_attr = unsafe { std::mem::zeroed() };
    for (to, from) in out.fw_ver.iter_mut().zip(attr.profile.fw_ver().bytes()) {
        *to = from as c_char;
    }
    out.node_guid_be = u64::from_ne_bytes(nic.guid());
    out.max_mr_size = attr.max_mr_bytes;
    out.page_size_cap = attr.page_size_cap;
    (out.vendor_id, out.vendor_part_id, out.hw_ver) = (attr.vendor_id, attr.part_id, attr.hw_ver);
    out.max_qp = int(attr.max_qp);
    out.max_qp_wr = int(attr.max_sq_wr.min(attr.max_rq_wr));
    out.max_sge = c_int::from(attr.max_sq_sge.min(attr.max_rq_sge));
    out.max_sge_rd = 1;
    out.max_cq = int(attr.max_cq);
    out.max_cqe = int(attr.max_cqe);
    out.max_mr = int(attr.max_mr);
    out.max_pd = int(attr.max_pd);
    out.max_ah = int(attr.max_ah);
    out.max_pkeys = 1;
    out.phys_port_cnt = 1;
    if let Some(of_roce) = &attr.roce {
        roce::add_device(&mut out, of_roce);
    }
    out
}

/// Returns the extended device attributes.
pub(crate) fn device_ex(nic: &softefa::Device) -> ibv_device_attr_ex {
    // SAFETY: all-zero bytes are a valid structure of numbers.
    let mut out: ibv_device_attr_ex = unsafe { std::mem::zeroed() };
    out.orig_attr = device(nic);
    out.phys_port_cnt_ex = u32::from(out.orig_attr.phys_port_cnt);
    out.device_cap_flags_ex = u64::from(out.orig_attr.device_cap_flags);
    if nic.attr().roce.is_some() {
        out.device_cap_flags_ex |= roce::CAP_FLAGS_EX;
        out.odp_caps = roce::ODP_CAPS;
        out.xrc_odp_caps = roce::ODP_RELIABLE;
        out.completion_timestamp_mask = u64::MAX;
        out.hca_core_clock = roce::CLOCK_KHZ;
    }
    out
}

/// Returns the largest verbs MTU that does not exceed the longest message, like the kernel's
/// `ib_mtu_int_to_enum`: programs that segment by it must not exceed the device.
fn mtu(max_msg_bytes: u32) -> c_int {
    match max_msg_bytes {
        4096.. => sys::IBV_MTU_4096,
        2048.. => sys::IBV_MTU_2048,
        1024.. => sys::IBV_MTU_1024,
        512.. => sys::IBV_MTU_512,
        _ => sys::IBV_MTU_256,
    }
}

/// Returns the rate of the port; an EFA reports the default one.
fn rate(attr: &DeviceAttr) -> Rate {
    attr.roce.map_or_else(Rate::default, |roce| roce.rate)
}

/// Returns the rate of the port in units of 100 Mb/s.
pub(crate) fn port_speed(attr: &DeviceAttr) -> u64 {
    u64::from(rate(attr).gbit_per_s) * 10
}

/// Returns the attributes of the port.
pub(crate) fn port(attr: &DeviceAttr) -> ibv_port_attr {
    const PHYS_LINK_UP: u8 = 5;
    let rate = rate(attr);
    let mut out = ibv_port_attr {
        state: sys::IBV_PORT_ACTIVE,
        max_mtu: mtu(attr.max_msg_bytes),
        active_mtu: mtu(attr.max_msg_bytes),
        gid_tbl_len: c_int::from(attr.gids()),
        port_cap_flags: 0,
        max_msg_sz: attr.max_msg_bytes,
        bad_pkey_cntr: 0,
        qkey_viol_cntr: 0,
        pkey_tbl_len: 1,
        lid: 0,
        sm_lid: 0,
        lmc: 1,
        max_vl_num: 1,
        sm_sl: 0,
        subnet_timeout: 0,
        init_type_reply: 0,
        active_width: rate.width_code,
        active_speed: rate.speed_code,
        phys_state: PHYS_LINK_UP,
        link_layer: sys::IBV_LINK_LAYER_UNSPECIFIED,
        flags: 0,
        port_cap_flags2: 0,
    };
    if let Some(of_roce) = &attr.roce {
        roce::change_port(&mut out, of_roce);
    }
    out
}

/// Returns the attributes that only an EFA has.
pub(crate) fn efa(attr: &DeviceAttr) -> efadv_device_attr {
    efadv_device_attr {
        comp_mask: 0,
        max_sq_wr: attr.max_sq_wr,
        max_rq_wr: attr.max_rq_wr,
        max_sq_sge: attr.max_sq_sge,
        max_rq_sge: attr.max_rq_sge,
        inline_buf_size: attr.inline_bytes,
        inline_buf_size_ex: attr.inline_bytes,
        device_caps: caps(attr.caps),
        max_rdma_size: attr.max_rdma_bytes,
    }
}

fn caps(caps: DeviceCaps) -> u32 {
    let bits = [
        (caps.rdma_read, sys::EFADV_DEVICE_ATTR_CAPS_RDMA_READ),
        (caps.rnr_retry, sys::EFADV_DEVICE_ATTR_CAPS_RNR_RETRY),
        (caps.cq_with_sgid, sys::EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID),
        (caps.rdma_write, sys::EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE),
        (caps.unsolicited_write_recv, sys::EFADV_DEVICE_ATTR_CAPS_UNSOLICITED_WRITE_RECV),
    ];
    bits.iter().filter(|(has, _)| *has).fold(0, |all, (_, bit)| all | bit)
}
