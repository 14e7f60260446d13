/*
 * One side writes into the memory of the other, over a reliable connection that librdmacm sets up.
 *
 *   softefa run --roce -- ./rdma_write                the target: shows its memory to any client
 *   softefa run --roce -- ./rdma_write 192.0.2.1      the writer: writes into that memory, and reports it
 *
 * The target sends the address of its memory in the private data of the connection. The WRITE itself needs no action of
 * the target's program. The SEND after it arrives later, and so tells the target that the WRITE is complete.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The target's description of its memory, in network byte order. */
struct memory {
	uint64_t address;
	uint32_t key;
	uint32_t bytes;
};

static const char *port = "7471";
static uint32_t bytes = 1 << 20;

static void check(int is_right, const char *what)
{
	if (is_right)
		return;
	perror(what);
	exit(1);
}

static char pattern(uint32_t place)
{
	return (char)(place * 7 + place / 251);
}

static char *allocated(void)
{
	char *memory = calloc(1, bytes);
	check(memory != NULL, "calloc");
	return memory;
}

/* Waits for one completion, and checks it. */
static void completed(int found, struct ibv_wc *wc, const char *what)
{
	check(found == 1, what);
	if (wc->status == IBV_WC_SUCCESS)
		return;
	fprintf(stderr, "%s: %s\n", what, ibv_wc_status_str(wc->status));
	exit(1);
}

static void write_there(const char *host)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *there;
	struct ibv_qp_init_attr queues = {.cap = {2, 1, 1, 1, 16}, .sq_sig_all = 0};
	struct rdma_cm_id *id;
	check(rdma_getaddrinfo(host, port, &hints, &there) == 0, host);
	check(rdma_create_ep(&id, there, NULL, &queues) == 0, "rdma_create_ep");
	char *data = allocated();
	struct ibv_mr *mr = rdma_reg_msgs(id, data, bytes);
	check(mr != NULL, "rdma_reg_msgs");
	for (uint32_t place = 0; place < bytes; place++)
		data[place] = pattern(place);

	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
	check(rdma_connect(id, &param) == 0, "rdma_connect");
	struct memory memory;
	check(id->event->param.conn.private_data_len >= sizeof(memory), "private data");
	memcpy(&memory, id->event->param.conn.private_data, sizeof(memory));
	if (be32toh(memory.bytes) < bytes)
		bytes = be32toh(memory.bytes);

	struct ibv_wc wc;
	check(rdma_post_write(id, NULL, data, bytes, mr, 0, be64toh(memory.address), be32toh(memory.key)) == 0,
	      "rdma_post_write");
	check(rdma_post_send(id, NULL, &bytes, sizeof(bytes), NULL, IBV_SEND_INLINE | IBV_SEND_SIGNALED) == 0,
	      "rdma_post_send");
	completed(rdma_get_send_comp(id, &wc), &wc, "WRITE and SEND");
	printf("%u bytes written\n", bytes);
	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(there);
	free(data);
}

static void show_memory(void)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *here;
	struct ibv_qp_init_attr queues = {.cap = {1, 1, 1, 1, 0}};
	struct rdma_cm_id *listener, *id;
	check(rdma_getaddrinfo(NULL, port, &hints, &here) == 0, "rdma_getaddrinfo");
	check(rdma_create_ep(&listener, here, NULL, &queues) == 0, "rdma_create_ep");
	check(rdma_listen(listener, 1) == 0, "rdma_listen");
	check(rdma_get_request(listener, &id) == 0, "rdma_get_request");

	char *data = allocated();
	uint32_t written;
	struct ibv_mr *mr = rdma_reg_write(id, data, bytes), *told = rdma_reg_msgs(id, &written, sizeof(written));
	check(mr != NULL && told != NULL, "rdma_reg_write");
	check(rdma_post_recv(id, NULL, &written, sizeof(written), told) == 0, "rdma_post_recv");
	struct memory memory = {htobe64((uintptr_t)data), htobe32(mr->rkey), htobe32(bytes)};
	struct rdma_conn_param param = {.private_data = &memory, .private_data_len = sizeof(memory), .rnr_retry_count = 7};
	check(rdma_accept(id, &param) == 0, "rdma_accept");

	struct ibv_wc wc;
	completed(rdma_get_recv_comp(id, &wc), &wc, "RECV");
	if (wc.byte_len != sizeof(written) || written > bytes) {
		fprintf(stderr, "the writer says nonsense\n");
		exit(1);
	}
	for (uint32_t place = 0; place < written; place++)
		if (data[place] != pattern(place)) {
			fprintf(stderr, "byte %u is not what was written\n", place);
			exit(1);
		}
	printf("%u bytes came\n", written);
	/* The writer has its completion when it disconnects. Who leaves earlier takes along the only
	 * queue pair that can repeat a lost acknowledgement. */
	struct rdma_cm_event *event;
	check(rdma_get_cm_event(id->channel, &event) == 0, "rdma_get_cm_event");
	rdma_ack_cm_event(event);
	rdma_disconnect(id);
	rdma_dereg_mr(told);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	rdma_freeaddrinfo(here);
	free(data);
}

int main(int count, char **words)
{
	int option;
	while ((option = getopt(count, words, "p:s:")) != -1) {
		if (option == 'p')
			port = optarg;
		else if (option == 's' && atol(optarg) > 0 && atol(optarg) <= 1 << 30)
			bytes = (uint32_t)atol(optarg);
		else {
			fprintf(stderr, "usage: rdma_write [-p PORT] [-s BYTES, 1 to 2^30] [HOST]\n");
			return 2;
		}
	}
	if (optind < count)
		write_there(words[optind]);
	else
		show_memory();
	return 0;
}
