/*
 * Ping-pong between two processes over an SRD queue pair, with verbs.
 *
 *     srd_pingpong [-p PORT] [-s BYTES] [-n ROUNDS]            one side
 *     srd_pingpong [-p PORT] [-s BYTES] [-n ROUNDS] ADDRESS    the other, on any host
 *
 * This is SRD in five sentences. A queue pair is connectionless: each send names its receiver by address
 * handle, queue pair number and queue key, which the two sides tell each other by other means (here
 * TCP). A send becomes exactly one receive, of at most max_msg_sz bytes, or fails with a status.
 * Messages may arrive in any order; this program never notices, as only one is ever under way.
 * A receive must be posted before its message arrives, or the sender is told "not ready". A
 * send has completed when the receiver's device has acknowledged it.
 */
#include <infiniband/efadv.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "out_of_band.h"

#define QKEY 0x5eda /* both sides must agree; a sender with another key is refused */

/* How to reach a queue pair. */
struct address { union ibv_gid gid; uint32_t qpn; };

/* An SRD queue pair that is ready to send. */
static struct ibv_qp *open_qp(struct ibv_context *ctx, struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_DRIVER, .send_cq = cq, .recv_cq = cq, .pd = pd, .sq_sig_all = 1,
		.cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct efadv_qp_init_attr efa = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
	struct ibv_qp *qp = efadv_create_qp_ex(ctx, &init, &efa, sizeof(efa));
	CHECK(qp, "efadv_create_qp_ex");

	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	int keys = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | keys), "to INIT");
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "to RTR");
	attr.qp_state = IBV_QPS_RTS; /* without IBV_QP_RNR_RETRY: tries for ever */
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "to RTS");
	return qp;
}

/* Polls until `sends` sends and `recvs` receives have completed since the counts were zero. */
static void wait_for(struct ibv_cq *cq, int sends, int recvs, int done[2], uint32_t bytes)
{
	struct ibv_wc wc;
	while (done[0] < sends || done[1] < recvs) {
		int found = ibv_poll_cq(cq, 1, &wc);
		CHECK(found >= 0, "ibv_poll_cq");
		if (!found)
			continue;
		if (wc.status != IBV_WC_SUCCESS) { /* vendor_err is EFA's own number */
			fprintf(stderr, "%s failed: %s (EFA status %u)\n",
				wc.opcode & IBV_WC_RECV ? "receive" : "send",
				ibv_wc_status_str(wc.status), wc.vendor_err);
			exit(1);
		}
		if (wc.opcode & IBV_WC_RECV && wc.byte_len != bytes) {
			fprintf(stderr, "%u bytes came, not %u\n", wc.byte_len, bytes);
			exit(1);
		}
		done[wc.opcode & IBV_WC_RECV ? 1 : 0]++;
	}
}

int main(int argc, char **argv)
{
	const char *port = "18600";
	int bytes = 64, rounds = 10000, option;
	while ((option = getopt(argc, argv, "p:s:n:")) != -1)
		switch (option) {
		case 'p': port = optarg; break;
		case 's': bytes = atoi(optarg); break;
		case 'n': rounds = atoi(optarg); break;
		default: return 2; /* getopt said why */
		}
	const char *server = argv[optind];

	int count;
	struct ibv_device **devices = ibv_get_device_list(&count);
	if (!devices || !count) {
		fprintf(stderr, "no device: start with `softefa run -- %s`\n", argv[0]);
		return 1;
	}
	struct ibv_context *ctx = ibv_open_device(devices[0]);
	CHECK(ctx, "ibv_open_device");
	struct ibv_port_attr limits;
	CHECK(!ibv_query_port(ctx, 1, &limits), "ibv_query_port");
	if (bytes < 1 || (unsigned)bytes > limits.max_msg_sz || rounds < 1) {
		fprintf(stderr, "-s is 1 to %u, -n at least 1\n", limits.max_msg_sz);
		return 2;
	}
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	CHECK(pd && cq, "protection domain, completion queue");
	struct ibv_qp *qp = open_qp(ctx, pd, cq);
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(qp);

	/* The first half is sent, the second received into. */
	unsigned char *out = calloc(2, bytes), *in = out + bytes;
	struct ibv_mr *mr = ibv_reg_mr(pd, out, 2 * (size_t)bytes, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr, "ibv_reg_mr");
	struct ibv_sge into = {.addr = (uintptr_t)in, .length = bytes, .lkey = mr->lkey};
	struct ibv_recv_wr recv_wr = {.sg_list = &into, .num_sge = 1}, *bad;
	CHECK(!ibv_post_recv(qp, &recv_wr, &bad), "ibv_post_recv");

	struct address mine = {.qpn = qp->qp_num}, theirs;
	CHECK(!ibv_query_gid(ctx, 1, 0, &mine.gid), "ibv_query_gid");
	int channel = meet(server, port);
	swap(channel, &mine, &theirs, sizeof(mine));
	struct ibv_ah_attr to = {.is_global = 1, .port_num = 1, .grh.dgid = theirs.gid};
	struct ibv_ah *ah = ibv_create_ah(pd, &to);
	CHECK(ah, "ibv_create_ah");

	struct timespec from, until;
	clock_gettime(CLOCK_MONOTONIC, &from);
	int done[2] = {0, 0};
	for (int round = 0; round < rounds; round++) {
		if (!server) { /* answers what it hears */
			wait_for(cq, round, round + 1, done, bytes);
			memcpy(out, in, bytes);
		} else {
			memset(out, 'a' + round % 26, bytes);
		}
		/* The answer may come at once: its receive must be there before. */
		if (server ? round > 0 : round + 1 < rounds)
			CHECK(!ibv_post_recv(qp, &recv_wr, &bad), "ibv_post_recv");
		ibv_wr_start(qpx);
		qpx->wr_id = round;
		qpx->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_send(qpx);
		ibv_wr_set_sge(qpx, mr->lkey, (uintptr_t)out, bytes);
		ibv_wr_set_ud_addr(qpx, ah, theirs.qpn, QKEY);
		CHECK(!ibv_wr_complete(qpx), "ibv_wr_complete");
		wait_for(cq, round + 1, server ? round + 1 : 0, done, bytes);
		if (server && memcmp(in, out, bytes)) {
			fprintf(stderr, "round %d: the answer is not what was sent\n", round);
			return 1;
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &until);
	double us = (until.tv_sec - from.tv_sec) * 1e6 + (until.tv_nsec - from.tv_nsec) / 1e3;
	printf("%d rounds of %d bytes, %.2f us one way\n", rounds, bytes, us / rounds / 2);

	swap(channel, &done[0], &done[1], sizeof(int)); /* nobody leaves before both are done */
	ibv_destroy_ah(ah);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);
	ibv_close_device(ctx);
	ibv_free_device_list(devices);
	free(out);
	return 0;
}
