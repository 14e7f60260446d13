/*
 * Threads are cancelled in the midst of posts, polls and whatever else they call, and in their sleep on
 * a channel. The others go on; nothing ends the program, stays locked or piles up.
 */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "check.h"

#define CANCELLED 1500
#define SLEEPERS 2000
#define RECV_AT 65536
/* What the C library may keep for itself; a channel per sleeper would be more. */
#define SLACK_BYTES (64 << 10)

static struct node node;
static struct ibv_cq *cq, *other_cq;
static struct ibv_qp *from, *to, *other_from, *other_to;
static atomic_int outstanding, is_over, calls;
static atomic_long exchanges;

/* Takes what is there; a thread is never cancelled between the poll and the count. */
static void take(void)
{
	struct ibv_wc wc[4];
	int n = ibv_poll_cq(cq, 4, wc);
	CHECK(n >= 0);
	for (int i = 0; i < n; i++)
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
	atomic_fetch_sub(&outstanding, n);
}

static void send_one(struct ibv_qp *a, struct ibv_qp *b)
{
	struct ibv_sge sge = {(uintptr_t)node.buffer, 100, node.mr->lkey};
	struct ibv_send_wr wr = send_wr(&node, b, &sge), *bad;
	post_recv(&node, b, 2, RECV_AT, 100);
	CHECK_EQ(ibv_post_send(a, &wr, &bad), 0);
}

static void make_and_destroy(void)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	CHECK(list);
	ibv_free_device_list(list);
	struct ibv_mr *mr = ibv_reg_mr(node.pd, node.buffer, 4096, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	struct ibv_cq *made_cq = ibv_create_cq(node.context, 8, NULL, NULL, 0);
	CHECK(made_cq);
	struct ibv_qp *qp = srd_create(&node, made_cq);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(made_cq), 0);
}

/* May be cancelled where it says so, and nowhere else. */
static void *post_and_poll(void *unused)
{
	for (int i = 0;; i++) {
		pthread_testcancel();
		atomic_fetch_add(&calls, 1);
		if (i % 64 == 63)
			make_and_destroy();
		if (atomic_load(&outstanding) == 0) {
			atomic_fetch_add(&outstanding, 2);
			send_one(from, to);
		}
		take();
	}
	return unused;
}

/* Nobody cancels this one. */
static void *go_on(void *unused)
{
	struct ibv_wc wc[2];
	while (!atomic_load(&is_over)) {
		send_one(other_from, other_to);
		poll_n(other_cq, 2, wc);
		CHECK(wc[0].status == IBV_WC_SUCCESS && wc[1].status == IBV_WC_SUCCESS);
		atomic_fetch_add(&exchanges, 1);
	}
	return unused;
}

static void cancel(pthread_t thread)
{
	void *result;
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK(result == PTHREAD_CANCELED);
}

static void cancel_at_work(void)
{
	uint64_t deadline = now_ms() + 40000;
	for (unsigned i = 0; i < CANCELLED; i++) {
		pthread_t thread;
		int before = atomic_load(&calls);
		CHECK_EQ(pthread_create(&thread, NULL, post_and_poll, NULL), 0);
		/* A different moment each time. */
		while (atomic_load(&calls) < before + 1 + (int)(i % 5))
			CHECK(now_ms() < deadline);
		for (volatile unsigned spin = 0; spin < i * 2654435761u % 20000; spin++)
			;
		cancel(thread);
	}
	while (atomic_load(&outstanding) > 0) {
		take();
		CHECK(now_ms() < deadline);
	}
}

static void *sleep_on(void *channel)
{
	struct ibv_cq *got;
	void *context;
	ibv_get_cq_event(channel, &got, &context);
	fprintf(stderr, "an event came\n");
	exit(1);
}

/* Its channel is gone when the program says so; no sleeper keeps it. */
static void cancel_asleep(void)
{
	for (int i = 0; i < SLEEPERS; i++) {
		struct ibv_comp_channel *channel = ibv_create_comp_channel(node.context);
		CHECK(channel);
		int fd = channel->fd;
		pthread_t thread;
		CHECK_EQ(pthread_create(&thread, NULL, sleep_on, channel), 0);
		/* Some are asleep by then, some on their way. */
		if (i % 2)
			sched_yield();
		cancel(thread);
		CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
		CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
	}
}

int main(void)
{
	node = node_open();
	rnr_retry = 7;
	cq = ibv_create_cq(node.context, 64, NULL, NULL, 0);
	other_cq = ibv_create_cq(node.context, 64, NULL, NULL, 0);
	CHECK(cq && other_cq);
	from = srd_create(&node, cq), to = srd_create(&node, cq);
	other_from = srd_create(&node, other_cq), other_to = srd_create(&node, other_cq);
	cancel_at_work();
	cancel_asleep();
	size_t before = mallinfo2().uordblks;
	cancel_asleep();
	CHECK(mallinfo2().uordblks < before + SLACK_BYTES);
	pthread_t other;
	CHECK_EQ(pthread_create(&other, NULL, go_on, NULL), 0);
	cancel_at_work();
	atomic_store(&is_over, 1);
	CHECK_EQ(pthread_join(other, NULL), 0);
	CHECK(atomic_load(&exchanges) > 0);
	CHECK_EQ(ibv_destroy_qp(from), 0);
	CHECK_EQ(ibv_destroy_qp(to), 0);
	CHECK_EQ(ibv_destroy_qp(other_from), 0);
	CHECK_EQ(ibv_destroy_qp(other_to), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_destroy_cq(other_cq), 0);
	node_close(&node);
	return 0;
}
