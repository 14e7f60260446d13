/*
 * What a child may find: locks and sessions of threads that did not come along. Nothing of that works
 * there, and nothing waits. Its parent goes on.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define FORKS 40
#define CHILD_SECONDS 20

static struct node node;
static struct ibv_cq_ex *cq;
static struct ibv_qp *qp;
static atomic_int in_session, is_over;

/* Has the locks of the queue and the queue pair most of the time. */
static void *poll_all_the_time(void *unused)
{
	struct ibv_wc wc[16];
	while (!atomic_load(&is_over))
		CHECK_EQ(ibv_poll_cq(qp->recv_cq, 16, wc), 0);
	return unused;
}

static void *keep_a_session(void *unused)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_poll_cq_attr attr = {0};
	ibv_wr_start(ex);
	CHECK_EQ(ibv_start_poll(cq, &attr), ENOENT);
	/* Whoever finds nothing has no session: only the sending one is open. */
	atomic_store(&in_session, 1);
	while (!atomic_load(&is_over))
		usleep(1000);
	ibv_wr_abort(ex);
	return unused;
}

static int refused(const void *object)
{
	return !object && errno == ENODEV;
}

/* Everything a program calls. SIGALRM ends a child that hangs. */
static void be_child(struct ibv_device *device)
{
	alarm(CHILD_SECONDS);
	struct ibv_wc wc;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init = qp_attr(ibv_cq_ex_to_cq(cq));
	struct ibv_poll_cq_attr poll_attr = {0};
	struct ibv_ah_attr ah_attr = {.is_global = 1, .port_num = 1, .grh.dgid = node.gid};
	CHECK_EQ(ibv_poll_cq(qp->recv_cq, 1, &wc), 0);
	CHECK_EQ(ibv_start_poll(cq, &poll_attr), ENOENT);
	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_ERR);
	attr.qp_state = IBV_QPS_RESET;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, node.ah, qp->qp_num, QKEY);
	ibv_wr_set_sge(ex, node.mr->lkey, (uintptr_t)node.buffer, 8);
	CHECK_EQ(ibv_wr_complete(ex), EINVAL);
	struct ibv_sge sge = {(uintptr_t)node.buffer, 8, node.mr->lkey};
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad;
	CHECK_EQ(ibv_post_recv(qp, &recv, &bad), EINVAL);
	CHECK(refused(ibv_alloc_pd(node.context)));
	CHECK(refused(ibv_create_comp_channel(node.context)));
	CHECK(refused(ibv_create_cq(node.context, 8, NULL, NULL, 0)));
	CHECK(refused(ibv_create_ah(node.pd, &ah_attr)));
	CHECK(refused(ibv_reg_mr(node.pd, node.buffer, 8, 0)));
	init = qp_attr(ibv_cq_ex_to_cq(cq));
	CHECK(refused(efadv_create_driver_qp(node.pd, &init, EFADV_QP_DRIVER_TYPE_SRD)));
	/* What it opens itself is its own. */
	struct ibv_context *own = ibv_open_device(device);
	CHECK(own);
	CHECK_EQ(ibv_close_device(own), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	node_close(&node);
	exit(0);
}

static void wait_for(pid_t child)
{
	int status = -1;
	CHECK(child > 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

int main(void)
{
	node = node_open();
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS};
	cq = ibv_create_cq_ex(node.context, &cq_attr);
	CHECK(cq);
	/* Before there is any queue pair the device is the parent's already. */
	pid_t child = fork();
	if (child == 0) {
		struct ibv_qp_init_attr init = qp_attr(ibv_cq_ex_to_cq(cq));
		CHECK(refused(efadv_create_driver_qp(node.pd, &init, EFADV_QP_DRIVER_TYPE_SRD)));
		exit(0);
	}
	wait_for(child);
	qp = srd_create_extended(&node, ibv_cq_ex_to_cq(cq));
	pthread_t threads[2];
	CHECK_EQ(pthread_create(&threads[0], NULL, poll_all_the_time, NULL), 0);
	CHECK_EQ(pthread_create(&threads[1], NULL, keep_a_session, NULL), 0);
	while (!atomic_load(&in_session))
		usleep(100);
	for (int i = 0; i < FORKS; i++) {
		child = fork();
		if (child == 0)
			be_child(node.context->device);
		wait_for(child);
	}
	atomic_store(&is_over, 1);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	post_recv(&node, qp, 2, 65536, 100);
	struct ibv_sge sge = {(uintptr_t)node.buffer, 100, node.mr->lkey};
	struct ibv_send_wr wr = send_wr(&node, qp, &sge), *bad;
	CHECK_EQ(ibv_post_send(qp, &wr, &bad), 0);
	struct ibv_wc wc[2];
	poll_n(qp->recv_cq, 2, wc);
	CHECK(wc[0].status == IBV_WC_SUCCESS && wc[1].status == IBV_WC_SUCCESS);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	node_close(&node);
	return 0;
}
