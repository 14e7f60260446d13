/*
 * A mistake of programs: a thread posts into the session that another thread has open, as libfabric
 * lets it when the program does not serialise what it promised to. Their work requests may be refused
 * or mixed up; the memory of the process and the queue pair survive.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "rdma.h"

#define ROUNDS 20000
#define BATCH 64

static struct node node;
static struct side from, to;
static uint32_t rkey;
static atomic_bool is_over;

static void add(void)
{
	from.ex->wr_id = 5;
	from.ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(from.ex, rkey, (uintptr_t)node.buffer + REMOTE_AT);
	ibv_wr_set_sge(from.ex, node.mr->lkey, (uintptr_t)node.buffer, 8);
	ibv_wr_set_ud_addr(from.ex, node.ah, to.qp->qp_num, QKEY);
}

/* What a session that was not shared may end with, too. */
static int complete(void)
{
	int code = ibv_wr_complete(from.ex);
	CHECK(code == 0 || code == EINVAL || code == ENOMEM);
	return code;
}

static void *intrude(void *unused)
{
	while (!atomic_load(&is_over))
		add();
	return unused;
}

static void drain(struct side *side)
{
	struct ibv_wc wc[16];
	int n;
	do
		n = ibv_poll_cq(ibv_cq_ex_to_cq(side->cq), 16, wc);
	while (n > 0);
	CHECK_EQ(n, 0);
}

int main(void)
{
	node = node_open();
	struct ibv_mr *remote = ibv_reg_mr(node.pd, node.buffer, BUFFER_BYTES,
					   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(remote);
	rkey = remote->rkey;
	from = side_open(&node);
	to = side_open(&node);
	pthread_t intruder;
	CHECK_EQ(pthread_create(&intruder, NULL, intrude, NULL), 0);
	for (int round = 0; round < ROUNDS; round++) {
		ibv_wr_start(from.ex);
		for (int i = 0; i < BATCH; i++)
			add();
		complete();
		drain(&from);
		drain(&to);
	}
	atomic_store(&is_over, 1);
	CHECK_EQ(pthread_join(intruder, NULL), 0);

	/* Nothing of it is left in the next session. */
	uint64_t deadline = now_ms() + 20000;
	int code;
	while ((code = post(&node, &from, &to, WRITE, rkey, node.mr->lkey, 1000)) == ENOMEM) {
		CHECK(now_ms() < deadline);
		drain(&from);
	}
	CHECK_EQ(code, 0);
	CHECK_EQ(ibv_destroy_qp(from.qp), 0);
	CHECK_EQ(ibv_destroy_qp(to.qp), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(from.cq)), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(to.cq)), 0);
	CHECK_EQ(ibv_dereg_mr(remote), 0);
	node_close(&node);
	return 0;
}
