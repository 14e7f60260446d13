/*
 * Bandwidth of the device's RDMA READ, which perftest cannot measure on SRD: a window of READs, each
 * of its own stretch of a region. The server registers memory and sleeps until the client is done.
 *
 *   read_bw PORT                          server
 *   read_bw PORT ADDRESS SIZE MILLISECONDS   client; prints Gbit/s
 */
#include <errno.h>
#include <stdint.h>
#include <time.h>

#include <infiniband/efadv.h>
#include <infiniband/verbs.h>

#include "../../examples/out_of_band.h"

#define QKEY 0x1234567u
#define DEPTH 16
#define WARM_UP_MS 200

struct peer {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t rkey, qpn;
};

struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *memory;
};

static void up(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
	CHECK(!ibv_modify_qp(qp, &attr, init), "ibv_modify_qp to INIT");
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "ibv_modify_qp to RTR");
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "ibv_modify_qp to RTS");
}

static struct side open_side(size_t bytes, char fill)
{
	struct side side;
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	CHECK(list && count > 0, "ibv_get_device_list");
	side.context = ibv_open_device(list[0]);
	CHECK(side.context, "ibv_open_device");
	ibv_free_device_list(list);
	side.pd = ibv_alloc_pd(side.context);
	CHECK(side.pd, "ibv_alloc_pd");
	side.cq = ibv_create_cq(side.context, 2 * DEPTH, NULL, NULL, 0);
	CHECK(side.cq, "ibv_create_cq");
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = side.cq,
		.recv_cq = side.cq,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_DRIVER,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = side.pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ,
	};
	struct efadv_qp_init_attr efa = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
	side.qp = efadv_create_qp_ex(side.context, &attr, &efa, sizeof(efa));
	CHECK(side.qp, "efadv_create_qp_ex");
	up(side.qp);
	side.memory = aligned_alloc(4096, bytes);
	CHECK(side.memory, "aligned_alloc");
	memset(side.memory, fill, bytes);
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	side.mr = ibv_reg_mr(side.pd, side.memory, bytes, access);
	CHECK(side.mr, "ibv_reg_mr");
	return side;
}

static struct peer swap_peers(int fd, struct side *side)
{
	struct peer mine = {.addr = (uintptr_t)side->memory, .rkey = side->mr->rkey, .qpn = side->qp->qp_num};
	struct peer theirs;
	CHECK(!ibv_query_gid(side->context, 1, 0, &mine.gid), "ibv_query_gid");
	swap(fd, &mine, &theirs, sizeof(mine));
	return theirs;
}

static double now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void post(struct side *side, struct ibv_ah *ah, const struct peer *peer, uint64_t number, uint32_t size)
{
	size_t offset = number % DEPTH * size;
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(side->qp);
	ibv_wr_start(qp);
	qp->wr_id = number;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_read(qp, peer->rkey, peer->addr + offset);
	ibv_wr_set_ud_addr(qp, ah, peer->qpn, QKEY);
	ibv_wr_set_sge(qp, side->mr->lkey, (uintptr_t)side->memory + offset, size);
	CHECK(!(errno = ibv_wr_complete(qp)), "ibv_wr_complete");
}

static double measure(struct side *side, struct ibv_ah *ah, const struct peer *peer, uint32_t size, double ms)
{
	uint64_t posted = 0, done = 0, done_before = 0;
	double from = now_ms() + WARM_UP_MS, start = 0;
	for (;;) {
		for (; posted - done < DEPTH; posted++)
			post(side, ah, peer, posted, size);
		struct ibv_wc wc;
		if (ibv_poll_cq(side->cq, 1, &wc) == 0)
			continue;
		if (wc.status != IBV_WC_SUCCESS) {
			fprintf(stderr, "READ %llu: %s\n", (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
			exit(1);
		}
		done++;
		double now = now_ms();
		if (!start && now >= from)
			start = now, done_before = done;
		if (start && now - start >= ms)
			return (double)(done - done_before) * size * 8 / (now - start) / 1e6;
	}
}

int main(int argc, char **argv)
{
	if (argc != 2 && argc != 5) {
		fprintf(stderr, "usage: %s PORT [ADDRESS SIZE MILLISECONDS]\n", argv[0]);
		return 2;
	}
	int is_client = argc == 5;
	uint32_t size = is_client ? (uint32_t)atoi(argv[3]) : 0, asked = 0;
	int fd = meet(is_client ? argv[2] : NULL, argv[1]);
	swap(fd, &size, &asked, sizeof(size));
	size_t bytes = (size_t)DEPTH * (is_client ? size : asked);
	struct side side = open_side(bytes, is_client ? 'c' : 's');
	struct peer peer = swap_peers(fd, &side);
	if (!is_client) {
		char end;
		return recv(fd, &end, 1, 0) != 0;
	}
	struct ibv_ah_attr to = {.is_global = 1, .port_num = 1, .grh.dgid = peer.gid};
	struct ibv_ah *ah = ibv_create_ah(side.pd, &to);
	CHECK(ah, "ibv_create_ah");
	printf("%.3f\n", measure(&side, ah, &peer, size, atof(argv[4])));
	for (size_t i = 0; i < bytes; i += 4095)
		if (side.memory[i] != 's') {
			fprintf(stderr, "byte %zu was never read\n", i);
			return 1;
		}
	return 0;
}
