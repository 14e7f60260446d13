/*
 * What programs with RDMA need: sides with extended queues, one-line posts, waiting for one completion.
 */
#ifndef RDMA_H
#define RDMA_H

#include "check.h"

#define LENGTH 200000u
#define REMOTE_AT 300000u

struct side {
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
};

/* Operations of the queue pairs below; an older generation has fewer. */
static uint64_t attr_send_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ |
				IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;

static inline struct ibv_qp_init_attr_ex side_attr(struct node *node, struct ibv_cq_ex *cq)
{
	struct ibv_qp_init_attr base = qp_attr(ibv_cq_ex_to_cq(cq));
	return (struct ibv_qp_init_attr_ex){
		.send_cq = base.send_cq,
		.recv_cq = base.recv_cq,
		.cap = base.cap,
		.qp_type = IBV_QPT_DRIVER,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = node->pd,
		.send_ops_flags = attr_send_ops,
	};
}

static inline struct side side_open(struct node *node)
{
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct efadv_cq_init_attr efa_cq = {0};
	struct side side;
	side.cq = efadv_create_cq(node->context, &cq_attr, &efa_cq, sizeof(efa_cq));
	CHECK(side.cq);
	struct ibv_qp_init_attr_ex attr = side_attr(node, side.cq);
	struct efadv_qp_init_attr efa = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
	side.qp = efadv_create_qp_ex(node->context, &attr, &efa, sizeof(efa));
	CHECK(side.qp);
	qp_to_rts(side.qp);
	side.ex = ibv_qp_to_qp_ex(side.qp);
	return side;
}

/* Of the completion `wait_one` found last. */
static uint32_t last_vendor_err;

/* The next completion of `side`, while the other side is polled too; opcode in `opcode`. */
static inline int wait_one(struct side *side, struct side *other, int *opcode, uint32_t *length)
{
	struct ibv_poll_cq_attr attr = {0};
	uint64_t deadline = now_ms() + 20000;
	while (ibv_start_poll(side->cq, &attr) == ENOENT) {
		CHECK(now_ms() < deadline);
		if (other && ibv_start_poll(other->cq, &attr) == 0) {
			fprintf(stderr, "the other side completed something\n");
			exit(1);
		}
	}
	int status = (int)side->cq->status;
	*opcode = (int)ibv_wc_read_opcode(side->cq);
	*length = ibv_wc_read_byte_len(side->cq);
	last_vendor_err = ibv_wc_read_vendor_err(side->cq);
	ibv_end_poll(side->cq);
	return status;
}

enum kind { SEND, READ, WRITE, WRITE_IMM };

static inline int post(struct node *node, struct side *from, struct side *to, enum kind kind, uint32_t rkey,
		uint32_t lkey, uint32_t length)
{
	uint64_t remote = (uintptr_t)node->buffer + REMOTE_AT;
	from->ex->wr_id = 5;
	from->ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(from->ex);
	switch (kind) {
	case SEND:
		ibv_wr_send(from->ex);
		break;
	case READ:
		ibv_wr_rdma_read(from->ex, rkey, remote);
		break;
	case WRITE:
		ibv_wr_rdma_write(from->ex, rkey, remote);
		break;
	case WRITE_IMM:
		ibv_wr_rdma_write_imm(from->ex, rkey, remote, htonl(99));
		break;
	}
	ibv_wr_set_ud_addr(from->ex, node->ah, to->qp->qp_num, QKEY);
	ibv_wr_set_sge(from->ex, lkey, (uintptr_t)node->buffer, length);
	return ibv_wr_complete(from->ex);
}

#endif
