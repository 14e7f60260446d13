/*
 * Two queue pairs of one device with a reliable connection between them.
 */
#ifndef CONNECTION_H
#define CONNECTION_H

#include "check.h"

/* What a program asks of its queue pairs. */
static uint64_t end_send_ops;
static unsigned end_access = IBV_ACCESS_REMOTE_WRITE;

struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static inline struct end end_create(struct node *node)
{
	struct end end = {.cq = ibv_create_cq(node->context, 16, NULL, NULL, 0)};
	CHECK(end.cq);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = end.cq,
		.recv_cq = end.cq,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = node->pd,
		.send_ops_flags = end_send_ops,
	};
	end.qp = ibv_create_qp_ex(node->context, &init);
	CHECK(end.qp);
	return end;
}

static inline void connect_end(struct node *node, struct end *end, struct end *peer)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = end_access};
	CHECK_EQ(ibv_modify_qp(end->qp, &attr,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = node->gid, .hop_limit = 1}},
	};
	CHECK_EQ(ibv_modify_qp(end->qp, &attr,
			       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), 0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	CHECK_EQ(ibv_modify_qp(end->qp, &attr,
			       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			       IBV_QP_MAX_QP_RD_ATOMIC), 0);
}

static inline struct ibv_wc outcome(struct end *end, struct end *other)
{
	struct ibv_wc wc, ignored;
	for (;;) {
		int found = ibv_poll_cq(end->cq, 1, &wc);
		CHECK(found >= 0);
		if (found)
			return wc;
		CHECK(ibv_poll_cq(other->cq, 1, &ignored) >= 0);
	}
}

static inline void connected(struct node *node, struct end *ends)
{
	for (int i = 0; i < 2; i++)
		ends[i] = end_create(node);
	for (int i = 0; i < 2; i++)
		connect_end(node, &ends[i], &ends[!i]);
}

static inline void gone(struct end *ends)
{
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(ibv_destroy_qp(ends[i].qp), 0);
		CHECK_EQ(ibv_destroy_cq(ends[i].cq), 0);
	}
}

#endif
