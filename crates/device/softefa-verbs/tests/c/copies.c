/*
 * Memory is copied directly between a parent and a child, which names itself and not its parent: both
 * had used the device before the fork.
 */
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rdma.h"

/* Where the child's bytes are. */
static struct shared {
	atomic_uint qpn;
	uint32_t rkey;
	uint64_t addr;
	atomic_int is_done;
} *shared;

/* Reads so many bytes of another queue pair's memory to the start of the buffer. */
static void read_from(struct node *node, struct side *side, uint32_t qpn, uint32_t rkey, uint64_t addr)
{
	ibv_wr_start(side->ex);
	side->ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_read(side->ex, rkey, addr);
	ibv_wr_set_ud_addr(side->ex, node->ah, qpn, QKEY);
	ibv_wr_set_sge(side->ex, node->mr->lkey, (uintptr_t)node->buffer, LENGTH);
	CHECK_EQ(ibv_wr_complete(side->ex), 0);
	struct ibv_poll_cq_attr attr = {0};
	uint64_t deadline = now_ms() + 20000;
	while (ibv_start_poll(side->cq, &attr) == ENOENT)
		CHECK(now_ms() < deadline);
	CHECK_EQ(side->cq->status, IBV_WC_SUCCESS);
	ibv_end_poll(side->cq);
}

static int is_all(const char *bytes, char value)
{
	for (size_t i = 0; i < LENGTH; i++)
		if (bytes[i] != value)
			return 0;
	return 1;
}

static void poll_nothing(struct side *side)
{
	struct ibv_poll_cq_attr attr = {0};
	CHECK_EQ(ibv_start_poll(side->cq, &attr), ENOENT);
}

static void be_child(uint32_t parent, uint32_t rkey, uint64_t addr)
{
	alarm(30);
	struct node node = node_open();
	struct side side = side_open(&node);
	read_from(&node, &side, parent, rkey, addr);
	CHECK(is_all(node.buffer, 'p'));
	memset(node.buffer + REMOTE_AT, 'c', LENGTH);
	shared->rkey = node.mr->rkey;
	shared->addr = (uintptr_t)node.buffer + REMOTE_AT;
	atomic_store(&shared->qpn, side.qp->qp_num);
	while (!atomic_load(&shared->is_done))
		poll_nothing(&side);
	CHECK_EQ(ibv_destroy_qp(side.qp), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(side.cq)), 0);
	node_close(&node);
	exit(0);
}

int main(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	alarm(40);
	struct node node = node_open();
	struct side side = side_open(&node);
	memset(node.buffer + REMOTE_AT, 'p', LENGTH);
	uint64_t addr = (uintptr_t)node.buffer + REMOTE_AT;
	read_from(&node, &side, side.qp->qp_num, node.mr->rkey, addr);
	CHECK(is_all(node.buffer, 'p'));
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		be_child(side.qp->qp_num, node.mr->rkey, addr);
	while (!atomic_load(&shared->qpn))
		poll_nothing(&side);
	/* What the child has at this address is not what the parent has there. */
	read_from(&node, &side, shared->qpn, shared->rkey, shared->addr);
	CHECK(is_all(node.buffer, 'c'));
	atomic_store(&shared->is_done, 1);
	int status = -1;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	CHECK_EQ(ibv_destroy_qp(side.qp), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(side.cq)), 0);
	node_close(&node);
	return 0;
}
