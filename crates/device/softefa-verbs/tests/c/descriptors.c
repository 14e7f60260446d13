/* File descriptors: what is destroyed or closed gives its own back, and none run out. */
#include "check.h"

#include <dirent.h>
#include <sys/resource.h>

#define RECV_AT 65536

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;
	CHECK(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* No more than so many, and nobody may raise the limit. */
static void limit_descriptors(rlim_t count)
{
	struct rlimit limit = {count, count};
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* A queue pair that never left RESET has nothing to answer for. */
static void unused_close_at_once(struct node *node, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = qp_attr(cq);
	/* The first one opens the sending sockets, which the device keeps. */
	CHECK_EQ(ibv_destroy_qp(srd_create(node, cq)), 0);
	int before = descriptors();
	for (int i = 0; i < 100; i++) {
		struct ibv_qp *qp =
			efadv_create_driver_qp(node->pd, &attr, EFADV_QP_DRIVER_TYPE_SRD);
		CHECK(qp);
		CHECK_EQ(descriptors(), before + 1);
		CHECK_EQ(ibv_destroy_qp(qp), 0);
		CHECK_EQ(descriptors(), before);
	}
}

/* One message from one queue pair to the other. */
static void talk(struct node *node, struct ibv_cq *cq, struct ibv_qp *from, struct ibv_qp *to)
{
	struct ibv_sge sge = {(uintptr_t)node->buffer, 100, node->mr->lkey};
	struct ibv_send_wr wr = send_wr(node, to, &sge), *bad = NULL;
	struct ibv_wc wc[2];
	post_recv(node, to, 2, RECV_AT, 100);
	CHECK_EQ(ibv_post_send(from, &wr, &bad), 0);
	poll_n(cq, 2, wc);
	CHECK_EQ(wc[0].status, IBV_WC_SUCCESS);
	CHECK_EQ(wc[1].status, IBV_WC_SUCCESS);
}

/* Who has sent and was answered closes at once; who has received goes on answering. */
static void pairs_that_talked(struct node *node, struct ibv_cq *cq, int count)
{
	for (int i = 0; i < count; i++) {
		struct ibv_qp *from = srd_create(node, cq), *to = srd_create(node, cq);
		talk(node, cq, from, to);
		int before = descriptors();
		CHECK_EQ(ibv_destroy_qp(from), 0);
		/* Its socket, and the door for those who want to send through memory. */
		CHECK_EQ(descriptors(), before - 2);
		CHECK_EQ(ibv_destroy_qp(to), 0);
	}
}

int main(void)
{
	/* The adapter keeps what its thread needs for as long as the process lives. */
	struct node first = node_open();
	struct ibv_cq *first_cq = ibv_create_cq(first.context, 32, NULL, NULL, 0);
	CHECK_EQ(ibv_destroy_qp(srd_create(&first, first_cq)), 0);
	CHECK_EQ(ibv_destroy_cq(first_cq), 0);
	node_close(&first);
	int closed = descriptors();

	struct node node = node_open();
	struct ibv_cq *cq = ibv_create_cq(node.context, 32, NULL, NULL, 0);
	CHECK(cq);
	unused_close_at_once(&node, cq);
	int open = descriptors();
	limit_descriptors(open + 64);
	pairs_that_talked(&node, cq, 1000);
	/* Those that linger give way, also where nothing else is left. */
	pairs_that_talked(&node, cq, 10);
	limit_descriptors(open + 2);
	pairs_that_talked(&node, cq, 1);

	/* Nothing lingers when the device is closed. */
	limit_descriptors(open + 2);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	node_close(&node);
	CHECK_EQ(descriptors(), closed);
	return 0;
}
