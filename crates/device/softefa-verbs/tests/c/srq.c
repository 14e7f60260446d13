/* Shared receive queues and the events that they have: all that can be had of them without traffic.
 * On an EFA they are refused. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

static struct ibv_context *context;
static struct ibv_pd *pd;

static struct ibv_srq *create(uint32_t max_wr, uint32_t max_sge)
{
	struct ibv_srq_init_attr init = {
		.srq_context = &pd, .attr = {.max_wr = max_wr, .max_sge = max_sge, .srq_limit = 77}};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	if (srq)
		CHECK(init.attr.max_wr >= max_wr && init.attr.max_sge >= max_sge);
	return srq;
}

static void post(struct ibv_srq *srq, int count)
{
	for (int i = 0; i < count; i++) {
		struct ibv_recv_wr wr = {.wr_id = i}, *bad = NULL;
		CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
	}
}

static int modify(struct ibv_srq *srq, int mask, uint32_t max_wr, uint32_t limit)
{
	struct ibv_srq_attr attr = {.max_wr = max_wr, .srq_limit = limit};
	return ibv_modify_srq(srq, &attr, mask);
}

static void check_objects(void)
{
	struct ibv_srq *srq = create(4, 3), *second = create(1, 1);
	CHECK(srq && second && srq->context == context && srq->pd == pd && srq->srq_context == &pd);
	uint32_t number = 0, other = 0;
	CHECK_EQ(ibv_get_srq_num(srq, &number), 0);
	CHECK_EQ(ibv_get_srq_num(second, &other), 0);
	CHECK(number && number < 1 << 24 && number != other);
	struct ibv_srq_attr attr;
	CHECK_EQ(ibv_query_srq(srq, &attr), 0);
	CHECK(attr.max_wr >= 4 && attr.max_sge >= 3);
	CHECK_EQ(attr.srq_limit, 0);
	CHECK_EQ(ibv_dealloc_pd(pd), EBUSY);
	srq->handle++;
	CHECK_EQ(ibv_destroy_srq(srq), ENOENT);
	srq->handle--;
	CHECK_EQ(ibv_destroy_srq(second), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	struct ibv_device_attr device;
	CHECK_EQ(ibv_query_device(context, &device), 0);
	const struct {
		uint32_t max_wr, max_sge;
	} bad[] = {{0, 1}, {device.max_srq_wr + 1, 1}, {1, device.max_srq_sge + 1}};
	for (int i = 0; i < 3; i++) {
		errno = 0;
		CHECK(!create(bad[i].max_wr, bad[i].max_sge));
		CHECK_EQ(errno, EINVAL);
	}
	srq = create(device.max_srq_wr, device.max_srq_sge);
	CHECK(srq);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
}

/* The extended call, for basic queues and for what only others have. */
static void check_extended(void)
{
	struct ibv_srq_init_attr_ex init = {.attr = {.max_wr = 4, .max_sge = 1},
					    .comp_mask = IBV_SRQ_INIT_ATTR_PD, .pd = pd};
	struct ibv_srq *srq = ibv_create_srq_ex(context, &init);
	CHECK(srq);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	static const struct {
		uint32_t mask;
		enum ibv_srq_type type;
		int error;
	} bad[] = {
		{IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_BASIC, EINVAL},
		{IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_XRC, EINVAL},
		{IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_TM, EOPNOTSUPP},
		{IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ, IBV_SRQT_BASIC, EOPNOTSUPP},
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		init.comp_mask = bad[i].mask;
		init.srq_type = bad[i].type;
		errno = 0;
		CHECK(!ibv_create_srq_ex(context, &init));
		CHECK_EQ(errno, bad[i].error);
	}
}

static void check_posting(void)
{
	struct ibv_srq *srq = create(4, 2);
	struct ibv_srq_attr attr;
	CHECK_EQ(ibv_query_srq(srq, &attr), 0);
	struct ibv_sge sge[64] = {{0}};
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = attr.max_sge + 1}, *bad = NULL;
	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	wr.num_sge = 64;
	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
	wr.num_sge = -1;
	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
	wr = (struct ibv_recv_wr){.num_sge = 1};
	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
	/* A chain without an end fills the queue. */
	wr = (struct ibv_recv_wr){.next = &wr, .sg_list = sge, .num_sge = attr.max_sge};
	bad = NULL;
	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM);
	CHECK(bad == &wr);
	CHECK_EQ(modify(srq, IBV_SRQ_MAX_WR, attr.max_wr - 1, 0), EINVAL);
	CHECK_EQ(modify(srq, IBV_SRQ_MAX_WR, attr.max_wr + 1, 0), 0);
	wr.next = NULL;
	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
	struct ibv_recv_wr second = {.wr_id = 2}, first = {.wr_id = 1, .next = &second};
	CHECK_EQ(modify(srq, IBV_SRQ_MAX_WR, attr.max_wr + 2, 0), 0);
	CHECK_EQ(ibv_post_srq_recv(srq, &first, &bad), ENOMEM);
	CHECK(bad == &second);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
}

static void check_event(struct ibv_srq *of)
{
	struct ibv_async_event event;
	memset(&event, 0xff, sizeof(event));
	CHECK_EQ(ibv_get_async_event(context, &event), 0);
	CHECK_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(event.element.srq == of);
	ibv_ack_async_event(&event);
	/* More than were taken is a mistake, and harmless. */
	ibv_ack_async_event(&event);
}

static void check_limit(void)
{
	struct ibv_srq *srq = create(16, 1), *other = create(16, 1);
	struct pollfd fd = {.fd = context->async_fd, .events = POLLIN};
	post(srq, 3);
	CHECK_EQ(modify(srq, IBV_SRQ_LIMIT, 0, 3), 0);
	CHECK_EQ(poll(&fd, 1, 0), 0);
	CHECK_EQ(modify(srq, IBV_SRQ_LIMIT, 0, 17), EINVAL);
	CHECK_EQ(modify(srq, 4, 0, 1), EINVAL);
	/* Fewer than the limit already: told of at once, and once. */
	CHECK_EQ(modify(other, IBV_SRQ_LIMIT, 0, 1), 0);
	CHECK_EQ(modify(srq, IBV_SRQ_LIMIT, 0, 4), 0);
	CHECK_EQ(poll(&fd, 1, 0), 1);
	struct ibv_srq_attr attr;
	CHECK_EQ(ibv_query_srq(srq, &attr), 0);
	CHECK_EQ(attr.srq_limit, 0);
	check_event(other);
	check_event(srq);
	CHECK_EQ(poll(&fd, 1, 0), 0);
	int flags = fcntl(context->async_fd, F_GETFL);
	CHECK_EQ(fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK), 0);
	struct ibv_async_event event;
	CHECK_EQ(ibv_get_async_event(context, &event), -1);
	CHECK_EQ(errno, EAGAIN);
	/* What nobody took goes with its object. */
	CHECK_EQ(modify(srq, IBV_SRQ_LIMIT, 0, 4), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK_EQ(ibv_get_async_event(context, &event), -1);
	CHECK_EQ(errno, EAGAIN);
	CHECK_EQ(fcntl(context->async_fd, F_SETFL, flags), 0);
	CHECK_EQ(ibv_destroy_srq(other), 0);
}

static atomic_int is_acknowledged;

static void *destroy(void *srq)
{
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK(is_acknowledged);
	return NULL;
}

static void check_destruction_waits(void)
{
	struct ibv_srq *srq = create(16, 1);
	CHECK_EQ(modify(srq, IBV_SRQ_LIMIT, 0, 1), 0);
	struct ibv_async_event event;
	CHECK_EQ(ibv_get_async_event(context, &event), 0);
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, destroy, srq), 0);
	/* Enough for one that does not wait to be found out. */
	for (int i = 0; i < 1000; i++)
		sched_yield();
	is_acknowledged = 1;
	ibv_ack_async_event(&event);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

static atomic_int seen, watcher;

static void *watch(void *unused)
{
	(void)unused;
	watcher = gettid();
	struct ibv_async_event event;
	while (ibv_get_async_event(context, &event) == 0) {
		CHECK_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
		ibv_ack_async_event(&event);
		seen++;
	}
	CHECK(!"the call returned");
	return NULL;
}

/* The watcher is in read(), as the kernel says. */
static int is_asleep(void)
{
	char path[64], call[8] = "", *end;
	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", watcher);
	FILE *file = fopen(path, "r");
	CHECK(file && fgets(call, sizeof(call), file) && fclose(file) == 0);
	return strtol(call, &end, 10) == SYS_read && end != call;
}

/* A thread sleeps on the events, as NCCL's does; closing the device does not wake it, as it does not in the kernel. */
static void check_sleeper(void)
{
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, watch, NULL), 0);
	struct ibv_srq *srq = create(16, 1);
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(modify(srq, IBV_SRQ_LIMIT, 0, 1), 0);
		while (seen <= i)
			sched_yield();
	}
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	while (!is_asleep())
		sched_yield();
	CHECK_EQ(ibv_close_device(context), 0);
	for (int i = 0; i < 1000; i++)
		sched_yield();
	CHECK_EQ(pthread_cancel(thread), 0);
	void *result;
	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK_EQ(seen, 100);
}

static void check_efa(void)
{
	errno = 0;
	CHECK(!create(1, 1));
	CHECK_EQ(errno, EOPNOTSUPP);
	struct ibv_srq_init_attr_ex init = {.attr = {.max_wr = 4, .max_sge = 1}, .pd = pd,
					    .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE};
	errno = 0;
	CHECK(!ibv_create_srq_ex(context, &init));
	CHECK_EQ(errno, EOPNOTSUPP);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(ibv_close_device(context), 0);
}

/* ibv_create_qp(3): max_recv_wr and max_recv_sge are ignored if there is a shared queue. */
static void check_queue_pair(void)
{
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	CHECK(cq);
	const struct ibv_qp_cap cap = {.max_send_wr = 4, .max_recv_wr = UINT32_MAX,
				       .max_send_sge = 1, .max_recv_sge = UINT32_MAX};
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = cap};
	CHECK(!ibv_create_qp(pd, &init));
	init.srq = create(8, 1);
	init.cap = cap;
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	CHECK(qp && qp->srq == init.srq);
	CHECK_EQ(init.cap.max_send_wr, 4);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr asked;
	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_CAP, &asked), 0);
	CHECK_EQ(attr.cap.max_recv_sge, 0);
	CHECK(asked.srq == init.srq);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_srq(init.srq), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list && list[0]);
	context = ibv_open_device(list[0]);
	CHECK(context);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	if (context->device->node_type != IBV_NODE_CA) {
		check_efa();
		return 0;
	}
	check_objects();
	check_extended();
	check_posting();
	check_limit();
	check_queue_pair();
	check_destruction_waits();
	check_sleeper();
	return 0;
}
