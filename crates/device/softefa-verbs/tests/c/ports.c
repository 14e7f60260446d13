/*
 * A child that lives on does not keep the queue pairs of its parent: their ports are free when the parent
 * destroys them, so that peers hear that nobody is there.
 */
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static int can_bind(uint32_t port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(fd >= 0);
	int code = bind(fd, (struct sockaddr *)&at, sizeof(at));
	close(fd);
	return code == 0;
}

int main(void)
{
	struct node node = node_open();
	struct ibv_cq *cq = ibv_create_cq(node.context, 64, NULL, NULL, 0);
	struct ibv_qp *qp = srd_create(&node, cq);
	uint32_t port = qp->qp_num;
	CHECK(!can_bind(port));
	int pipe_fds[2], there_fds[2];
	CHECK_EQ(pipe(pipe_fds), 0);
	CHECK_EQ(pipe(there_fds), 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		char byte = 0;
		close(pipe_fds[1]);
		/* It has run, and let go. */
		CHECK_EQ(write(there_fds[1], &byte, 1), 1);
		/* Until the parent ends. */
		CHECK_EQ(read(pipe_fds[0], &byte, 1), 0);
		/* Also now it destroys what it inherited, as library destructors do. */
		CHECK_EQ(ibv_destroy_qp(qp), 0);
		exit(0);
	}
	char there;
	CHECK_EQ(read(there_fds[0], &there, 1), 1);
	CHECK(!can_bind(port));
	/* Messages still come. */
	struct ibv_sge sge = {(uintptr_t)node.buffer, 100, node.mr->lkey};
	struct ibv_send_wr wr = send_wr(&node, qp, &sge), *bad;
	struct ibv_wc wc[2];
	post_recv(&node, qp, 2, 65536, 100);
	CHECK_EQ(ibv_post_send(qp, &wr, &bad), 0);
	poll_n(cq, 2, wc);
	CHECK(wc[0].status == IBV_WC_SUCCESS && wc[1].status == IBV_WC_SUCCESS);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	/* Nothing of a closed device lingers. */
	node_close(&node);
	CHECK(can_bind(port));
	close(pipe_fds[1]);
	int status = -1;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	return 0;
}
