/*
 * What libfabric 2.6 and its main branch ask for when they are built with the headers of rdma-core
 * 64 and 65: processing hints, inline WRITEs, queue depths, and structures that have grown.
 */
#include "newest.h"

static bool has_write;

/* As libfabric fills it in: everything behind the flags is unused and not zero. */
static struct ibv_cq_ex *cq_create(struct node *node)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct newest_cq_init_attr efa = {.ext_mem_dmabuf.fd = -1};
	struct ibv_cq_ex *cq = efadv_create_cq(node->context, &attr,
					       (struct efadv_cq_init_attr *)&efa, sizeof(efa));
	CHECK(cq);
	return cq;
}

static void check_cq(struct node *node)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct newest_cq_init_attr efa = {.flags = CQ_FLAGS_EXT_MEM_DMABUF};
	CHECK(!efadv_create_cq(node->context, &attr, (struct efadv_cq_init_attr *)&efa,
			       sizeof(efa)));
	CHECK_EQ(errno, EOPNOTSUPP);
	struct efadv_cq_init_attr plain = {0};
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = CQ_ATTR_IGNORE_OVERRUN;
	CHECK(!efadv_create_cq(node->context, &attr, &plain, sizeof(plain)));
	CHECK_EQ(errno, EOPNOTSUPP);
	attr.flags = CQ_ATTR_SINGLE_THREADED;
	struct ibv_cq_ex *cq = efadv_create_cq(node->context, &attr, &plain, sizeof(plain));
	CHECK(cq);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	/* Too short to say anything. */
	CHECK(!efadv_create_cq(node->context, &attr, &plain, 8));
	CHECK_EQ(errno, EINVAL);
}

static struct side side_with(struct node *node, uint16_t flags, uint64_t wr_flags)
{
	struct side side = {.cq = cq_create(node)};
	struct ibv_qp_init_attr_ex attr = side_attr(node, side.cq);
	side.qp = newest_create(node, &attr, flags, wr_flags);
	CHECK(side.qp);
	qp_to_rts(side.qp);
	side.ex = ibv_qp_to_qp_ex(side.qp);
	return side;
}

static void side_close(struct side *side)
{
	CHECK_EQ(ibv_destroy_qp(side->qp), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(side->cq)), 0);
}

/* A hint changes nothing but is taken, of whatever request. */
static void check_hints(struct node *node)
{
	struct side plain = side_with(node, 0, 0);
	CHECK(qp_from_ex(plain.ex) && !qp_from_ex(plain.ex)->wr_set_processing_hints);
	struct side hinted = side_with(node, 0, WR_EX_WITH_PROCESSING_HINTS);
	struct newest_qp *efa = qp_from_ex(hinted.ex);
	CHECK(efa && efa->wr_set_processing_hints);
	CHECK_EQ(efa->comp_mask, 0);

	post_recv(node, plain.qp, 3, REMOTE_AT, 64);
	memcpy(node->buffer, "hinted", 7);
	hinted.ex->wr_id = 2;
	hinted.ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(hinted.ex);
	ibv_wr_send(hinted.ex);
	efa->wr_set_processing_hints(efa, WR_HINT_BURST_PPS_SENSITIVE | 1u << 31);
	ibv_wr_set_sge(hinted.ex, node->mr->lkey, (uintptr_t)node->buffer, 7);
	ibv_wr_set_ud_addr(hinted.ex, node->ah, plain.qp->qp_num, QKEY);
	CHECK_EQ(ibv_wr_complete(hinted.ex), 0);
	int opcode;
	uint32_t length;
	CHECK_EQ(wait_one(&plain, NULL, &opcode, &length), IBV_WC_SUCCESS);
	CHECK_EQ(length, 7);
	CHECK_EQ(wait_one(&hinted, NULL, &opcode, &length), IBV_WC_SUCCESS);
	CHECK_EQ(strcmp(node->buffer + REMOTE_AT, "hinted"), 0);
	/* Without a request it is nothing, and hurts no later session. */
	efa->wr_set_processing_hints(efa, 1);
	side_close(&plain);
	side_close(&hinted);
}

/* Copies `length` bytes into the request; what ibv_wr_complete makes of it. */
static int write_inline(struct node *node, struct side *from, struct side *to, struct ibv_mr *open,
			enum kind kind, uint32_t length)
{
	char text[128];
	memset(text, 'i', sizeof(text));
	uint64_t remote = (uintptr_t)node->buffer + REMOTE_AT;
	from->ex->wr_id = 8;
	from->ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(from->ex);
	if (kind == READ)
		ibv_wr_rdma_read(from->ex, open->rkey, remote);
	else if (kind == WRITE)
		ibv_wr_rdma_write(from->ex, open->rkey, remote);
	else
		ibv_wr_rdma_write_imm(from->ex, open->rkey, remote, htonl(5));
	ibv_wr_set_inline_data(from->ex, text, length);
	memset(text, 'x', sizeof(text));
	ibv_wr_set_ud_addr(from->ex, node->ah, to->qp->qp_num, QKEY);
	return ibv_wr_complete(from->ex);
}

static void check_written(struct node *node, uint32_t length)
{
	char *remote = node->buffer + REMOTE_AT;
	for (uint32_t i = 0; i < length; i++)
		CHECK_EQ(remote[i], 'i');
	CHECK_EQ(remote[length], 2);
}

static void check_inline_write(struct node *node, struct ibv_mr *open)
{
	struct side from = side_with(node, QP_FLAGS_INLINE_WRITE, WR_EX_WITH_PROCESSING_HINTS);
	struct side to = side_with(node, 0, 0);
	int opcode;
	uint32_t length;
	for (uint32_t bytes = 0; bytes <= 32; bytes++) {
		memset(node->buffer + REMOTE_AT, 2, 64);
		CHECK_EQ(write_inline(node, &from, &to, open, WRITE, bytes), 0);
		CHECK_EQ(wait_one(&from, &to, &opcode, &length), IBV_WC_SUCCESS);
		CHECK_EQ(opcode, IBV_WC_RDMA_WRITE);
		check_written(node, bytes);
	}
	post_recv(node, to.qp, 6, 0, 16);
	memset(node->buffer + REMOTE_AT, 2, 64);
	CHECK_EQ(write_inline(node, &from, &to, open, WRITE_IMM, 32), 0);
	CHECK_EQ(wait_one(&to, NULL, &opcode, &length), IBV_WC_SUCCESS);
	CHECK_EQ(opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK_EQ(length, 32);
	CHECK_EQ(wait_one(&from, NULL, &opcode, &length), IBV_WC_SUCCESS);
	check_written(node, 32);
	/* Keys of the target are looked at as for any WRITE. */
	struct ibv_mr closed = *open;
	closed.rkey = node->mr->rkey;
	CHECK_EQ(write_inline(node, &from, &to, &closed, WRITE, 8), 0);
	CHECK_EQ(wait_one(&from, &to, &opcode, &length), IBV_WC_REM_ACCESS_ERR);
	/* Longer than the queue pair takes; what cannot be inline; a queue pair without the flag. */
	CHECK_EQ(write_inline(node, &from, &to, open, WRITE, 33), EINVAL);
	CHECK_EQ(write_inline(node, &from, &to, open, READ, 8), EINVAL);
	CHECK_EQ(write_inline(node, &to, &from, open, WRITE, 8), EINVAL);
	CHECK_EQ(write_inline(node, &to, &from, open, WRITE_IMM, 8), EINVAL);
	side_close(&from);
	side_close(&to);
}

/* Flags that no device has, and those this one has not. */
static void check_flags(struct node *node)
{
	struct ibv_cq_ex *cq = cq_create(node);
	struct ibv_qp_init_attr_ex attr = side_attr(node, cq);
	CHECK(!newest_create(node, &attr, 0, WR_EX_WITH_PROCESSING_HINTS | 2));
	CHECK_EQ(errno, EOPNOTSUPP);
	CHECK(!newest_create(node, &attr, 4, 0));
	CHECK_EQ(errno, EOPNOTSUPP);
	if (!has_write) {
		CHECK(!newest_create(node, &attr, QP_FLAGS_INLINE_WRITE, 0));
		CHECK_EQ(errno, EOPNOTSUPP);
	}
	attr.cap.max_inline_data = 33;
	CHECK(!newest_create(node, &attr, 0, 0));
	CHECK_EQ(errno, EINVAL);
	/* A later member of a structure that nobody knows. */
	struct {
		struct newest_qp_init_attr attr;
		uint64_t unknown;
	} newer = {.unknown = 1};
	attr.cap.max_inline_data = 32;
	CHECK(!efadv_create_qp_ex(node->context, &attr, (struct efadv_qp_init_attr *)&newer,
				  sizeof(newer)));
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

static int sq_depth(struct node *node, struct newest_sq_depth_attr attr, uint32_t length)
{
	int (*function)(struct ibv_context *, struct newest_sq_depth_attr *, uint32_t) =
		find("efadv_get_max_sq_depth");
	return function(node->context, &attr, length);
}

static int rq_depth(struct node *node, struct newest_rq_depth_attr attr, uint32_t length)
{
	int (*function)(struct ibv_context *, struct newest_rq_depth_attr *, uint32_t) =
		find("efadv_get_max_rq_depth");
	return function(node->context, &attr, length);
}

/* Entries for inline WRITEs are twice as long, so that half as many fit. */
static void check_depths(struct node *node)
{
	struct newest_sq_depth_attr sq = {.max_send_sge = 2, .max_rdma_sge = 1, .max_inline_data = 32};
	CHECK_EQ(sq_depth(node, sq, sizeof(sq)), 4096);
	sq.flags = SQ_DEPTH_INLINE_WRITE;
	CHECK_EQ(sq_depth(node, sq, sizeof(sq)), 2048);
	CHECK_EQ(sq_depth(node, sq, 20), -EINVAL);
	sq.max_inline_data = 33;
	CHECK_EQ(sq_depth(node, sq, sizeof(sq)), -EINVAL);
	sq.max_inline_data = 0;
	sq.max_send_sge = 3;
	CHECK_EQ(sq_depth(node, sq, sizeof(sq)), -EINVAL);
	sq.max_send_sge = 1;
	sq.max_rdma_sge = 2;
	CHECK_EQ(sq_depth(node, sq, sizeof(sq)), -EINVAL);
	sq.max_rdma_sge = 1;
	sq.comp_mask = 1;
	CHECK_EQ(sq_depth(node, sq, sizeof(sq)), -EINVAL);

	struct newest_rq_depth_attr rq = {.max_recv_sge = 1};
	CHECK_EQ(rq_depth(node, rq, sizeof(rq)), 32768);
	rq.max_recv_sge = 3;
	CHECK_EQ(rq_depth(node, rq, sizeof(rq)), 32768 / 3);
	rq.max_recv_sge = 4;
	CHECK_EQ(rq_depth(node, rq, sizeof(rq)), -EINVAL);
	/* libefa divides by it. */
	rq.max_recv_sge = 0;
	CHECK_EQ(rq_depth(node, rq, sizeof(rq)), -EINVAL);

	if (!has_write)
		return;
	struct ibv_cq_ex *cq = cq_create(node);
	struct ibv_qp_init_attr_ex attr = side_attr(node, cq);
	attr.cap.max_send_wr = 2049;
	CHECK(!newest_create(node, &attr, QP_FLAGS_INLINE_WRITE, 0));
	CHECK_EQ(errno, EINVAL);
	attr.cap.max_send_wr = 2048;
	struct ibv_qp *qp = newest_create(node, &attr, QP_FLAGS_INLINE_WRITE, 0);
	CHECK(qp);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

/* What can be asked, and what none of these devices has. */
static void check_queries(struct node *node)
{
	struct newest_device_attr attr = {0};
	CHECK_EQ(efadv_query_device(node->context, (struct efadv_device_attr *)&attr, sizeof(attr)),
		 0);
	CHECK_EQ(attr.inline_buf_size, 32);
	CHECK_EQ(attr.inline_buf_size_ex, 32);
	CHECK_EQ(attr.device_caps >> 5, 0);

	struct newest_mr_attr mr;
	memset(&mr, 0xff, sizeof(mr));
	int (*query_mr)(struct ibv_mr *, struct newest_mr_attr *, uint32_t) = find("efadv_query_mr");
	CHECK_EQ(query_mr(node->mr, &mr, sizeof(mr)), 0);
	CHECK_EQ(mr.comp_mask, 0);
	CHECK_EQ(mr.ic_id_validity, 0);
	CHECK_EQ(query_mr(node->mr, &mr, 12), EINVAL);

	int (*port_speed)(struct ibv_context *, uint32_t, uint64_t *) = find("ibv_query_port_speed");
	uint64_t speed = 0;
	CHECK_EQ(port_speed(node->context, 1, &speed), 0);
	CHECK_EQ(speed, 1000); /* in 100 Mb/s */
	CHECK_EQ(port_speed(node->context, 2, &speed), EINVAL);
	CHECK_EQ(port_speed(node->context, 0x101, &speed), EINVAL);

	int (*counters)(struct ibv_context *, void *, size_t) = find("_ibv_query_comp_cntr_caps");
	uint64_t caps[2];
	CHECK_EQ(counters(node->context, caps, sizeof(caps)), EOPNOTSUPP);
	void *(*create)(struct ibv_context *, void *) = find("ibv_create_comp_cntr");
	uint32_t counter[3] = {0};
	errno = 0;
	CHECK(!create(node->context, counter));
	CHECK_EQ(errno, EOPNOTSUPP);
	/* The rings of the device: libfabric goes on without them. */
	int (*query_cq)(struct ibv_cq *, void *, uint32_t) = find("efadv_query_cq");
	struct ibv_cq_ex *cq = cq_create(node);
	uint64_t rings[5];
	CHECK_EQ(query_cq(ibv_cq_ex_to_cq(cq), rings, sizeof(rings)), EOPNOTSUPP);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

int main(void)
{
	struct node node = node_open();
	struct efadv_device_attr attr = {0};
	CHECK_EQ(efadv_query_device(node.context, &attr, sizeof(attr)), 0);
	has_write = attr.device_caps & CAPS_RDMA_WRITE;
	if (!has_write)
		attr_send_ops = IBV_QP_EX_WITH_SEND;
	check_hints(&node);
	check_flags(&node);
	check_cq(&node);
	check_depths(&node);
	check_queries(&node);
	if (has_write) {
		struct ibv_mr *open = ibv_reg_mr(node.pd, node.buffer, BUFFER_BYTES,
						 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		CHECK(open);
		check_inline_write(&node, open);
		CHECK_EQ(ibv_dereg_mr(open), 0);
	}
	node_close(&node);
	return 0;
}
