/* As many queue pairs as the device has, all on one completion queue, with few file descriptors. */
#include <sys/resource.h>

#include "check.h"

#define QPS 256
#define ROUNDS 20
#define RECV_AT 65536
#define BYTES 64

static struct node node;
static struct ibv_qp *qps[QPS];

static void set_descriptors(rlim_t soft, rlim_t hard)
{
	struct rlimit limit = {soft, hard};
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* The soft limit is raised when it must be, and no further. */
static void descriptors(struct ibv_cq *cq)
{
	struct rlimit limit;
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	rlim_t hard = limit.rlim_max;
	set_descriptors(64, hard);
	struct ibv_qp_init_attr attr = qp_attr(cq);
	for (int i = 0; i < 100; i++) {
		qps[i] = efadv_create_driver_qp(node.pd, &attr, EFADV_QP_DRIVER_TYPE_SRD);
		CHECK(qps[i]);
	}
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	CHECK_EQ(limit.rlim_cur, 128);
	CHECK_EQ(limit.rlim_max, hard);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(ibv_destroy_qp(qps[i]), 0);
}

/* Each sends to the next and hears from the one before. */
static void pass_on(struct ibv_cq *cq, int stride)
{
	struct ibv_sge sge = {(uintptr_t)node.buffer, BYTES, node.mr->lkey};
	for (int i = 0; i < QPS; i++)
		post_recv(&node, qps[i], (uint64_t)i, RECV_AT + (uint64_t)i * BYTES, BYTES);
	for (int i = 0; i < QPS; i++) {
		struct ibv_send_wr wr = send_wr(&node, qps[(i + stride) % QPS], &sge), *bad = NULL;
		CHECK_EQ(ibv_post_send(qps[i], &wr, &bad), 0);
	}
	static struct ibv_wc wc[2 * QPS];
	poll_n(cq, 2 * QPS, wc);
	int received = 0;
	for (int i = 0; i < 2 * QPS; i++) {
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
		if (wc[i].opcode != IBV_WC_RECV)
			continue;
		received++;
		CHECK_EQ(wc[i].qp_num, qps[wc[i].wr_id]->qp_num);
		CHECK_EQ(wc[i].src_qp, qps[(wc[i].wr_id + QPS - stride) % QPS]->qp_num);
	}
	CHECK_EQ(received, QPS);
}

int main(void)
{
	node = node_open();
	struct ibv_cq *cq = ibv_create_cq(node.context, 2 * QPS, NULL, NULL, 0);
	CHECK(cq);
	descriptors(cq);
	for (int i = 0; i < QPS; i++)
		qps[i] = srd_create(&node, cq);
	struct ibv_qp_init_attr attr = qp_attr(cq);
	CHECK(!efadv_create_driver_qp(node.pd, &attr, EFADV_QP_DRIVER_TYPE_SRD));
	CHECK_EQ(errno, ENOMEM);
	for (int round = 0; round < ROUNDS; round++)
		pass_on(cq, 1 + round * 7);

	/* No descriptor left at all: said so, and everything else goes on. */
	CHECK_EQ(ibv_destroy_qp(qps[QPS - 1]), 0);
	set_descriptors(3, 3);
	CHECK(!efadv_create_driver_qp(node.pd, &attr, EFADV_QP_DRIVER_TYPE_SRD));
	CHECK_EQ(errno, EMFILE);
	for (int i = 0; i < QPS - 1; i++)
		CHECK_EQ(ibv_destroy_qp(qps[i]), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	node_close(&node);
	return 0;
}
