//! Translation between the kernel's structures and those of programs, which librdmacm takes from
//! libibverbs (`tests/c/marshall.c` compares with the system's library).

use crate::sys::{
    ib_user_path_rec, ib_uverbs_ah_attr, ib_uverbs_qp_attr, ibv_ah_attr, ibv_gid, ibv_qp_attr,
    ibv_qp_cap, ibv_sa_path_rec,
};

/// Copies members only: reserved bytes and padding in `out` stay as they were.
fn copy_ah_attr(out: &mut ibv_ah_attr, from: &ib_uverbs_ah_attr) {
    out.grh.dgid = ibv_gid { raw: from.dgid };
    out.grh.flow_label = from.flow_label;
    out.grh.sgid_index = from.sgid_index;
    out.grh.hop_limit = from.hop_limit;
    out.grh.traffic_class = from.traffic_class;
    out.dlid = from.dlid;
    out.sl = from.sl;
    out.src_path_bits = from.src_path_bits;
    out.static_rate = from.static_rate;
    out.is_global = from.is_global;
    out.port_num = from.port_num;
}

fn copy_qp_attr(out: &mut ibv_qp_attr, from: &ib_uverbs_qp_attr) {
    out.cur_qp_state = from.cur_qp_state as i32;
    out.path_mtu = from.path_mtu as i32;
    out.path_mig_state = from.path_mig_state as i32;
    out.qkey = from.qkey;
    out.rq_psn = from.rq_psn;
    out.sq_psn = from.sq_psn;
    out.dest_qp_num = from.dest_qp_num;
    out.qp_access_flags = from.qp_access_flags;
    out.cap = ibv_qp_cap {
        max_send_wr: from.max_send_wr,
        max_recv_wr: from.max_recv_wr,
        max_send_sge: from.max_send_sge,
        max_recv_sge: from.max_recv_sge,
        max_inline_data: from.max_inline_data,
    };
    copy_ah_attr(&mut out.ah_attr, &from.ah_attr);
    copy_ah_attr(&mut out.alt_ah_attr, &from.alt_ah_attr);
    out.pkey_index = from.pkey_index;
    out.alt_pkey_index = from.alt_pkey_index;
    out.en_sqd_async_notify = from.en_sqd_async_notify;
    out.sq_draining = from.sq_draining;
    out.max_rd_atomic = from.max_rd_atomic;
    out.max_dest_rd_atomic = from.max_dest_rd_atomic;
    out.min_rnr_timer = from.min_rnr_timer;
    out.port_num = from.port_num;
    out.timeout = from.timeout;
    out.retry_cnt = from.retry_cnt;
    out.rnr_retry = from.rnr_retry;
    out.alt_port_num = from.alt_port_num;
    out.alt_timeout = from.alt_timeout;
}

/// Copies members that have the same name and type in both path records.
macro_rules! copy_path_members {
    ($out:ident, $from:ident) => {
        $out.dlid_be = $from.dlid_be;
        $out.slid_be = $from.slid_be;
        $out.flow_label_be = $from.flow_label_be;
        $out.hop_limit = $from.hop_limit;
        $out.traffic_class = $from.traffic_class;
        $out.numb_path = $from.numb_path;
        $out.pkey_be = $from.pkey_be;
        $out.sl = $from.sl;
        $out.mtu_selector = $from.mtu_selector;
        $out.rate_selector = $from.rate_selector;
        $out.rate = $from.rate;
        $out.packet_life_time_selector = $from.packet_life_time_selector;
        $out.packet_life_time = $from.packet_life_time;
        $out.preference = $from.preference;
    };
}

fn copy_path_from_kernel(out: &mut ibv_sa_path_rec, from: &ib_user_path_rec) {
    out.dgid = ibv_gid { raw: from.dgid };
    out.sgid = ibv_gid { raw: from.sgid };
    out.raw_traffic = from.raw_traffic as i32;
    out.reversible = from.reversible as i32;
    // The kernel stores the enumeration in 32 bits.
    [out.mtu, ..] = from.mtu.to_le_bytes();
    copy_path_members!(out, from);
}

fn copy_path_to_kernel(out: &mut ib_user_path_rec, from: &ibv_sa_path_rec) {
    // SAFETY: every byte of the union is part of this member.
    (out.dgid, out.sgid) = unsafe { (from.dgid.raw, from.sgid.raw) };
    out.raw_traffic = from.raw_traffic as u32;
    out.reversible = from.reversible as u32;
    out.mtu = u32::from(from.mtu);
    copy_path_members!(out, from);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_copy_ah_attr_from_kern(
    out: *mut ibv_ah_attr,
    from: *const ib_uverbs_ah_attr,
) {
    // SAFETY: the program passes structures of its own, or null.
    if let (Some(out), Some(from)) = unsafe { (out.as_mut(), from.as_ref()) } {
        copy_ah_attr(out, from);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_copy_qp_attr_from_kern(
    out: *mut ibv_qp_attr,
    from: *const ib_uverbs_qp_attr,
) {
    // SAFETY: the program passes structures of its own, or null.
    if let (Some(out), Some(from)) = unsafe { (out.as_mut(), from.as_ref()) } {
        copy_qp_attr(out, from);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_copy_path_rec_from_kern(
    out: *mut ibv_sa_path_rec,
    from: *const ib_user_path_rec,
) {
    // SAFETY: the program passes structures of its own, or null.
    if let (Some(out), Some(from)) = unsafe { (out.as_mut(), from.as_ref()) } {
        copy_path_from_kernel(out, from);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_copy_path_rec_to_kern(
    out: *mut ib_user_path_rec,
    from: *const ibv_sa_path_rec,
) {
    // SAFETY: the program passes structures of its own, or null.
    if let (Some(out), Some(from)) = unsafe { (out.as_mut(), from.as_ref()) } {
        copy_path_to_kernel(out, from);
    }
}
