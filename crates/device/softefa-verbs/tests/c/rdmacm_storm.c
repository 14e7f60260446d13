/*
 * Connections from several threads at once, and under attack: datagrams of noise, damaged packets, and whole requests of
 * somebody who is nobody. Server and clients are two processes, the attacker is a third one.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define PORT 17571
#define THREADS 4
#define ROUNDS 50
#define PACKET 280
#define MAD 20
#define FLOOD 30000

static const char genuine[] = "genuine";
static atomic_uint next_qpn = 0x300000;
/* What the attacker has seen, and whether it floods the server with requests. */
static uint8_t packet[PACKET];
static int is_flood;
/* Strangers whom the server has refused; all processes see it. */
static atomic_uint *refused;

static struct sockaddr_in here(uint16_t port)
{
	return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static pid_t started(void (*run)(int), int fd)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run(fd);
		_exit(0);
	}
	return child;
}

/* Takes who says the word, and refuses everybody else, for ever. */
static void serve(int ready)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener;
	struct sockaddr_in address = here(PORT);
	CHECK(channel && rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_bind_addr(listener, (struct sockaddr *)&address) == 0 && rdma_listen(listener, 1024) == 0);
	CHECK_EQ(write(ready, "x", 1), 1);
	for (;;) {
		struct rdma_cm_event *event;
		CHECK_EQ(rdma_get_cm_event(channel, &event), 0);
		enum rdma_cm_event_type kind = event->event;
		struct rdma_cm_id *id = event->id;
		int is_genuine = event->param.conn.private_data_len >= sizeof(genuine) &&
				 memcmp(event->param.conn.private_data, genuine, sizeof(genuine)) == 0;
		CHECK_EQ(rdma_ack_cm_event(event), 0);
		if (kind == RDMA_CM_EVENT_CONNECT_REQUEST && is_genuine) {
			struct rdma_conn_param answer = {.qp_num = atomic_fetch_add(&next_qpn, 1)};
			CHECK_EQ(rdma_accept(id, &answer), 0);
		} else if (kind == RDMA_CM_EVENT_CONNECT_REQUEST) {
			atomic_fetch_add(refused, 1);
			CHECK_EQ(rdma_destroy_id(id), 0);
		} else if (kind == RDMA_CM_EVENT_DISCONNECTED) {
			CHECK_EQ(rdma_disconnect(id), 0);
		} else if (kind != RDMA_CM_EVENT_ESTABLISHED) {
			CHECK_EQ(rdma_destroy_id(id), 0);
		}
	}
}

static void expect(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;
	CHECK_EQ(rdma_get_cm_event(channel, &event), 0);
	if (event->event != wanted) {
		fprintf(stderr, "%s, status %d; wanted %s\n", rdma_event_str(event->event), event->status,
			rdma_event_str(wanted));
		exit(1);
	}
	CHECK_EQ(rdma_ack_cm_event(event), 0);
}

static void connect_once(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;
	struct sockaddr_in there = here(PORT);
	struct rdma_conn_param question = {.qp_num = atomic_fetch_add(&next_qpn, 1), .private_data = genuine,
					   .private_data_len = sizeof(genuine), .retry_count = 7};
	CHECK_EQ(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&there, 2000), 0);
	expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_EQ(rdma_resolve_route(id, 2000), 0);
	expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK_EQ(rdma_connect(id, &question), 0);
	expect(channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
	CHECK_EQ(rdma_establish(id), 0);
	CHECK_EQ(rdma_disconnect(id), 0);
	expect(channel, RDMA_CM_EVENT_DISCONNECTED);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

static void *connect_often(void *unused)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	CHECK(channel);
	for (int i = 0; i < ROUNDS; i++)
		connect_once(channel);
	rdma_destroy_event_channel(channel);
	return unused;
}

static void connect_from_threads(void)
{
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, connect_often, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

static uint32_t crc(uint32_t state, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		state ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			state = state >> 1 ^ (state & 1 ? 0xedb88320u : 0);
	}
	return state;
}

/* Makes the check of a packet right, of whatever is in it. */
static void sign(uint8_t *packet, uint16_t from, uint16_t to)
{
	uint8_t headers[36] = {[8] = 0x45, 0xff, 0, 0, 0, 0, 0x40, 0, 0xff, 17, 0xff, 0xff, 127, 0, 0, 1, 127, 0, 0, 1};
	uint16_t fields[4] = {htons(from), htons(to), htons(PACKET + 8), 0xffff};
	uint16_t total = htons(PACKET + 28);
	memset(headers, 0xff, 8);
	memcpy(headers + 10, &total, 2);
	memcpy(headers + 28, fields, sizeof(fields));
	uint8_t masked = packet[4];
	packet[4] = 0xff;
	uint32_t state = crc(0xffffffffu, headers, sizeof(headers));
	state = ~crc(state, packet, PACKET - 4);
	packet[4] = masked;
	for (int i = 0; i < 4; i++)
		packet[PACKET - 4 + i] = (uint8_t)(state >> (8 * i));
}

/* A request as librdmacm's program sends it, of which the attacker makes others. */
static void learn(int sock)
{
	struct pollfd poll_fd = {.fd = sock, .events = POLLIN};
	CHECK_EQ(poll(&poll_fd, 1, 20000), 1);
	CHECK_EQ(recv(sock, packet, PACKET, 0), PACKET);
	CHECK(packet[MAD + 16] == 0 && packet[MAD + 17] == 0x10);
	/* The service is another port. */
	uint16_t port = htons(PORT);
	memcpy(packet + MAD + 24 + 14, &port, 2);
}

/* A message of the last request's sender: noise, damaged, about any connection, or a new request. */
static size_t change(uint8_t *room, unsigned number, long kind)
{
	size_t len = PACKET;
	memcpy(room, packet, PACKET);
	switch (kind) {
	case 0:
		len = (size_t)(random() % 600);
		for (size_t at = 0; at < len; at++)
			room[at] = (uint8_t)random();
		break;
	case 1:
		room[random() % PACKET] ^= (uint8_t)(1 + random() % 255);
		break;
	case 2:
		room[MAD + 17] = (uint8_t)(0x11 + random() % 15);
		for (int at = MAD + 24; at < MAD + 60; at++)
			room[at] = (uint8_t)random();
		sign(room, PORT + 1, PORT);
		break;
	default: /* Transaction, id and queue pair of nobody. */
		memcpy(room + MAD + 12, &number, 4);
		memcpy(room + MAD + 24, &number, 4);
		memcpy(room + MAD + 24 + 32, &number, 3);
		sign(room, PORT + 1, PORT);
	}
	return len;
}

/* What it is answered, it does not read. */
static void attack(int ready)
{
	uint8_t room[600];
	struct sockaddr_in own = here(PORT + 1), target = here(PORT);
	int sock = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(sock >= 0 && bind(sock, (struct sockaddr *)&own, sizeof(own)) == 0);
	CHECK_EQ(write(ready, "x", 1), 1);
	learn(sock);
	for (unsigned i = 1; !is_flood || i < FLOOD; i++) {
		size_t len = change(room, i, is_flood ? 3 : random() % 3);
		(void)!sendto(sock, room, len, 0, (struct sockaddr *)&target, sizeof(target));
		if (i == 2000)
			CHECK_EQ(write(ready, "x", 1), 1);
	}
}

/* Lets the attacker see a request. */
static void teach(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;
	struct sockaddr_in there = here(PORT + 1);
	struct rdma_conn_param question = {.qp_num = 77, .private_data = "seen", .private_data_len = 5};
	CHECK(channel && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&there, 2000), 0);
	expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_EQ(rdma_resolve_route(id, 2000), 0);
	expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK_EQ(rdma_connect(id, &question), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static long resident_kib(pid_t pid)
{
	char path[64], line[256];
	long kib = -1;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *status = fopen(path, "r");
	CHECK(status);
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	fclose(status);
	return kib;
}

static void end(pid_t child)
{
	int status;
	CHECK_EQ(waitpid(child, &status, WNOHANG), 0);
	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
}

int main(void)
{
	int ready[2];
	char byte;
	const char *seed = getenv("SOFTEFA_SEED");
	unsigned number = seed ? (unsigned)strtoul(seed, NULL, 10) : (unsigned)time(NULL);
	printf("SOFTEFA_SEED=%u\n", number);
	fflush(stdout);
	srandom(number);
	refused = mmap(NULL, sizeof(*refused), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(refused != MAP_FAILED);
	CHECK_EQ(pipe(ready), 0);
	pid_t server = started(serve, ready[1]);
	CHECK_EQ(read(ready[0], &byte, 1), 1);
	connect_from_threads();
	pid_t attacker = started(attack, ready[1]);
	CHECK_EQ(read(ready[0], &byte, 1), 1);
	teach();
	CHECK_EQ(read(ready[0], &byte, 1), 1);
	connect_from_threads();
	end(attacker);
	/* Requests of strangers: many are served, none costs more than a bounded table holds, and afterwards all is well. */
	is_flood = 1;
	attacker = started(attack, ready[1]);
	CHECK_EQ(read(ready[0], &byte, 1), 1);
	teach();
	int status;
	CHECK(waitpid(attacker, &status, 0) == attacker && status == 0);
	CHECK(resident_kib(server) < 200 * 1024);
	connect_from_threads();
	CHECK(atomic_load(refused) > 500);
	end(server);
	return 0;
}
