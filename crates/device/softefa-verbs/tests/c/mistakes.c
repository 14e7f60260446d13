/*
 * A program that makes, once each, the mistakes that RDMA programs are known for. It must end well: what is told of
 * them (softefa run --lint) is for whoever reads it, and changes nothing.
 */
#include "check.h"

#define DEPTH 8

struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static struct end end_create(struct node *node, int cqe, uint32_t depth)
{
	struct end end = {.cq = ibv_create_cq(node->context, cqe, NULL, NULL, 0)};
	CHECK(end.cq);
	struct ibv_qp_init_attr init = {
		.send_cq = end.cq,
		.recv_cq = end.cq,
		.cap = {.max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	end.qp = ibv_create_qp(node->pd, &init);
	CHECK(end.qp);
	return end;
}

static void end_init(struct end *end, unsigned access)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	CHECK_EQ(ibv_modify_qp(end->qp, &attr, mask), 0);
}

static int end_rtr(struct node *node, struct end *end, struct end *peer, enum ibv_mtu mtu, int is_global)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu,
		.dest_qp_num = peer->qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 0,
		.ah_attr = {.is_global = is_global, .port_num = 1, .grh = {.dgid = node->gid, .hop_limit = 1}},
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(end->qp, &attr, mask);
}

static void end_rts(struct end *end, uint8_t timeout)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS, .timeout = timeout, .retry_cnt = 7, .rnr_retry = 0, .max_rd_atomic = 1};
	int mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		   IBV_QP_MAX_QP_RD_ATOMIC;
	CHECK_EQ(ibv_modify_qp(end->qp, &attr, mask), 0);
}

static void connect_ends(struct node *node, struct end *ends, enum ibv_mtu second_mtu, unsigned access)
{
	for (int i = 0; i < 2; i++)
		end_init(&ends[i], access);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(end_rtr(node, &ends[i], &ends[!i], i ? second_mtu : IBV_MTU_1024, 1), 0);
	for (int i = 0; i < 2; i++)
		end_rts(&ends[i], 14);
}

static void post(struct node *node, struct end *end, struct end *other, enum ibv_wr_opcode opcode, uint32_t len,
		 uint32_t rkey, int signaled)
{
	struct ibv_sge sge = {.addr = (uintptr_t)node->buffer, .length = len, .lkey = node->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 0x77, .sg_list = &sge, .num_sge = 1, .opcode = opcode};
	wr.send_flags = signaled ? IBV_SEND_SIGNALED : 0;
	wr.wr.rdma.remote_addr = (uintptr_t)node->buffer;
	wr.wr.rdma.rkey = rkey;
	struct ibv_send_wr *bad;
	int error;
	while ((error = ibv_post_send(end->qp, &wr, &bad)) == ENOMEM) {
		/* Both sides are this program's; what is done has no completion. */
		struct ibv_wc none;
		CHECK_EQ(ibv_poll_cq(other->cq, 1, &none), 0);
		CHECK_EQ(ibv_poll_cq(end->cq, 1, &none), 0);
	}
	CHECK_EQ(error, 0);
}

static enum ibv_wc_status outcome(struct end *end, struct end *other)
{
	struct ibv_wc wc;
	for (;;) {
		int found = ibv_poll_cq(end->cq, 1, &wc);
		CHECK(found >= 0);
		if (found && wc.wr_id == 0x77)
			return wc.status;
		struct ibv_wc ignored;
		CHECK(ibv_poll_cq(other->cq, 1, &ignored) >= 0);
	}
}

int main(void)
{
	struct node node = node_open();
	struct end ends[2];
	node.mr = ibv_reg_mr(node.pd, node.buffer, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(node.mr);

	/* No global routing header; then a time of 0 that is the longest, and one that is for ever. */
	for (int i = 0; i < 2; i++) {
		ends[i] = end_create(&node, 64, DEPTH);
		end_init(&ends[i], IBV_ACCESS_REMOTE_WRITE);
	}
	CHECK_EQ(end_rtr(&node, &ends[0], &ends[1], IBV_MTU_1024, 0), EINVAL);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(end_rtr(&node, &ends[i], &ends[!i], IBV_MTU_1024, 1), 0);
	for (int i = 0; i < 2; i++)
		end_rts(&ends[i], 0);

	/* More sends without completion than the queue holds: here they find room. */
	for (int i = 0; i < 2 * DEPTH; i++)
		post(&node, &ends[0], &ends[1], IBV_WR_RDMA_WRITE, 8, node.mr->rkey, 0);
	post(&node, &ends[0], &ends[1], IBV_WR_RDMA_WRITE, 8, node.mr->rkey, 1);
	CHECK_EQ(outcome(&ends[0], &ends[1]), IBV_WC_SUCCESS);

	/* No receive posted, and none is waited for. */
	post(&node, &ends[0], &ends[1], IBV_WR_SEND, 8, 0, 1);
	CHECK_EQ(outcome(&ends[0], &ends[1]), IBV_WC_RNR_RETRY_EXC_ERR);

	/* A key that nobody has. */
	struct end keys[2] = {end_create(&node, 64, DEPTH), end_create(&node, 64, DEPTH)};
	connect_ends(&node, keys, IBV_MTU_1024, IBV_ACCESS_REMOTE_WRITE);
	post(&node, &keys[0], &keys[1], IBV_WR_RDMA_WRITE, 8, node.mr->rkey ^ 0x10100, 1);
	CHECK_EQ(outcome(&keys[0], &keys[1]), IBV_WC_REM_ACCESS_ERR);
	/* It failed by itself: who asks finds that in the queue pair, too. */
	struct ibv_qp_attr found;
	struct ibv_qp_init_attr init;
	CHECK_EQ(keys[0].qp->state, IBV_QPS_RTS);
	CHECK_EQ(ibv_query_qp(keys[0].qp, &found, IBV_QP_STATE, &init), 0);
	CHECK(found.qp_state == IBV_QPS_ERR && keys[0].qp->state == IBV_QPS_ERR);

	/* The region permits it, the queue pair does not. */
	struct end flags[2] = {end_create(&node, 64, DEPTH), end_create(&node, 64, DEPTH)};
	connect_ends(&node, flags, IBV_MTU_1024, 0);
	post(&node, &flags[0], &flags[1], IBV_WR_RDMA_WRITE, 8, node.mr->rkey, 1);
	CHECK(outcome(&flags[0], &flags[1]) != IBV_WC_SUCCESS);

	/* Packets of another size than the peer's. */
	struct end mtus[2] = {end_create(&node, 64, DEPTH), end_create(&node, 64, DEPTH)};
	connect_ends(&node, mtus, IBV_MTU_512, IBV_ACCESS_REMOTE_WRITE);
	post(&node, &mtus[0], &mtus[1], IBV_WR_RDMA_WRITE, 4096, node.mr->rkey, 1);
	CHECK(outcome(&mtus[0], &mtus[1]) != IBV_WC_SUCCESS);

	/* More completions than the queue has entries: nobody polls, and the service thread makes them. */
	struct end small[2] = {end_create(&node, 1, DEPTH), end_create(&node, 64, DEPTH)};
	connect_ends(&node, small, IBV_MTU_1024, IBV_ACCESS_REMOTE_WRITE);
	for (int i = 0; i < 3; i++)
		post(&node, &small[0], &small[1], IBV_WR_RDMA_WRITE, 8, node.mr->rkey, 1);
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	CHECK_EQ(ibv_modify_qp(small[0].qp, &error, IBV_QP_STATE), 0);
	for (int i = 0; i < 3; i++)
		(void)outcome(&small[0], &small[1]);

	/* Everything is as it was: one that does it right. */
	struct end right[2] = {end_create(&node, 64, DEPTH), end_create(&node, 64, DEPTH)};
	connect_ends(&node, right, IBV_MTU_1024, IBV_ACCESS_REMOTE_WRITE);
	post(&node, &right[0], &right[1], IBV_WR_RDMA_WRITE, 4096, node.mr->rkey, 1);
	CHECK_EQ(outcome(&right[0], &right[1]), IBV_WC_SUCCESS);
	return 0;
}
