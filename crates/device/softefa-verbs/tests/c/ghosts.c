/*
 * A mistake of programs: address handles are used after they were destroyed. Their work requests
 * complete as on the device, which has no such handle any more, and nobody else's memory is touched.
 */
#include "rdma.h"

#define ROUNDS 200
/* As much as a handle takes, and a little more or less. */
#define LEAST 24
#define MOST 96

static void *litter[MOST / 8];

/* Whatever was freed belongs to somebody else now. */
static void reuse_memory(void)
{
	for (size_t bytes = LEAST; bytes < MOST; bytes += 8) {
		litter[bytes / 8] = malloc(bytes);
		CHECK(litter[bytes / 8]);
		memset(litter[bytes / 8], 0xa5, bytes);
	}
}

static void check_memory(void)
{
	for (size_t bytes = LEAST; bytes < MOST; bytes += 8) {
		for (size_t i = 0; i < bytes; i++)
			CHECK_EQ(((unsigned char *)litter[bytes / 8])[i], 0xa5);
		free(litter[bytes / 8]);
	}
}

static void expect_invalid(struct side *from, struct side *to)
{
	int opcode;
	uint32_t length;
	CHECK_EQ(wait_one(from, to, &opcode, &length), IBV_WC_LOC_QP_OP_ERR);
	CHECK_EQ(last_vendor_err, 4);
}

int main(void)
{
	struct node node = node_open();
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.dgid = node.gid};
	struct side from = side_open(&node), to = side_open(&node);
	struct ibv_ah *own = node.ah;
	for (int round = 0; round < ROUNDS; round++) {
		struct ibv_ah *ghost = ibv_create_ah(node.pd, &attr);
		CHECK(ghost);
		CHECK_EQ(ibv_destroy_ah(ghost), 0);
		reuse_memory();
		node.ah = ghost;
		CHECK_EQ(post(&node, &from, &to, SEND, 0, node.mr->lkey, 8), 0);
		expect_invalid(&from, &to);
		struct ibv_sge sge = {(uintptr_t)node.buffer, 8, node.mr->lkey};
		struct ibv_send_wr wr = send_wr(&node, to.qp, &sge), *bad = NULL;
		CHECK_EQ(ibv_post_send(from.qp, &wr, &bad), 0);
		expect_invalid(&from, &to);
		CHECK_EQ(ibv_destroy_ah(ghost), EINVAL);
		check_memory();
	}
	node.ah = own;
	CHECK_EQ(ibv_destroy_qp(from.qp), 0);
	CHECK_EQ(ibv_destroy_qp(to.qp), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(from.cq)), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(to.cq)), 0);
	node_close(&node);
	return 0;
}
