/* WRITE with immediate that consumes no receive, as programs built with newer headers ask for it. */
#include <stdbool.h>

#include "rdma.h"

/* Of rdma-core 52 and newer; that of Debian 12 does not have them. */
#define CAPS_UNSOLICITED_WRITE_RECV (1u << 4)
#define QP_FLAGS_UNSOLICITED_WRITE_RECV 1
#define WC_EX_WITH_IS_UNSOLICITED 2

struct newer_qp_init_attr {
	uint64_t comp_mask;
	uint32_t driver_qp_type;
	uint16_t flags;
	uint8_t sl;
	uint8_t reserved;
};

struct newer_cq {
	uint64_t comp_mask;
	int (*wc_read_sgid)(struct efadv_cq *cq, union ibv_gid *gid);
	bool (*wc_is_unsolicited)(struct efadv_cq *cq);
};

static struct ibv_cq_ex *cq_create(struct node *node, uint64_t efa_flags)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct efadv_cq_init_attr efa = {.wc_flags = efa_flags};
	struct ibv_cq_ex *cq = efadv_create_cq(node->context, &attr, &efa, sizeof(efa));
	CHECK(cq);
	return cq;
}

static struct ibv_qp *qp_create(struct node *node, struct ibv_cq_ex *cq, uint16_t flags)
{
	struct ibv_qp_init_attr_ex attr = side_attr(node, cq);
	struct newer_qp_init_attr efa = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD, .flags = flags};
	return efadv_create_qp_ex(node->context, &attr, (struct efadv_qp_init_attr *)&efa, sizeof(efa));
}

static struct side unsolicited_open(struct node *node)
{
	struct side side = {.cq = cq_create(node, WC_EX_WITH_IS_UNSOLICITED)};
	side.qp = qp_create(node, side.cq, QP_FLAGS_UNSOLICITED_WRITE_RECV);
	CHECK(side.qp);
	qp_to_rts(side.qp);
	side.ex = ibv_qp_to_qp_ex(side.qp);
	return side;
}

static void check_told(struct side *side)
{
	struct newer_cq *efa = (struct newer_cq *)efadv_cq_from_ibv_cq_ex(side->cq);
	CHECK(!efa->wc_read_sgid);
	struct ibv_poll_cq_attr attr = {0};
	uint64_t deadline = now_ms() + 20000;
	while (ibv_start_poll(side->cq, &attr) == ENOENT)
		CHECK(now_ms() < deadline);
	CHECK_EQ(side->cq->status, IBV_WC_SUCCESS);
	CHECK_EQ(side->cq->wr_id, 0);
	CHECK(efa->wc_is_unsolicited((struct efadv_cq *)efa));
	CHECK_EQ(ibv_wc_read_opcode(side->cq), IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK_EQ(ibv_wc_read_byte_len(side->cq), LENGTH);
	CHECK(ibv_wc_read_wc_flags(side->cq) & IBV_WC_WITH_IMM);
	CHECK_EQ(ntohl(ibv_wc_read_imm_data(side->cq)), 99);
	ibv_end_poll(side->cq);
}

/* A send completion, or a receive, belongs to a work request. */
static void check_solicited(struct side *side, enum ibv_wc_opcode opcode)
{
	struct newer_cq *efa = (struct newer_cq *)efadv_cq_from_ibv_cq_ex(side->cq);
	struct ibv_poll_cq_attr attr = {0};
	uint64_t deadline = now_ms() + 20000;
	while (ibv_start_poll(side->cq, &attr) == ENOENT)
		CHECK(now_ms() < deadline);
	CHECK_EQ(side->cq->status, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_wc_read_opcode(side->cq), opcode);
	CHECK(side->cq->wr_id != 0 && !efa->wc_is_unsolicited((struct efadv_cq *)efa));
	ibv_end_poll(side->cq);
}

static void check_mismatch(struct node *node, struct side *from, struct side *to, struct ibv_mr *open)
{
	int opcode;
	uint32_t length;
	char *remote = node->buffer + REMOTE_AT;
	memset(remote, 2, LENGTH);
	CHECK_EQ(post(node, from, to, WRITE_IMM, open->rkey, open->lkey, LENGTH), 0);
	CHECK_EQ(wait_one(from, to, &opcode, &length), IBV_WC_REM_INV_REQ_ERR);
	CHECK_EQ(last_vendor_err, 18);
	for (uint32_t i = 0; i < LENGTH; i++)
		CHECK(remote[i] == 2);
}

/* What the queues are made of is checked one by one, as libefa does. */
static void check_creation(struct node *node)
{
	struct ibv_cq_ex *plain = cq_create(node, 0);
	struct newer_cq *efa = (struct newer_cq *)efadv_cq_from_ibv_cq_ex(plain);
	CHECK(!efa->wc_is_unsolicited && !efa->wc_read_sgid);
	struct ibv_qp *qp = qp_create(node, plain, QP_FLAGS_UNSOLICITED_WRITE_RECV);
	CHECK(qp);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK(!qp_create(node, plain, QP_FLAGS_UNSOLICITED_WRITE_RECV | 4));
	CHECK_EQ(errno, EOPNOTSUPP);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(plain)), 0);
}

/* An older generation refuses both flags. */
static int check_without(struct node *node)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct efadv_cq_init_attr efa = {.wc_flags = WC_EX_WITH_IS_UNSOLICITED};
	CHECK(!efadv_create_cq(node->context, &attr, &efa, sizeof(efa)));
	CHECK_EQ(errno, EOPNOTSUPP);
	struct ibv_cq_ex *cq = cq_create(node, 0);
	attr_send_ops = IBV_QP_EX_WITH_SEND;
	CHECK(!qp_create(node, cq, QP_FLAGS_UNSOLICITED_WRITE_RECV));
	CHECK_EQ(errno, EOPNOTSUPP);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	node_close(node);
	return 0;
}

int main(void)
{
	struct node node = node_open();
	struct efadv_device_attr attr = {0};
	CHECK_EQ(efadv_query_device(node.context, &attr, sizeof(attr)), 0);
	if (!(attr.device_caps & CAPS_UNSOLICITED_WRITE_RECV))
		return check_without(&node);
	check_creation(&node);
	struct ibv_mr *open = ibv_reg_mr(node.pd, node.buffer, BUFFER_BYTES,
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
						 IBV_ACCESS_REMOTE_WRITE);
	CHECK(open);
	struct side a = unsolicited_open(&node), b = unsolicited_open(&node), c = side_open(&node);
	memset(node.buffer, 1, LENGTH);
	post_recv(&node, b.qp, 8, 900000, 16);
	CHECK_EQ(post(&node, &a, &b, WRITE_IMM, open->rkey, open->lkey, LENGTH), 0);
	check_told(&b);
	CHECK_EQ(memcmp(node.buffer, node.buffer + REMOTE_AT, LENGTH), 0);
	check_solicited(&a, IBV_WC_RDMA_WRITE);
	/* The receive is still there. */
	CHECK_EQ(post(&node, &a, &b, SEND, 0, open->lkey, 8), 0);
	check_solicited(&b, IBV_WC_RECV);
	check_solicited(&a, IBV_WC_SEND);
	check_mismatch(&node, &a, &c, open);
	check_mismatch(&node, &c, &a, open);
	CHECK_EQ(ibv_destroy_qp(a.qp), 0);
	CHECK_EQ(ibv_destroy_qp(b.qp), 0);
	CHECK_EQ(ibv_destroy_qp(c.qp), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(a.cq)), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(b.cq)), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(c.cq)), 0);
	CHECK_EQ(ibv_dereg_mr(open), 0);
	node_close(&node);
	return 0;
}
