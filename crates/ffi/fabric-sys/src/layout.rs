//! Sizes and offsets of every structure, asserted at compile time.
//!
//! The numbers are those of libfabric 1.17 on x86-64 and aarch64 Linux; `tests/abi.c` asserts the
//! same numbers against the C headers.

use std::mem::{offset_of, size_of};

/// Asserts the size of a structure and the offset of each of its fields.
macro_rules! layout {
    ($name:ident = $size:literal { $($field:ident @ $offset:literal),* $(,)? }) => {
        const _: () = {
            assert!(size_of::<crate::$name>() == $size);
            $(assert!(offset_of!(crate::$name, $field) == $offset);)*
        };
    };
}

layout!(fi_tx_attr = 80 {
    caps @ 0, mode @ 8, op_flags @ 16, msg_order @ 24, comp_order @ 32, inject_size @ 40,
    size @ 48, iov_limit @ 56, rma_iov_limit @ 64, tclass @ 72,
});
layout!(fi_rx_attr = 64 {
    caps @ 0, mode @ 8, op_flags @ 16, msg_order @ 24, comp_order @ 32, total_buffered_recv @ 40,
    size @ 48, iov_limit @ 56,
});
layout!(fi_ep_attr = 96 {
    type_ @ 0, protocol @ 4, protocol_version @ 8, max_msg_size @ 16, msg_prefix_size @ 24,
    max_order_raw_size @ 32, max_order_war_size @ 40, max_order_waw_size @ 48,
    mem_tag_format @ 56, tx_ctx_cnt @ 64, rx_ctx_cnt @ 72, auth_key_size @ 80, auth_key @ 88,
});
layout!(fi_domain_attr = 192 {
    domain @ 0, name @ 8, threading @ 16, control_progress @ 20, data_progress @ 24,
    resource_mgmt @ 28, av_type @ 32, mr_mode @ 36, mr_key_size @ 40, cq_data_size @ 48,
    cq_cnt @ 56, ep_cnt @ 64, tx_ctx_cnt @ 72, rx_ctx_cnt @ 80, max_ep_tx_ctx @ 88,
    max_ep_rx_ctx @ 96, max_ep_stx_ctx @ 104, max_ep_srx_ctx @ 112, cntr_cnt @ 120,
    mr_iov_limit @ 128, caps @ 136, mode @ 144, auth_key @ 152, auth_key_size @ 160,
    max_err_data @ 168, mr_cnt @ 176, tclass @ 184,
});
layout!(fi_fabric_attr = 32 {
    fabric @ 0, name @ 8, prov_name @ 16, prov_version @ 24, api_version @ 28,
});
layout!(fi_info = 120 {
    next @ 0, caps @ 8, mode @ 16, addr_format @ 24, src_addrlen @ 32, dest_addrlen @ 40,
    src_addr @ 48, dest_addr @ 56, handle @ 64, tx_attr @ 72, rx_attr @ 80, ep_attr @ 88,
    domain_attr @ 96, fabric_attr @ 104, nic @ 112,
});
layout!(fi_link_attr = 40 {
    address @ 0, mtu @ 8, speed @ 16, state @ 24, network_type @ 32,
});
layout!(fi_av_attr = 48 {
    type_ @ 0, rx_ctx_bits @ 4, count @ 8, ep_per_node @ 16, name @ 24, map_addr @ 32, flags @ 40,
});
layout!(fi_cq_attr = 40 {
    size @ 0, flags @ 8, format @ 16, wait_obj @ 20, signaling_vector @ 24, wait_cond @ 28,
    wait_set @ 32,
});
layout!(fi_cq_msg_entry = 24 {
    op_context @ 0, flags @ 8, len @ 16,
});
layout!(fi_cq_tagged_entry = 48 {
    op_context @ 0, flags @ 8, len @ 16, buf @ 24, data @ 32, tag @ 40,
});
layout!(fi_cq_err_entry = 80 {
    op_context @ 0, flags @ 8, len @ 16, buf @ 24, data @ 32, tag @ 40, olen @ 48, err @ 56,
    prov_errno @ 60, err_data @ 64, err_data_size @ 72,
});
layout!(fi_context2 = 64 {
    internal @ 0,
});
layout!(fid = 24 {
    fclass @ 0, context @ 8, ops @ 16,
});
layout!(fi_ops = 56 {
    size @ 0, close @ 8, bind @ 16, control @ 24, ops_open @ 32, tostr @ 40, ops_set @ 48,
});
layout!(fid_fabric = 40 {
    fid @ 0, ops @ 24, api_version @ 32,
});
layout!(fi_ops_fabric = 56 {
    size @ 0, domain @ 8, passive_ep @ 16, eq_open @ 24, wait_open @ 32, trywait @ 40,
    domain2 @ 48,
});
layout!(fid_domain = 40 {
    fid @ 0, ops @ 24, mr @ 32,
});
layout!(fi_ops_domain = 96 {
    size @ 0, av_open @ 8, cq_open @ 16, endpoint @ 24, scalable_ep @ 32, cntr_open @ 40,
    poll_open @ 48, stx_ctx @ 56, srx_ctx @ 64, query_atomic @ 72, query_collective @ 80,
    endpoint2 @ 88,
});
layout!(fi_ops_mr = 32 {
    size @ 0, reg @ 8, regv @ 16, regattr @ 24,
});
layout!(fid_mr = 40 {
    fid @ 0, mem_desc @ 24, key @ 32,
});
layout!(fid_av = 32 {
    fid @ 0, ops @ 24,
});
layout!(fi_ops_av = 64 {
    size @ 0, insert @ 8, insertsvc @ 16, insertsym @ 24, remove @ 32, lookup @ 40, straddr @ 48,
    av_set @ 56,
});
layout!(fid_cq = 32 {
    fid @ 0, ops @ 24,
});
layout!(fi_ops_cq = 64 {
    size @ 0, read @ 8, readfrom @ 16, readerr @ 24, sread @ 32, sreadfrom @ 40, signal @ 48,
    strerror @ 56,
});
layout!(fid_ep = 80 {
    fid @ 0, ops @ 24, cm @ 32, msg @ 40, rma @ 48, tagged @ 56, atomic @ 64, collective @ 72,
});
layout!(fi_ops_cm = 80 {
    size @ 0, setname @ 8, getname @ 16, getpeer @ 24, connect @ 32, listen @ 40, accept @ 48,
    reject @ 56, shutdown @ 64, join @ 72,
});
layout!(fi_ops_msg = 80 {
    size @ 0, recv @ 8, recvv @ 16, recvmsg @ 24, send @ 32, sendv @ 40, sendmsg @ 48,
    inject @ 56, senddata @ 64, injectdata @ 72,
});
layout!(fi_ops_tagged = 80 {
    size @ 0, recv @ 8, recvv @ 16, recvmsg @ 24, send @ 32, sendv @ 40, sendmsg @ 48,
    inject @ 56, senddata @ 64, injectdata @ 72,
});
layout!(fid_nic = 56 {
    fid @ 0, device_attr @ 24, bus_attr @ 32, link_attr @ 40, prov_attr @ 48,
});
layout!(fi_ops_ep = 64 {
    size @ 0, cancel @ 8, getopt @ 16, setopt @ 24, tx_ctx @ 32, rx_ctx @ 40, rx_size_left @ 48,
    tx_size_left @ 56,
});
layout!(fi_ops_rma = 80 {
    size @ 0, read @ 8, readv @ 16, readmsg @ 24, write @ 32, writev @ 40, writemsg @ 48,
    inject @ 56, writedata @ 64, injectdata @ 72,
});
layout!(fi_ops_atomic = 112 {
    size @ 0, write @ 8, writev @ 16, writemsg @ 24, inject @ 32, readwrite @ 40, readwritev @ 48,
    readwritemsg @ 56, compwrite @ 64, compwritev @ 72, compwritemsg @ 80, writevalid @ 88,
    readwritevalid @ 96, compwritevalid @ 104,
});
layout!(fi_iovec = 16 {
    iov_base @ 0, iov_len @ 8,
});
layout!(fi_msg = 48 {
    msg_iov @ 0, desc @ 8, iov_count @ 16, addr @ 24, context @ 32, data @ 40,
});
layout!(fi_msg_tagged = 64 {
    msg_iov @ 0, desc @ 8, iov_count @ 16, addr @ 24, tag @ 32, ignore @ 40, context @ 48,
    data @ 56,
});
layout!(fi_rma_iov = 24 {
    addr @ 0, len @ 8, key @ 16,
});
layout!(fi_msg_rma = 64 {
    msg_iov @ 0, desc @ 8, iov_count @ 16, addr @ 24, rma_iov @ 32, rma_iov_count @ 40,
    context @ 48, data @ 56,
});
