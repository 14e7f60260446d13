/* What is left to read of a completion when its session has ended: all of it, until the next poll. */
#include <stdbool.h>

#include "rdma.h"

#define WC_EX_WITH_IS_UNSOLICITED 2

struct newer_cq {
	uint64_t comp_mask;
	int (*wc_read_sgid)(struct efadv_cq *cq, union ibv_gid *gid);
	bool (*wc_is_unsolicited)(struct efadv_cq *cq);
};

static void poll_one(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = {0};
	uint64_t deadline = now_ms() + 20000;
	while (ibv_start_poll(cq, &attr) == ENOENT)
		CHECK(now_ms() < deadline);
}

struct fields {
	uint64_t wr_id;
	int status, opcode, sgid, unsolicited;
	uint32_t vendor_err, byte_len, imm, qp_num, src_qp, flags, slid;
};

static struct fields read_all(struct ibv_cq_ex *cq)
{
	struct newer_cq *efa = (struct newer_cq *)efadv_cq_from_ibv_cq_ex(cq);
	struct fields fields;
	union ibv_gid gid;
	memset(&fields, 0, sizeof(fields));
	fields.wr_id = cq->wr_id;
	fields.status = (int)cq->status;
	fields.opcode = (int)ibv_wc_read_opcode(cq);
	fields.vendor_err = ibv_wc_read_vendor_err(cq);
	fields.byte_len = ibv_wc_read_byte_len(cq);
	fields.imm = ibv_wc_read_imm_data(cq);
	fields.qp_num = ibv_wc_read_qp_num(cq);
	fields.src_qp = ibv_wc_read_src_qp(cq);
	fields.flags = ibv_wc_read_wc_flags(cq);
	fields.slid = ibv_wc_read_slid(cq);
	fields.sgid = efa->wc_read_sgid((struct efadv_cq *)efa, &gid);
	fields.unsolicited = efa->wc_is_unsolicited((struct efadv_cq *)efa);
	return fields;
}

/* Reads within the session and after it; both must be the same. */
static struct fields take(struct ibv_cq_ex *cq)
{
	poll_one(cq);
	struct fields within = read_all(cq);
	ibv_end_poll(cq);
	struct fields after = read_all(cq);
	CHECK_EQ(after.opcode, within.opcode);
	CHECK_EQ(after.qp_num, within.qp_num);
	CHECK_EQ(after.unsolicited, within.unsolicited);
	CHECK_EQ(memcmp(&after, &within, sizeof(after)), 0);
	return after;
}

int main(void)
{
	struct node node = node_open();
	struct ibv_mr *open = ibv_reg_mr(node.pd, node.buffer, BUFFER_BYTES,
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(open);
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct efadv_cq_init_attr efa_cq = {
		.wc_flags = EFADV_WC_EX_WITH_SGID | WC_EX_WITH_IS_UNSOLICITED};
	struct ibv_cq_ex *cq =
		efadv_create_cq(node.context, &cq_attr, &efa_cq, sizeof(efa_cq));
	CHECK(cq);
	struct ibv_qp_init_attr_ex attr = side_attr(&node, cq);
	/* The flags are the lower half of what was reserved in older headers. */
	struct {
		uint64_t comp_mask;
		uint32_t driver_qp_type;
		uint16_t flags;
		uint8_t sl, reserved;
	} efa = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD, .flags = 1};
	struct side side = {.cq = cq};
	side.qp = efadv_create_qp_ex(node.context, &attr, (struct efadv_qp_init_attr *)&efa,
				     sizeof(efa));
	CHECK(side.qp);
	qp_to_rts(side.qp);
	side.ex = ibv_qp_to_qp_ex(side.qp);

	CHECK_EQ(post(&node, &side, &side, WRITE_IMM, open->rkey, open->lkey, 1000), 0);
	bool was_told = false;
	for (int i = 0; i < 2; i++) {
		struct fields fields = take(cq);
		CHECK_EQ(fields.status, IBV_WC_SUCCESS);
		CHECK_EQ(fields.qp_num, side.qp->qp_num);
		if (fields.opcode == IBV_WC_RDMA_WRITE)
			continue;
		was_told = true;
		CHECK_EQ(fields.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		CHECK(fields.unsolicited);
		CHECK_EQ(fields.byte_len, 1000);
		CHECK_EQ(ntohl(fields.imm), 99);
		CHECK_EQ(fields.src_qp, side.qp->qp_num);
		/* The sender is known, so its GID is not told: a negative errno value, as libefa's. */
		CHECK(fields.slid != 0xffff);
		CHECK_EQ(fields.sgid, -ENOENT);
	}
	CHECK(was_told);
	/* A failure, too; and a poll that finds nothing changes nothing that libefa does not. */
	CHECK_EQ(post(&node, &side, &side, SEND, 0, open->lkey + 1, 8), 0);
	struct fields failed = take(cq);
	CHECK_EQ(failed.status, IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(failed.vendor_err, 5);
	CHECK_EQ(failed.wr_id, 5);
	struct ibv_poll_cq_attr none = {0};
	CHECK_EQ(ibv_start_poll(cq, &none), ENOENT);
	CHECK_EQ(cq->wr_id, 5);
	/* Between sessions nothing is there to be read any more: 0, where libefa crashes. */
	CHECK_EQ(ibv_wc_read_vendor_err(cq), 0);
	CHECK_EQ(ibv_destroy_qp(side.qp), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	CHECK_EQ(ibv_dereg_mr(open), 0);
	node_close(&node);
	return 0;
}
