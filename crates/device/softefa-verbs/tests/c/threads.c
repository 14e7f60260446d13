/* One thread posts sends and reaps them, another posts receives and reaps those. */
#include <pthread.h>
#include <sched.h>

#include "check.h"

#define RECV_AT 65536
#define MESSAGES 20000
#define DEPTH 16
#define BYTES 512

static struct node node;
static struct ibv_cq *send_cq, *recv_cq;
static struct ibv_qp *from, *to;

static void *send_all(void *unused)
{
	struct ibv_sge sge = {(uintptr_t)node.buffer, BYTES, node.mr->lkey};
	int posted = 0, done = 0;
	uint64_t deadline = now_ms() + 40000;
	while (done < MESSAGES) {
		while (posted < MESSAGES && posted - done < DEPTH) {
			struct ibv_send_wr wr = send_wr(&node, to, &sge), *bad = NULL;
			wr.wr_id = (uint64_t)posted;
			wr.opcode = IBV_WR_SEND_WITH_IMM;
			wr.imm_data = htonl((uint32_t)posted);
			CHECK_EQ(ibv_post_send(from, &wr, &bad), 0);
			posted++;
		}
		struct ibv_wc wc[DEPTH];
		int n = ibv_poll_cq(send_cq, DEPTH, wc);
		CHECK(n >= 0 && now_ms() < deadline);
		for (int i = 0; i < n; i++)
			CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
		done += n;
		if (n == 0)
			sched_yield();
	}
	return unused;
}

static void *recv_all(void *unused)
{
	static char seen[MESSAGES];
	int done = 0;
	uint64_t deadline = now_ms() + 40000;
	while (done < MESSAGES) {
		struct ibv_wc wc[DEPTH];
		int n = ibv_poll_cq(recv_cq, DEPTH, wc);
		CHECK(n >= 0 && now_ms() < deadline);
		for (int i = 0; i < n; i++) {
			CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
			CHECK_EQ(wc[i].byte_len, BYTES);
			uint32_t message = ntohl(wc[i].imm_data);
			CHECK(message < MESSAGES && !seen[message]);
			seen[message] = 1;
			post_recv(&node, to, wc[i].wr_id, RECV_AT + wc[i].wr_id * BYTES, BYTES);
		}
		done += n;
		if (n == 0)
			sched_yield();
	}
	return unused;
}

int main(void)
{
	node = node_open();
	send_cq = ibv_create_cq(node.context, 64, NULL, NULL, 0);
	recv_cq = ibv_create_cq(node.context, 64, NULL, NULL, 0);
	CHECK(send_cq && recv_cq);
	/* A send may be done before its receive is posted again: the receiver is not always ready. */
	rnr_retry = 7;
	from = srd_create(&node, send_cq);
	to = srd_create(&node, recv_cq);
	for (uint64_t i = 0; i < DEPTH; i++)
		post_recv(&node, to, i, RECV_AT + i * BYTES, BYTES);
	pthread_t sender, receiver;
	CHECK_EQ(pthread_create(&receiver, NULL, recv_all, NULL), 0);
	CHECK_EQ(pthread_create(&sender, NULL, send_all, NULL), 0);
	CHECK_EQ(pthread_join(sender, NULL), 0);
	CHECK_EQ(pthread_join(receiver, NULL), 0);
	CHECK_EQ(ibv_destroy_qp(from), 0);
	CHECK_EQ(ibv_destroy_qp(to), 0);
	CHECK_EQ(ibv_destroy_cq(send_cq), 0);
	CHECK_EQ(ibv_destroy_cq(recv_cq), 0);
	node_close(&node);
	return 0;
}
