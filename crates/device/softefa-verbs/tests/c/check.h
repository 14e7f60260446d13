/*
 * What every program of this folder needs: checks, one open device, connected queue pairs.
 */
#ifndef CHECK_H
#define CHECK_H

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/efadv.h>
#include <infiniband/verbs.h>

#define CHECK(condition)                                                                       \
	do {                                                                                   \
		if (!(condition)) {                                                            \
			fprintf(stderr, "%s:%d: %s (errno %d: %s)\n", __FILE__, __LINE__,      \
				#condition, errno, strerror(errno));                           \
			exit(1);                                                               \
		}                                                                              \
	} while (0)

#define CHECK_EQ(left, right)                                                                  \
	do {                                                                                   \
		long long left_ = (long long)(left), right_ = (long long)(right);              \
		if (left_ != right_) {                                                         \
			fprintf(stderr, "%s:%d: %s is %lld, not %s = %lld\n", __FILE__,        \
				__LINE__, #left, left_, #right, right_);                       \
			exit(1);                                                               \
		}                                                                              \
	} while (0)

#define QKEY 0x1234567u
#define BUFFER_BYTES (1 << 20)

/* Tries when the receiver is not ready; 7 is for ever. */
static uint8_t rnr_retry = 3;

struct node {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	union ibv_gid gid;
	char *buffer;
};

static inline struct node node_open(void)
{
	struct node node = {0};
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	CHECK(list && count >= 1 && list[0] && !list[count]);
	node.context = ibv_open_device(list[0]);
	CHECK(node.context);
	ibv_free_device_list(list);
	node.pd = ibv_alloc_pd(node.context);
	CHECK(node.pd && node.pd->context == node.context);
	node.buffer = calloc(1, BUFFER_BYTES);
	/* The first generation gives peers nothing. */
	struct efadv_device_attr efa = {.device_caps = EFADV_DEVICE_ATTR_CAPS_RDMA_READ};
	efadv_query_device(node.context, &efa, sizeof(efa));
	int has_read = efa.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_READ;
	node.mr = ibv_reg_mr(node.pd, node.buffer, BUFFER_BYTES,
			     IBV_ACCESS_LOCAL_WRITE | (has_read ? IBV_ACCESS_REMOTE_READ : 0));
	CHECK(node.mr && node.mr->addr == node.buffer && node.mr->length == BUFFER_BYTES);
	CHECK_EQ(ibv_query_gid(node.context, 1, 0, &node.gid), 0);
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.dgid = node.gid};
	node.ah = ibv_create_ah(node.pd, &attr);
	CHECK(node.ah);
	return node;
}

static inline void node_close(struct node *node)
{
	CHECK_EQ(ibv_destroy_ah(node->ah), 0);
	CHECK_EQ(ibv_dereg_mr(node->mr), 0);
	CHECK_EQ(ibv_dealloc_pd(node->pd), 0);
	CHECK_EQ(ibv_close_device(node->context), 0);
	free(node->buffer);
}

static inline struct ibv_qp_init_attr qp_attr(struct ibv_cq *cq)
{
	return (struct ibv_qp_init_attr){
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 16,
			.max_recv_wr = 16,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 32},
		.qp_type = IBV_QPT_DRIVER,
	};
}

static inline void qp_to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .pkey_index = 0, .qkey = QKEY};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
	CHECK_EQ(qp->state, IBV_QPS_INIT);
	attr.qp_state = IBV_QPS_RTR;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	attr.rnr_retry = rnr_retry;
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN | (qp->qp_type == IBV_QPT_DRIVER ? IBV_QP_RNR_RETRY : 0);
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
	CHECK_EQ(qp->state, IBV_QPS_RTS);
}

static inline struct ibv_qp *srd_create(struct node *node, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = qp_attr(cq);
	struct ibv_qp *qp = efadv_create_driver_qp(node->pd, &attr, EFADV_QP_DRIVER_TYPE_SRD);
	CHECK(qp && qp->qp_num != 0 && qp->state == IBV_QPS_RESET);
	qp_to_rts(qp);
	return qp;
}

/* With extended calls for sends. */
static inline struct ibv_qp *srd_create_extended(struct node *node, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr base = qp_attr(cq);
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = base.send_cq,
		.recv_cq = base.recv_cq,
		.cap = base.cap,
		.qp_type = IBV_QPT_DRIVER,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = node->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct efadv_qp_init_attr efa = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
	struct ibv_qp *qp = efadv_create_qp_ex(node->context, &attr, &efa, sizeof(efa));
	CHECK(qp);
	qp_to_rts(qp);
	return qp;
}

static inline uint64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Polls until `count` completions are there, for at most 20 s. */
static inline void poll_n(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	uint64_t deadline = now_ms() + 20000;
	int got = 0;
	while (got < count) {
		int n = ibv_poll_cq(cq, count - got, wc + got);
		CHECK(n >= 0);
		got += n;
		if (now_ms() > deadline) {
			fprintf(stderr, "only %d of %d completions in 20 s\n", got, count);
			exit(1);
		}
	}
}

static inline struct ibv_send_wr send_wr(struct node *node, struct ibv_qp *to, struct ibv_sge *sge)
{
	return (struct ibv_send_wr){
		.wr_id = 1,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = {.ah = node->ah, .remote_qpn = to->qp_num, .remote_qkey = QKEY},
	};
}

static inline void post_recv(struct node *node, struct ibv_qp *qp, uint64_t wr_id, uint64_t offset,
			     uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)node->buffer + offset, length, node->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
	CHECK_EQ(ibv_post_recv(qp, &wr, &bad), 0);
}

#endif
