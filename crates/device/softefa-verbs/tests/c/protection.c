/* Bad keys, bad addresses, bad states: the code of the device, and not one byte changed. */
#include "rdma.h"

#define LOCAL_BYTE 0x11
#define REMOTE_BYTE 0x22
#define ANY_LENGTH 4096u

/* A work request and how it must end. */
struct attempt {
	enum kind kind;
	uint32_t rkey, lkey;
	uint64_t remote, local;
	uint32_t length;
	enum ibv_wc_status status;
	uint32_t vendor;
};

struct test {
	struct node *node;
	struct side a, b;
	struct ibv_mr *open;
};

static void fill(struct node *node)
{
	memset(node->buffer, LOCAL_BYTE, REMOTE_AT);
	memset(node->buffer + REMOTE_AT, REMOTE_BYTE, BUFFER_BYTES - REMOTE_AT);
}

static void check_unchanged(struct node *node)
{
	for (size_t i = 0; i < BUFFER_BYTES; i++)
		CHECK_EQ(node->buffer[i], i < REMOTE_AT ? LOCAL_BYTE : REMOTE_BYTE);
}

static void try(struct test *test, const struct attempt *attempt)
{
	struct ibv_qp_ex *ex = test->a.ex;
	ex->wr_id = 77;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(ex);
	if (attempt->kind == READ)
		ibv_wr_rdma_read(ex, attempt->rkey, attempt->remote);
	else if (attempt->kind == WRITE)
		ibv_wr_rdma_write(ex, attempt->rkey, attempt->remote);
	else
		ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, test->node->ah, test->b.qp->qp_num, QKEY);
	ibv_wr_set_sge(ex, attempt->lkey, attempt->local, attempt->length);
	CHECK_EQ(ibv_wr_complete(ex), 0);
	struct ibv_poll_cq_attr attr = {0};
	uint64_t deadline = now_ms() + 20000;
	while (ibv_start_poll(test->a.cq, &attr) == ENOENT)
		CHECK(now_ms() < deadline);
	CHECK_EQ(test->a.cq->status, attempt->status);
	CHECK_EQ(ibv_wc_read_vendor_err(test->a.cq), attempt->vendor);
	CHECK_EQ(test->a.cq->wr_id, 77);
	ibv_end_poll(test->a.cq);
	check_unchanged(test->node);
}

static void try_both(struct test *test, struct attempt attempt)
{
	attempt.kind = READ;
	try(test, &attempt);
	attempt.kind = WRITE;
	try(test, &attempt);
}

/* What the responder finds: 7. */
static void check_remote(struct test *test, struct ibv_mr *foreign, struct ibv_mr *private)
{
	uint64_t local = (uintptr_t)test->node->buffer, remote = local + REMOTE_AT;
	uint64_t end = local + BUFFER_BYTES;
	struct attempt good = {.rkey = test->open->rkey,
			       .lkey = test->open->lkey,
			       .remote = remote,
			       .local = local,
			       .length = LENGTH,
			       .status = IBV_WC_REM_ACCESS_ERR,
			       .vendor = 7};
	const uint32_t keys[] = {0xffffffff, test->open->rkey + 1, foreign->rkey, private->rkey};
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		struct attempt bad = good;
		bad.rkey = keys[i];
		try_both(test, bad);
	}
	const uint64_t addresses[] = {0, local - 1, end - LENGTH + 1, end, UINT64_MAX - 7};
	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		struct attempt bad = good;
		bad.remote = addresses[i];
		try_both(test, bad);
	}
}

/* What the device finds itself: 5 and 6. */
static void check_local(struct test *test, struct ibv_mr *foreign, struct ibv_mr *private)
{
	uint64_t local = (uintptr_t)test->node->buffer;
	struct attempt good = {.rkey = test->open->rkey,
			       .lkey = test->open->lkey,
			       .remote = local + REMOTE_AT,
			       .local = local,
			       .length = ANY_LENGTH,
			       .status = IBV_WC_LOC_PROT_ERR,
			       .vendor = 5};
	struct attempt bad = good;
	bad.lkey = test->open->lkey + 1;
	try_both(test, bad);
	bad.lkey = foreign->lkey;
	try_both(test, bad);
	bad = good;
	bad.local = local + BUFFER_BYTES - ANY_LENGTH + 1;
	try_both(test, bad);
	bad.local = local - 1;
	try_both(test, bad);
	bad = good;
	bad.lkey = private->lkey;
	bad.kind = READ;
	try(test, &bad);

	bad = good;
	bad.kind = SEND;
	bad.lkey = foreign->lkey;
	try(test, &bad);
	bad = good;
	bad.kind = SEND;
	bad.length = 9 * 1024;
	bad.status = IBV_WC_LOC_LEN_ERR;
	bad.vendor = 6;
	try(test, &bad);
}

/* A handle of another domain is none: 4. The last one of a peer takes its work along: 1. */
static void check_handles(struct test *test, struct ibv_pd *other)
{
	struct node *node = test->node;
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.dgid = node->gid};
	struct ibv_ah *foreign = ibv_create_ah(other, &attr), *own = node->ah;
	CHECK(foreign);
	node->ah = foreign;
	struct attempt attempt = {.kind = SEND,
				  .lkey = test->open->lkey,
				  .local = (uintptr_t)node->buffer,
				  .length = 8,
				  .status = IBV_WC_LOC_QP_OP_ERR,
				  .vendor = 4};
	try(test, &attempt);
	node->ah = own;
	CHECK_EQ(ibv_destroy_ah(foreign), 0);

	/* Gone before the session that named it is complete. */
	int opcode;
	uint32_t length;
	struct ibv_ah *brief = ibv_create_ah(node->pd, &attr);
	CHECK(brief);
	ibv_wr_start(test->a.ex);
	ibv_wr_send(test->a.ex);
	ibv_wr_set_ud_addr(test->a.ex, brief, test->b.qp->qp_num, QKEY);
	ibv_wr_set_sge(test->a.ex, test->open->lkey, (uintptr_t)node->buffer, 8);
	CHECK_EQ(ibv_destroy_ah(brief), 0);
	CHECK_EQ(ibv_wr_complete(test->a.ex), 0);
	CHECK_EQ(wait_one(&test->a, &test->b, &opcode, &length), IBV_WC_LOC_QP_OP_ERR);
	CHECK_EQ(last_vendor_err, 4);

	/* Nobody posts a receive for its immediate. */
	rnr_retry = 7;
	struct side patient = side_open(node);
	CHECK_EQ(post(node, &patient, &test->b, WRITE_IMM, test->open->rkey, test->open->lkey, 0), 0);
	CHECK_EQ(ibv_destroy_ah(node->ah), 0);
	CHECK_EQ(wait_one(&patient, NULL, &opcode, &length), IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(ibv_destroy_qp(patient.qp), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(patient.cq)), 0);
	node->ah = ibv_create_ah(node->pd, &attr);
	CHECK(node->ah);
}

static int post_both(struct node *node, struct ibv_qp *qp, int receive)
{
	struct ibv_sge sge = {(uintptr_t)node->buffer, 8, node->mr->lkey};
	struct ibv_send_wr wr = send_wr(node, qp, &sge), *bad = NULL;
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad_recv = NULL;
	int code = receive ? ibv_post_recv(qp, &recv, &bad_recv) : ibv_post_send(qp, &wr, &bad);
	CHECK(!code || (receive ? bad_recv == &recv : bad == &wr));
	return code;
}

static int post_extended(struct node *node, struct side *side)
{
	side->ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(side->ex);
	ibv_wr_send(side->ex);
	ibv_wr_set_ud_addr(side->ex, node->ah, side->qp->qp_num, QKEY);
	ibv_wr_set_sge(side->ex, node->mr->lkey, (uintptr_t)node->buffer, 8);
	return ibv_wr_complete(side->ex);
}

/* Sends in RTS and SQD, receives in all states but RESET and ERR; all else is EINVAL. */
static void check_states(struct node *node)
{
	static const struct {
		enum ibv_qp_state state;
		int mask, send, receive;
	} steps[] = {
		{IBV_QPS_RESET, IBV_QP_STATE, EINVAL, EINVAL},
		{IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, EINVAL, 0},
		{IBV_QPS_RTR, IBV_QP_STATE, EINVAL, 0},
		{IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN, 0, 0},
		{IBV_QPS_SQD, IBV_QP_STATE, 0, 0},
		{IBV_QPS_ERR, IBV_QP_STATE, EINVAL, EINVAL},
	};
	struct side side = side_open(node);
	struct ibv_qp_attr attr = {.port_num = 1, .qkey = QKEY};
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		attr.qp_state = steps[i].state;
		CHECK_EQ(ibv_modify_qp(side.qp, &attr, steps[i].mask), 0);
		CHECK_EQ(post_both(node, side.qp, 0), steps[i].send);
		CHECK_EQ(post_extended(node, &side), steps[i].send);
		CHECK_EQ(post_both(node, side.qp, 1), steps[i].receive);
	}
	CHECK_EQ(ibv_destroy_qp(side.qp), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(side.cq)), 0);
}

/* What only a strict device refuses, as hardware does. */
static void check_strictness(struct test *test, struct ibv_pd *other, struct ibv_mr *foreign)
{
	int is_strict = getenv("SOFTEFA_STRICT") != NULL;
	struct node *node = test->node, elsewhere = *node;
	elsewhere.pd = other;
	struct side side = side_open(&elsewhere);
	/* Its domain has no address handle for the requester. */
	int opcode;
	uint32_t length;
	CHECK_EQ(post(node, &test->a, &side, READ, foreign->rkey, test->open->lkey, 8), 0);
	int status = wait_one(&test->a, &side, &opcode, &length);
	CHECK_EQ(status, is_strict ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS);
	CHECK_EQ(last_vendor_err, is_strict ? 14 : 0);

	struct ibv_sge sge = {(uintptr_t)node->buffer, 8, foreign->lkey};
	struct ibv_send_wr wr = send_wr(node, side.qp, &sge), *bad = NULL;
	wr.send_flags = 0;
	CHECK_EQ(ibv_post_send(side.qp, &wr, &bad), is_strict ? EINVAL : 0);
	struct ibv_recv_wr recv = {.num_sge = 0}, *bad_recv = NULL;
	CHECK_EQ(ibv_post_recv(side.qp, &recv, &bad_recv), is_strict ? EINVAL : 0);
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 0, .grh.dgid = node->gid};
	struct ibv_ah *ah = ibv_create_ah(node->pd, &attr);
	CHECK_EQ(ah == NULL, is_strict);
	if (ah)
		CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_destroy_qp(side.qp), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(side.cq)), 0);
}

int main(void)
{
	struct node node = node_open();
	struct test test = {.node = &node, .a = side_open(&node), .b = side_open(&node)};
	int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_pd *other = ibv_alloc_pd(node.context);
	CHECK(other);
	test.open = ibv_reg_mr(node.pd, node.buffer, BUFFER_BYTES, all);
	struct ibv_mr *foreign = ibv_reg_mr(other, node.buffer, BUFFER_BYTES, all);
	struct ibv_mr *private = ibv_reg_mr(node.pd, node.buffer, BUFFER_BYTES, 0);
	CHECK(test.open && foreign && private);
	fill(&node);
	check_remote(&test, foreign, private);
	check_local(&test, foreign, private);
	check_handles(&test, other);
	check_unchanged(&node);
	check_states(&node);
	check_strictness(&test, other, foreign);
	CHECK_EQ(ibv_destroy_qp(test.a.qp), 0);
	CHECK_EQ(ibv_destroy_qp(test.b.qp), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(test.a.cq)), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(test.b.cq)), 0);
	CHECK_EQ(ibv_dereg_mr(test.open), 0);
	CHECK_EQ(ibv_dereg_mr(foreign), 0);
	CHECK_EQ(ibv_dereg_mr(private), 0);
	CHECK_EQ(ibv_dealloc_pd(other), 0);
	node_close(&node);
	return 0;
}
