/*
 * The requester of a connection never says that it is ready, as if its RTU were lost. Its first message establishes the
 * connection at the other end all the same.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <rdma/rdma_cma.h>

#include "check.h"

static struct rdma_event_channel *channel;

static struct rdma_cm_event *next(enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;
	struct pollfd ready = {.fd = channel->fd, .events = POLLIN};
	if (poll(&ready, 1, 10000) != 1) {
		fprintf(stderr, "no event; wanted %s\n", rdma_event_str(wanted));
		exit(1);
	}
	CHECK_EQ(rdma_get_cm_event(channel, &event), 0);
	if (event->event != wanted) {
		fprintf(stderr, "%s, status %d; wanted %s\n", rdma_event_str(event->event), event->status,
			rdma_event_str(wanted));
		exit(1);
	}
	return event;
}

static void expect(enum rdma_cm_event_type wanted)
{
	CHECK_EQ(rdma_ack_cm_event(next(wanted)), 0);
}

static struct ibv_qp_init_attr wish(struct rdma_cm_id *id)
{
	struct ibv_cq *cq = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);
	CHECK(cq);
	return (struct ibv_qp_init_attr){.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
					 .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
}

static void step(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask;
	CHECK_EQ(rdma_init_qp_attr(id, &attr, &mask), 0);
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
}

int main(void)
{
	struct sockaddr_in here = {.sin_family = AF_INET};
	CHECK_EQ(inet_pton(AF_INET, "127.0.0.1", &here.sin_addr), 1);
	struct rdma_cm_id *listener, *ours;
	CHECK(channel = rdma_create_event_channel());
	CHECK_EQ(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), 0);
	CHECK_EQ(rdma_bind_addr(listener, (struct sockaddr *)&here), 0);
	CHECK_EQ(rdma_listen(listener, 4), 0);
	here.sin_port = rdma_get_src_port(listener);

	CHECK_EQ(rdma_create_id(channel, &ours, NULL, RDMA_PS_TCP), 0);
	CHECK_EQ(rdma_resolve_addr(ours, NULL, (struct sockaddr *)&here, 2000), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_EQ(rdma_resolve_route(ours, 2000), 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	struct ibv_pd *pd = ibv_alloc_pd(ours->verbs);
	struct ibv_qp_init_attr attr = wish(ours);
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);
	CHECK(pd && qp);
	struct rdma_conn_param param = {.qp_num = qp->qp_num, .retry_count = 7, .rnr_retry_count = 7};
	CHECK_EQ(rdma_connect(ours, &param), 0);

	struct rdma_cm_event *event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *theirs = event->id;
	CHECK_EQ(rdma_ack_cm_event(event), 0);
	struct ibv_qp_init_attr other = wish(theirs);
	CHECK_EQ(rdma_create_qp(theirs, NULL, &other), 0);
	struct ibv_recv_wr receive = {.wr_id = 7}, *bad_receive;
	CHECK_EQ(ibv_post_recv(theirs->qp, &receive, &bad_receive), 0);
	struct rdma_conn_param answer = {.retry_count = 7, .rnr_retry_count = 7};
	CHECK_EQ(rdma_accept(theirs, &answer), 0);

	expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
	step(ours, qp, IBV_QPS_INIT);
	step(ours, qp, IBV_QPS_RTR);
	step(ours, qp, IBV_QPS_RTS);
	struct ibv_send_wr send = {.wr_id = 9, .opcode = IBV_WR_SEND}, *bad_send;
	CHECK_EQ(ibv_post_send(qp, &send, &bad_send), 0);
	event = next(RDMA_CM_EVENT_ESTABLISHED);
	CHECK(event->id == theirs && event->status == 0);
	CHECK_EQ(rdma_ack_cm_event(event), 0);
	return 0;
}
