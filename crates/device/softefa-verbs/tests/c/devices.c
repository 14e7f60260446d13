/* Two devices in one process: different names, files and addresses, and messages between them. */
#include "check.h"

#define RECV_AT 65536

static struct node open_at(struct ibv_device *device)
{
	struct node node = {.context = ibv_open_device(device)};
	CHECK(node.context);
	node.pd = ibv_alloc_pd(node.context);
	node.buffer = calloc(1, BUFFER_BYTES);
	node.mr = ibv_reg_mr(node.pd, node.buffer, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE);
	CHECK(node.pd && node.mr);
	CHECK_EQ(ibv_query_gid(node.context, 1, 0, &node.gid), 0);
	return node;
}

static struct ibv_ah *ah_to(struct node *from, struct node *to)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.dgid = to->gid};
	struct ibv_ah *ah = ibv_create_ah(from->pd, &attr);
	CHECK(ah);
	return ah;
}

static void send_one(struct node *node, struct ibv_qp *from, struct ibv_qp *to, struct node *at)
{
	post_recv(at, to, 8, RECV_AT, 4096);
	struct ibv_sge sge = {(uintptr_t)node->buffer, 4096, node->mr->lkey};
	struct ibv_send_wr wr = send_wr(node, to, &sge), *bad = NULL;
	CHECK_EQ(ibv_post_send(from, &wr, &bad), 0);
	struct ibv_wc sent, got;
	uint64_t deadline = now_ms() + 20000;
	int done = 0;
	while (done != 3) {
		if (!(done & 1) && ibv_poll_cq(from->send_cq, 1, &sent) == 1)
			done |= 1;
		if (!(done & 2) && ibv_poll_cq(to->recv_cq, 1, &got) == 1)
			done |= 2;
		CHECK(now_ms() < deadline);
	}
	CHECK_EQ(sent.status, IBV_WC_SUCCESS);
	CHECK_EQ(got.status, IBV_WC_SUCCESS);
	CHECK_EQ(got.src_qp, from->qp_num);
	CHECK_EQ(memcmp(at->buffer + RECV_AT, node->buffer, 4096), 0);
}

/* The number the receiver has for the sender, and its GID only if it has none. */
static void check_sender(struct ibv_cq_ex *cq, struct node *from, int ahn)
{
	struct ibv_poll_cq_attr attr = {0};
	uint64_t deadline = now_ms() + 20000;
	while (ibv_start_poll(cq, &attr) == ENOENT)
		CHECK(now_ms() < deadline);
	CHECK_EQ(cq->status, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_wc_read_slid(cq), ahn);
	union ibv_gid gid;
	int got = efadv_wc_read_sgid(efadv_cq_from_ibv_cq_ex(cq), &gid);
	CHECK_EQ(got, ahn == 0xffff ? 0 : -ENOENT);
	if (got == 0)
		CHECK_EQ(memcmp(&gid, &from->gid, sizeof(gid)), 0);
	ibv_end_poll(cq);
}

static void check_unknown_sender(struct node *a, struct ibv_qp *from, struct node *b)
{
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct efadv_cq_init_attr efa = {.wc_flags = EFADV_WC_EX_WITH_SGID};
	struct ibv_cq_ex *cq = efadv_create_cq(b->context, &cq_attr, &efa, sizeof(efa));
	CHECK(cq);
	struct ibv_qp *to = srd_create(b, ibv_cq_ex_to_cq(cq));
	struct ibv_sge sge = {(uintptr_t)a->buffer, 8, a->mr->lkey};
	struct ibv_send_wr wr = send_wr(a, to, &sge), *bad = NULL;
	struct ibv_wc sent;
	CHECK_EQ(ibv_destroy_ah(b->ah), 0);
	post_recv(b, to, 1, RECV_AT, 64);
	CHECK_EQ(ibv_post_send(from, &wr, &bad), 0);
	check_sender(cq, a, 0xffff);
	poll_n(from->send_cq, 1, &sent);
	b->ah = ah_to(b, a);
	struct efadv_ah_attr ah;
	CHECK_EQ(efadv_query_ah(b->ah, &ah, sizeof(ah)), 0);
	post_recv(b, to, 1, RECV_AT, 64);
	CHECK_EQ(ibv_post_send(from, &wr, &bad), 0);
	check_sender(cq, a, ah.ahn);
	poll_n(from->send_cq, 1, &sent);
	CHECK_EQ(ibv_destroy_qp(to), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

int main(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	CHECK(list);
	CHECK_EQ(count, 2);
	CHECK_EQ(strcmp(ibv_get_device_name(list[0]), "first"), 0);
	CHECK_EQ(strcmp(ibv_get_device_name(list[1]), "second"), 0);
	CHECK(ibv_get_device_guid(list[0]) != ibv_get_device_guid(list[1]));
	CHECK(strcmp(list[0]->ibdev_path, list[1]->ibdev_path) != 0);
	CHECK(strcmp(list[0]->dev_name, list[1]->dev_name) != 0);
	struct node a = open_at(list[0]), b = open_at(list[1]);
	/* Opened again, a device is the same one: its list outlives what was made from it. */
	struct ibv_context *again = ibv_open_device(list[0]);
	CHECK(again && again != a.context);
	CHECK_EQ(ibv_close_device(again), 0);
	ibv_free_device_list(list);
	CHECK_EQ(memcmp(a.gid.raw, b.gid.raw, 8), 0);
	CHECK(memcmp(a.gid.raw + 8, b.gid.raw + 8, 8) != 0);
	memset(a.buffer, 'a', 4096);
	memset(b.buffer, 'b', 4096);
	a.ah = ah_to(&a, &b);
	b.ah = ah_to(&b, &a);
	struct ibv_cq *cq_a = ibv_create_cq(a.context, 32, NULL, NULL, 0);
	struct ibv_cq *cq_b = ibv_create_cq(b.context, 32, NULL, NULL, 0);
	CHECK(cq_a && cq_b);
	struct ibv_qp *qp_a = srd_create(&a, cq_a), *qp_b = srd_create(&b, cq_b);
	for (int i = 0; i < 10; i++) {
		send_one(&a, qp_a, qp_b, &b);
		send_one(&b, qp_b, qp_a, &a);
	}
	check_unknown_sender(&a, qp_a, &b);
	CHECK_EQ(ibv_destroy_qp(qp_a), 0);
	CHECK_EQ(ibv_destroy_qp(qp_b), 0);
	CHECK_EQ(ibv_destroy_cq(cq_a), 0);
	CHECK_EQ(ibv_destroy_cq(cq_b), 0);
	node_close(&a);
	node_close(&b);
	return 0;
}
