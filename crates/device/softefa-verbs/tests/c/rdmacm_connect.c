/*
 * Two processes connect, refuse, disconnect and vanish, through librdmacm. The queue pairs are numbers that they tell
 * each other. The child is the server.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define PORT 17471
/* Numbers of queue pairs differ each time: what has just ended counts as in use for a while. */
static uint32_t next_qpn = 0x162e00;


typedef struct rdma_cm_id Id;

static struct rdma_event_channel *channel;
/* To the other process, and from it. */
static int to_peer, from_peer;

static struct sockaddr_in at(const char *ip, uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	CHECK_EQ(inet_pton(AF_INET, ip, &address.sin_addr), 1);
	return address;
}

static void tell(void)
{
	CHECK_EQ(write(to_peer, "x", 1), 1);
}

static void wait_for_peer(void)
{
	char byte;
	CHECK_EQ(read(from_peer, &byte, 1), 1);
}

/* The next event, which is `wanted`. */
static struct rdma_cm_event *next(enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;
	CHECK_EQ(rdma_get_cm_event(channel, &event), 0);
	if (event->event != wanted) {
		fprintf(stderr, "%s, status %d; wanted %s\n", rdma_event_str(event->event), event->status,
			rdma_event_str(wanted));
		exit(1);
	}
	return event;
}

static int expect(enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event = next(wanted);
	int status = event->status;
	CHECK_EQ(rdma_ack_cm_event(event), 0);
	return status;
}

static Id *created(enum rdma_port_space space)
{
	Id *id;
	CHECK_EQ(rdma_create_id(channel, &id, NULL, space), 0);
	return id;
}

/* Requests beyond the backlog are dropped, and come again seconds later. */
#define BACKLOG 200

static Id *listening(enum rdma_port_space space, const char *ip, uint16_t port)
{
	Id *id = created(space);
	struct sockaddr_in here = at(ip, port);
	CHECK(rdma_bind_addr(id, (struct sockaddr *)&here) == 0);
	CHECK_EQ(rdma_listen(id, BACKLOG), 0);
	return id;
}

static Id *routed(enum rdma_port_space space, const char *ip, uint16_t port)
{
	Id *id = created(space);
	struct sockaddr_in there = at(ip, port);
	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&there, 2000), 0);
	CHECK_EQ(expect(RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	CHECK(id->verbs && id->port_num == 1);
	CHECK_EQ(rdma_resolve_route(id, 2000), 0);
	CHECK_EQ(expect(RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
	CHECK_EQ(id->route.num_paths, 1);
	return id;
}

static struct rdma_conn_param param(const char *said)
{
	return (struct rdma_conn_param){.qp_num = next_qpn++, .private_data = said, .private_data_len = (uint8_t)strlen(said),
					.responder_resources = 4, .initiator_depth = 3, .retry_count = 6,
					.rnr_retry_count = 5};
}

static void ask(Id *id, const char *said)
{
	struct rdma_conn_param question = param(said);
	CHECK_EQ(rdma_connect(id, &question), 0);
}

static Id *requested(Id *listener, const char *said)
{
	struct rdma_cm_event *event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(event->listen_id == listener);
	CHECK_EQ(memcmp(event->param.conn.private_data, said, strlen(said)), 0);
	CHECK(rdma_get_peer_addr(event->id)->sa_family == AF_INET);
	CHECK_EQ(ntohs(rdma_get_src_port(event->id)), ntohs(rdma_get_src_port(listener)));
	Id *id = event->id;
	CHECK_EQ(rdma_ack_cm_event(event), 0);
	return id;
}

static void take(Id *id)
{
	struct rdma_conn_param answer = param("welcome");
	CHECK_EQ(rdma_accept(id, &answer), 0);
	CHECK_EQ(expect(RDMA_CM_EVENT_ESTABLISHED), 0);
}

/* Without a queue pair of its own, a program sees the answer and says when it is ready. */
static void establish(Id *id)
{
	struct rdma_cm_event *event = next(RDMA_CM_EVENT_CONNECT_RESPONSE);
	CHECK_EQ(event->param.conn.qp_num >> 8, 0x162e);
	uint32_t qpn = event->param.conn.qp_num;
	CHECK_EQ(memcmp(event->param.conn.private_data, "welcome", 7), 0);
	CHECK_EQ(rdma_ack_cm_event(event), 0);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	int mask = 0;
	CHECK_EQ(rdma_init_qp_attr(id, &attr, &mask), 0);
	CHECK(mask & IBV_QP_DEST_QPN);
	CHECK_EQ(attr.dest_qp_num, qpn);
	CHECK_EQ(rdma_establish(id), 0);
}

static void destroy(Id *id)
{
	CHECK_EQ(rdma_destroy_id(id), 0);
}

/* The server's part of each course. */
static void serve(const char *ip)
{
	channel = rdma_create_event_channel();
	CHECK(channel);
	Id *listener = listening(RDMA_PS_TCP, ip, PORT), *id;
	tell();
	/* Connected, and the client ends it. */
	take(id = requested(listener, "first"));
	CHECK_EQ(expect(RDMA_CM_EVENT_DISCONNECTED), 0);
	CHECK_EQ(rdma_disconnect(id), 0);
	CHECK_EQ(expect(RDMA_CM_EVENT_TIMEWAIT_EXIT), 0);
	destroy(id);
	/* Either end's time may be over first. */
	tell();
	/* Refused. */
	id = requested(listener, "second");
	CHECK_EQ(rdma_reject(id, "no", 2), 0);
	destroy(id);
	/* Connected, and the server ends it. The listener is gone before. */
	id = requested(listener, "third");
	destroy(listener);
	take(id);
	CHECK_EQ(rdma_disconnect(id), 0);
	CHECK_EQ(expect(RDMA_CM_EVENT_DISCONNECTED), 0);
	destroy(id);
	/* A datagram service at the same port, which is free again. */
	listener = listening(RDMA_PS_UDP, ip, PORT);
	tell();
	id = requested(listener, "fourth");
	struct rdma_conn_param answer = param("here");
	CHECK_EQ(rdma_accept(id, &answer), 0);
	destroy(id);
	wait_for_peer();
	destroy(listener);
	tell();
	/* The process ends, and says so. */
	listener = listening(RDMA_PS_TCP, ip, PORT);
	tell();
	take(requested(listener, "fifth"));
	exit(0);
}

static void connect_to(const char *ip)
{
	wait_for_peer();
	Id *id = routed(RDMA_PS_TCP, ip, PORT);
	CHECK_EQ(ntohs(rdma_get_dst_port(id)), PORT);
	ask(id, "first");
	establish(id);
	CHECK_EQ(rdma_disconnect(id), 0);
	CHECK_EQ(expect(RDMA_CM_EVENT_DISCONNECTED), 0);
	CHECK_EQ(expect(RDMA_CM_EVENT_TIMEWAIT_EXIT), 0);
	destroy(id);
	wait_for_peer();
	id = routed(RDMA_PS_TCP, ip, PORT);
	ask(id, "second");
	CHECK_EQ(expect(RDMA_CM_EVENT_REJECTED), 28);
	destroy(id);
	id = routed(RDMA_PS_TCP, ip, PORT);
	ask(id, "third");
	establish(id);
	CHECK_EQ(expect(RDMA_CM_EVENT_DISCONNECTED), 0);
	CHECK_EQ(rdma_disconnect(id), 0);
	destroy(id);
	wait_for_peer();
	id = routed(RDMA_PS_UDP, ip, PORT);
	ask(id, "fourth");
	struct rdma_cm_event *event = next(RDMA_CM_EVENT_ESTABLISHED);
	CHECK_EQ(event->param.ud.qp_num >> 8, 0x162e);
	CHECK_EQ(event->param.ud.qkey, RDMA_UDP_QKEY);
	CHECK_EQ(memcmp(event->param.ud.private_data, "here", 4), 0);
	CHECK_EQ(rdma_ack_cm_event(event), 0);
	destroy(id);
	tell();
	wait_for_peer();
	/* Nobody is there, which is known at once. */
	wait_for_peer();
	id = routed(RDMA_PS_TCP, ip, PORT);
	ask(id, "fifth");
	establish(id);
	CHECK_EQ(expect(RDMA_CM_EVENT_DISCONNECTED), 0);
	CHECK_EQ(rdma_disconnect(id), 0);
	destroy(id);
}

static void wait_for(pid_t child, int wanted)
{
	int status = -1;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, wanted);
}

/* Starts a process that does `serve`. */
static pid_t started(void (*serve)(const char *), const char *ip)
{
	int there[2], back[2];
	CHECK(pipe(there) == 0 && pipe(back) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		/* It does not outlive a test that has failed. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		to_peer = back[1], from_peer = there[0];
		serve(ip);
		exit(0);
	}
	close(back[1]), close(there[0]);
	to_peer = there[1], from_peer = back[0];
	return child;
}

static void be_killed(const char *ip)
{
	channel = rdma_create_event_channel();
	Id *listener = listening(RDMA_PS_TCP, ip, PORT + 1);
	tell();
	take(requested(listener, "live"));
	tell();
	pause();
}

static void be_a_killed_client(const char *ip)
{
	channel = rdma_create_event_channel();
	wait_for_peer();
	Id *id = routed(RDMA_PS_TCP, ip, PORT + 5);
	ask(id, "live");
	establish(id);
	tell();
	pause();
}

/* The server only waits for its client, as it did for ever. */
static void check_killed_client(const char *ip, const char *unused)
{
	(void)unused;
	pid_t child = started(be_a_killed_client, ip);
	channel = rdma_create_event_channel();
	Id *listener = listening(RDMA_PS_TCP, ip, PORT + 5), *id;
	tell();
	take(id = requested(listener, "live"));
	wait_for_peer();
	CHECK_EQ(kill(child, SIGKILL), 0);
	wait_for(child, SIGKILL);
	alarm(60);
	CHECK_EQ(expect(RDMA_CM_EVENT_DISCONNECTED), 0);
	destroy(id);
	destroy(listener);
	rdma_destroy_event_channel(channel);
}

/* Ends without a word; the other end ends the connection, too, or only waits. */
static void check_killed(const char *ip, const char *goodbye)
{
	pid_t child = started(be_killed, ip);
	channel = rdma_create_event_channel();
	wait_for_peer();
	Id *id = routed(RDMA_PS_TCP, ip, PORT + 1);
	ask(id, "live");
	establish(id);
	wait_for_peer();
	CHECK_EQ(kill(child, SIGKILL), 0);
	wait_for(child, SIGKILL);
	if (goodbye)
		CHECK_EQ(rdma_disconnect(id), 0);
	alarm(60);
	CHECK_EQ(expect(RDMA_CM_EVENT_DISCONNECTED), 0);
	destroy(id);
	rdma_destroy_event_channel(channel);
}

static void hold_port(const char *ip)
{
	channel = rdma_create_event_channel();
	Id *listener = listening(RDMA_PS_TCP, ip, PORT + 2);
	tell();
	wait_for_peer();
	destroy(listener);
	tell();
}

static int bind_errno(const struct sockaddr *address)
{
	Id *id = created(RDMA_PS_TCP);
	int error = rdma_bind_addr(id, (struct sockaddr *)address) == 0 ? 0 : errno;
	destroy(id);
	return error;
}

static int resolve_status(const char *ip)
{
	Id *id = created(RDMA_PS_TCP);
	struct sockaddr_in there = at(ip, 1);
	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&there, 2000), 0);
	struct rdma_cm_event *event;
	CHECK_EQ(rdma_get_cm_event(channel, &event), 0);
	int status = event->event == RDMA_CM_EVENT_ADDR_ERROR ? event->status : 0;
	CHECK_EQ(rdma_ack_cm_event(event), 0);
	destroy(id);
	return status;
}

static void check_addresses(const char *ip, const char *efa)
{
	pid_t child = started(hold_port, ip);
	channel = rdma_create_event_channel();
	wait_for_peer();
	struct sockaddr_in busy = at(ip, PORT + 2), any = at("0.0.0.0", PORT + 2), foreign = at("192.0.2.1", 0);
	CHECK_EQ(bind_errno((struct sockaddr *)&busy), EADDRINUSE);
	if (!efa)
		CHECK_EQ(bind_errno((struct sockaddr *)&any), EADDRNOTAVAIL);
	CHECK_EQ(bind_errno((struct sockaddr *)&foreign), EADDRNOTAVAIL);
	/* 2001:db8::1, which is nobody's. */
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr.s6_addr = {0x20, 1, 0x0d, 0xb8, [15] = 1}};
	CHECK_EQ(bind_errno((struct sockaddr *)&six), EADDRNOTAVAIL);
	struct sockaddr_in unspecified = {.sin_family = AF_INET};
	CHECK_EQ(bind_errno((struct sockaddr *)&unspecified), 0);
	if (efa) {
		struct sockaddr_in other = at(efa, 0);
		CHECK_EQ(bind_errno((struct sockaddr *)&other), ENODEV);
	}
	tell();
	wait_for_peer();
	CHECK_EQ(bind_errno((struct sockaddr *)&busy), 0);
	/* A port that nobody has chosen is a real one. */
	Id *id = created(RDMA_PS_TCP);
	CHECK_EQ(rdma_bind_addr(id, (struct sockaddr *)&unspecified), 0);
	CHECK(ntohs(rdma_get_src_port(id)) > 1023);
	CHECK_EQ(rdma_listen(id, 0), 0);
	destroy(id);
	CHECK_EQ(resolve_status(ip), 0);
	/* Nobody listens there: refused, and at once. */
	id = routed(RDMA_PS_TCP, ip, PORT + 3);
	ask(id, "nobody");
	CHECK_EQ(expect(RDMA_CM_EVENT_REJECTED), 8);
	destroy(id);
	id = routed(RDMA_PS_UDP, ip, PORT + 3);
	ask(id, "nobody");
	CHECK_EQ(expect(RDMA_CM_EVENT_UNREACHABLE), 1);
	destroy(id);
	wait_for(child, 0);
	rdma_destroy_event_channel(channel);
}

static Id *left_open;

/* As the destructor of a C++ program: it ends its connection, and waits until that has ended. */
static void end_late(void)
{
	if (!left_open)
		return;
	alarm(20);
	rdma_disconnect(left_open);
	expect(RDMA_CM_EVENT_DISCONNECTED);
	destroy(left_open);
	_exit(7);
}

static void be_connected_to(const char *ip)
{
	channel = rdma_create_event_channel();
	Id *listener = listening(RDMA_PS_TCP, ip, PORT + 4), *id;
	tell();
	take(id = requested(listener, "last"));
	CHECK_EQ(expect(RDMA_CM_EVENT_DISCONNECTED), 0);
	CHECK_EQ(rdma_disconnect(id), 0);
	destroy(id);
	destroy(listener);
}

static void connect_and_exit(const char *ip)
{
	channel = rdma_create_event_channel();
	left_open = routed(RDMA_PS_TCP, ip, PORT + 4);
	ask(left_open, "last");
	establish(left_open);
	exit(0);
}

/* What a program does at its own exit still works. */
static void check_late_end(const char *ip, const char *unused)
{
	(void)unused;
	CHECK_EQ(atexit(end_late), 0);
	pid_t server = started(be_connected_to, ip);
	wait_for_peer();
	pid_t client = fork();
	CHECK(client >= 0);
	if (client == 0)
		connect_and_exit(ip);
	wait_for(client, 7 << 8);
	wait_for(server, 0);
}

/* Several connections of one process, of which half are left to themselves at its end. */
static void check_many(const char *ip, const char *unused)
{
	(void)unused;
	enum { COUNT = BACKLOG / 2 };
	static Id *ids[2 * COUNT];
	channel = rdma_create_event_channel();
	Id *listener = listening(RDMA_PS_TCP, "0.0.0.0", 0);
	uint16_t port = ntohs(rdma_get_src_port(listener));
	int established = 0, passive = COUNT;
	for (int i = 0; i < COUNT; i++) {
		ids[i] = created(RDMA_PS_TCP);
		struct sockaddr_in there = at(ip, port);
		CHECK_EQ(rdma_resolve_addr(ids[i], NULL, (struct sockaddr *)&there, 2000), 0);
	}
	while (established < 2 * COUNT) {
		struct rdma_cm_event *event;
		CHECK_EQ(rdma_get_cm_event(channel, &event), 0);
		Id *id = event->id;
		struct rdma_conn_param own = param("");
		switch (event->event) {
		case RDMA_CM_EVENT_ADDR_RESOLVED:
			CHECK_EQ(rdma_resolve_route(id, 2000), 0);
			break;
		case RDMA_CM_EVENT_ROUTE_RESOLVED:
			ask(id, "many");
			break;
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			ids[passive++] = id;
			CHECK_EQ(rdma_accept(id, &own), 0);
			break;
		case RDMA_CM_EVENT_CONNECT_RESPONSE:
			CHECK_EQ(rdma_establish(id), 0);
			established++;
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			established++;
			break;
		default:
			fprintf(stderr, "%s, status %d\n", rdma_event_str(event->event), event->status);
			exit(1);
		}
		CHECK_EQ(rdma_ack_cm_event(event), 0);
	}
	for (int i = 0; i < COUNT; i++)
		destroy(ids[i]);
}

static void check_pair(const char *ip, const char *place)
{
	pid_t child = started(serve, place);
	channel = rdma_create_event_channel();
	CHECK(channel);
	connect_to(ip);
	rdma_destroy_event_channel(channel);
	wait_for(child, 0);
}

/* Each course in a process of its own, because a child must not use what librdmacm has opened in its parent. */
static void apart(void (*course)(const char *, const char *), const char *ip, const char *other)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		course(ip, other);
		exit(0);
	}
	wait_for(child, 0);
}

int main(int count, char **arguments)
{
	const char *ip = count > 1 ? arguments[1] : "127.0.0.1";
	const char *efa = count > 2 ? arguments[2] : NULL;
	apart(check_pair, ip, ip);
	apart(check_pair, ip, "0.0.0.0");
	apart(check_killed, ip, "goodbye");
	apart(check_killed, ip, NULL);
	apart(check_killed_client, ip, NULL);
	apart(check_addresses, ip, efa);
	apart(check_late_end, ip, NULL);
	apart(check_many, ip, NULL);
	return 0;
}
