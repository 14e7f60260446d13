/*
 * Memory whose bytes have other names than their addresses: in entries, for the peer, and in a window.
 */
#include "connection.h"

#define PAGE 4096u
#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND)

static char *memory;

static struct ibv_mr *named_from_zero(struct node *node)
{
	struct ibv_mr *mr = ibv_reg_mr_iova(node->pd, memory, BUFFER_BYTES, 0, ALL);
	CHECK(mr && mr->addr == memory && mr->length == BUFFER_BYTES);
	return mr;
}

static int post(struct end *ends, struct ibv_mr *mr, enum ibv_wr_opcode opcode, uint64_t from, uint32_t key, uint64_t to)
{
	struct ibv_sge sge = {.addr = from, .length = 100, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 3, .sg_list = &sge, .num_sge = 1, .opcode = opcode}, *bad;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = to;
	wr.wr.rdma.rkey = key;
	CHECK_EQ(ibv_post_send(ends[0].qp, &wr, &bad), 0);
	return outcome(&ends[0], &ends[1]).status;
}

static void check_entries(struct end *ends, struct ibv_mr *mr)
{
	memset(memory, 7, 100);
	CHECK_EQ(post(ends, mr, IBV_WR_RDMA_WRITE, 0, mr->rkey, PAGE), IBV_WC_SUCCESS);
	CHECK(!memcmp(memory, memory + PAGE, 100) && !memory[PAGE + 100]);
	CHECK_EQ(post(ends, mr, IBV_WR_RDMA_READ, 2 * PAGE, mr->rkey, PAGE + 1), IBV_WC_SUCCESS);
	CHECK(!memcmp(memory, memory + 2 * PAGE, 99) && !memory[2 * PAGE + 99]);

	/* A receive, and a send by the other way of posting. */
	struct ibv_sge sge = {.addr = 3 * PAGE, .length = 100, .lkey = mr->lkey};
	struct ibv_recv_wr recv = {.wr_id = 4, .sg_list = &sge, .num_sge = 1}, *bad;
	CHECK_EQ(ibv_post_recv(ends[1].qp, &recv, &bad), 0);
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(ends[0].qp);
	ibv_wr_start(qp);
	qp->wr_id = 5;
	qp->wr_flags = 0;
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, mr->lkey, 0, 100);
	CHECK_EQ(ibv_wr_complete(qp), 0);
	CHECK_EQ(outcome(&ends[1], &ends[0]).status, IBV_WC_SUCCESS);
	CHECK(!memcmp(memory, memory + 3 * PAGE, 100));
}

static void check_window(struct node *node, struct end *ends, struct ibv_mr *mr)
{
	struct ibv_mw *mw = ibv_alloc_mw(node->pd, IBV_MW_TYPE_1);
	CHECK(mw);
	struct ibv_mw_bind bind = {.wr_id = 9, .send_flags = IBV_SEND_SIGNALED};
	bind.bind_info = (struct ibv_mw_bind_info){.mr = mr, .addr = 4 * PAGE, .length = PAGE};
	bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
	CHECK_EQ(ibv_bind_mw(ends[1].qp, mw, &bind), 0);
	CHECK_EQ(outcome(&ends[1], &ends[0]).status, IBV_WC_SUCCESS);
	CHECK_EQ(post(ends, mr, IBV_WR_RDMA_WRITE, 0, mw->rkey, 4 * PAGE + 8), IBV_WC_SUCCESS);
	CHECK(!memcmp(memory, memory + 4 * PAGE + 8, 100) && !memory[4 * PAGE + 7]);
	CHECK_EQ(post(ends, mr, IBV_WR_RDMA_WRITE, 0, mw->rkey, PAGE), IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
}

int main(void)
{
	struct node node = node_open();
	memory = aligned_alloc(PAGE, BUFFER_BYTES);
	CHECK(memory);
	memset(memory, 0, BUFFER_BYTES);
	/* A byte keeps its place in its page. */
	CHECK(!ibv_reg_mr_iova(node.pd, memory, 64, 8, 0));
	CHECK_EQ(errno, EINVAL);
	struct ibv_mr *mr = named_from_zero(&node);
	end_send_ops = IBV_QP_EX_WITH_SEND;
	end_access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct end ends[2];
	connected(&node, ends);
	check_entries(ends, mr);
	check_window(&node, ends, mr);
	gone(ends);
	connected(&node, ends);
	CHECK_EQ(post(ends, mr, IBV_WR_RDMA_WRITE, (uintptr_t)memory, mr->rkey, 0), IBV_WC_LOC_PROT_ERR);
	gone(ends);
	connected(&node, ends);
	CHECK_EQ(post(ends, mr, IBV_WR_RDMA_WRITE, 0, mr->rkey, (uintptr_t)memory), IBV_WC_REM_ACCESS_ERR);
	gone(ends);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	free(memory);
	node_close(&node);
	return 0;
}
