/* Completion channels: one event per arming, for the next completion, and threads that sleep. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <unistd.h>

#include "check.h"

#define RECV_AT 65536
#define BYTES 64
#define ROUNDS 2000

static struct node node;

static struct ibv_cq *cq_on(struct ibv_comp_channel *channel, void *cq_context, int vector)
{
	struct ibv_cq *cq = ibv_create_cq(node.context, 64, cq_context, channel, vector);
	CHECK(cq && cq->channel == channel && cq->cq_context == cq_context);
	return cq;
}

static void send_one(struct ibv_qp *from, struct ibv_qp *to)
{
	struct ibv_sge sge = {(uintptr_t)node.buffer, BYTES, node.mr->lkey};
	struct ibv_send_wr wr = send_wr(&node, to, &sge), *bad = NULL;
	CHECK_EQ(ibv_post_send(from, &wr, &bad), 0);
}

static int readable(int fd)
{
	struct pollfd at = {.fd = fd, .events = POLLIN};
	return poll(&at, 1, 0);
}

/* Takes and acknowledges the next event, which must be of `cq`. */
static void take_event(struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
	struct ibv_cq *got = NULL;
	void *got_context = NULL;
	CHECK_EQ(ibv_get_cq_event(channel, &got, &got_context), 0);
	CHECK(got == cq && got_context == cq->cq_context);
	ibv_ack_cq_events(got, 1);
}

static void one_event_for_the_next_completion(void)
{
	int marks[2];
	struct ibv_comp_channel *channel = ibv_create_comp_channel(node.context);
	CHECK(channel && channel->context == node.context && channel->refcnt == 0);
	struct ibv_cq *send_cq = cq_on(channel, &marks[0], 0);
	struct ibv_cq *recv_cq = cq_on(channel, &marks[1], node.context->num_comp_vectors - 1);
	CHECK(!ibv_create_cq(node.context, 64, NULL, channel, node.context->num_comp_vectors));
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(ibv_destroy_comp_channel(channel), EBUSY);
	struct ibv_qp *from = srd_create(&node, send_cq), *to = srd_create(&node, recv_cq);
	for (uint64_t i = 0; i < 4; i++)
		post_recv(&node, to, i, RECV_AT + i * BYTES, BYTES);

	/* EFA knows no solicited events. */
	CHECK_EQ(ibv_req_notify_cq(recv_cq, 1), EOPNOTSUPP);

	/* Not armed: no event, however many completions. */
	struct ibv_wc wc[2];
	send_one(from, to);
	poll_n(recv_cq, 1, wc);
	CHECK(!readable(channel->fd));

	/* What came since the last poll gives an event at once: UCX does not poll after arming. */
	send_one(from, to);
	poll_n(send_cq, 2, wc);
	CHECK_EQ(ibv_req_notify_cq(recv_cq, 0), 0);
	CHECK_EQ(readable(channel->fd), 1);
	take_event(channel, recv_cq);
	/* Of that it knows: arming before the poll gives none; the next completion does, and it alone. */
	CHECK_EQ(ibv_req_notify_cq(recv_cq, 0), 0);
	poll_n(recv_cq, 1, wc);
	CHECK_EQ(readable(channel->fd), 0);
	send_one(from, to);
	take_event(channel, recv_cq);
	poll_n(recv_cq, 1, wc);
	send_one(from, to);
	poll_n(recv_cq, 1, wc);
	CHECK_EQ(readable(channel->fd), 0);

	/* Two queues, two events; the descriptor is ready for poll and epoll until both are taken. */
	poll_n(send_cq, 2, wc);
	post_recv(&node, to, 4, RECV_AT, BYTES);
	CHECK_EQ(ibv_req_notify_cq(send_cq, 0), 0);
	CHECK_EQ(ibv_req_notify_cq(recv_cq, 0), 0);
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event interest = {.events = EPOLLIN}, happened;
	CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, channel->fd, &interest), 0);
	send_one(from, to);
	struct ibv_cq *got[2];
	for (int i = 0; i < 2; i++) {
		void *ignored;
		CHECK_EQ(epoll_wait(epoll, &happened, 1, 20000), 1);
		CHECK_EQ(ibv_get_cq_event(channel, &got[i], &ignored), 0);
	}
	CHECK(got[0] != got[1]);
	CHECK_EQ(readable(channel->fd), 0);
	close(epoll);
	ibv_ack_cq_events(send_cq, 1);
	ibv_ack_cq_events(recv_cq, 1);

	/* Non-blocking. */
	CHECK_EQ(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
	void *ignored;
	CHECK_EQ(ibv_get_cq_event(channel, &got[0], &ignored), -1);
	CHECK_EQ(errno, EAGAIN);

	/* An event nobody took goes with its queue. */
	poll_n(recv_cq, 1, wc);
	post_recv(&node, to, 5, RECV_AT, BYTES);
	CHECK_EQ(ibv_req_notify_cq(recv_cq, 0), 0);
	send_one(from, to);
	poll_n(recv_cq, 1, wc);
	CHECK_EQ(readable(channel->fd), 1);
	CHECK_EQ(ibv_destroy_qp(from), 0);
	CHECK_EQ(ibv_destroy_qp(to), 0);
	CHECK_EQ(ibv_destroy_cq(recv_cq), 0);
	CHECK_EQ(readable(channel->fd), 0);
	CHECK_EQ(ibv_get_cq_event(channel, &got[0], &ignored), -1);
	CHECK_EQ(errno, EAGAIN);
	CHECK_EQ(ibv_destroy_cq(send_cq), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
}

static atomic_int acknowledged;

static void *acknowledge(void *cq)
{
	atomic_store(&acknowledged, 1);
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

static void destruction_waits_for_acknowledgement(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(node.context);
	struct ibv_cq *cq = cq_on(channel, NULL, 0);
	struct ibv_qp *qp = srd_create(&node, cq);
	post_recv(&node, qp, 1, RECV_AT, BYTES);
	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
	send_one(qp, qp);
	struct ibv_cq *got;
	void *ignored;
	CHECK_EQ(ibv_get_cq_event(channel, &got, &ignored), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, acknowledge, cq), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK(atomic_load(&acknowledged));
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
}

static void on_alarm(int number)
{
	(void)number;
}

/* A signal ends the sleep as in the kernel: only when its handler does not ask for a restart. */
static void signals_interrupt(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(node.context);
	struct sigaction action = {.sa_handler = on_alarm};
	CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
	struct itimerval often = {{0, 5000}, {0, 5000}}, never = {0};
	CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
	struct ibv_cq *got;
	void *ignored;
	CHECK_EQ(ibv_get_cq_event(channel, &got, &ignored), -1);
	CHECK_EQ(errno, EINTR);
	CHECK_EQ(setitimer(ITIMER_REAL, &never, NULL), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
}

struct sleeper {
	struct ibv_comp_channel *channel;
	atomic_int tid;
	pthread_t thread;
};

static void *sleep_on(void *argument)
{
	struct sleeper *sleeper = argument;
	struct ibv_cq *got;
	void *ignored;
	atomic_store(&sleeper->tid, gettid());
	CHECK_EQ(ibv_get_cq_event(sleeper->channel, &got, &ignored), -1);
	CHECK_EQ(errno, EBADF);
	return NULL;
}

/* Returns when the thread waits in the kernel, as it does in the call and nowhere else. */
static void wait_until_asleep(struct sleeper *sleeper)
{
	uint64_t deadline = now_ms() + 20000;
	for (char state = 0; state != 'S'; sched_yield()) {
		CHECK(now_ms() < deadline);
		char path[64], text[256] = "";
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", atomic_load(&sleeper->tid));
		FILE *file = fopen(path, "r");
		if (!file)
			continue;
		if (fgets(text, sizeof(text), file) && strrchr(text, ')'))
			state = strrchr(text, ')')[2];
		fclose(file);
	}
}

static void *sleep_on_device(void *argument)
{
	struct sleeper *sleeper = argument;
	struct ibv_async_event event;
	atomic_store(&sleeper->tid, gettid());
	ibv_get_async_event(node.context, &event);
	return NULL;
}

/* As rping ends: threads that sleep are cancelled, and the rest goes on. */
static void sleepers_can_be_cancelled(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(node.context);
	struct sleeper sleepers[2] = {{.channel = channel}, {.channel = channel}};
	CHECK_EQ(pthread_create(&sleepers[0].thread, NULL, sleep_on, &sleepers[0]), 0);
	CHECK_EQ(pthread_create(&sleepers[1].thread, NULL, sleep_on_device, &sleepers[1]), 0);
	for (int i = 0; i < 2; i++) {
		void *result = NULL;
		wait_until_asleep(&sleepers[i]);
		CHECK_EQ(pthread_cancel(sleepers[i].thread), 0);
		CHECK_EQ(pthread_join(sleepers[i].thread, &result), 0);
		CHECK(result == PTHREAD_CANCELED);
	}
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
}

/* Not allowed, but it must not crash: the queue and the channel go while threads sleep there. */
static void channel_goes_while_threads_sleep(void)
{
	for (int round = 0; round < 20; round++) {
		struct ibv_comp_channel *channel = ibv_create_comp_channel(node.context);
		struct ibv_cq *cq = cq_on(channel, NULL, 0);
		CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
		struct sleeper sleepers[2] = {{.channel = channel}, {.channel = channel}};
		for (int i = 0; i < 2; i++)
			CHECK_EQ(pthread_create(&sleepers[i].thread, NULL, sleep_on, &sleepers[i]),
				 0);
		for (int i = 0; i < 2; i++)
			wait_until_asleep(&sleepers[i]);
		CHECK_EQ(ibv_destroy_cq(cq), 0);
		CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
		for (int i = 0; i < 2; i++)
			CHECK_EQ(pthread_join(sleepers[i].thread, NULL), 0);
	}
}

struct end {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp, *peer;
	int is_first;
};

/* Sleeps until a message is there, the way the manual of ibv_get_cq_event says. */
static void await_message(struct end *end)
{
	for (;;) {
		struct ibv_wc wc;
		int n = ibv_poll_cq(end->cq, 1, &wc);
		CHECK(n >= 0);
		if (n == 1) {
			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
			if (wc.opcode == IBV_WC_RECV)
				return;
			continue;
		}
		take_event(end->channel, end->cq);
		CHECK_EQ(ibv_req_notify_cq(end->cq, 0), 0);
	}
}

static void *play(void *argument)
{
	struct end *end = argument;
	CHECK_EQ(ibv_req_notify_cq(end->cq, 0), 0);
	for (int round = 0; round < ROUNDS; round++) {
		if (end->is_first)
			send_one(end->qp, end->peer);
		await_message(end);
		post_recv(&node, end->qp, 1, RECV_AT, BYTES);
		if (!end->is_first)
			send_one(end->qp, end->peer);
	}
	return NULL;
}

/* No wake-up is lost in thousands of turns between two threads that sleep. */
static void sleepers_wake_each_other(void)
{
	struct end ends[2];
	for (int i = 0; i < 2; i++) {
		ends[i].channel = ibv_create_comp_channel(node.context);
		ends[i].cq = cq_on(ends[i].channel, NULL, i);
		ends[i].qp = srd_create(&node, ends[i].cq);
		ends[i].is_first = i == 0;
		post_recv(&node, ends[i].qp, 1, RECV_AT, BYTES);
		post_recv(&node, ends[i].qp, 1, RECV_AT, BYTES);
	}
	ends[0].peer = ends[1].qp;
	ends[1].peer = ends[0].qp;
	pthread_t threads[2];
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, play, &ends[i]), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(ibv_destroy_qp(ends[i].qp), 0);
		CHECK_EQ(ibv_destroy_cq(ends[i].cq), 0);
		CHECK_EQ(ibv_destroy_comp_channel(ends[i].channel), 0);
	}
}

int main(void)
{
	node = node_open();
	CHECK(node.context->num_comp_vectors >= 2);
	one_event_for_the_next_completion();
	destruction_waits_for_acknowledgement();
	signals_interrupt();
	sleepers_can_be_cancelled();
	channel_goes_while_threads_sleep();
	sleepers_wake_each_other();
	node_close(&node);
	return 0;
}
