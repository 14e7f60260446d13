/* Thread domains and parent domains: a second name of a protection domain, with which all works. */
#include "check.h"

#define RECV_AT 65536

int main(void)
{
	struct node node = node_open();
	struct ibv_td_init_attr td_attr = {.comp_mask = 1};
	CHECK(!ibv_alloc_td(node.context, &td_attr));
	CHECK_EQ(errno, EOPNOTSUPP);
	td_attr.comp_mask = 0;
	struct ibv_td *td = ibv_alloc_td(node.context, &td_attr);
	CHECK(td && td->context == node.context);

	struct ibv_parent_domain_init_attr attr = {.td = td};
	CHECK(!ibv_alloc_parent_domain(node.context, &attr));
	CHECK_EQ(errno, EINVAL);
	attr.pd = node.pd;
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	CHECK(!ibv_alloc_parent_domain(node.context, &attr));
	CHECK_EQ(errno, EOPNOTSUPP);
	attr.comp_mask = 0;
	struct ibv_pd *parent = ibv_alloc_parent_domain(node.context, &attr);
	CHECK(parent && parent != node.pd && parent->context == node.context);
	CHECK_EQ(ibv_dealloc_td(td), EBUSY);
	CHECK_EQ(ibv_dealloc_pd(node.pd), EBUSY);

	/* Keys and address handles of the one are good with queue pairs of the other. */
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 32,
					      .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
					      .parent_domain = parent};
	struct ibv_cq *cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(node.context, &cq_attr));
	CHECK(cq);
	struct node child = node;
	child.pd = parent;
	struct ibv_qp *from = srd_create(&child, cq), *to = srd_create(&node, cq);
	CHECK(from->pd == parent);
	CHECK_EQ(ibv_dealloc_pd(parent), EBUSY);
	post_recv(&node, to, 2, RECV_AT, 100);
	struct ibv_sge sge = {(uintptr_t)node.buffer, 100, node.mr->lkey};
	struct ibv_send_wr wr = send_wr(&node, to, &sge), *bad = NULL;
	CHECK_EQ(ibv_post_send(from, &wr, &bad), 0);
	struct ibv_wc wc[2];
	poll_n(cq, 2, wc);
	CHECK_EQ(wc[0].status, IBV_WC_SUCCESS);
	CHECK_EQ(wc[1].status, IBV_WC_SUCCESS);

	CHECK_EQ(ibv_destroy_qp(from), 0);
	CHECK_EQ(ibv_destroy_qp(to), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_dealloc_pd(parent), 0);
	CHECK_EQ(ibv_dealloc_td(td), 0);
	node_close(&node);
	return 0;
}
