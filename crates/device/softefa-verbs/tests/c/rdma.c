/* RDMA READ, WRITE and WRITE with immediate through the extended calls, and what is refused. */
#include "rdma.h"

/* rdma-core 44 names neither the WRITE capability bit nor the completion of its sender apart. */
#define CAPS_RDMA_WRITE (1u << 3)

static void check_transfers(struct node *node, struct side *a, struct side *b, struct ibv_mr *open)
{
	int opcode;
	uint32_t length;
	char *remote = node->buffer + REMOTE_AT;
	for (uint32_t i = 0; i < LENGTH; i++)
		node->buffer[i] = (char)(i * 7);
	CHECK_EQ(post(node, a, b, WRITE, open->rkey, open->lkey, LENGTH), 0);
	CHECK_EQ(wait_one(a, b, &opcode, &length), IBV_WC_SUCCESS);
	CHECK_EQ(opcode, IBV_WC_RDMA_WRITE);
	CHECK_EQ(memcmp(node->buffer, remote, LENGTH), 0);

	memset(node->buffer, 0, LENGTH);
	CHECK_EQ(post(node, a, b, READ, open->rkey, open->lkey, LENGTH), 0);
	CHECK_EQ(wait_one(a, b, &opcode, &length), IBV_WC_SUCCESS);
	/* As on the device: libfabric 1.17 waits for ever for anything else. */
	CHECK_EQ(opcode, IBV_WC_SEND);
	CHECK_EQ(memcmp(node->buffer, remote, LENGTH), 0);

	post_recv(node, b->qp, 8, 900000, 16);
	CHECK_EQ(post(node, a, b, WRITE_IMM, open->rkey, open->lkey, LENGTH), 0);
	/* The immediate comes last; until then the sender may complete too. */
	CHECK_EQ(wait_one(a, NULL, &opcode, &length), IBV_WC_SUCCESS);
	CHECK_EQ(opcode, IBV_WC_RDMA_WRITE);
	CHECK_EQ(wait_one(b, NULL, &opcode, &length), IBV_WC_SUCCESS);
	CHECK_EQ(opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK_EQ(length, LENGTH);
}

static void check_refusals(struct node *node, struct side *a, struct side *b, struct ibv_mr *open)
{
	int opcode;
	uint32_t length;
	char *remote = node->buffer + REMOTE_AT;
	memset(node->buffer, 1, LENGTH);
	memset(remote, 2, LENGTH);
	/* The region of the node allows reading only. */
	CHECK_EQ(post(node, a, b, WRITE, node->mr->rkey, open->lkey, LENGTH), 0);
	CHECK_EQ(wait_one(a, b, &opcode, &length), IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(post(node, a, b, READ, open->rkey + 1, open->lkey, LENGTH), 0);
	CHECK_EQ(wait_one(a, b, &opcode, &length), IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(post(node, a, b, READ, open->rkey, open->lkey + 1, LENGTH), 0);
	CHECK_EQ(wait_one(a, b, &opcode, &length), IBV_WC_LOC_PROT_ERR);
	for (uint32_t i = 0; i < LENGTH; i++)
		CHECK(node->buffer[i] == 1 && remote[i] == 2);
	/* Exactly one local entry. */
	ibv_wr_start(a->ex);
	ibv_wr_rdma_read(a->ex, open->rkey, (uintptr_t)remote);
	ibv_wr_set_ud_addr(a->ex, node->ah, b->qp->qp_num, QKEY);
	CHECK_EQ(ibv_wr_complete(a->ex), EINVAL);
}

int main(void)
{
	struct node node = node_open();
	struct efadv_device_attr attr = {0};
	CHECK_EQ(efadv_query_device(node.context, &attr, sizeof(attr)), 0);
	CHECK(attr.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_READ);
	CHECK(attr.device_caps & CAPS_RDMA_WRITE);
	CHECK_EQ(attr.max_rdma_size, 1 << 30);
	struct ibv_mr *open = ibv_reg_mr(node.pd, node.buffer, BUFFER_BYTES,
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
						 IBV_ACCESS_REMOTE_WRITE);
	CHECK(open);
	struct side a = side_open(&node), b = side_open(&node);
	check_transfers(&node, &a, &b, open);
	check_refusals(&node, &a, &b, open);
	CHECK_EQ(ibv_destroy_qp(a.qp), 0);
	CHECK_EQ(ibv_destroy_qp(b.qp), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(a.cq)), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(b.cq)), 0);
	CHECK_EQ(ibv_dereg_mr(open), 0);
	node_close(&node);
	return 0;
}
