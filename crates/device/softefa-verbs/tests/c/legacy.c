/* SEND and RECV between two SRD queue pairs with ibv_post_send, ibv_post_recv and ibv_poll_cq. */
#include "check.h"

#define RECV_AT 65536
#define SLOT 16384

static struct ibv_wc *of_qp(struct ibv_wc *wc, int count, struct ibv_qp *qp)
{
	for (int i = 0; i < count; i++)
		if (wc[i].qp_num == qp->qp_num)
			return &wc[i];
	fprintf(stderr, "no completion of queue pair %u\n", qp->qp_num);
	exit(1);
}

static void check_one(struct node *node, struct ibv_cq *cq, struct ibv_qp *from, struct ibv_qp *to)
{
	char *recv = node->buffer + RECV_AT;
	for (int i = 0; i < 8928; i++)
		node->buffer[i] = (char)(i * 7);
	for (uint32_t bytes = 1; bytes <= 8928; bytes = bytes < 4096 ? bytes * 8 : bytes + 4832) {
		memset(recv, 0, SLOT);
		post_recv(node, to, 100 + bytes, RECV_AT, SLOT);
		struct ibv_sge sge = {(uintptr_t)node->buffer, bytes, node->mr->lkey};
		struct ibv_send_wr wr = send_wr(node, to, &sge), *bad = NULL;
		wr.wr_id = bytes;
		CHECK_EQ(ibv_post_send(from, &wr, &bad), 0);
		struct ibv_wc wc[2];
		poll_n(cq, 2, wc);
		struct ibv_wc *sent = of_qp(wc, 2, from), *got = of_qp(wc, 2, to);
		CHECK_EQ(sent->status, IBV_WC_SUCCESS);
		CHECK_EQ(sent->wr_id, bytes);
		CHECK_EQ(sent->opcode, IBV_WC_SEND);
		CHECK_EQ(got->status, IBV_WC_SUCCESS);
		CHECK_EQ(got->wr_id, 100 + bytes);
		CHECK_EQ(got->opcode, IBV_WC_RECV);
		CHECK_EQ(got->byte_len, bytes);
		CHECK_EQ(got->src_qp, from->qp_num);
		CHECK_EQ(got->wc_flags & IBV_WC_WITH_IMM, 0);
		CHECK_EQ(memcmp(recv, node->buffer, bytes), 0);
		struct efadv_ah_attr ah;
		CHECK_EQ(efadv_query_ah(node->ah, &ah, sizeof(ah)), 0);
		CHECK_EQ(got->slid, ah.ahn);
	}
}

static void check_inline_and_imm(struct node *node, struct ibv_cq *cq, struct ibv_qp *from,
				 struct ibv_qp *to)
{
	post_recv(node, to, 1, RECV_AT, SLOT);
	char local[] = "twenty-four inline bytes";
	struct ibv_sge sges[2] = {{(uintptr_t)local, 12, 0}, {(uintptr_t)local + 12, 12, 0}};
	struct ibv_send_wr wr = send_wr(node, to, sges), *bad = NULL;
	wr.num_sge = 2;
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = htonl(0xdecafbad);
	wr.send_flags |= IBV_SEND_INLINE;
	CHECK_EQ(ibv_post_send(from, &wr, &bad), 0);
	memset(local, 'x', sizeof(local));
	struct ibv_wc wc[2];
	poll_n(cq, 2, wc);
	struct ibv_wc *got = of_qp(wc, 2, to);
	CHECK_EQ(got->status, IBV_WC_SUCCESS);
	CHECK_EQ(got->byte_len, 24);
	CHECK(got->wc_flags & IBV_WC_WITH_IMM);
	CHECK_EQ(ntohl(got->imm_data), 0xdecafbad);
	CHECK_EQ(memcmp(node->buffer + RECV_AT, "twenty-four inline bytes", 24), 0);
}

/* Two entries on each side, cut at different places, and a list of requests in one call. */
static void check_lists(struct node *node, struct ibv_cq *cq, struct ibv_qp *from, struct ibv_qp *to)
{
	struct ibv_recv_wr recvs[8], *bad_recv = NULL;
	struct ibv_sge recv_sges[8][2];
	for (int i = 0; i < 8; i++) {
		uintptr_t at = (uintptr_t)node->buffer + RECV_AT + (uintptr_t)(i * SLOT);
		recv_sges[i][0] = (struct ibv_sge){at, 10, node->mr->lkey};
		recv_sges[i][1] = (struct ibv_sge){at + 10, SLOT - 10, node->mr->lkey};
		recvs[i] = (struct ibv_recv_wr){.wr_id = 10 + (uint64_t)i,
						.next = i < 7 ? &recvs[i + 1] : NULL,
						.sg_list = recv_sges[i],
						.num_sge = 2};
	}
	CHECK_EQ(ibv_post_recv(to, recvs, &bad_recv), 0);
	struct ibv_send_wr sends[8], *bad_send = NULL;
	struct ibv_sge send_sges[8][2];
	for (int i = 0; i < 8; i++) {
		uintptr_t at = (uintptr_t)node->buffer + (uintptr_t)(i * 1000);
		memset((void *)at, 'a' + i, 1000);
		send_sges[i][0] = (struct ibv_sge){at, 300, node->mr->lkey};
		send_sges[i][1] = (struct ibv_sge){at + 300, 700, node->mr->lkey};
		sends[i] = send_wr(node, to, send_sges[i]);
		sends[i].num_sge = 2;
		sends[i].next = i < 7 ? &sends[i + 1] : NULL;
		sends[i].opcode = IBV_WR_SEND_WITH_IMM;
		sends[i].imm_data = htonl((uint32_t)i);
	}
	CHECK_EQ(ibv_post_send(from, sends, &bad_send), 0);
	struct ibv_wc wc[16];
	poll_n(cq, 16, wc);
	int seen = 0;
	for (int i = 0; i < 16; i++) {
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
		if (wc[i].qp_num != to->qp_num)
			continue;
		/* SRD may deliver in any order: the immediate data says which message it is. */
		char expected[1000];
		memset(expected, 'a' + (int)ntohl(wc[i].imm_data), sizeof(expected));
		char *at = node->buffer + RECV_AT + (wc[i].wr_id - 10) * SLOT;
		CHECK_EQ(wc[i].byte_len, 1000);
		CHECK_EQ(memcmp(at, expected, sizeof(expected)), 0);
		seen |= 1 << ntohl(wc[i].imm_data);
	}
	CHECK_EQ(seen, 0xff);
}

/* perftest asks for few completions: the others are not told, but free their place. */
static void check_unsignaled(struct node *node, struct ibv_cq *cq, struct ibv_qp *from,
			     struct ibv_qp *to)
{
	struct ibv_sge sge = {(uintptr_t)node->buffer, 8, node->mr->lkey};
	for (uint64_t i = 0; i < 100; i++) {
		post_recv(node, to, i, RECV_AT, SLOT);
		struct ibv_send_wr wr = send_wr(node, to, &sge), *bad = NULL;
		wr.send_flags = 0;
		uint64_t deadline = now_ms() + 20000;
		struct ibv_wc wc;
		int code;
		while ((code = ibv_post_send(from, &wr, &bad)) == ENOMEM) {
			CHECK_EQ(ibv_poll_cq(from->send_cq, 0, &wc), 0);
			CHECK(now_ms() < deadline);
		}
		CHECK_EQ(code, 0);
		poll_n(cq, 1, &wc);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.opcode, IBV_WC_RECV);
		CHECK_EQ(wc.wr_id, i);
	}
}

int main(void)
{
	struct node node = node_open();
	struct ibv_cq *cq = ibv_create_cq(node.context, 100, &node, NULL, 0);
	CHECK(cq && cq->cqe >= 100 && cq->cq_context == &node);
	struct ibv_qp *from = srd_create(&node, cq), *to = srd_create(&node, cq);
	CHECK(!ibv_qp_to_qp_ex(from));
	check_one(&node, cq, from, to);
	check_inline_and_imm(&node, cq, from, to);
	check_lists(&node, cq, from, to);
	check_unsignaled(&node, cq, from, to);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	CHECK_EQ(ibv_query_qp(from, &attr, IBV_QP_STATE | IBV_QP_QKEY, &init), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_RTS);
	CHECK_EQ(attr.qkey, QKEY);
	CHECK_EQ(attr.rnr_retry, 3);
	CHECK(init.send_cq == cq && init.cap.max_send_wr == 16);
	/* A receive that is never used leaves with its queue pair, without a completion. */
	post_recv(&node, to, 7, RECV_AT, SLOT);
	CHECK_EQ(ibv_destroy_qp(to), 0);
	struct ibv_wc wc;
	CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);
	CHECK_EQ(ibv_destroy_qp(from), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	node_close(&node);
	return 0;
}
