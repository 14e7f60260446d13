/* RDMA between two processes. The target sets memory up and sleeps: it never polls. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define LENGTH 900000u

extern char **environ;

struct target {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t rkey, qpn;
};

static struct ibv_qp *rdma_qp(struct node *node, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr base = qp_attr(cq);
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = base.cap,
		.qp_type = IBV_QPT_DRIVER,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = node->pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct efadv_qp_init_attr efa = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
	struct ibv_qp *qp = efadv_create_qp_ex(node->context, &attr, &efa, sizeof(efa));
	CHECK(qp);
	qp_to_rts(qp);
	return qp;
}

static void *region(struct node *node, struct ibv_mr **mr, int fill)
{
	char *bytes = malloc(LENGTH);
	CHECK(bytes);
	memset(bytes, fill, LENGTH);
	*mr = ibv_reg_mr(node->pd, bytes, LENGTH,
			 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	CHECK(*mr);
	return bytes;
}

/* Says where its memory is on descriptor 3, waits for a byte on 4, checks what was written. */
static int be_target(void)
{
	struct node node = node_open();
	struct ibv_cq *cq = ibv_create_cq(node.context, 64, NULL, NULL, 0);
	CHECK(cq);
	struct ibv_qp *qp = rdma_qp(&node, cq);
	struct ibv_mr *mr;
	char *bytes = region(&node, &mr, 's');
	struct target self = {node.gid, (uintptr_t)bytes, mr->rkey, qp->qp_num};
	CHECK_EQ(write(3, &self, sizeof(self)), sizeof(self));
	char go;
	CHECK_EQ(read(4, &go, 1), 1);
	for (uint32_t i = 0; i < LENGTH; i++)
		CHECK_EQ(bytes[i], 'w');
	CHECK_EQ(write(3, "k", 1), 1);
	pause();
	return 1;
}

static pid_t start_target(int *from, int *to)
{
	int out[2], in[2];
	CHECK(!pipe2(out, O_CLOEXEC) && !pipe2(in, O_CLOEXEC));
	posix_spawn_file_actions_t actions;
	CHECK(!posix_spawn_file_actions_init(&actions));
	/* Out of the way of 3 and 4 first. */
	int out_end = fcntl(out[1], F_DUPFD_CLOEXEC, 10), in_end = fcntl(in[0], F_DUPFD_CLOEXEC, 10);
	CHECK(!posix_spawn_file_actions_adddup2(&actions, out_end, 3));
	CHECK(!posix_spawn_file_actions_adddup2(&actions, in_end, 4));
	char *argv[] = {"processes", "target", NULL};
	pid_t child;
	CHECK(!posix_spawn(&child, "/proc/self/exe", &actions, NULL, argv, environ));
	posix_spawn_file_actions_destroy(&actions);
	close(out[1]), close(in[0]), close(out_end), close(in_end);
	*from = out[0], *to = in[1];
	return child;
}

static enum ibv_wc_status transfer(struct node *node, struct ibv_qp *qp, struct ibv_mr *mr,
				   struct target *target, int is_write, uint32_t rkey)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(ex);
	if (is_write)
		ibv_wr_rdma_write(ex, rkey, target->addr);
	else
		ibv_wr_rdma_read(ex, rkey, target->addr);
	ibv_wr_set_ud_addr(ex, node->ah, target->qpn, QKEY);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)mr->addr, LENGTH);
	CHECK_EQ(ibv_wr_complete(ex), 0);
	struct ibv_wc wc;
	poll_n(qp->send_cq, 1, &wc);
	return wc.status;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "target"))
		return be_target();
	int from, to;
	pid_t child = start_target(&from, &to);
	struct node node = node_open();
	struct ibv_cq *cq = ibv_create_cq(node.context, 64, NULL, NULL, 0);
	CHECK(cq);
	struct ibv_qp *qp = rdma_qp(&node, cq);
	struct ibv_mr *mr;
	char *bytes = region(&node, &mr, 'w');
	struct target target;
	CHECK_EQ(read(from, &target, sizeof(target)), sizeof(target));

	CHECK_EQ(transfer(&node, qp, mr, &target, 1, target.rkey + 1), IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(transfer(&node, qp, mr, &target, 0, target.rkey + 1), IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(bytes[0], 'w');
	CHECK_EQ(transfer(&node, qp, mr, &target, 0, target.rkey), IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < LENGTH; i++)
		CHECK_EQ(bytes[i], 's');
	memset(bytes, 'w', LENGTH);
	CHECK_EQ(transfer(&node, qp, mr, &target, 1, target.rkey), IBV_WC_SUCCESS);
	char ok = 0;
	CHECK_EQ(write(to, "g", 1), 1);
	CHECK_EQ(read(from, &ok, 1), 1);

	/* Whoever is killed owes an answer; the kernel of its host gives it. */
	CHECK(!kill(child, SIGKILL));
	CHECK_EQ(waitpid(child, NULL, 0), child);
	CHECK_EQ(transfer(&node, qp, mr, &target, 0, target.rkey), IBV_WC_REM_INV_RD_REQ_ERR);
	CHECK_EQ(transfer(&node, qp, mr, &target, 1, target.rkey), IBV_WC_REM_INV_RD_REQ_ERR);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	free(bytes);
	node_close(&node);
	return 0;
}
