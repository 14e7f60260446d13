/* Every mistake a program can make is answered as on the device, and nothing breaks. */
#include "check.h"

#define RECV_AT 65536

static void check_creation(struct node *node, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = qp_attr(cq);
	attr.qp_type = IBV_QPT_RC;
	CHECK(!ibv_create_qp(node->pd, &attr));
	CHECK_EQ(errno, EOPNOTSUPP);
	attr.qp_type = IBV_QPT_DRIVER;
	CHECK(!efadv_create_driver_qp(node->pd, &attr, 1));
	CHECK_EQ(errno, EOPNOTSUPP);
	attr.cap.max_send_wr = 4097;
	CHECK(!efadv_create_driver_qp(node->pd, &attr, EFADV_QP_DRIVER_TYPE_SRD));
	CHECK_EQ(errno, EINVAL);
	attr = qp_attr(cq);
	attr.srq = (struct ibv_srq *)cq;
	CHECK(!efadv_create_driver_qp(node->pd, &attr, EFADV_QP_DRIVER_TYPE_SRD));
	CHECK_EQ(errno, EINVAL);
	attr.srq = NULL;
	attr.qp_type = IBV_QPT_UD;
	CHECK(!efadv_create_driver_qp(node->pd, &attr, EFADV_QP_DRIVER_TYPE_SRD));
	CHECK_EQ(errno, EINVAL);
	attr = qp_attr(NULL);
	CHECK(!efadv_create_driver_qp(node->pd, &attr, EFADV_QP_DRIVER_TYPE_SRD));
	CHECK_EQ(errno, EINVAL);
	CHECK(!ibv_create_cq(node->context, 0, NULL, NULL, 0));
	CHECK_EQ(errno, EINVAL);
	CHECK(!ibv_create_cq(node->context, 32769, NULL, NULL, 0));
	CHECK(!ibv_create_cq(node->context, 16, NULL, NULL, node->context->num_comp_vectors));
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_CVLAN};
	CHECK(!ibv_create_cq_ex(node->context, &cq_attr));
	CHECK_EQ(errno, EOPNOTSUPP);
	CHECK(!ibv_alloc_pd(NULL));
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(ibv_dealloc_pd(node->pd), EBUSY);
}

static void check_versions(struct node *node, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr base = qp_attr(cq);
	struct ibv_qp_init_attr_ex attr = {.send_cq = cq,
					   .recv_cq = cq,
					   .cap = base.cap,
					   .qp_type = IBV_QPT_DRIVER,
					   .comp_mask = IBV_QP_INIT_ATTR_PD,
					   .pd = node->pd};
	struct {
		struct efadv_qp_init_attr attr;
		char newer[16];
	} efa = {0};
	struct ibv_qp *qp = efadv_create_qp_ex(node->context, &attr, &efa.attr, sizeof(efa));
	CHECK(qp);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	efa.newer[12] = 1;
	CHECK(!efadv_create_qp_ex(node->context, &attr, &efa.attr, sizeof(efa)));
	CHECK_EQ(errno, EINVAL);
	attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	CHECK(!efadv_create_qp_ex(node->context, &attr, &efa.attr, sizeof(efa.attr)));
	CHECK_EQ(errno, EOPNOTSUPP);
	attr.comp_mask = 0;
	CHECK(!efadv_create_qp_ex(node->context, &attr, &efa.attr, sizeof(efa.attr)));
	CHECK_EQ(errno, EINVAL);
}

static void check_memory(struct node *node)
{
	CHECK(!ibv_reg_mr(node->pd, node->buffer, 64, IBV_ACCESS_REMOTE_ATOMIC));
	CHECK_EQ(errno, EOPNOTSUPP);
	CHECK(!ibv_reg_mr(node->pd, node->buffer, 0, 0));
	CHECK(!ibv_reg_mr(node->pd, node->buffer, 64, IBV_ACCESS_REMOTE_WRITE));
	CHECK_EQ(errno, EINVAL);
	/* A byte keeps its place in its page. */
	CHECK(!ibv_reg_mr_iova(node->pd, node->buffer, 64, (uintptr_t)node->buffer + 1, 0));
	CHECK_EQ(errno, EINVAL);
	CHECK(!ibv_reg_dmabuf_mr(node->pd, 0, 64, 0, 0, 0));
	CHECK_EQ(errno, EOPNOTSUPP);
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	CHECK(!ibv_create_ah(node->pd, &attr));
	CHECK_EQ(errno, EINVAL);
	struct ibv_mr *mr = ibv_reg_mr(node->pd, node->buffer, 64, IBV_ACCESS_RELAXED_ORDERING);
	CHECK(mr && mr->lkey != node->mr->lkey);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

static void check_states(struct node *node, struct ibv_cq *cq, struct ibv_qp *to)
{
	struct ibv_qp_init_attr init = qp_attr(cq);
	struct ibv_qp *qp = efadv_create_driver_qp(node->pd, &init, EFADV_QP_DRIVER_TYPE_SRD);
	CHECK(qp);
	struct ibv_sge sge = {(uintptr_t)node->buffer, 8, node->mr->lkey};
	struct ibv_send_wr wr = send_wr(node, to, &sge), *bad = NULL;
	CHECK_EQ(ibv_post_send(qp, &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
	attr.qp_state = IBV_QPS_INIT;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
	attr.port_num = 2;
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), EINVAL);
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_TIMEOUT), EOPNOTSUPP);
	CHECK_EQ(qp->state, IBV_QPS_RESET);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

static void check_requests(struct node *node, struct ibv_qp *from, struct ibv_qp *to)
{
	struct ibv_sge sges[3] = {{(uintptr_t)node->buffer, 8, node->mr->lkey}};
	struct ibv_send_wr wr = send_wr(node, to, sges), *bad = NULL;
	wr.opcode = IBV_WR_RDMA_READ;
	CHECK_EQ(ibv_post_send(from, &wr, &bad), EINVAL);
	wr = send_wr(node, to, sges);
	wr.num_sge = 3;
	CHECK_EQ(ibv_post_send(from, &wr, &bad), EINVAL);
	wr = send_wr(node, to, sges);
	wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
	CHECK_EQ(ibv_post_send(from, &wr, &bad), EINVAL);
	wr = send_wr(node, to, sges);
	wr.send_flags |= IBV_SEND_INLINE;
	sges[0].length = 33;
	CHECK_EQ(ibv_post_send(from, &wr, &bad), EINVAL);
	struct ibv_recv_wr recv = {.sg_list = sges, .num_sge = 3}, *bad_recv = NULL;
	CHECK_EQ(ibv_post_recv(from, &recv, &bad_recv), EINVAL);
	CHECK(bad_recv == &recv);
}

static void expect(struct node *node, struct ibv_cq *cq, struct ibv_qp *from,
		   struct ibv_send_wr *wr, enum ibv_wc_status status, uint32_t vendor)
{
	struct ibv_send_wr *bad = NULL;
	struct ibv_wc wc;
	(void)node;
	CHECK_EQ(ibv_post_send(from, wr, &bad), 0);
	poll_n(cq, 1, &wc);
	CHECK_EQ(wc.status, status);
	CHECK_EQ(wc.vendor_err, vendor);
	CHECK_EQ(wc.wr_id, wr->wr_id);
	CHECK_EQ(wc.qp_num, from->qp_num);
}

/* What the device finds out itself, or hears from the other side, is told by the completion. */
static void check_completions(struct node *node, struct ibv_cq *cq, struct ibv_qp *from,
			      struct ibv_qp *to)
{
	struct ibv_sge sge = {(uintptr_t)node->buffer, 8, node->mr->lkey + 1};
	struct ibv_send_wr wr = send_wr(node, to, &sge);
	wr.wr_id = 71;
	expect(node, cq, from, &wr, IBV_WC_LOC_PROT_ERR, 5);
	sge = (struct ibv_sge){(uintptr_t)node->buffer + BUFFER_BYTES - 4, 8, node->mr->lkey};
	expect(node, cq, from, &wr, IBV_WC_LOC_PROT_ERR, 5);
	sge = (struct ibv_sge){(uintptr_t)node->buffer, 8929, node->mr->lkey};
	expect(node, cq, from, &wr, IBV_WC_LOC_LEN_ERR, 6);
	/* No receive is posted: the tries run out. */
	sge.length = 8;
	expect(node, cq, from, &wr, IBV_WC_RNR_RETRY_EXC_ERR, 10);
	/* Nobody has this number. */
	wr.wr.ud.remote_qpn = 9;
	expect(node, cq, from, &wr, IBV_WC_REM_INV_RD_REQ_ERR, 9);
}

/* A list stops at the request that does not fit; what was posted before it counts. */
static void check_full(struct node *node, struct ibv_cq *cq, struct ibv_qp *from, struct ibv_qp *to)
{
	struct ibv_recv_wr recvs[17], *bad_recv = NULL;
	struct ibv_sge recv_sge = {(uintptr_t)node->buffer + RECV_AT, 100, node->mr->lkey};
	for (int i = 0; i < 17; i++)
		recvs[i] = (struct ibv_recv_wr){.wr_id = (uint64_t)i,
						.next = i < 16 ? &recvs[i + 1] : NULL,
						.sg_list = &recv_sge,
						.num_sge = 1};
	CHECK_EQ(ibv_post_recv(to, recvs, &bad_recv), ENOMEM);
	CHECK(bad_recv == &recvs[16]);
	struct ibv_send_wr sends[17], *bad = NULL;
	struct ibv_sge sge = {(uintptr_t)node->buffer, 8, node->mr->lkey};
	for (int i = 0; i < 17; i++) {
		sends[i] = send_wr(node, to, &sge);
		sends[i].next = i < 16 ? &sends[i + 1] : NULL;
	}
	CHECK_EQ(ibv_post_send(from, sends, &bad), ENOMEM);
	CHECK(bad == &sends[16]);
	struct ibv_wc wc[32];
	poll_n(cq, 32, wc);
	for (int i = 0; i < 32; i++)
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
	/* Polling made room again. */
	post_recv(node, to, 1, RECV_AT, 100);
	sends[0].next = NULL;
	CHECK_EQ(ibv_post_send(from, sends, &bad), 0);
	poll_n(cq, 2, wc);
}

static void check_flush(struct node *node, struct ibv_cq *cq, struct ibv_qp *qp, struct ibv_qp *to)
{
	post_recv(node, qp, 41, RECV_AT, 100);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	CHECK_EQ(qp->state, IBV_QPS_ERR);
	struct ibv_wc wc;
	poll_n(cq, 1, &wc);
	CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(wc.wr_id, 41);
	struct ibv_sge sge = {(uintptr_t)node->buffer, 8, node->mr->lkey};
	struct ibv_send_wr wr = send_wr(node, to, &sge), *bad = NULL;
	CHECK_EQ(ibv_post_send(qp, &wr, &bad), EINVAL);
}

static void check_unsupported(struct node *node, struct ibv_cq *cq, struct ibv_qp *qp)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 1, .max_sge = 1}};
	CHECK(!ibv_create_srq(node->pd, &srq));
	CHECK_EQ(errno, EOPNOTSUPP);
	CHECK_EQ(ibv_attach_mcast(qp, &node->gid, 0), EOPNOTSUPP);
	CHECK_EQ(ibv_resize_cq(cq, 100), EOPNOTSUPP);
	CHECK_EQ(ibv_req_notify_cq(cq, 0), EINVAL);
	CHECK(!ibv_alloc_mw(node->pd, IBV_MW_TYPE_1));
	CHECK_EQ(errno, EOPNOTSUPP);
	CHECK_EQ(ibv_query_qp_data_in_order(qp, IBV_WR_SEND, 0), 0);
	CHECK(!ibv_import_pd(node->context, 1));
}

int main(void)
{
	struct node node = node_open();
	struct ibv_cq *cq = ibv_create_cq(node.context, 100, NULL, NULL, 0);
	CHECK(cq);
	check_creation(&node, cq);
	check_versions(&node, cq);
	check_memory(&node);
	struct ibv_qp *from = srd_create(&node, cq), *to = srd_create(&node, cq);
	check_states(&node, cq, to);
	check_requests(&node, from, to);
	check_completions(&node, cq, from, to);
	check_full(&node, cq, from, to);
	check_unsupported(&node, cq, from);
	check_flush(&node, cq, from, to);
	CHECK_EQ(ibv_destroy_qp(from), 0);
	CHECK_EQ(ibv_destroy_qp(to), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	node_close(&node);
	return 0;
}
