/* UD: 40 bytes of routing header in front of the payload, from which the sender can be answered. */
#include "check.h"

#define RECV_AT 65536
#define GRH 40

static struct ibv_qp *create(struct node *node, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = qp_attr(cq);
	attr.qp_type = IBV_QPT_UD;
	attr.sq_sig_all = 1;
	struct ibv_qp *qp = ibv_create_qp(node->pd, &attr);
	CHECK(qp);
	qp_to_rts(qp);
	return qp;
}

static struct ibv_wc exchange(struct node *node, struct ibv_cq *cq, struct ibv_ah *ah,
			      struct ibv_qp *from, struct ibv_qp *to, uint32_t bytes)
{
	post_recv(node, to, 3, RECV_AT, GRH + bytes);
	struct ibv_sge sge = {(uintptr_t)node->buffer, bytes, node->mr->lkey};
	struct ibv_send_wr wr = send_wr(node, to, &sge), *bad = NULL;
	wr.wr.ud.ah = ah;
	wr.send_flags = 0;
	CHECK_EQ(ibv_post_send(from, &wr, &bad), 0);
	struct ibv_wc wc[2];
	poll_n(cq, 2, wc);
	CHECK_EQ(wc[0].status, IBV_WC_SUCCESS);
	CHECK_EQ(wc[1].status, IBV_WC_SUCCESS);
	return wc[0].opcode == IBV_WC_RECV ? wc[0] : wc[1];
}

int main(void)
{
	struct node node = node_open();
	struct ibv_cq *cq = ibv_create_cq(node.context, 64, NULL, NULL, 0);
	CHECK(cq);
	struct ibv_qp *from = create(&node, cq), *to = create(&node, cq);
	for (int i = 0; i < 8000; i++)
		node.buffer[i] = (char)(i * 13);
	for (uint32_t bytes = 1; bytes <= 8000; bytes = bytes * 20) {
		struct ibv_wc wc = exchange(&node, cq, node.ah, from, to, bytes);
		CHECK_EQ(wc.opcode, IBV_WC_RECV);
		CHECK_EQ(wc.byte_len, GRH + bytes);
		CHECK_EQ(wc.src_qp, from->qp_num);
		CHECK_EQ(wc.qp_num, to->qp_num);
		CHECK(wc.wc_flags & IBV_WC_GRH);
		CHECK_EQ(memcmp(node.buffer + RECV_AT + GRH, node.buffer, bytes), 0);
		struct ibv_grh *grh = (struct ibv_grh *)(node.buffer + RECV_AT);
		CHECK_EQ(memcmp(&grh->sgid, &node.gid, sizeof(node.gid)), 0);
		struct ibv_ah *back = ibv_create_ah_from_wc(node.pd, &wc, grh, 1);
		CHECK(back);
		struct ibv_wc answer = exchange(&node, cq, back, to, from, 100);
		CHECK_EQ(answer.qp_num, from->qp_num);
		CHECK_EQ(ibv_destroy_ah(back), 0);
	}
	CHECK_EQ(ibv_destroy_qp(from), 0);
	CHECK_EQ(ibv_destroy_qp(to), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	node_close(&node);
	return 0;
}
