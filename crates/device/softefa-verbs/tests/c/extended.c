/* The extended calls: ibv_wr_* sessions, ibv_start_poll sessions, efadv queues and their GIDs. */
#include "rdma.h"

#define RECV_AT 65536
#define SLOT 16384

struct pair {
	struct ibv_cq_ex *cq;
	struct ibv_qp *from, *to;
	struct ibv_qp_ex *ex;
};

static struct ibv_qp *create(struct node *node, struct ibv_cq_ex *cq)
{
	struct ibv_qp_init_attr_ex attr = side_attr(node, cq);
	struct efadv_qp_init_attr efa = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
	struct ibv_qp *qp = efadv_create_qp_ex(node->context, &attr, &efa, sizeof(efa));
	CHECK(qp);
	qp_to_rts(qp);
	return qp;
}

static struct pair pair_open(struct node *node)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 12288, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct efadv_cq_init_attr efa = {.wc_flags = EFADV_WC_EX_WITH_SGID};
	struct pair pair;
	pair.cq = efadv_create_cq(node->context, &attr, &efa, sizeof(efa));
	CHECK(pair.cq);
	CHECK_EQ(pair.cq->cqe, 16384);
	pair.from = create(node, pair.cq);
	pair.to = create(node, pair.cq);
	pair.ex = ibv_qp_to_qp_ex(pair.from);
	CHECK((void *)pair.ex == (void *)pair.from);
	return pair;
}

/* Starts a poll that finds something, within 20 s; the session is open afterwards. */
static void start_poll(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = {0};
	uint64_t deadline = now_ms() + 20000;
	int code;
	while ((code = ibv_start_poll(cq, &attr)) == ENOENT)
		CHECK(now_ms() < deadline);
	CHECK_EQ(code, 0);
}

/* Takes `count` completions; the receives among them are checked by `check`. */
static void take(struct pair *pair, int count, void (*check)(struct pair *))
{
	for (int got = 0; got < count;) {
		start_poll(pair->cq);
		do {
			CHECK_EQ(pair->cq->status, IBV_WC_SUCCESS);
			CHECK_EQ(ibv_wc_read_vendor_err(pair->cq), 0);
			CHECK_EQ(ibv_wc_read_sl(pair->cq), 0);
			if (ibv_wc_read_opcode(pair->cq) == IBV_WC_RECV) {
				CHECK_EQ(ibv_wc_read_qp_num(pair->cq), pair->to->qp_num);
				CHECK_EQ(ibv_wc_read_src_qp(pair->cq), pair->from->qp_num);
				check(pair);
			} else {
				CHECK_EQ(ibv_wc_read_opcode(pair->cq), IBV_WC_SEND);
				CHECK_EQ(ibv_wc_read_byte_len(pair->cq), 0);
				CHECK_EQ(ibv_wc_read_qp_num(pair->cq), pair->from->qp_num);
			}
			got++;
		} while (got < count && ibv_next_poll(pair->cq) == 0);
		ibv_end_poll(pair->cq);
	}
}

static void check_hello(struct pair *pair)
{
	CHECK_EQ(ibv_wc_read_byte_len(pair->cq), 5);
	CHECK(ibv_wc_read_wc_flags(pair->cq) & IBV_WC_WITH_IMM);
	CHECK_EQ(ntohl(ibv_wc_read_imm_data(pair->cq)), 77);
}

static void check_slid(struct pair *pair)
{
	union ibv_gid gid;
	struct efadv_cq *efa = efadv_cq_from_ibv_cq_ex(pair->cq);
	/* The sender is known by its address handle, so its GID is not told. */
	CHECK(ibv_wc_read_slid(pair->cq) != 0xffff);
	CHECK_EQ(efadv_wc_read_sgid(efa, &gid), -ENOENT);
}

static void set_target(struct node *node, struct pair *pair)
{
	ibv_wr_set_ud_addr(pair->ex, node->ah, pair->to->qp_num, QKEY);
}

static void check_inline(struct node *node, struct pair *pair)
{
	char text[] = "hello";
	struct ibv_data_buf parts[2] = {{text, 2}, {text + 2, 3}};
	post_recv(node, pair->to, 5, RECV_AT, SLOT);
	pair->ex->wr_id = 4;
	pair->ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(pair->ex);
	ibv_wr_send_imm(pair->ex, htonl(77));
	ibv_wr_set_inline_data_list(pair->ex, 2, parts);
	/* Copied already: what happens to the buffer now is nobody's business. */
	memset(text, 'x', sizeof(text));
	set_target(node, pair);
	CHECK_EQ(ibv_wr_complete(pair->ex), 0);
	take(pair, 2, check_hello);
	CHECK_EQ(memcmp(node->buffer + RECV_AT, "hello", 5), 0);
}

static int batches_seen;

static void check_batch(struct pair *pair)
{
	CHECK_EQ(ibv_wc_read_byte_len(pair->cq), 2000);
	batches_seen++;
	check_slid(pair);
}

/* Several requests in one session, which stays open while other calls are made. */
static void check_open_session(struct node *node, struct pair *pair)
{
	for (int i = 0; i < 4; i++)
		post_recv(node, pair->to, 50, RECV_AT + (uint64_t)(i * SLOT), SLOT);
	pair->ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(pair->ex);
	for (int i = 0; i < 4; i++) {
		struct ibv_sge sges[2] = {{(uintptr_t)node->buffer, 1000, node->mr->lkey},
					  {(uintptr_t)node->buffer + 1000, 1000, node->mr->lkey}};
		pair->ex->wr_id = 60 + (uint64_t)i;
		ibv_wr_send(pair->ex);
		set_target(node, pair);
		ibv_wr_set_sge_list(pair->ex, 2, sges);
		struct ibv_poll_cq_attr attr = {0};
		CHECK_EQ(ibv_start_poll(pair->cq, &attr), ENOENT);
		struct ibv_wc wc;
		CHECK_EQ(ibv_poll_cq(ibv_cq_ex_to_cq(pair->cq), 1, &wc), 0);
	}
	CHECK_EQ(ibv_wr_complete(pair->ex), 0);
	take(pair, 8, check_batch);
	CHECK_EQ(batches_seen, 4);
}

/* Mistakes come out of ibv_wr_complete, and nothing of that session is posted. */
static void check_mistakes(struct node *node, struct pair *pair)
{
	char text[128] = {0};
	pair->ex->wr_id = 9;
	pair->ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(pair->ex);
	ibv_wr_send(pair->ex);
	set_target(node, pair);
	ibv_wr_set_sge(pair->ex, node->mr->lkey, (uintptr_t)node->buffer, 8);
	ibv_wr_send(pair->ex);
	set_target(node, pair);
	ibv_wr_set_inline_data(pair->ex, text, 65);
	CHECK_EQ(ibv_wr_complete(pair->ex), EINVAL);

	ibv_wr_start(pair->ex);
	ibv_wr_rdma_read(pair->ex, 1, 2);
	set_target(node, pair);
	CHECK_EQ(ibv_wr_complete(pair->ex), EOPNOTSUPP);

	ibv_wr_start(pair->ex);
	ibv_wr_send(pair->ex);
	CHECK_EQ(ibv_wr_complete(pair->ex), EINVAL);

	pair->ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
	ibv_wr_start(pair->ex);
	ibv_wr_send(pair->ex);
	set_target(node, pair);
	ibv_wr_set_sge(pair->ex, node->mr->lkey, (uintptr_t)node->buffer, 8);
	CHECK_EQ(ibv_wr_complete(pair->ex), EINVAL);

	pair->ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(pair->ex);
	ibv_wr_send(pair->ex);
	set_target(node, pair);
	ibv_wr_abort(pair->ex);
	struct ibv_poll_cq_attr attr = {0};
	CHECK_EQ(ibv_start_poll(pair->cq, &attr), ENOENT);
	attr.comp_mask = 1;
	CHECK_EQ(ibv_start_poll(pair->cq, &attr), EINVAL);
}

/* A failed request is consumed by ibv_end_poll. */
static void check_error_is_consumed(struct node *node, struct pair *pair)
{
	pair->ex->wr_id = 31;
	pair->ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(pair->ex);
	ibv_wr_send(pair->ex);
	set_target(node, pair);
	ibv_wr_set_sge(pair->ex, node->mr->lkey + 1, (uintptr_t)node->buffer, 8);
	CHECK_EQ(ibv_wr_complete(pair->ex), 0);
	start_poll(pair->cq);
	CHECK_EQ(pair->cq->status, IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(pair->cq->wr_id, 31);
	CHECK_EQ(ibv_wc_read_vendor_err(pair->cq), 5);
	CHECK_EQ(ibv_wc_read_opcode(pair->cq), IBV_WC_SEND);
	CHECK_EQ(ibv_wc_read_qp_num(pair->cq), pair->from->qp_num);
	ibv_end_poll(pair->cq);
	struct ibv_poll_cq_attr attr = {0};
	CHECK_EQ(ibv_start_poll(pair->cq, &attr), ENOENT);
}

int main(void)
{
	attr_send_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	struct node node = node_open();
	struct pair pair = pair_open(&node);
	check_inline(&node, &pair);
	check_open_session(&node, &pair);
	check_mistakes(&node, &pair);
	check_error_is_consumed(&node, &pair);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(pair.cq)), EBUSY);
	CHECK_EQ(ibv_destroy_qp(pair.from), 0);
	CHECK_EQ(ibv_destroy_qp(pair.to), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(pair.cq)), 0);
	node_close(&node);
	return 0;
}
