/*
 * Two threads post through sessions, each on a queue pair of its own and both on a shared one, with
 * address handles that come and go while work requests are pending; a third thread polls.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "rdma.h"

#define ROUNDS 400
#define BATCH 4
#define RECEIVES 16
#define BYTES 512
#define RECV_AT 98304
#define READ_AT 131072
/* More than can be pending: no two work requests touch the same bytes. */
#define SLOTS 64

/* One that keeps its handle until all is done, one that destroys it at once. */
enum who { PATIENT, HASTY, POSTERS };

static struct node node;
static struct side tx, own[POSTERS];
static struct ibv_cq *rx_cq;
static struct ibv_qp *to;
static uint32_t rkey;
/* Work requests: 0 before they are posted, 1 until they complete. */
static atomic_char state[POSTERS][ROUNDS * BATCH];
static atomic_int done[POSTERS];
static atomic_bool is_over;
static uint64_t deadline;

static struct ibv_ah *create_ah(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.dgid = node.gid};
	struct ibv_ah *ah = ibv_create_ah(node.pd, &attr);
	CHECK(ah);
	return ah;
}

static void add(struct ibv_qp_ex *ex, struct ibv_ah *ah, enum who who, int number)
{
	uint64_t slot = (uint64_t)(who * SLOTS + number % SLOTS) * BYTES;
	uint64_t local = (uintptr_t)node.buffer + slot;
	uint64_t remote = (uintptr_t)node.buffer + REMOTE_AT + slot;
	ex->wr_id = ((uint64_t)who << 32) | (uint64_t)number;
	ex->wr_flags = IBV_SEND_SIGNALED;
	switch (number % 3) {
	case 0:
		ibv_wr_send(ex);
		break;
	case 1:
		ibv_wr_rdma_write(ex, rkey, remote);
		break;
	default:
		ibv_wr_rdma_read(ex, rkey, remote);
		local += READ_AT;
	}
	ibv_wr_set_ud_addr(ex, ah, to->qp_num, QKEY);
	ibv_wr_set_sge(ex, node.mr->lkey, local, BYTES);
}

/* Whether there was room. */
static int post_batch(struct ibv_qp_ex *ex, struct ibv_ah *ah, enum who who, int first)
{
	for (int i = first; i < first + BATCH; i++)
		atomic_store(&state[who][i], 1);
	ibv_wr_start(ex);
	for (int i = first; i < first + BATCH; i++)
		add(ex, ah, who, i);
	int code = ibv_wr_complete(ex);
	CHECK(code == 0 || code == ENOMEM);
	return code == 0;
}

static void *post_all(void *argument)
{
	enum who who = (enum who)(uintptr_t)argument;
	for (int round = 0; round < ROUNDS; round++) {
		struct ibv_qp_ex *ex = round % 2 ? tx.ex : own[who].ex;
		struct ibv_ah *ah = create_ah();
		while (!post_batch(ex, ah, who, round * BATCH)) {
			CHECK(now_ms() < deadline);
			sched_yield();
		}
		while (who == PATIENT && atomic_load(&done[who]) < (round + 1) * BATCH) {
			CHECK(now_ms() < deadline);
			sched_yield();
		}
		CHECK_EQ(ibv_destroy_ah(ah), 0);
	}
	return NULL;
}

static void check_completion(struct ibv_cq_ex *cq)
{
	enum who who = (enum who)(cq->wr_id >> 32);
	uint32_t number = (uint32_t)cq->wr_id;
	CHECK(who < POSTERS && number < ROUNDS * BATCH);
	uint32_t qpn = number / BATCH % 2 ? tx.qp->qp_num : own[who].qp->qp_num;
	CHECK_EQ(ibv_wc_read_qp_num(cq), qpn);
	/* The peer is forgotten with its last handle, and only then. */
	if (who == PATIENT || cq->status != IBV_WC_WR_FLUSH_ERR) {
		CHECK_EQ(ibv_wc_read_vendor_err(cq), 0);
		CHECK_EQ(cq->status, IBV_WC_SUCCESS);
	}
	CHECK_EQ(atomic_exchange(&state[who][number], 0), 1);
	atomic_fetch_add(&done[who], 1);
}

static void *poll_sends(void *unused)
{
	while (atomic_load(&done[PATIENT]) + atomic_load(&done[HASTY]) < POSTERS * ROUNDS * BATCH) {
		struct ibv_poll_cq_attr attr = {0};
		CHECK(now_ms() < deadline);
		if (ibv_start_poll(tx.cq, &attr) == ENOENT) {
			sched_yield();
			continue;
		}
		do
			check_completion(tx.cq);
		while (ibv_next_poll(tx.cq) == 0);
		ibv_end_poll(tx.cq);
	}
	return unused;
}

static void *receive_all(void *unused)
{
	while (!atomic_load(&is_over)) {
		struct ibv_wc wc[RECEIVES];
		int n = ibv_poll_cq(rx_cq, RECEIVES, wc);
		CHECK(n >= 0);
		for (int i = 0; i < n; i++) {
			CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
			CHECK_EQ(wc[i].byte_len, BYTES);
			post_recv(&node, to, wc[i].wr_id, RECV_AT + wc[i].wr_id * BYTES, BYTES);
		}
		if (n == 0)
			sched_yield();
	}
	return unused;
}

static struct side on_queue_of(struct side *other)
{
	struct side side = {.cq = other->cq};
	struct ibv_qp_init_attr_ex attr = side_attr(&node, side.cq);
	struct efadv_qp_init_attr efa = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
	side.qp = efadv_create_qp_ex(node.context, &attr, &efa, sizeof(efa));
	CHECK(side.qp);
	qp_to_rts(side.qp);
	side.ex = ibv_qp_to_qp_ex(side.qp);
	return side;
}

static void run(void)
{
	pthread_t posters[POSTERS], poller, receiver;
	deadline = now_ms() + 40000;
	CHECK_EQ(pthread_create(&receiver, NULL, receive_all, NULL), 0);
	CHECK_EQ(pthread_create(&poller, NULL, poll_sends, NULL), 0);
	for (uintptr_t who = 0; who < POSTERS; who++)
		CHECK_EQ(pthread_create(&posters[who], NULL, post_all, (void *)who), 0);
	for (int who = 0; who < POSTERS; who++)
		CHECK_EQ(pthread_join(posters[who], NULL), 0);
	CHECK_EQ(pthread_join(poller, NULL), 0);
	atomic_store(&is_over, 1);
	CHECK_EQ(pthread_join(receiver, NULL), 0);
}

int main(void)
{
	node = node_open();
	struct ibv_mr *remote = ibv_reg_mr(node.pd, node.buffer, BUFFER_BYTES,
					   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
						   IBV_ACCESS_REMOTE_WRITE);
	CHECK(remote);
	rkey = remote->rkey;
	/* The threads have the only handles there are. */
	CHECK_EQ(ibv_destroy_ah(node.ah), 0);
	rnr_retry = 7;
	tx = side_open(&node);
	for (int who = 0; who < POSTERS; who++)
		own[who] = on_queue_of(&tx);
	rx_cq = ibv_create_cq(node.context, 64, NULL, NULL, 0);
	CHECK(rx_cq);
	to = srd_create(&node, rx_cq);
	for (uint64_t i = 0; i < RECEIVES; i++)
		post_recv(&node, to, i, RECV_AT + i * BYTES, BYTES);
	run();
	for (int who = 0; who < POSTERS; who++)
		CHECK_EQ(ibv_destroy_qp(own[who].qp), 0);
	CHECK_EQ(ibv_destroy_qp(tx.qp), 0);
	CHECK_EQ(ibv_destroy_qp(to), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(tx.cq)), 0);
	CHECK_EQ(ibv_destroy_cq(rx_cq), 0);
	CHECK_EQ(ibv_dereg_mr(remote), 0);
	node.ah = create_ah();
	node_close(&node);
	return 0;
}
