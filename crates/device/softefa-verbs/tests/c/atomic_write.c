/*
 * Eight bytes of the peer's memory written in one step, by both ways of posting, and made visible; and what is refused.
 */
#include "connection.h"

#define WORD_AT 4096
#define FIRST 0x0123456789abcdefull
#define SECOND 0xfedcba9876543210ull

/* What rdma-core 47 added. */
#define FLUSH_GLOBAL 1
#define FLUSH_PERSISTENT 2
#define FLUSH_RANGE 0
#define FLUSH_MR 1
#define QP_EX_WITH_FLUSH (1 << 11)
#define ACCESS_FLUSH_GLOBAL (1 << 8)
#define ACCESS_FLUSH_PERSISTENT (1 << 9)
#define WC_FLUSH 8

struct newer_qp_ex {
	struct ibv_qp_ex qp;
	void (*wr_flush)(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t, uint8_t);
};

static struct ibv_wc post(struct node *node, struct end *ends, uint32_t len, uint64_t to, unsigned flags)
{
	struct ibv_sge sge = {.addr = (uintptr_t)node->buffer, .length = len, .lkey = node->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 3, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_WRITE}, *bad;
	wr.send_flags = IBV_SEND_SIGNALED | flags;
	wr.wr.rdma.remote_addr = (uintptr_t)node->buffer + to;
	wr.wr.rdma.rkey = node->mr->rkey;
	CHECK_EQ(ibv_post_send(ends[0].qp, &wr, &bad), 0);
	return outcome(&ends[0], &ends[1]);
}

static uint64_t word(struct node *node)
{
	uint64_t found;
	memcpy(&found, node->buffer + WORD_AT, sizeof(found));
	return found;
}

static void check_written(struct node *node, struct ibv_wc wc, uint64_t expected)
{
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_ATOMIC_WRITE);
	CHECK(word(node) == expected);
	CHECK_EQ(node->buffer[WORD_AT - 1], 0);
	CHECK_EQ(node->buffer[WORD_AT + 8], 0);
}

static int flush_by(uint32_t key, struct node *node, struct end *ends, size_t len, uint8_t kind, uint8_t level)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(ends[0].qp);
	ibv_wr_start(qp);
	qp->wr_id = 5;
	qp->wr_flags = IBV_SEND_SIGNALED;
	((struct newer_qp_ex *)qp)->wr_flush(qp, key, (uintptr_t)node->buffer, len, kind, level);
	return ibv_wr_complete(qp);
}

static int flush(struct node *node, struct end *ends, size_t len, uint8_t kind, uint8_t level)
{
	return flush_by(node->mr->rkey, node, ends, len, kind, level);
}

/* A window grants none, whatever its region does. */
static void check_flush_of_window(struct node *node, struct end *ends, uint8_t level)
{
	struct ibv_mw *mw = ibv_alloc_mw(node->pd, IBV_MW_TYPE_1);
	CHECK(mw);
	struct ibv_mw_bind bind = {.wr_id = 9, .send_flags = IBV_SEND_SIGNALED};
	bind.bind_info = (struct ibv_mw_bind_info){.mr = node->mr, .addr = (uintptr_t)node->buffer, .length = 4096};
	bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
	CHECK_EQ(ibv_bind_mw(ends[1].qp, mw, &bind), 0);
	CHECK_EQ(outcome(&ends[1], &ends[0]).status, IBV_WC_SUCCESS);
	CHECK_EQ(flush_by(mw->rkey, node, ends, 8, FLUSH_GLOBAL, level), 0);
	CHECK_EQ(outcome(&ends[0], &ends[1]).status, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
}

/* A range, the region, kinds and levels that there are not, and what no memory here can be. */
static void check_flushes(struct node *node, struct end *ends)
{
	CHECK_EQ(flush(node, ends, BUFFER_BYTES, FLUSH_GLOBAL, FLUSH_RANGE), 0);
	struct ibv_wc wc = outcome(&ends[0], &ends[1]);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, WC_FLUSH);
	CHECK_EQ(flush(node, ends, 0, FLUSH_GLOBAL, FLUSH_MR), 0);
	CHECK_EQ(outcome(&ends[0], &ends[1]).status, IBV_WC_SUCCESS);
	CHECK_EQ(flush(node, ends, 8, 4, FLUSH_RANGE), EINVAL);
	CHECK_EQ(flush(node, ends, 8, FLUSH_GLOBAL, 2), EINVAL);
	CHECK_EQ(flush(node, ends, 1ull << 32, FLUSH_GLOBAL, FLUSH_RANGE), EINVAL);
	CHECK(!ibv_reg_mr(node->pd, node->buffer, 64, IBV_ACCESS_LOCAL_WRITE | ACCESS_FLUSH_PERSISTENT));
	CHECK_EQ(errno, EOPNOTSUPP);
	CHECK_EQ(flush(node, ends, 8, FLUSH_PERSISTENT, FLUSH_RANGE), 0);
	CHECK_EQ(outcome(&ends[0], &ends[1]).status, IBV_WC_REM_ACCESS_ERR);
}

int main(void)
{
	struct node node = node_open();
	CHECK_EQ(ibv_dereg_mr(node.mr), 0);
	node.mr = ibv_reg_mr(node.pd, node.buffer, BUFFER_BYTES, 
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND |
				     ACCESS_FLUSH_GLOBAL);
	CHECK(node.mr);
	end_send_ops = IBV_QP_EX_WITH_ATOMIC_WRITE | QP_EX_WITH_FLUSH;
	end_access = IBV_ACCESS_REMOTE_WRITE | ACCESS_FLUSH_GLOBAL;
	struct end ends[2];
	connected(&node, ends);

	uint64_t value = FIRST;
	memcpy(node.buffer, &value, sizeof(value));
	check_written(&node, post(&node, ends, 8, WORD_AT, 0), FIRST);
	value = SECOND;
	memcpy(node.buffer, &value, sizeof(value));
	check_written(&node, post(&node, ends, 8, WORD_AT, IBV_SEND_INLINE), SECOND);

	/* The bytes are copied by the call. */
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(ends[0].qp);
	CHECK(qp);
	value = FIRST;
	ibv_wr_start(qp);
	qp->wr_id = 4;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(qp, node.mr->rkey, (uintptr_t)node.buffer + WORD_AT, &value);
	value = SECOND;
	CHECK_EQ(ibv_wr_complete(qp), 0);
	check_written(&node, outcome(&ends[0], &ends[1]), FIRST);

	check_flushes(&node, ends);
	for (uint8_t level = FLUSH_RANGE; level <= FLUSH_MR; level++) {
		gone(ends);
		connected(&node, ends);
		check_flush_of_window(&node, ends, level);
	}
	gone(ends);
	connected(&node, ends);

	/* A length that is none, and a place that no step can write. */
	CHECK_EQ(post(&node, ends, 7, WORD_AT, 0).status, IBV_WC_LOC_LEN_ERR);
	CHECK(word(&node) == FIRST);
	gone(ends);
	connected(&node, ends);
	CHECK_EQ(post(&node, ends, 8, WORD_AT + 4, 0).status, IBV_WC_REM_INV_REQ_ERR);
	CHECK(word(&node) == FIRST);
	gone(ends);
	node_close(&node);
	return 0;
}
