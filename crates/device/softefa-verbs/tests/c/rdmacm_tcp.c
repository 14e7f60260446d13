/*
 * A program of TCP and its child, whose sockets librspreload turns into connections of the device. It knows nothing of
 * that; only the kernel's list of ports shows it.
 */
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define PORT 17671
#define BYTES 2000000

static const struct sockaddr_in there = {.sin_family = AF_INET};

static struct sockaddr_in address(void)
{
	struct sockaddr_in here = there;
	here.sin_port = htons(PORT);
	here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return here;
}

/* Whether the kernel has somebody at the port. */
static int is_bound(const char *table)
{
	char line[512], wanted[32];
	int found = 0;
	snprintf(wanted, sizeof(wanted), "0100007F:%04X ", PORT);
	FILE *ports = fopen(table, "r");
	CHECK(ports);
	while (fgets(line, sizeof(line), ports))
		found |= strstr(line, wanted) != NULL;
	fclose(ports);
	return found;
}

static unsigned char byte_at(size_t at)
{
	return (unsigned char)(at * 2654435761u >> 13);
}

static void serve(int ready)
{
	struct sockaddr_in here = address();
	unsigned char bytes[30000];
	size_t done = 0;
	int sock = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(sock >= 0 && bind(sock, (struct sockaddr *)&here, sizeof(here)) == 0 && listen(sock, 4) == 0);
	CHECK(is_bound("/proc/net/udp") && !is_bound("/proc/net/tcp"));
	CHECK_EQ(write(ready, "x", 1), 1);
	int peer = accept(sock, NULL, NULL);
	CHECK(peer >= 0);
	while (done < BYTES) {
		struct pollfd poll_fd = {.fd = peer, .events = POLLIN};
		CHECK_EQ(poll(&poll_fd, 1, 20000), 1);
		ssize_t len = read(peer, bytes, sizeof(bytes));
		CHECK(len > 0);
		for (ssize_t i = 0; i < len; i++)
			CHECK_EQ(bytes[i], byte_at(done + (size_t)i));
		done += (size_t)len;
	}
	CHECK_EQ(write(peer, "all", 4), 4);
	CHECK(close(peer) == 0 && close(sock) == 0);
}

static void ask(void)
{
	struct sockaddr_in server = address();
	static unsigned char bytes[BYTES];
	char answer[4];
	size_t done = 0;
	for (size_t i = 0; i < BYTES; i++)
		bytes[i] = byte_at(i);
	int sock = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(sock >= 0 && connect(sock, (struct sockaddr *)&server, sizeof(server)) == 0);
	while (done < BYTES) {
		ssize_t len = write(sock, bytes + done, BYTES - done);
		CHECK(len > 0);
		done += (size_t)len;
	}
	CHECK_EQ(read(sock, answer, sizeof(answer)), 4);
	CHECK(memcmp(answer, "all", 4) == 0 && close(sock) == 0);
}

int main(void)
{
	int ready[2], status = -1;
	char byte;
	CHECK_EQ(pipe(ready), 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(ready[1]);
		exit(0);
	}
	CHECK_EQ(read(ready[0], &byte, 1), 1);
	ask();
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	return 0;
}
