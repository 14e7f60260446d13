/* A multicast group through verbs alone: its member gets what is sent, says when that completed, and cannot be destroyed. On an
 * EFA both are refused. */
#include <unistd.h>

#include "check.h"

#define GROUP_QPN 0xffffff
#define GRH_BYTES 40
#define WC_FLAGS \
	(IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static uint64_t clock_ns(struct ibv_context *context)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	CHECK_EQ(ibv_query_rt_values_ex(context, &values), 0);
	CHECK_EQ(values.raw_clock.tv_sec, 0);
	return (uint64_t)values.raw_clock.tv_nsec;
}

static void check_clock(struct ibv_context *context)
{
	struct ibv_device_attr_ex ex;
	CHECK_EQ(ibv_query_device_ex(context, NULL, &ex), 0);
	CHECK_EQ(ex.completion_timestamp_mask, -1);
	CHECK_EQ(ex.hca_core_clock, 1000000);
	struct ibv_values_ex nothing = {.comp_mask = 0}, unknown = {.comp_mask = 2};
	CHECK_EQ(ibv_query_rt_values_ex(context, &nothing), 0);
	CHECK_EQ(ibv_query_rt_values_ex(context, &unknown), EINVAL);
	uint64_t before = clock_ns(context);
	CHECK(clock_ns(context) >= before && before > 0);
}

static void check_efa(struct node *node)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	CHECK_EQ(ibv_query_rt_values_ex(node->context, &values), EOPNOTSUPP);
	struct ibv_cq_init_attr_ex init = {.cqe = 16, .wc_flags = WC_FLAGS};
	errno = 0;
	CHECK(!ibv_create_cq_ex(node->context, &init));
	CHECK_EQ(errno, EOPNOTSUPP);
}

static struct ibv_qp *member(struct node *node, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
					.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp *qp = ibv_create_qp(node->pd, &init);
	CHECK(qp);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
	attr.qp_state = IBV_QPS_RTR;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	return qp;
}

/* Sends one message to the group, which its sender is a member of. */
static void exchange(struct node *node, struct ibv_cq_ex *cq, struct ibv_qp *qp, union ibv_gid group)
{
	struct ibv_ah_attr to = {.is_global = 1, .port_num = 1, .grh = {.dgid = group, .hop_limit = 1}};
	struct ibv_ah *ah = ibv_create_ah(node->pd, &to);
	CHECK(ah);
	memcpy(node->buffer, "to all of them", 14);
	struct ibv_sge from = {(uintptr_t)node->buffer, 14, node->mr->lkey};
	struct ibv_sge into = {(uintptr_t)node->buffer + 4096, 100, node->mr->lkey};
	struct ibv_recv_wr recv = {.wr_id = 5, .sg_list = &into, .num_sge = 1}, *bad_recv;
	CHECK_EQ(ibv_post_recv(qp, &recv, &bad_recv), 0);
	uint64_t begin = clock_ns(node->context);
	struct ibv_send_wr send = {.wr_id = 6, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED}, *bad_send;
	send.wr.ud.ah = ah;
	send.wr.ud.remote_qpn = GROUP_QPN;
	send.wr.ud.remote_qkey = QKEY;
	CHECK_EQ(ibv_post_send(qp, &send, &bad_send), 0);
	int seen[2] = {0, 0};
	uint64_t last = begin;
	while (!seen[0] || !seen[1]) {
		struct ibv_poll_cq_attr attr = {0};
		if (ibv_start_poll(cq, &attr))
			continue;
		do {
			CHECK_EQ(cq->status, IBV_WC_SUCCESS);
			CHECK(cq->wr_id == 5 || cq->wr_id == 6);
			seen[cq->wr_id - 5] = 1;
			uint64_t at = ibv_wc_read_completion_ts(cq);
			CHECK(at >= last && at <= clock_ns(node->context));
			last = at;
			uint64_t wall = ibv_wc_read_completion_wallclock_ns(cq);
			CHECK(wall / 1000000000 + 60 > (uint64_t)time(NULL));
			if (cq->wr_id == 5)
				CHECK_EQ(ibv_wc_read_src_qp(cq), qp->qp_num);
		} while (!ibv_next_poll(cq));
		ibv_end_poll(cq);
	}
	CHECK_EQ(memcmp(node->buffer + 4096 + GRH_BYTES, "to all of them", 14), 0);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
}

int main(void)
{
	struct node node = node_open();
	struct ibv_pd *other = ibv_alloc_pd(node.context);
	CHECK(other && other->handle != node.pd->handle && other->handle != 0);
	CHECK_EQ(ibv_dealloc_pd(other), 0);
	CHECK_EQ(ibv_dereg_mr(node.mr), 0);
	node.mr = ibv_reg_mr(node.pd, node.buffer, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE);
	CHECK(node.mr);
	if (node.context->device->transport_type != IBV_TRANSPORT_IB) {
		check_efa(&node);
		node_close(&node);
		return 0;
	}
	check_clock(node.context);
	struct ibv_cq_init_attr_ex init = {.cqe = 16, .wc_flags = WC_FLAGS};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(node.context, &init);
	CHECK(cq);
	struct ibv_qp *qp = member(&node, ibv_cq_ex_to_cq(cq));
	union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, 239, getpid() >> 8, getpid(), 77}};
	CHECK_EQ(ibv_detach_mcast(qp, &group, 0), EINVAL);
	CHECK_EQ(ibv_attach_mcast(qp, &node.gid, 0), EINVAL);
	CHECK_EQ(ibv_attach_mcast(qp, NULL, 0), EINVAL);
	CHECK_EQ(ibv_attach_mcast(qp, &group, 0), 0);
	CHECK_EQ(ibv_attach_mcast(qp, &group, 0), 0);
	exchange(&node, cq, qp, group);
	CHECK_EQ(ibv_destroy_qp(qp), EBUSY);
	CHECK_EQ(ibv_detach_mcast(qp, &group, 0), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	node_close(&node);
	return 0;
}
