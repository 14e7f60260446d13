/*
 * The numbers of crates/ffi/verbs-abi/src/layout.rs, checked against the system's headers.
 * rdma-core keeps every offset for ever, except that verbs_context grows at its front
 * and ibv_qp_ex and the efadv structures grow at their end.
 */
#include <stddef.h>

#include <infiniband/efadv.h>
#include <infiniband/verbs.h>

#define SIZE(type, bytes) \
	_Static_assert(sizeof(type) == (bytes), "size of " #type)
#define SIZE_MIN(type, bytes) \
	_Static_assert(sizeof(type) >= (bytes), "size of " #type)
#define AT(type, member, bytes) \
	_Static_assert(offsetof(type, member) == (bytes), #type "." #member)
#define BEFORE_END(type, member, bytes) \
	_Static_assert(sizeof(type) - offsetof(type, member) == (bytes), #type "." #member)

SIZE(struct ibv_device, 664);
AT(struct ibv_device, node_type, 16);
AT(struct ibv_device, transport_type, 20);
AT(struct ibv_device, name, 24);
AT(struct ibv_device, dev_name, 88);
AT(struct ibv_device, dev_path, 152);
AT(struct ibv_device, ibdev_path, 408);
SIZE(struct ibv_context_ops, 256);
AT(struct ibv_context_ops, alloc_mw, 56);
AT(struct ibv_context_ops, bind_mw, 64);
AT(struct ibv_context_ops, poll_cq, 88);
AT(struct ibv_context_ops, req_notify_cq, 96);
AT(struct ibv_context_ops, post_srq_recv, 160);
AT(struct ibv_context_ops, post_send, 200);
AT(struct ibv_context_ops, post_recv, 208);
SIZE(struct ibv_context, 328);
AT(struct ibv_context, ops, 8);
AT(struct ibv_context, cmd_fd, 264);
AT(struct ibv_context, async_fd, 268);
AT(struct ibv_context, num_comp_vectors, 272);
AT(struct ibv_context, abi_compat, 320);
SIZE_MIN(struct verbs_context, 648);
BEFORE_END(struct verbs_context, query_port, 648);
BEFORE_END(struct verbs_context, create_cq_ex, 448);
BEFORE_END(struct verbs_context, query_device_ex, 432);
BEFORE_END(struct verbs_context, create_qp_ex, 384);
BEFORE_END(struct verbs_context, sz, 336);
BEFORE_END(struct verbs_context, context, 328);
SIZE(struct ibv_pd, 16);
SIZE(struct ibv_td, 8);
SIZE(struct ibv_parent_domain_init_attr, 48);
SIZE(struct ibv_mr, 48);
AT(struct ibv_mr, addr, 16);
AT(struct ibv_mr, length, 24);
AT(struct ibv_mr, lkey, 36);
AT(struct ibv_mr, rkey, 40);
SIZE(struct ibv_srq, 128);
AT(struct ibv_srq, pd, 16);
AT(struct ibv_srq, handle, 24);
AT(struct ibv_srq, mutex, 32);
AT(struct ibv_srq, events_completed, 120);
SIZE(struct ibv_srq_attr, 12);
SIZE(struct ibv_srq_init_attr, 24);
SIZE(struct ibv_srq_init_attr_ex, 64);
AT(struct ibv_srq_init_attr_ex, comp_mask, 20);
AT(struct ibv_srq_init_attr_ex, srq_type, 24);
AT(struct ibv_srq_init_attr_ex, pd, 32);
AT(struct ibv_srq_init_attr_ex, tm_cap, 56);
BEFORE_END(struct verbs_context, get_srq_num, 376);
BEFORE_END(struct verbs_context, create_srq_ex, 368);
BEFORE_END(struct verbs_context, open_qp, 392);
BEFORE_END(struct verbs_context, open_xrcd, 360);
BEFORE_END(struct verbs_context, close_xrcd, 352);
AT(struct ibv_srq_init_attr_ex, xrcd, 40);
AT(struct ibv_srq_init_attr_ex, cq, 48);
SIZE(struct ibv_xrcd_init_attr, 12);
AT(struct ibv_xrcd_init_attr, oflags, 8);
SIZE(struct ibv_xrcd, 8);
SIZE(struct ibv_qp_open_attr, 32);
AT(struct ibv_qp_open_attr, qp_num, 4);
AT(struct ibv_qp_open_attr, qp_context, 16);
AT(struct ibv_qp_open_attr, qp_type, 24);
AT(struct ibv_qp_init_attr_ex, xrcd, 72);
AT(struct ibv_qp_ex, wr_set_xrc_srqn, 280);
SIZE(struct ibv_mw, 32);
AT(struct ibv_mw, rkey, 16);
AT(struct ibv_mw, handle, 20);
AT(struct ibv_mw, type, 24);
SIZE(struct ibv_ah, 24);
SIZE(struct ibv_comp_channel, 16);
AT(struct ibv_comp_channel, fd, 8);
AT(struct ibv_comp_channel, refcnt, 12);
SIZE(struct ibv_async_event, 16);
SIZE(struct ibv_gid_entry, 32);
AT(struct ibv_gid_entry, gid_type, 24);
AT(struct ibv_gid_entry, ndev_ifindex, 28);
SIZE(struct ibv_device_attr, 232);
AT(struct ibv_device_attr, node_guid, 64);
AT(struct ibv_device_attr, vendor_id, 96);
AT(struct ibv_device_attr, max_sge, 120);
AT(struct ibv_device_attr, max_ah, 200);
AT(struct ibv_device_attr, max_pkeys, 224);
AT(struct ibv_device_attr, phys_port_cnt, 227);
SIZE_MIN(struct ibv_device_attr_ex, 400);
AT(struct ibv_device_attr_ex, comp_mask, 232);
AT(struct ibv_device_attr_ex, odp_caps, 240);
AT(struct ibv_device_attr_ex, device_cap_flags_ex, 280);
AT(struct ibv_device_attr_ex, tso_caps, 288);
AT(struct ibv_device_attr_ex, xrc_odp_caps, 392);
AT(struct ibv_device_attr_ex, phys_port_cnt_ex, 396);
SIZE(struct ibv_port_attr, 52);
AT(struct ibv_port_attr, max_msg_sz, 20);
AT(struct ibv_port_attr, pkey_tbl_len, 32);
AT(struct ibv_port_attr, active_width, 43);
AT(struct ibv_port_attr, link_layer, 46);
AT(struct ibv_port_attr, port_cap_flags2, 48);
SIZE(struct ibv_ah_attr, 32);
AT(struct ibv_ah_attr, dlid, 24);
AT(struct ibv_ah_attr, is_global, 29);
AT(struct ibv_ah_attr, port_num, 30);
SIZE(struct ibv_grh, 40);
AT(struct ibv_grh, sgid, 8);
SIZE(struct ibv_sge, 16);
SIZE(struct ibv_data_buf, 16);
SIZE(struct ibv_send_wr, 128);
AT(struct ibv_send_wr, bind_mw, 80);
AT(struct ibv_send_wr, bind_mw.rkey, 88);
AT(struct ibv_send_wr, bind_mw.bind_info, 96);
SIZE(struct ibv_mw_bind_info, 32);
AT(struct ibv_mw_bind_info, mw_access_flags, 24);
SIZE(struct ibv_mw_bind, 48);
AT(struct ibv_mw_bind, send_flags, 8);
AT(struct ibv_mw_bind, bind_info, 16);
AT(struct ibv_send_wr, num_sge, 24);
AT(struct ibv_send_wr, opcode, 28);
AT(struct ibv_send_wr, send_flags, 32);
AT(struct ibv_send_wr, imm_data, 36);
AT(struct ibv_send_wr, wr, 40);
AT(struct ibv_send_wr, qp_type, 72);
SIZE(struct ibv_recv_wr, 32);
AT(struct ibv_recv_wr, num_sge, 24);
SIZE(struct ibv_wc, 48);
AT(struct ibv_wc, status, 8);
AT(struct ibv_wc, opcode, 12);
AT(struct ibv_wc, byte_len, 20);
AT(struct ibv_wc, imm_data, 24);
AT(struct ibv_wc, qp_num, 28);
AT(struct ibv_wc, src_qp, 32);
AT(struct ibv_wc, wc_flags, 36);
AT(struct ibv_wc, slid, 42);
SIZE(struct ibv_cq, 128);
AT(struct ibv_cq, cqe, 28);
AT(struct ibv_cq, mutex, 32);
AT(struct ibv_cq, comp_events_completed, 120);
SIZE(struct ibv_cq_ex, 288);
AT(struct ibv_cq_ex, comp_mask, 128);
AT(struct ibv_cq_ex, status, 132);
AT(struct ibv_cq_ex, wr_id, 136);
AT(struct ibv_cq_ex, start_poll, 144);
AT(struct ibv_cq_ex, read_opcode, 168);
AT(struct ibv_cq_ex, read_imm_data, 192);
AT(struct ibv_cq_ex, read_dlid_path_bits, 240);
AT(struct ibv_cq_ex, read_completion_ts, 248);
AT(struct ibv_cq_ex, read_completion_wallclock_ns, 280);
AT(struct ibv_values_ex, raw_clock, 8);
SIZE(struct ibv_cq_init_attr_ex, 56);
AT(struct ibv_cq_init_attr_ex, wc_flags, 32);
AT(struct ibv_cq_init_attr_ex, comp_mask, 40);
AT(struct ibv_cq_init_attr_ex, parent_domain, 48);
SIZE(struct ibv_qp_cap, 20);
SIZE(struct ibv_qp_init_attr, 64);
AT(struct ibv_qp_init_attr, cap, 32);
AT(struct ibv_qp_init_attr, qp_type, 52);
AT(struct ibv_qp_init_attr, sq_sig_all, 56);
SIZE(struct ibv_qp_init_attr_ex, 136);
AT(struct ibv_qp_init_attr_ex, comp_mask, 60);
AT(struct ibv_qp_init_attr_ex, pd, 64);
AT(struct ibv_qp_init_attr_ex, rwq_ind_tbl, 88);
AT(struct ibv_qp_init_attr_ex, send_ops_flags, 128);
SIZE(struct ibv_qp_attr, 144);
AT(struct ibv_qp_attr, qkey, 16);
AT(struct ibv_qp_attr, cap, 36);
AT(struct ibv_qp_attr, ah_attr, 56);
AT(struct ibv_qp_attr, pkey_index, 120);
AT(struct ibv_qp_attr, port_num, 129);
AT(struct ibv_qp_attr, rnr_retry, 132);
AT(struct ibv_qp_attr, rate_limit, 136);
SIZE(struct ibv_qp, 160);
AT(struct ibv_qp, qp_num, 52);
AT(struct ibv_qp, state, 56);
AT(struct ibv_qp, qp_type, 60);
AT(struct ibv_qp, mutex, 64);
AT(struct ibv_qp, events_completed, 152);
SIZE_MIN(struct ibv_qp_ex, 352);
AT(struct ibv_qp_ex, wr_id, 168);
AT(struct ibv_qp_ex, wr_flags, 176);
AT(struct ibv_qp_ex, wr_rdma_read, 216);
AT(struct ibv_qp_ex, wr_send, 240);
AT(struct ibv_qp_ex, wr_set_ud_addr, 272);
AT(struct ibv_qp_ex, wr_set_sge_list, 312);
AT(struct ibv_qp_ex, wr_start, 320);
AT(struct ibv_qp_ex, wr_complete, 328);
AT(struct ibv_qp_ex, wr_atomic_write, 344);
SIZE_MIN(struct efadv_device_attr, 32);
AT(struct efadv_device_attr, inline_buf_size, 20);
AT(struct efadv_device_attr, device_caps, 24);
SIZE_MIN(struct efadv_ah_attr, 16);
AT(struct efadv_ah_attr, ahn, 8);
SIZE_MIN(struct efadv_qp_init_attr, 16);
AT(struct efadv_qp_init_attr, driver_qp_type, 8);
SIZE_MIN(struct efadv_cq, 16);
AT(struct efadv_cq, wc_read_sgid, 8);
SIZE_MIN(struct efadv_cq_init_attr, 16);
AT(struct efadv_cq_init_attr, wc_flags, 8);

int main(void)
{
	return 0;
}
