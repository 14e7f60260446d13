/* A program that is linked to neither library and finds both by name at run time, as NCCL and
 * others do: every function through a handle, with and without its version. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "check.h"

static void *verbs, *efa;

static void *find(void *library, const char *name, const char *version)
{
	void *plain = dlsym(library, name);
	void *versioned = dlvsym(library, name, version);
	if (!plain || plain != versioned) {
		fprintf(stderr, "%s: %p, and %p with %s\n", name, plain, versioned, version);
		exit(1);
	}
	return plain;
}

/* A pointer `p_name` of the type the header declares `name` with. */
#define FIND(library, name, version)                                                           \
	__typeof__(&name) p_##name = (__typeof__(&name))find(library, #name, version)

static void *open_library(const char *name)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return library;
}

static struct ibv_context *open_first(void)
{
	FIND(verbs, ibv_get_device_list, "IBVERBS_1.1");
	FIND(verbs, ibv_free_device_list, "IBVERBS_1.1");
	FIND(verbs, ibv_open_device, "IBVERBS_1.1");
	int count = 0;
	struct ibv_device **list = p_ibv_get_device_list(&count);
	CHECK(list && count == 1);
	struct ibv_context *context = p_ibv_open_device(list[0]);
	CHECK(context);
	p_ibv_free_device_list(list);
	return context;
}

static void to_rts(struct ibv_qp *qp)
{
	FIND(verbs, ibv_modify_qp, "IBVERBS_1.1");
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
	CHECK_EQ(p_ibv_modify_qp(qp, &attr, mask), 0);
	attr.qp_state = IBV_QPS_RTR;
	CHECK_EQ(p_ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK_EQ(p_ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	verbs = open_library(argv[1]);
	efa = open_library(argv[2]);
	FIND(verbs, ibv_alloc_pd, "IBVERBS_1.1");
	FIND(verbs, ibv_create_cq, "IBVERBS_1.1");
	FIND(verbs, ibv_query_gid, "IBVERBS_1.1");
	FIND(verbs, ibv_create_ah, "IBVERBS_1.1");
	FIND(verbs, ibv_reg_mr_iova2, "IBVERBS_1.8");
	FIND(efa, efadv_create_driver_qp, "EFA_1.0");

	struct node node = {.context = open_first()};
	node.pd = p_ibv_alloc_pd(node.context);
	CHECK(node.pd);
	node.buffer = calloc(1, BUFFER_BYTES);
	node.mr = p_ibv_reg_mr_iova2(node.pd, node.buffer, BUFFER_BYTES, (uintptr_t)node.buffer,
				     IBV_ACCESS_LOCAL_WRITE);
	CHECK(node.mr);
	CHECK_EQ(p_ibv_query_gid(node.context, 1, 0, &node.gid), 0);
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh.dgid = node.gid};
	node.ah = p_ibv_create_ah(node.pd, &ah);
	CHECK(node.ah);
	struct ibv_cq *cq = p_ibv_create_cq(node.context, 16, NULL, NULL, 0);
	CHECK(cq);
	struct ibv_qp_init_attr init = qp_attr(cq);
	struct ibv_qp *qp = p_efadv_create_driver_qp(node.pd, &init, EFADV_QP_DRIVER_TYPE_SRD);
	CHECK(qp);
	to_rts(qp);

	post_recv(&node, qp, 7, 4096, 4096);
	memcpy(node.buffer, "found by name", 14);
	struct ibv_sge sge = {(uintptr_t)node.buffer, 14, node.mr->lkey};
	struct ibv_send_wr wr = send_wr(&node, qp, &sge), *bad = NULL;
	CHECK_EQ(ibv_post_send(qp, &wr, &bad), 0);
	struct ibv_wc wc[2];
	poll_n(cq, 2, wc);
	CHECK(wc[0].status == IBV_WC_SUCCESS && wc[1].status == IBV_WC_SUCCESS);
	CHECK(strcmp(node.buffer + 4096, "found by name") == 0);
	/* What is still open ends with the process. */
	return 0;
}
