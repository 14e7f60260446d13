/* libfabric releases its objects in a destructor, which may run after the preloaded library's. */
#include "check.h"

#define RECV_AT 65536

static struct node node;
static struct ibv_cq *cq;
static struct ibv_qp *from, *to;

static void exchange(void)
{
	post_recv(&node, to, 2, RECV_AT, 100);
	struct ibv_sge sge = {(uintptr_t)node.buffer, 100, node.mr->lkey};
	struct ibv_send_wr wr = send_wr(&node, to, &sge), *bad = NULL;
	CHECK_EQ(ibv_post_send(from, &wr, &bad), 0);
	struct ibv_wc wc[2];
	poll_n(cq, 2, wc);
	CHECK_EQ(wc[0].status, IBV_WC_SUCCESS);
	CHECK_EQ(wc[1].status, IBV_WC_SUCCESS);
}

__attribute__((destructor)) static void release(void)
{
	exchange();
	if (ibv_destroy_qp(from) || ibv_destroy_qp(to) || ibv_destroy_cq(cq))
		_Exit(1);
	node_close(&node);
}

int main(void)
{
	node = node_open();
	cq = ibv_create_cq(node.context, 64, NULL, NULL, 0);
	CHECK(cq);
	from = srd_create(&node, cq);
	to = srd_create(&node, cq);
	exchange();
	return 0;
}
