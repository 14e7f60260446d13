/*
 * Random calls with good and bad arguments. Whatever was posted completes once, or goes with its
 * queue pair; what a call refused never shows. SOFTEFA_SEED repeats a run.
 */
#include "rdma.h"

#define QPS 4
#define PDS 2
#define MRS 6
#define WRS 100000
#define CALLS 10000
#define SESSION_MAX 4

enum owed { NOTHING, SEND_QUEUE, RECV_QUEUE, SILENT_SEND };

/* Of each work request ever posted, by wr_id. */
static struct {
	enum owed what;
	int qp;
} owed[WRS];
static uint64_t next_id = 1;
static uint64_t dice;

static struct node nodes[PDS];
static struct side sides[QPS];
/* Keys stay known after their regions are gone. */
static struct ibv_mr *mrs[MRS];
static uint32_t keys[MRS];

static uint32_t roll(uint32_t below)
{
	dice = dice * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(dice >> 33) % below;
}

static struct node *node_of(int qp)
{
	return &nodes[qp % PDS];
}

static int qp_numbered(uint32_t qp_num)
{
	for (int i = 0; i < QPS; i++)
		if (sides[i].qp->qp_num == qp_num)
			return i;
	return -1;
}

static void forget(int qp)
{
	for (uint64_t id = 1; id < next_id; id++)
		if (owed[id].qp == qp)
			owed[id].what = NOTHING;
}

static void owe(uint64_t id, int qp, enum owed what)
{
	owed[id].what = what;
	owed[id].qp = qp;
}

static void settle(uint64_t id, uint32_t qp_num, int is_send)
{
	CHECK(id > 0 && id < next_id);
	CHECK_EQ(owed[id].qp, qp_numbered(qp_num));
	CHECK(is_send ? owed[id].what == SEND_QUEUE || owed[id].what == SILENT_SEND
		      : owed[id].what == RECV_QUEUE);
	owed[id].what = NOTHING;
}

static void poll_extended(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = {0};
	if (ibv_start_poll(cq, &attr) != 0)
		return;
	do {
		int opcode = (int)ibv_wc_read_opcode(cq);
		settle(cq->wr_id, ibv_wc_read_qp_num(cq), !(opcode & IBV_WC_RECV));
	} while (ibv_next_poll(cq) == 0);
	ibv_end_poll(cq);
}

static void poll_legacy(struct ibv_cq_ex *cq)
{
	struct ibv_wc wc[8];
	int count = ibv_poll_cq(ibv_cq_ex_to_cq(cq), 1 + (int)roll(8), wc);
	CHECK(count >= 0);
	for (int i = 0; i < count; i++)
		/* The opcode of a failed completion is not to be relied upon. */
		settle(wc[i].wr_id, wc[i].qp_num, owed[wc[i].wr_id].what != RECV_QUEUE);
}

static struct ibv_sge any_sge(int qp)
{
	static const uint32_t lengths[] = {0, 1, 64, 4096, 8928, 8929, 200000, 1u << 31};
	struct node *node = node_of(qp);
	struct ibv_sge sge = {(uintptr_t)node->buffer + roll(BUFFER_BYTES / 2), lengths[roll(5)],
			      node->mr->lkey};
	if (roll(8) == 0)
		sge.length = lengths[roll(8)];
	if (roll(8) == 0)
		sge.lkey = keys[roll(MRS)];
	if (roll(16) == 0)
		sge.addr = roll(4096);
	return sge;
}

static uint32_t any_target(void)
{
	return roll(16) == 0 ? 9 : sides[roll(QPS)].qp->qp_num;
}

static unsigned any_flags(void)
{
	static const unsigned odd[] = {0, IBV_SEND_INLINE, IBV_SEND_SIGNALED | IBV_SEND_FENCE, 1u << 20};
	return roll(16) == 0 ? odd[roll(4)] : IBV_SEND_SIGNALED;
}

static void begin_any(struct ibv_qp_ex *ex)
{
	struct node *there = &nodes[roll(PDS)];
	uint32_t rkey = roll(4) == 0 ? keys[roll(MRS)] : there->mr->rkey;
	uint64_t remote = (uintptr_t)there->buffer + BUFFER_BYTES / 2 + roll(BUFFER_BYTES / 2);
	switch (roll(5)) {
	case 0:
		ibv_wr_rdma_read(ex, rkey, remote);
		break;
	case 1:
		ibv_wr_rdma_write(ex, rkey, remote);
		break;
	case 2:
		ibv_wr_rdma_write_imm(ex, rkey, remote, htonl(7));
		break;
	case 3:
		ibv_wr_send_imm(ex, htonl(8));
		break;
	default:
		ibv_wr_send(ex);
	}
}

static void session(int qp)
{
	char text[64] = {0};
	struct ibv_qp_ex *ex = sides[qp].ex;
	uint64_t first = next_id;
	unsigned flags[SESSION_MAX];
	uint32_t count = 1 + roll(SESSION_MAX);
	ibv_wr_start(ex);
	for (uint32_t i = 0; i < count; i++) {
		flags[i] = any_flags();
		ex->wr_id = next_id++;
		ex->wr_flags = flags[i];
		begin_any(ex);
		if (roll(16) != 0)
			ibv_wr_set_ud_addr(ex, node_of(qp)->ah, any_target(), roll(16) ? QKEY : 1);
		struct ibv_sge sges[3] = {any_sge(qp), any_sge(qp), any_sge(qp)};
		if (roll(8) == 0)
			ibv_wr_set_inline_data(ex, text, roll(40));
		else if (roll(8) == 0)
			ibv_wr_set_sge_list(ex, roll(4), sges);
		else
			ibv_wr_set_sge(ex, sges[0].lkey, sges[0].addr, sges[0].length);
		if (roll(8) == 0)
			poll_legacy(sides[roll(QPS)].cq);
	}
	if (roll(16) == 0)
		ibv_wr_abort(ex);
	else if (ibv_wr_complete(ex) == 0)
		for (uint32_t i = 0; i < count; i++)
			owe(first + i, qp, flags[i] & IBV_SEND_SIGNALED ? SEND_QUEUE : SILENT_SEND);
}

static void list_of_sends(int qp)
{
	struct ibv_send_wr wrs[SESSION_MAX], *bad = NULL;
	struct ibv_sge sges[SESSION_MAX][3];
	uint32_t count = 1 + roll(SESSION_MAX);
	for (uint32_t i = 0; i < count; i++) {
		for (int j = 0; j < 3; j++)
			sges[i][j] = any_sge(qp);
		wrs[i] = send_wr(node_of(qp), sides[0].qp, sges[i]);
		wrs[i].wr_id = next_id++;
		wrs[i].num_sge = roll(8) == 0 ? (int)roll(4) : 1;
		wrs[i].opcode = roll(16) == 0 ? IBV_WR_RDMA_READ : IBV_WR_SEND;
		wrs[i].send_flags = any_flags();
		/* The call reads these itself, so they must be there. */
		for (int j = 0; wrs[i].send_flags & IBV_SEND_INLINE && j < 3; j++)
			sges[i][j] = (struct ibv_sge){(uintptr_t)node_of(qp)->buffer, roll(20), 0};
		wrs[i].wr.ud.remote_qpn = any_target();
		wrs[i].next = i + 1 < count ? &wrs[i + 1] : NULL;
	}
	int code = ibv_post_send(sides[qp].qp, wrs, &bad);
	for (struct ibv_send_wr *wr = wrs; wr && !(code && wr == bad); wr = wr->next)
		owe(wr->wr_id, qp, wr->send_flags & IBV_SEND_SIGNALED ? SEND_QUEUE : SILENT_SEND);
}

static void list_of_receives(int qp)
{
	struct ibv_recv_wr wrs[SESSION_MAX], *bad = NULL;
	struct ibv_sge sges[SESSION_MAX];
	uint32_t count = 1 + roll(SESSION_MAX);
	for (uint32_t i = 0; i < count; i++) {
		sges[i] = any_sge(qp);
		wrs[i] = (struct ibv_recv_wr){.wr_id = next_id++,
					      .next = i + 1 < count ? &wrs[i + 1] : NULL,
					      .sg_list = &sges[i],
					      .num_sge = (int)(roll(16) != 0)};
	}
	int code = ibv_post_recv(sides[qp].qp, wrs, &bad);
	for (struct ibv_recv_wr *wr = wrs; wr && !(code && wr == bad); wr = wr->next)
		owe(wr->wr_id, qp, RECV_QUEUE);
}

static void try_state(int qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {
		.qp_state = state, .port_num = 1, .qkey = QKEY, .rnr_retry = (uint8_t)roll(4)};
	int mask = IBV_QP_STATE;
	if (state == IBV_QPS_INIT)
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
	if (state == IBV_QPS_RTS)
		mask |= IBV_QP_SQ_PSN | IBV_QP_RNR_RETRY;
	if (ibv_modify_qp(sides[qp].qp, &attr, mask) == 0 && state == IBV_QPS_RESET)
		forget(qp);
}

static void up(int qp)
{
	try_state(qp, IBV_QPS_INIT);
	try_state(qp, IBV_QPS_RTR);
	try_state(qp, IBV_QPS_RTS);
}

static void make_again(int qp)
{
	CHECK_EQ(ibv_destroy_qp(sides[qp].qp), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(sides[qp].cq)), 0);
	forget(qp);
	sides[qp] = side_open(node_of(qp));
}

static void register_again(uint32_t index)
{
	struct node *node = &nodes[roll(PDS)];
	if (mrs[index])
		CHECK_EQ(ibv_dereg_mr(mrs[index]), 0);
	mrs[index] = ibv_reg_mr(node->pd, node->buffer, 1 + roll(BUFFER_BYTES), (int)roll(8));
	if (mrs[index])
		keys[index] = mrs[index]->lkey;
}

static void handle_again(struct node *node)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.dgid = node->gid};
	CHECK_EQ(ibv_destroy_ah(node->ah), 0);
	node->ah = ibv_create_ah(node->pd, &attr);
	CHECK(node->ah);
}

static void call_any(void)
{
	int qp = (int)roll(QPS);
	switch (roll(32)) {
	case 0:
		make_again(qp);
		break;
	case 1:
		try_state(qp, (enum ibv_qp_state)roll(7));
		break;
	case 2 ... 4:
		up(qp);
		break;
	case 5:
		register_again(roll(MRS));
		break;
	case 6:
		handle_again(&nodes[roll(PDS)]);
		break;
	case 7 ... 13:
		session(qp);
		break;
	case 14 ... 18:
		list_of_sends(qp);
		break;
	case 19 ... 23:
		list_of_receives(qp);
		break;
	case 24 ... 27:
		poll_legacy(sides[qp].cq);
		break;
	default:
		poll_extended(sides[qp].cq);
	}
}

static int is_owed(enum owed what)
{
	for (uint64_t id = 1; id < next_id; id++)
		if (owed[id].what == what)
			return 1;
	return 0;
}

/* With everything up and receives posted all sends end; the error state ends the rest. */
static void end_all(void)
{
	uint64_t deadline = now_ms() + 30000;
	while (is_owed(SEND_QUEUE)) {
		CHECK(now_ms() < deadline);
		for (int qp = 0; qp < QPS; qp++) {
			up(qp);
			if (next_id < WRS - 2 * SESSION_MAX)
				list_of_receives(qp);
			poll_extended(sides[qp].cq);
		}
	}
	for (int qp = 0; qp < QPS; qp++) {
		try_state(qp, IBV_QPS_ERR);
		poll_extended(sides[qp].cq);
	}
	CHECK(!is_owed(SEND_QUEUE) && !is_owed(RECV_QUEUE));
}

int main(void)
{
	dice = strtoull(getenv("SOFTEFA_SEED"), NULL, 0);
	for (int pd = 0; pd < PDS; pd++) {
		nodes[pd] = node_open();
		CHECK_EQ(ibv_dereg_mr(nodes[pd].mr), 0);
		nodes[pd].mr = ibv_reg_mr(nodes[pd].pd, nodes[pd].buffer, BUFFER_BYTES,
					  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
						  IBV_ACCESS_REMOTE_WRITE);
		CHECK(nodes[pd].mr);
	}
	for (int qp = 0; qp < QPS; qp++)
		sides[qp] = side_open(node_of(qp));
	for (int i = 0; i < CALLS; i++)
		call_any();
	end_all();
	for (int qp = 0; qp < QPS; qp++) {
		CHECK_EQ(ibv_destroy_qp(sides[qp].qp), 0);
		CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(sides[qp].cq)), 0);
	}
	for (int i = 0; i < MRS; i++)
		if (mrs[i])
			CHECK_EQ(ibv_dereg_mr(mrs[i]), 0);
	for (int pd = 0; pd < PDS; pd++)
		node_close(&nodes[pd]);
	return 0;
}
