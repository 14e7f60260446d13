/*
 * The handler of a signal polls what the thread it interrupts polls and posts to. It may find nothing, but
 * nobody waits for ever and nothing is lost.
 */
#include <signal.h>
#include <sys/time.h>

#include "check.h"

#define RECV_AT 65536
#define EVERY_US 200
#define HANDLED 3000
#define SESSIONS_HIT 20

static struct node node;
static struct ibv_cq_ex *cq;
static struct ibv_qp *from, *to;
/* Completions that are still to come. Signals are blocked while the program changes it. */
static volatile int outstanding;
static volatile int handled, taken_by_handler, in_session, sessions_hit;

static int take(int max)
{
	struct ibv_wc wc[4];
	int n = ibv_poll_cq(ibv_cq_ex_to_cq(cq), max, wc);
	CHECK(n >= 0);
	for (int i = 0; i < n; i++)
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
	return n;
}

static int take_extended(void)
{
	struct ibv_poll_cq_attr attr = {0};
	int code = ibv_start_poll(cq, &attr);
	if (code != 0) {
		CHECK_EQ(code, ENOENT);
		return 0;
	}
	CHECK_EQ(cq->status, IBV_WC_SUCCESS);
	ibv_end_poll(cq);
	return 1;
}

static void handle(int signal)
{
	(void)signal;
	int before = errno;
	if (in_session)
		sessions_hit++;
	int n = handled++ % 2 ? take(1) : take_extended();
	outstanding -= n;
	taken_by_handler += n;
	errno = before;
}

static void count(int change)
{
	sigset_t alarm, old;
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &alarm, &old), 0);
	outstanding += change;
	CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);
}

static void post(int is_extended)
{
	count(2);
	post_recv(&node, to, 2, RECV_AT, 100);
	if (!is_extended) {
		struct ibv_sge sge = {(uintptr_t)node.buffer, 100, node.mr->lkey};
		struct ibv_send_wr wr = send_wr(&node, to, &sge), *bad;
		CHECK_EQ(ibv_post_send(from, &wr, &bad), 0);
		return;
	}
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(from);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, node.ah, to->qp_num, QKEY);
	ibv_wr_set_sge(ex, node.mr->lkey, (uintptr_t)node.buffer, 100);
	CHECK_EQ(ibv_wr_complete(ex), 0);
}

/* A session that lasts until the handler has come upon it. */
static int take_slowly(void)
{
	struct ibv_poll_cq_attr attr = {0};
	if (ibv_start_poll(cq, &attr) != 0)
		return 0;
	in_session = 1;
	for (int hit = sessions_hit; sessions_hit == hit;)
		;
	in_session = 0;
	int has_next = ibv_next_poll(cq) == 0;
	CHECK(!has_next || cq->status == IBV_WC_SUCCESS);
	ibv_end_poll(cq);
	return 1 + has_next;
}

int main(void)
{
	node = node_open();
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS};
	cq = ibv_create_cq_ex(node.context, &cq_attr);
	CHECK(cq);
	rnr_retry = 7;
	from = srd_create_extended(&node, ibv_cq_ex_to_cq(cq));
	to = srd_create_extended(&node, ibv_cq_ex_to_cq(cq));
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
	struct itimerval often = {{0, EVERY_US}, {0, EVERY_US}}, never = {0};
	CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
	uint64_t deadline = now_ms() + 40000;
	for (int i = 0; handled < HANDLED || sessions_hit < SESSIONS_HIT; i++) {
		if (outstanding == 0)
			post(i % 2);
		int is_slow = sessions_hit < SESSIONS_HIT && i % 8 == 0;
		count(-(is_slow ? take_slowly() : i % 3 ? take(4) : take_extended()));
		CHECK(now_ms() < deadline);
	}
	CHECK_EQ(setitimer(ITIMER_REAL, &never, NULL), 0);
	while (outstanding > 0) {
		outstanding -= take(4);
		CHECK(now_ms() < deadline);
	}
	CHECK_EQ(outstanding, 0);
	CHECK(taken_by_handler > 0);
	CHECK_EQ(ibv_destroy_qp(from), 0);
	CHECK_EQ(ibv_destroy_qp(to), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	node_close(&node);
	return 0;
}
