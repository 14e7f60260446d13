/* What belongs to one opening of a device is nothing to another one, whose completion vectors stay
 * as many as it said. A call that returns what went wrong has it in errno, too. */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>

static int processors = 8;

/* As on a machine with more processors than this one may have. */
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	(void)pid;
	memset(set, 0, size);
	for (int cpu = 0; cpu < processors; cpu++)
		CPU_SET_S(cpu, size, set);
	return 0;
}

static void check_vectors(struct ibv_context *context)
{
	CHECK_EQ(context->num_comp_vectors, 8);
	/* A thread that is kept on one processor takes the vector of its number. */
	processors = 1;
	for (int vector = 0; vector < 8; vector++) {
		struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, vector);
		CHECK(cq);
		CHECK_EQ(ibv_destroy_cq(cq), 0);
	}
	CHECK(!ibv_create_cq(context, 1, NULL, NULL, 8));
	CHECK_EQ(errno, EINVAL);
}

static void check_strangers(struct node *near, struct node *far)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(far->context);
	CHECK(channel);
	CHECK(!ibv_create_cq(near->context, 1, NULL, channel, 0));
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);

	struct ibv_cq *own = ibv_create_cq(near->context, 1, NULL, NULL, 0);
	struct ibv_cq *theirs = ibv_create_cq(far->context, 1, NULL, NULL, 0);
	CHECK(own && theirs);
	struct ibv_cq *pairs[][2] = {{own, theirs}, {theirs, own}, {theirs, theirs}, {own, own}};
	for (int i = 0; i < 4; i++) {
		struct ibv_qp_init_attr attr = qp_attr(pairs[i][0]);
		attr.recv_cq = pairs[i][1];
		errno = 0;
		struct ibv_qp *qp =
			efadv_create_driver_qp(near->pd, &attr, EFADV_QP_DRIVER_TYPE_SRD);
		CHECK_EQ(qp != NULL, i == 3);
		CHECK_EQ(qp ? ibv_destroy_qp(qp) : errno, i == 3 ? 0 : EINVAL);
	}
	CHECK_EQ(ibv_destroy_cq(own), 0);
	CHECK_EQ(ibv_destroy_cq(theirs), 0);
}

int main(void)
{
	struct node node = node_open();
	struct node other = node;
	other.context = ibv_open_device(node.context->device);
	CHECK(other.context);
	check_strangers(&node, &other);

	CHECK_EQ(ibv_dealloc_pd(node.pd), EBUSY);
	CHECK_EQ(errno, EBUSY);
	errno = 0;
	struct ibv_port_attr port;
	CHECK_EQ(ibv_query_port(node.context, 2, &port), EINVAL);
	CHECK_EQ(errno, EINVAL);
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.dgid = node.gid};
	attr.grh.sgid_index = 1;
	CHECK(!ibv_create_ah(node.pd, &attr));
	CHECK_EQ(errno, EINVAL);

	check_vectors(node.context);
	CHECK_EQ(ibv_close_device(other.context), 0);
	node_close(&node);
	return 0;
}
