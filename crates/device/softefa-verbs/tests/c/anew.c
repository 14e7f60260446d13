/*
 * Children open the device anew, as Python's multiprocessing and daemons do: they exchange messages with
 * their parent, with each other, with a grandchild and a daemon, while other threads of the parent are
 * at work. What they inherited does nothing.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define CHILDREN 8
#define ROUNDS 50
#define RECEIVES 16
#define RECV_AT 65536
#define SECONDS 50

/* What all processes see. */
struct shared {
	atomic_uint qpn[CHILDREN];
	atomic_int is_done[CHILDREN];
	atomic_int is_daemon_done;
};

static struct shared *shared;
static struct node node;
static struct ibv_cq *busy_cq;
static struct ibv_qp *busy_qp;
static atomic_int is_over, is_busy;

/* What a process has of its own. */
struct end {
	struct node node;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static struct end end_open(void)
{
	struct end end = {.node = node_open()};
	end.cq = ibv_create_cq(end.node.context, 64, NULL, NULL, 0);
	CHECK(end.cq);
	rnr_retry = 7;
	end.qp = srd_create(&end.node, end.cq);
	for (int i = 0; i < RECEIVES; i++)
		post_recv(&end.node, end.qp, 2, RECV_AT, 8);
	return end;
}

static void end_close(struct end *end)
{
	CHECK_EQ(ibv_destroy_qp(end->qp), 0);
	CHECK_EQ(ibv_destroy_cq(end->cq), 0);
	node_close(&end->node);
}

static void send_to(struct end *end, uint32_t qpn)
{
	struct ibv_sge sge = {(uintptr_t)end->node.buffer, 8, end->node.mr->lkey};
	struct ibv_send_wr wr = send_wr(&end->node, end->qp, &sge), *bad;
	wr.wr.ud.remote_qpn = qpn;
	CHECK_EQ(ibv_post_send(end->qp, &wr, &bad), 0);
}

/* Takes what is there and answers each message if asked to; how many messages came. */
static int take(struct end *end, int answers)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(end->cq, 16, wc), came = 0;
	CHECK(n >= 0);
	for (int i = 0; i < n; i++) {
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
		if (wc[i].wr_id != 2)
			continue;
		came++;
		post_recv(&end->node, end->qp, 2, RECV_AT, 8);
		if (answers)
			send_to(end, wc[i].src_qp);
	}
	return came;
}

static void ping_pong(struct end *end, uint32_t qpn)
{
	for (int i = 0; i < ROUNDS; i++) {
		send_to(end, qpn);
		while (!take(end, 0))
			;
	}
}

static void echo(struct end *end)
{
	for (int i = 0; i < ROUNDS;)
		i += take(end, 1);
}

/* What was inherited finds nothing, refuses and does not wait; one line says so. */
static void use_what_was_inherited(void)
{
	struct ibv_wc wc;
	struct ibv_recv_wr recv = {0}, *bad;
	CHECK_EQ(ibv_poll_cq(busy_cq, 1, &wc), 0);
	CHECK_EQ(ibv_post_recv(busy_qp, &recv, &bad), EINVAL);
	CHECK(!ibv_alloc_pd(node.context) && errno == ENODEV);
}

/* A pointer from before the fork is good. */
static void open_what_was_listed(void)
{
	struct ibv_context *context = ibv_open_device(node.context->device);
	CHECK(context);
	CHECK_EQ(ibv_close_device(context), 0);
}

static void be_grandchild(uint32_t parent)
{
	alarm(SECONDS);
	use_what_was_inherited();
	struct end end = end_open();
	ping_pong(&end, parent);
	end_close(&end);
}

static void be_child(int me, uint32_t parent)
{
	alarm(SECONDS);
	use_what_was_inherited();
	open_what_was_listed();
	struct end end = end_open();
	ping_pong(&end, parent);
	atomic_store(&shared->qpn[me], end.qp->qp_num);
	if (me & 1) {
		echo(&end);
	} else {
		while (!atomic_load(&shared->qpn[me ^ 1]))
			CHECK_EQ(take(&end, 0), 0);
		ping_pong(&end, shared->qpn[me ^ 1]);
	}
	atomic_store(&shared->is_done[me], 1);
	if (me == 0) {
		pid_t grandchild = fork();
		if (grandchild == 0) {
			CHECK_EQ(ibv_destroy_qp(end.qp), 0);
			be_grandchild(parent);
			exit(0);
		}
		int status = -1;
		CHECK_EQ(waitpid(grandchild, &status, 0), grandchild);
		CHECK_EQ(status, 0);
	}
	if (me == CHILDREN - 1) {
		CHECK_EQ(daemon(1, 1), 0);
		be_grandchild(parent);
		atomic_store(&shared->is_daemon_done, 1);
		exit(0);
	}
	/* The child goes on after the grandchild. */
	ping_pong(&end, parent);
	end_close(&end);
	/* Also what a library destructor does. The queue may have queue pairs of the other threads. */
	CHECK_EQ(ibv_destroy_qp(busy_qp), 0);
	int code = ibv_destroy_cq(busy_cq);
	CHECK(code == 0 || code == EBUSY);
	exit(0);
}

/* Has every lock there is, most of the time. */
static void *be_busy(void *unused)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.dgid = node.gid};
	attr.grh.dgid.raw[15] ^= 1;
	while (!atomic_load(&is_over)) {
		int count;
		struct ibv_wc wc[4];
		struct ibv_device **list = ibv_get_device_list(&count);
		struct ibv_context *context = ibv_open_device(list[0]);
		CHECK(context);
		ibv_free_device_list(list);
		struct ibv_mr *mr = ibv_reg_mr(node.pd, node.buffer, 4096, IBV_ACCESS_LOCAL_WRITE);
		struct ibv_ah *ah = ibv_create_ah(node.pd, &attr);
		struct ibv_qp *qp = srd_create(&node, busy_cq);
		CHECK(mr);
		for (int i = 0; i < 20; i++)
			CHECK_EQ(ibv_poll_cq(busy_cq, 4, wc), 0);
		CHECK_EQ(ibv_destroy_qp(qp), 0);
		CHECK_EQ(ibv_dereg_mr(mr), 0);
		CHECK(!ah || ibv_destroy_ah(ah) == 0);
		CHECK_EQ(ibv_close_device(context), 0);
		atomic_store(&is_busy, 1);
	}
	return unused;
}

int main(void)
{
	alarm(SECONDS);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	node = node_open();
	busy_cq = ibv_create_cq(node.context, 64, NULL, NULL, 0);
	busy_qp = srd_create(&node, busy_cq);
	struct end end = end_open();
	pthread_t threads[2];
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, be_busy, NULL), 0);
	while (!atomic_load(&is_busy))
		usleep(100);
	pid_t children[CHILDREN];
	for (int i = 0; i < CHILDREN; i++) {
		children[i] = fork();
		CHECK(children[i] >= 0);
		if (children[i] == 0)
			be_child(i, end.qp->qp_num);
		take(&end, 1);
	}
	/* The parent notices nothing and answers. */
	int left = CHILDREN;
	while (left > 0 || !atomic_load(&shared->is_daemon_done)) {
		int status = 0;
		take(&end, 1);
		pid_t ended = left > 0 ? waitpid(-1, &status, WNOHANG) : 0;
		CHECK(ended >= 0 && status == 0);
		left -= ended > 0;
	}
	for (int i = 0; i < CHILDREN; i++)
		CHECK(atomic_load(&shared->is_done[i]));
	atomic_store(&is_over, 1);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_EQ(ibv_destroy_qp(busy_qp), 0);
	CHECK_EQ(ibv_destroy_cq(busy_cq), 0);
	end_close(&end);
	node_close(&node);
	return 0;
}
