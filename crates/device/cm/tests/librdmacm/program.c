/* Uses librdmacm as programs do, and says what it sees. */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(call)                                              \
  do {                                                          \
    if (call) {                                                 \
      printf("FAILED %s: %s\n", #call, strerror(errno));        \
      exit(1);                                                  \
    }                                                           \
  } while (0)

typedef struct rdma_cm_id Id;
typedef struct rdma_event_channel Channel;
typedef enum { CLIENT_ENDS, SERVER_REFUSES, SERVER_ENDS } Course;

static Channel *server, *client;
static struct sockaddr_in everywhere, there, group, foreign;

static struct sockaddr_in at(const char *ip, int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  inet_pton(AF_INET, ip, &address.sin_addr);
  return address;
}

/* The next event, which is `wanted`. */
static struct rdma_cm_event *next(Channel *channel, enum rdma_cm_event_type wanted) {
  struct rdma_cm_event *event;
  MUST(rdma_get_cm_event(channel, &event));
  printf("  %s: %s, status %d\n", channel == server ? "server" : "client",
         rdma_event_str(event->event), event->status);
  if (event->event != wanted) {
    printf("FAILED: wanted %s\n", rdma_event_str(wanted));
    exit(1);
  }
  return event;
}

static void expect(Channel *channel, enum rdma_cm_event_type wanted) {
  MUST(rdma_ack_cm_event(next(channel, wanted)));
}

static void create_qp(Id *id, enum ibv_qp_type type) {
  struct ibv_qp_init_attr attr = {.qp_type = type, .cap = {8, 8, 1, 1, 0}};
  MUST(rdma_create_qp(id, NULL, &attr));
}

static Id *listening(enum rdma_port_space space) {
  Id *id;
  MUST(rdma_create_id(server, &id, NULL, space));
  MUST(rdma_bind_addr(id, (struct sockaddr *)&everywhere));
  MUST(rdma_listen(id, 4));
  return id;
}

static Id *routed(enum rdma_port_space space) {
  Id *id;
  uint8_t tos = 0x68;
  MUST(rdma_create_id(client, &id, NULL, space));
  MUST(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos));
  MUST(rdma_resolve_addr(id, NULL, (struct sockaddr *)&there, 2000));
  expect(client, RDMA_CM_EVENT_ADDR_RESOLVED);
  MUST(rdma_resolve_route(id, 2000));
  expect(client, RDMA_CM_EVENT_ROUTE_RESOLVED);
  printf("  port %d, %d path, mtu %d\n", id->port_num, id->route.num_paths, id->route.path_rec->mtu);
  return id;
}

static void say_conn(const struct rdma_conn_param *param) {
  printf("  '%s' of %d bytes, answers %d, reads %d, retry %d, rnr %d\n", (char *)param->private_data,
         param->private_data_len, param->responder_resources, param->initiator_depth,
         param->retry_count, param->rnr_retry_count);
}

static Id *requested(Id *listener) {
  struct rdma_cm_event *event = next(server, RDMA_CM_EVENT_CONNECT_REQUEST);
  Id *id = event->id;
  if (event->listen_id != listener) printf("FAILED: another listener\n");
  if (listener->ps == RDMA_PS_TCP) say_conn(&event->param.conn);
  MUST(rdma_ack_cm_event(event));
  return id;
}

static void establish(Id *id) {
  struct rdma_conn_param answer = {.private_data = "welcome", .private_data_len = 8,
                                   .responder_resources = 3, .initiator_depth = 4, .rnr_retry_count = 7};
  create_qp(id, IBV_QPT_RC);
  MUST(rdma_accept(id, &answer));
  struct rdma_cm_event *event = next(client, RDMA_CM_EVENT_ESTABLISHED);
  say_conn(&event->param.conn);
  MUST(rdma_ack_cm_event(event));
  expect(server, RDMA_CM_EVENT_ESTABLISHED);
}

static void refuse(Id *id) {
  MUST(rdma_reject(id, "no", 3));
  struct rdma_cm_event *event = next(client, RDMA_CM_EVENT_REJECTED);
  say_conn(&event->param.conn);
  MUST(rdma_ack_cm_event(event));
}

/* One side asks for the end, the other one agrees. */
static void disconnect(Id *first, Channel *first_channel, Id *second, Channel *second_channel) {
  MUST(rdma_disconnect(first));
  expect(second_channel, RDMA_CM_EVENT_DISCONNECTED);
  MUST(rdma_disconnect(second));
  expect(first_channel, RDMA_CM_EVENT_DISCONNECTED);
}

static void connection(Course course) {
  Id *listener = listening(RDMA_PS_TCP), *id = routed(RDMA_PS_TCP);
  struct rdma_conn_param question = {.private_data = "hello", .private_data_len = 6,
                                     .responder_resources = 4, .initiator_depth = 3,
                                     .retry_count = 6, .rnr_retry_count = 5};
  create_qp(id, IBV_QPT_RC);
  MUST(rdma_connect(id, &question));
  Id *peer = requested(listener);
  if (course == SERVER_REFUSES) {
    refuse(peer);
  } else {
    establish(peer);
    if (course == CLIENT_ENDS) disconnect(id, client, peer, server);
    else disconnect(peer, server, id, client);
    rdma_destroy_qp(peer);
  }
  if (course == CLIENT_ENDS) {
    expect(client, RDMA_CM_EVENT_TIMEWAIT_EXIT);
    expect(server, RDMA_CM_EVENT_TIMEWAIT_EXIT);
  }
  rdma_destroy_qp(id);
  MUST(rdma_destroy_id(id));
  MUST(rdma_destroy_id(peer));
  MUST(rdma_destroy_id(listener));
}

static void say_ud(struct rdma_cm_event *event) {
  const struct rdma_ud_param *param = &event->param.ud;
  const uint8_t *gid = param->ah_attr.grh.dgid.raw;
  printf("  qp %#x, qkey %#x, to %d.%d.%d.%d\n", param->qp_num, param->qkey, gid[12], gid[13], gid[14], gid[15]);
  MUST(rdma_ack_cm_event(event));
}

/* A question, answered on another channel, and a group. */
static void datagrams(void) {
  Id *listener = listening(RDMA_PS_UDP), *id = routed(RDMA_PS_UDP);
  struct rdma_conn_param question = {.private_data = "who", .private_data_len = 4};
  create_qp(id, IBV_QPT_UD);
  MUST(rdma_connect(id, &question));
  Id *peer = requested(listener);
  Channel *other = rdma_create_event_channel();
  MUST(rdma_migrate_id(peer, other));
  create_qp(peer, IBV_QPT_UD);
  struct rdma_conn_param answer = {.qp_num = peer->qp->qp_num, .private_data = "me", .private_data_len = 3};
  MUST(rdma_accept(peer, &answer));
  say_ud(next(client, RDMA_CM_EVENT_ESTABLISHED));
  MUST(rdma_join_multicast(id, (struct sockaddr *)&group, NULL));
  say_ud(next(client, RDMA_CM_EVENT_MULTICAST_JOIN));
  MUST(rdma_leave_multicast(id, (struct sockaddr *)&group));
  rdma_destroy_qp(id);
  rdma_destroy_qp(peer);
  MUST(rdma_destroy_id(id));
  MUST(rdma_destroy_id(peer));
  MUST(rdma_destroy_id(listener));
  rdma_destroy_event_channel(other);
}

static void mistakes(void) {
  Id *id = routed(RDMA_PS_TCP), *listener = NULL;
  struct rdma_conn_param question = {.qp_num = 9};
  MUST(rdma_connect(id, &question));
  expect(client, RDMA_CM_EVENT_REJECTED);
  MUST(rdma_destroy_id(id));
  listener = listening(RDMA_PS_TCP);
  MUST(rdma_create_id(server, &id, NULL, RDMA_PS_TCP));
  int result = rdma_bind_addr(id, (struct sockaddr *)&everywhere);
  printf("  a busy port: %d, %s\n", result, strerror(errno));
  result = rdma_bind_addr(id, (struct sockaddr *)&foreign);
  printf("  another machine's address: %d, %s\n", result, strerror(errno));
  result = rdma_reject(id, NULL, 0);
  printf("  nothing to refuse: %d, %s\n", result, strerror(errno));
  MUST(rdma_destroy_id(id));
  MUST(rdma_destroy_id(listener));
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  everywhere = at("0.0.0.0", 7471);
  there = at("10.0.0.1", 7471);
  group = at("239.1.2.3", 0);
  foreign = at("10.9.9.9", 1);
  MUST(!(server = rdma_create_event_channel()));
  MUST(!(client = rdma_create_event_channel()));
  printf("the client ends it\n");
  connection(CLIENT_ENDS);
  printf("the server refuses\n");
  connection(SERVER_REFUSES);
  printf("the server ends it\n");
  connection(SERVER_ENDS);
  printf("datagrams\n");
  datagrams();
  printf("mistakes\n");
  mistakes();
  rdma_destroy_event_channel(server);
  rdma_destroy_event_channel(client);
  printf("done\n");
  return 0;
}
