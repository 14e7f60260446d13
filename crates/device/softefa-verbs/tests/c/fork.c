/*
 * A child destroys everything it inherited, as library destructors do, or becomes another program; the
 * parent notices nothing.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define RECV_AT 65536

static void exchange(struct node *node, struct ibv_cq *cq, struct ibv_qp *from, struct ibv_qp *to)
{
	post_recv(node, to, 2, RECV_AT, 100);
	struct ibv_sge sge = {(uintptr_t)node->buffer, 100, node->mr->lkey};
	struct ibv_send_wr wr = send_wr(node, to, &sge), *bad = NULL;
	CHECK_EQ(ibv_post_send(from, &wr, &bad), 0);
	struct ibv_wc wc[2];
	poll_n(cq, 2, wc);
	CHECK_EQ(wc[0].status, IBV_WC_SUCCESS);
	CHECK_EQ(wc[1].status, IBV_WC_SUCCESS);
}

static void wait_for(pid_t child)
{
	int status = -1;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

/* What a program does that a child became: it has a device of its own. */
static int be_another_program(void)
{
	struct node node = node_open();
	struct ibv_cq *cq = ibv_create_cq(node.context, 64, NULL, NULL, 0);
	CHECK(cq);
	struct ibv_qp *from = srd_create(&node, cq), *to = srd_create(&node, cq);
	exchange(&node, cq, from, to);
	CHECK_EQ(ibv_destroy_qp(from), 0);
	CHECK_EQ(ibv_destroy_qp(to), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	node_close(&node);
	return 0;
}

/* A child does not take the events of its parent, and arms nothing. */
static void check_events(struct node *node)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(node->context);
	struct ibv_cq *cq = ibv_create_cq(node->context, 64, NULL, channel, 0);
	CHECK(channel && cq);
	struct ibv_qp *qp = srd_create(node, cq);
	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
	post_recv(node, qp, 2, RECV_AT, 100);
	struct ibv_sge sge = {(uintptr_t)node->buffer, 100, node->mr->lkey};
	struct ibv_send_wr wr = send_wr(node, qp, &sge), *bad = NULL;
	CHECK_EQ(ibv_post_send(qp, &wr, &bad), 0);
	struct ibv_cq *got = NULL;
	void *ignored;
	struct ibv_wc wc[2];
	poll_n(cq, 2, wc);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK_EQ(ibv_get_cq_event(channel, &got, &ignored), -1);
		CHECK_EQ(errno, EINVAL);
		CHECK(ibv_req_notify_cq(cq, 0) != 0);
		CHECK_EQ(ibv_poll_cq(cq, 1, wc), 0);
		CHECK_EQ(ibv_destroy_qp(qp), 0);
		CHECK_EQ(ibv_destroy_cq(cq), 0);
		CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
		exit(0);
	}
	wait_for(child);
	CHECK_EQ(ibv_get_cq_event(channel, &got, &ignored), 0);
	CHECK(got == cq);
	ibv_ack_cq_events(cq, 1);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
}

int main(int count, char **arguments)
{
	if (count > 1)
		return be_another_program();
	struct node node = node_open();
	struct ibv_cq *cq = ibv_create_cq(node.context, 64, NULL, NULL, 0);
	CHECK(cq);
	struct ibv_qp *from = srd_create(&node, cq), *to = srd_create(&node, cq);
	exchange(&node, cq, from, to);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK_EQ(ibv_destroy_qp(from), 0);
		CHECK_EQ(ibv_destroy_qp(to), 0);
		CHECK_EQ(ibv_destroy_cq(cq), 0);
		node_close(&node);
		exit(0);
	}
	wait_for(child);
	for (int i = 0; i < 100; i++)
		exchange(&node, cq, from, to);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		/* What the child inherited refuses to work instead of disturbing the parent. */
		struct ibv_sge sge = {(uintptr_t)node.buffer, 100, node.mr->lkey};
		struct ibv_send_wr wr = send_wr(&node, to, &sge), *bad = NULL;
		CHECK_EQ(ibv_post_send(from, &wr, &bad), EINVAL);
		exit(0);
	}
	wait_for(child);
	exchange(&node, cq, from, to);
	check_events(&node);
	CHECK_EQ(system("exit 7"), 7 << 8);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		execl("/proc/self/exe", arguments[0], "again", (char *)NULL);
		exit(1);
	}
	/* Both at once. */
	for (int i = 0; i < 100; i++)
		exchange(&node, cq, from, to);
	wait_for(child);
	exchange(&node, cq, from, to);
	CHECK_EQ(ibv_destroy_qp(from), 0);
	CHECK_EQ(ibv_destroy_qp(to), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	node_close(&node);
	return 0;
}
