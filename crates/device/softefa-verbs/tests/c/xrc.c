/* Extended reliable connections: domains, shared queues and targets, what keeps which of them, and messages and memory through
 * both ways of posting. On an EFA they are refused. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "check.h"

#define LEN 5000
#define RECV_AT 65536
#define WRITE_AT 131072

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static union ibv_gid gid;
static char buffer[BUFFER_BYTES];

static struct ibv_xrcd *open_xrcd(uint32_t mask, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = mask, .fd = fd, .oflags = oflags};
	errno = 0;
	return ibv_open_xrcd(context, &attr);
}

#define XRCD_ATTR (IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS)

static struct ibv_srq *create_srq(struct ibv_xrcd *xrcd, struct ibv_cq *cq, uint32_t less)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 64, .max_sge = 2}, .srq_type = IBV_SRQT_XRC, .pd = pd, .xrcd = xrcd,
		.cq = cq, .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
			IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD};
	attr.comp_mask &= ~less;
	errno = 0;
	return ibv_create_srq_ex(context, &attr);
}

static struct ibv_qp *create_target(struct ibv_xrcd *xrcd, uint32_t mask)
{
	struct ibv_qp_init_attr_ex attr = {.qp_context = &pd, .qp_type = IBV_QPT_XRC_RECV,
					   .comp_mask = mask, .xrcd = xrcd, .pd = pd};
	errno = 0;
	return ibv_create_qp_ex(context, &attr);
}

static struct ibv_qp *open_target(struct ibv_xrcd *xrcd, uint32_t number, uint32_t less, int type)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_CONTEXT |
			     IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = number, .xrcd = xrcd, .qp_context = &mr, .qp_type = type};
	attr.comp_mask &= ~less;
	errno = 0;
	return ibv_open_qp(context, &attr);
}

static void check_domains(void)
{
	CHECK(!open_xrcd(IBV_XRCD_INIT_ATTR_FD, -1, 0) && errno == EINVAL);
	CHECK(!open_xrcd(XRCD_ATTR | IBV_XRCD_INIT_ATTR_RESERVED, -1, 0) && errno == EOPNOTSUPP);
	CHECK(!open_xrcd(XRCD_ATTR, 999, O_CREAT) && errno == EBADF);
	CHECK(!open_xrcd(XRCD_ATTR, -7, O_CREAT) && errno == EBADF);
	FILE *file = tmpfile();
	CHECK(file);
	int fd = fileno(file);
	CHECK(!open_xrcd(XRCD_ATTR, fd, 0) && errno == EAGAIN);
	struct ibv_xrcd *first = open_xrcd(XRCD_ATTR, fd, O_CREAT | O_EXCL);
	CHECK(first && first->context == context);
	CHECK(!open_xrcd(XRCD_ATTR, fd, O_CREAT | O_EXCL) && errno == EINVAL);
	struct ibv_xrcd *second = open_xrcd(XRCD_ATTR, fd, 0), *other = open_xrcd(XRCD_ATTR, -1, 0);
	CHECK(second && second != first && other);
	/* The descriptor stays the program's. */
	CHECK_EQ(fclose(file), 0);
	/* What one opening has is found by the other, and keeps only that one. */
	struct ibv_qp *target = create_target(first, IBV_QP_INIT_ATTR_XRCD);
	CHECK(target && !target->pd && !target->send_cq && !target->recv_cq && !target->srq);
	CHECK(target->qp_context == &pd && target->qp_type == IBV_QPT_XRC_RECV);
	CHECK(!open_target(other, target->qp_num, 0, IBV_QPT_XRC_RECV) && errno == EINVAL);
	struct ibv_qp *again = open_target(second, target->qp_num, 0, IBV_QPT_XRC_RECV);
	CHECK(again && again != target && again->qp_num == target->qp_num);
	CHECK(again->qp_context == &mr && again->state == IBV_QPS_RESET);
	CHECK_EQ(ibv_close_xrcd(first), EBUSY);
	CHECK_EQ(ibv_close_xrcd(second), EBUSY);
	CHECK_EQ(ibv_destroy_qp(target), 0);
	CHECK_EQ(ibv_close_xrcd(first), 0);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	CHECK_EQ(ibv_query_qp(again, &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_RESET);
	uint32_t number = again->qp_num;
	CHECK_EQ(ibv_destroy_qp(again), 0);
	CHECK(!open_target(second, number, 0, IBV_QPT_XRC_RECV) && errno == EINVAL);
	CHECK_EQ(ibv_close_xrcd(second), 0);
	CHECK_EQ(ibv_close_xrcd(other), 0);
}

static void check_refusals(struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
	CHECK(!create_srq(xrcd, cq, IBV_SRQ_INIT_ATTR_XRCD) && errno == EINVAL);
	CHECK(!create_srq(xrcd, cq, IBV_SRQ_INIT_ATTR_CQ) && errno == EINVAL);
	CHECK(!create_srq(xrcd, cq, IBV_SRQ_INIT_ATTR_PD) && errno == EINVAL);
	CHECK(!create_srq(NULL, cq, 0) && errno == EINVAL);
	CHECK(!create_srq(xrcd, NULL, 0) && errno == EINVAL);
	CHECK(!create_target(NULL, IBV_QP_INIT_ATTR_XRCD) && errno == EINVAL);
	CHECK(!create_target(xrcd, IBV_QP_INIT_ATTR_PD) && errno == EINVAL);
	struct ibv_qp *target = create_target(xrcd, IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_PD);
	CHECK(target);
	for (uint32_t bit = 1; bit <= IBV_QP_OPEN_ATTR_TYPE; bit <<= 1) {
		struct ibv_qp *opened = open_target(xrcd, target->qp_num, bit, IBV_QPT_XRC_RECV);
		CHECK(!opened == (bit != IBV_QP_OPEN_ATTR_CONTEXT));
		if (opened) {
			CHECK(!opened->qp_context);
			CHECK_EQ(ibv_destroy_qp(opened), 0);
		}
	}
	CHECK(!open_target(xrcd, target->qp_num, 0, IBV_QPT_XRC_SEND) && errno == EINVAL);
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;
	CHECK_EQ(ibv_post_send(target, &send, &bad_send), EINVAL);
	struct ibv_recv_wr receive = {0}, *bad_receive;
	CHECK_EQ(ibv_post_recv(target, &receive, &bad_receive), EINVAL);
	CHECK_EQ(ibv_destroy_qp(target), 0);
	/* A queue pair of another kind has no use for a queue of XRC, nor for a domain. */
	struct ibv_srq *srq = create_srq(xrcd, cq, 0);
	CHECK(srq);
	struct ibv_qp_init_attr_ex attr = {.send_cq = cq, .recv_cq = cq, .srq = srq, .pd = pd,
					   .qp_type = IBV_QPT_RC, .comp_mask = IBV_QP_INIT_ATTR_PD,
					   .cap = {.max_send_wr = 1, .max_send_sge = 1}};
	CHECK(!ibv_create_qp_ex(context, &attr) && errno == EINVAL);
	attr.srq = NULL;
	attr.xrcd = xrcd;
	attr.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	CHECK(!ibv_create_qp_ex(context, &attr) && errno == EINVAL);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
}

static void to_init(struct ibv_qp *qp, int access)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		IBV_QP_ACCESS_FLAGS), 0);
}

/* How to receive means nothing to the initiator, how to repeat nothing to the target: said all the same it is passed over. */
static void connect_pair(struct ibv_qp *from, struct ibv_qp *to)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .rq_psn = 7,
				   .max_dest_rd_atomic = 4, .min_rnr_timer = 1,
				   .ah_attr = {.is_global = 1, .port_num = 1,
					       .grh = {.dgid = gid, .hop_limit = 1}}};
	int both = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	int receive = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	struct ibv_qp_init_attr init;
	to_init(from, 0);
	to_init(to, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	attr.dest_qp_num = to->qp_num;
	CHECK_EQ(ibv_modify_qp(from, &attr, both | IBV_QP_SQ_PSN), EINVAL);
	CHECK_EQ(ibv_modify_qp(from, &attr, both | receive), 0);
	attr.dest_qp_num = from->qp_num;
	CHECK_EQ(ibv_modify_qp(to, &attr, both), EINVAL);
	CHECK_EQ(ibv_modify_qp(to, &attr, both | receive), 0);
	struct ibv_qp_attr send = {.qp_state = IBV_QPS_RTS, .sq_psn = 7, .timeout = 10, .retry_cnt = 7,
				   .rnr_retry = 7, .max_rd_atomic = 4};
	int repeat = IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	both = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT;
	CHECK_EQ(ibv_modify_qp(to, &send, both | IBV_QP_QKEY), EINVAL);
	CHECK_EQ(ibv_modify_qp(to, &send, both | repeat), 0);
	CHECK_EQ(ibv_query_qp(to, &attr, IBV_QP_RETRY_CNT, &init), 0);
	CHECK_EQ(attr.retry_cnt, 0);
	CHECK_EQ(ibv_modify_qp(from, &send, both), EINVAL);
	CHECK_EQ(ibv_modify_qp(from, &send, both | repeat), 0);
}

static struct ibv_wc take(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	uint64_t deadline = now_ms() + 20000;
	while (ibv_poll_cq(cq, 1, &wc) == 0)
		CHECK(now_ms() < deadline);
	return wc;
}

static void post_receive(struct ibv_srq *srq, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)buffer + RECV_AT, LEN, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

static void post(struct ibv_qp *qp, uint32_t srqn, uint64_t id, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = {(uintptr_t)buffer, LEN, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED, .imm_data = htonl(id)}, *bad;
	wr.qp_type.xrc.remote_srqn = srqn;
	if (opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_READ) {
		wr.wr.rdma.remote_addr = (uintptr_t)buffer + WRITE_AT;
		wr.wr.rdma.rkey = mr->rkey;
	}
	CHECK_EQ(ibv_post_send(qp, &wr, &bad), 0);
}

static void fill(int with)
{
	for (int i = 0; i < LEN; i++)
		buffer[i] = i * 7 + with;
}

/* Each message to the other one of two queues, with a completion queue each. */
static void check_messages(struct ibv_qp *from, struct ibv_cq *done, struct ibv_qp *to,
			   struct ibv_srq *srq[2], struct ibv_cq *cq[2])
{
	uint32_t number[2];
	for (int i = 0; i < 2; i++)
		CHECK_EQ(ibv_get_srq_num(srq[i], &number[i]), 0);
	CHECK(number[0] != number[1]);
	for (int id = 1; id < 100; id++) {
		int which = id % 2;
		fill(id);
		post_receive(srq[which], id);
		post(from, number[which], id, IBV_WR_SEND_WITH_IMM);
		struct ibv_wc wc = take(cq[which]);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.opcode, IBV_WC_RECV);
		CHECK_EQ(wc.wr_id, id);
		CHECK_EQ(wc.byte_len, LEN);
		CHECK_EQ(ntohl(wc.imm_data), id);
		CHECK_EQ(wc.qp_num, to->qp_num);
		CHECK_EQ(wc.src_qp, from->qp_num);
		CHECK(memcmp(buffer, buffer + RECV_AT, LEN) == 0);
		CHECK_EQ(take(done).status, IBV_WC_SUCCESS);
	}
	fill(3);
	post(from, number[0], 1, IBV_WR_RDMA_WRITE);
	CHECK_EQ(take(done).opcode, IBV_WC_RDMA_WRITE);
	CHECK(memcmp(buffer, buffer + WRITE_AT, LEN) == 0);
	fill(4);
	post(from, number[1], 2, IBV_WR_RDMA_READ);
	CHECK_EQ(take(done).opcode, IBV_WC_RDMA_READ);
	CHECK(memcmp(buffer, buffer + WRITE_AT, LEN) == 0);
}

static void check_sessions(struct ibv_qp *from, struct ibv_cq *done, struct ibv_srq *srq,
			   struct ibv_cq *cq)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(from);
	uint32_t number;
	CHECK(ex);
	CHECK_EQ(ibv_get_srq_num(srq, &number), 0);
	post_receive(srq, 5);
	post_receive(srq, 6);
	ibv_wr_start(ex);
	for (uint64_t id = 5; id < 7; id++) {
		ex->wr_id = id;
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_send(ex);
		ibv_wr_set_xrc_srqn(ex, number);
		ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)buffer, 100);
	}
	CHECK_EQ(ibv_wr_complete(ex), 0);
	for (uint64_t id = 5; id < 7; id++) {
		struct ibv_wc wc = take(cq);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == id && wc.byte_len == 100);
		CHECK_EQ(take(done).wr_id, id);
	}
	/* The number of the work request before is not that of this one. */
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)buffer, 100);
	CHECK_EQ(ibv_wr_complete(ex), 0);
	CHECK_EQ(take(done).status, IBV_WC_REM_INV_RD_REQ_ERR);
}

static struct ibv_qp *create_initiator(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq, .pd = pd, .qp_type = IBV_QPT_XRC_SEND,
		/* What it would receive with is not looked at. */
		.cap = {.max_send_wr = 16, .max_send_sge = 1, .max_recv_wr = 1 << 30},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &attr);
	CHECK(qp && !qp->recv_cq && qp->send_cq == cq && qp->qp_type == IBV_QPT_XRC_SEND);
	struct ibv_recv_wr receive = {0}, *bad;
	CHECK_EQ(ibv_post_recv(qp, &receive, &bad), EINVAL);
	return qp;
}

static void check_traffic(struct ibv_xrcd *xrcd)
{
	struct ibv_cq *done = ibv_create_cq(context, 16, NULL, NULL, 0), *cq[2];
	struct ibv_srq *srq[2];
	for (int i = 0; i < 2; i++) {
		cq[i] = ibv_create_cq(context, 16, NULL, NULL, 0);
		CHECK(cq[i]);
		srq[i] = create_srq(xrcd, cq[i], 0);
		CHECK(srq[i] && srq[i]->pd == pd);
	}
	struct ibv_qp *from = create_initiator(done);
	struct ibv_qp *to = create_target(xrcd, IBV_QP_INIT_ATTR_XRCD);
	struct ibv_qp *again = open_target(xrcd, to->qp_num, 0, IBV_QPT_XRC_RECV);
	connect_pair(from, to);
	check_messages(from, done, to, srq, cq);
	/* Whoever has it open may leave, and those who stay are told. */
	CHECK_EQ(ibv_destroy_qp(to), 0);
	check_sessions(from, done, srq[1], cq[1]);
	struct ibv_async_event event;
	CHECK_EQ(ibv_get_async_event(context, &event), 0);
	CHECK_EQ(event.event_type, IBV_EVENT_QP_REQ_ERR);
	CHECK(event.element.qp == again);
	ibv_ack_async_event(&event);
	CHECK_EQ(ibv_destroy_cq(cq[0]), EBUSY);
	CHECK_EQ(ibv_close_xrcd(xrcd), EBUSY);
	CHECK_EQ(ibv_dealloc_pd(pd), EBUSY);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(ibv_destroy_srq(srq[i]), 0);
		CHECK_EQ(ibv_destroy_cq(cq[i]), 0);
	}
	CHECK_EQ(ibv_destroy_qp(again), 0);
	CHECK_EQ(ibv_destroy_qp(from), 0);
	CHECK_EQ(ibv_destroy_cq(done), 0);
}

static void check_efa(void)
{
	CHECK(!open_xrcd(XRCD_ATTR, -1, O_CREAT) && errno == EOPNOTSUPP);
	CHECK(!open_target(NULL, 1, 0, IBV_QPT_XRC_RECV) && errno == EOPNOTSUPP);
	CHECK(!create_target(NULL, IBV_QP_INIT_ATTR_XRCD) && errno == EOPNOTSUPP);
	struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_XRC_SEND};
	CHECK(!ibv_create_qp(pd, &attr) && errno == EOPNOTSUPP);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list && list[0]);
	context = ibv_open_device(list[0]);
	CHECK(context);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	struct ibv_device_attr_ex attr;
	CHECK_EQ(ibv_query_device_ex(context, NULL, &attr), 0);
	CHECK_EQ(ibv_query_gid(context, 1, 0, &gid), 0);
	int is_roce = context->device->node_type == IBV_NODE_CA;
	CHECK_EQ(!!(attr.orig_attr.device_cap_flags & IBV_DEVICE_XRC), is_roce);
	CHECK_EQ(!!(attr.device_cap_flags_ex & IBV_DEVICE_XRC), is_roce);
	CHECK_EQ(!!(attr.xrc_odp_caps & IBV_ODP_SUPPORT_SRQ_RECV), is_roce);
	if (!is_roce) {
		check_efa();
		return 0;
	}
	mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(mr);
	check_domains();
	struct ibv_xrcd *xrcd = open_xrcd(XRCD_ATTR, -1, O_CREAT);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	CHECK(xrcd && cq);
	check_refusals(xrcd, cq);
	check_traffic(xrcd);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_close_xrcd(xrcd), 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(ibv_close_device(context), 0);
	return 0;
}
