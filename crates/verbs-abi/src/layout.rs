//! Sizes and offsets of the C ABI; `tests/c/layout.c` holds the same numbers for the C side.

use std::mem::{offset_of, size_of};

use super::*;

macro_rules! size {
    ($($type:ty => $bytes:expr;)*) => { $(const _: () = assert!(size_of::<$type>() == $bytes);)* };
}

macro_rules! at {
    ($($type:ty, $($member:ident).+ => $bytes:expr;)*) => {
        $(const _: () = assert!(offset_of!($type, $($member).+) == $bytes);)*
    };
}

size! {
    ibv_device => 664;
    ibv_context_ops => 256;
    ibv_context => 328;
    verbs_context => 648;
    ibv_pd => 16;
    ibv_td => 8;
    ibv_parent_domain_init_attr => 48;
    ibv_mr => 48;
    ibv_ah => 24;
    ibv_comp_channel => 16;
    ibv_async_event => 16;
    ibv_gid_entry => 32;
    ibv_device_attr => 232;
    ibv_device_attr_ex => 400;
    ibv_port_attr => 52;
    ibv_ah_attr => 32;
    ibv_grh => 40;
    ibv_sge => 16;
    ibv_data_buf => 16;
    ibv_send_wr => 128;
    ibv_recv_wr => 32;
    ibv_wc => 48;
    ibv_cq => 128;
    ibv_cq_ex => 288;
    ibv_cq_init_attr_ex => 56;
    ibv_qp_cap => 20;
    ibv_qp_init_attr => 64;
    ibv_qp_init_attr_ex => 136;
    ibv_qp_attr => 144;
    ibv_qp => 160;
    ibv_qp_ex => 384;
    efadv_device_attr => 32;
    efadv_ah_attr => 16;
    efadv_qp_init_attr => 16;
    efadv_cq => 24;
    efadv_cq_init_attr => 16;
}

at! {
    ibv_device, node_type => 16;
    ibv_device, transport_type => 20;
    ibv_device, name => 24;
    ibv_device, dev_name => 88;
    ibv_device, dev_path => 152;
    ibv_device, ibdev_path => 408;
    ibv_context_ops, alloc_mw => 56;
    ibv_context_ops, bind_mw => 64;
    ibv_context_ops, poll_cq => 88;
    ibv_context_ops, req_notify_cq => 96;
    ibv_context_ops, post_srq_recv => 160;
    ibv_context_ops, post_send => 200;
    ibv_context_ops, post_recv => 208;
    ibv_context, ops => 8;
    ibv_context, cmd_fd => 264;
    ibv_context, async_fd => 268;
    ibv_context, num_comp_vectors => 272;
    ibv_context, abi_compat => 320;
    verbs_context, query_port => 0;
    verbs_context, create_cq_ex => 200;
    verbs_context, query_device_ex => 216;
    verbs_context, create_qp_ex => 264;
    verbs_context, sz => 312;
    verbs_context, context => 320;
    ibv_mr, addr => 16;
    ibv_mr, length => 24;
    ibv_mr, lkey => 36;
    ibv_mr, rkey => 40;
    ibv_comp_channel, fd => 8;
    ibv_comp_channel, refcnt => 12;
    ibv_gid_entry, gid_type => 24;
    ibv_gid_entry, ndev_ifindex => 28;
    ibv_device_attr, node_guid_be => 64;
    ibv_device_attr, vendor_id => 96;
    ibv_device_attr, max_sge => 120;
    ibv_device_attr, max_ah => 200;
    ibv_device_attr, max_pkeys => 224;
    ibv_device_attr, phys_port_cnt => 227;
    ibv_device_attr_ex, comp_mask => 232;
    ibv_device_attr_ex, phys_port_cnt_ex => 396;
    ibv_port_attr, max_msg_sz => 20;
    ibv_port_attr, pkey_tbl_len => 32;
    ibv_port_attr, active_width => 43;
    ibv_port_attr, link_layer => 46;
    ibv_port_attr, port_cap_flags2 => 48;
    ibv_ah_attr, dlid => 24;
    ibv_ah_attr, is_global => 29;
    ibv_ah_attr, port_num => 30;
    ibv_grh, sgid => 8;
    ibv_send_wr, num_sge => 24;
    ibv_send_wr, opcode => 28;
    ibv_send_wr, send_flags => 32;
    ibv_send_wr, imm_data_be => 36;
    ibv_send_wr, wr => 40;
    ibv_send_wr, xrc_remote_srqn => 72;
    ibv_recv_wr, num_sge => 24;
    ibv_wc, status => 8;
    ibv_wc, opcode => 12;
    ibv_wc, byte_len => 20;
    ibv_wc, imm_data_be => 24;
    ibv_wc, qp_num => 28;
    ibv_wc, src_qp => 32;
    ibv_wc, wc_flags => 36;
    ibv_wc, slid => 42;
    ibv_cq, cqe => 28;
    ibv_cq, mutex => 32;
    ibv_cq, comp_events_completed => 120;
    ibv_cq_ex, comp_mask => 128;
    ibv_cq_ex, status => 132;
    ibv_cq_ex, wr_id => 136;
    ibv_cq_ex, start_poll => 144;
    ibv_cq_ex, read_opcode => 168;
    ibv_cq_ex, read_imm_data => 192;
    ibv_cq_ex, read_dlid_path_bits => 240;
    ibv_cq_ex, read_completion_wallclock_ns => 280;
    ibv_cq_init_attr_ex, wc_flags => 32;
    ibv_cq_init_attr_ex, comp_mask => 40;
    ibv_cq_init_attr_ex, parent_domain => 48;
    ibv_qp_init_attr, cap => 32;
    ibv_qp_init_attr, qp_type => 52;
    ibv_qp_init_attr, sq_sig_all => 56;
    ibv_qp_init_attr_ex, comp_mask => 60;
    ibv_qp_init_attr_ex, pd => 64;
    ibv_qp_init_attr_ex, rwq_ind_tbl => 88;
    ibv_qp_init_attr_ex, send_ops_flags => 128;
    ibv_qp_attr, qkey => 16;
    ibv_qp_attr, cap => 36;
    ibv_qp_attr, ah_attr => 56;
    ibv_qp_attr, pkey_index => 120;
    ibv_qp_attr, port_num => 129;
    ibv_qp_attr, rnr_retry => 132;
    ibv_qp_attr, rate_limit => 136;
    ibv_qp, qp_num => 52;
    ibv_qp, state => 56;
    ibv_qp, qp_type => 60;
    ibv_qp, mutex => 64;
    ibv_qp, events_completed => 152;
    ibv_qp_ex, wr_id => 168;
    ibv_qp_ex, wr_flags => 176;
    ibv_qp_ex, wr_rdma_read => 216;
    ibv_qp_ex, wr_send => 240;
    ibv_qp_ex, wr_set_ud_addr => 272;
    ibv_qp_ex, wr_set_sge_list => 312;
    ibv_qp_ex, wr_start => 320;
    ibv_qp_ex, wr_complete => 328;
    ibv_qp_ex, wr_atomic_write => 344;
    efadv_device_attr, inline_buf_size => 20;
    efadv_device_attr, device_caps => 24;
    efadv_ah_attr, ahn => 8;
    efadv_qp_init_attr, driver_qp_type => 8;
    efadv_cq, wc_read_sgid => 8;
    efadv_cq_init_attr, wc_flags => 8;
}
