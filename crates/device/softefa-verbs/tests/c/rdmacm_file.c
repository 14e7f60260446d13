/*
 * /dev/infiniband/rdma_cm as a file: what open, fstat, write, dup, close, fcntl and poll do with it, what becomes of
 * commands that make no sense, and of processes that were forked off.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define PATH "/dev/infiniband/rdma_cm"
#define TCP 0x0106

/* Exported by glibc, and not declared. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __fxstat(int version, int fd, struct stat *out);

static int opened(int flags)
{
	int fd = open(PATH, O_RDWR | O_CLOEXEC | flags);
	CHECK(fd >= 0);
	return fd;
}

/* Writes a command; 0, or the errno. */
static int command(int fd, uint32_t number, const void *body, size_t len, uint16_t out)
{
	char bytes[512];
	struct rdma_ucm_cmd_hdr header = {.cmd = number, .in = (uint16_t)len, .out = out};
	memcpy(bytes, &header, sizeof(header));
	memcpy(bytes + sizeof(header), body, len);
	ssize_t want = (ssize_t)(sizeof(header) + len);
	ssize_t done = write(fd, bytes, (size_t)want);
	CHECK(done == want || done == -1);
	return done == want ? 0 : errno;
}

static int create(int fd, uint64_t uid, void *response)
{
	struct rdma_ucm_create_id body = {.uid = uid, .response = (uintptr_t)response, .ps = TCP};
	return command(fd, RDMA_USER_CM_CMD_CREATE_ID, &body, sizeof(body), 4);
}

static uint32_t created(int fd, uint64_t uid)
{
	struct rdma_ucm_create_id_resp resp = {.id = 0xdead};
	CHECK_EQ(create(fd, uid, &resp), 0);
	CHECK(resp.id < 65536);
	return resp.id;
}

static int destroy(int fd, uint32_t id)
{
	struct rdma_ucm_destroy_id_resp resp;
	struct rdma_ucm_destroy_id body = {.response = (uintptr_t)&resp, .id = id};
	return command(fd, RDMA_USER_CM_CMD_DESTROY_ID, &body, sizeof(body), sizeof(resp));
}

/* An event comes at once. */
static int resolve(int fd, uint32_t id)
{
	struct rdma_ucm_resolve_ip body = {.id = id, .timeout_ms = 1000};
	struct sockaddr_in there = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	memcpy(&body.dst_addr, &there, sizeof(there));
	return command(fd, RDMA_USER_CM_CMD_RESOLVE_IP, &body, sizeof(body), 0);
}

static int get_event(int fd, void *response)
{
	struct rdma_ucm_get_event body = {.response = (uintptr_t)response};
	return command(fd, RDMA_USER_CM_CMD_GET_EVENT, &body, sizeof(body), sizeof(struct rdma_ucm_event_resp));
}

static int is_readable(int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	int count = poll(&poll_fd, 1, 0);
	CHECK(count >= 0);
	return count == 1 && (poll_fd.revents & POLLIN);
}

static void check_open(void)
{
	struct stat stat_ours, stat_null;
	int fds[] = {open(PATH, O_RDWR), open64(PATH, O_RDWR), openat(AT_FDCWD, PATH, O_RDWR),
		     __open_2(PATH, O_RDWR), __open64_2(PATH, O_RDWR | O_CLOEXEC | O_NONBLOCK)};
	for (int i = 0; i < 5; i++) {
		CHECK(fds[i] >= 0);
		CHECK_EQ(fstat(fds[i], &stat_ours), 0);
		CHECK(S_ISCHR(stat_ours.st_mode));
		CHECK_EQ(__fxstat(1, fds[i], &stat_ours), 0);
		CHECK(S_ISCHR(stat_ours.st_mode));
		CHECK_EQ(fcntl(fds[i], F_GETFD), i == 4 ? FD_CLOEXEC : 0);
		CHECK_EQ(fcntl(fds[i], F_GETFL) & O_NONBLOCK, i == 4 ? O_NONBLOCK : 0);
		created(fds[i], 1);
	}
	CHECK_EQ(stat(PATH, &stat_ours), 0);
	CHECK(S_ISCHR(stat_ours.st_mode) && access(PATH, R_OK | W_OK) == 0);
	for (int i = 0; i < 5; i++)
		CHECK_EQ(close(fds[i]), 0);
	CHECK(fstat(fds[0], &stat_ours) == -1 && errno == EBADF);
	CHECK(open(PATH, O_RDWR | O_DIRECTORY) == -1 && errno == ENOTDIR);
	CHECK(open(PATH, O_RDWR | O_CREAT | O_EXCL, 0600) == -1 && errno == EEXIST);
	CHECK(open("/dev/infiniband/rdma_cm0", O_RDWR) == -1 && errno == ENOENT);
	CHECK(open(PATH "/x", O_RDWR) == -1);
	/* A number that was ours is no longer. */
	int null = open("/dev/null", O_RDWR);
	CHECK_EQ(null, fds[0]);
	CHECK_EQ(fstat(null, &stat_null), 0);
	CHECK_EQ(write(null, "1234567", 7), 7);
	CHECK_EQ(close(null), 0);
	int read_only = open(PATH, O_RDONLY);
	uint32_t id;
	CHECK_EQ(create(read_only, 1, &id), EBADF);
	CHECK_EQ(close(read_only), 0);
}

/* librdmacm asks netlink first, for the machine's own devices. */
static void check_netlink(void)
{
	CHECK(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 20) == -1);
	CHECK_EQ(errno, EPROTONOSUPPORT);
	char version[8] = "";
	int file = open("/sys/class/misc/rdma_cm/abi_version", O_RDONLY);
	CHECK(file >= 0 && read(file, version, sizeof(version)) == 2 && close(file) == 0);
	CHECK_EQ(strcmp(version, "4\n"), 0);
	int route = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
	CHECK(route >= 0 && close(route) == 0);
}

static void check_garbage(void)
{
	int fd = opened(O_NONBLOCK);
	char bytes[4096];
	memset(bytes, 0, sizeof(bytes));
	for (size_t len = 0; len < 8; len++)
		CHECK(write(fd, bytes, len) == -1 && errno == EINVAL);
	uint64_t nowhere[] = {0, 4096, (uint64_t)-8, 1ull << 63, 1ull << 47};
	for (int i = 0; i < 5; i++)
		CHECK(write(fd, (void *)(uintptr_t)nowhere[i], 100) == -1 && errno == EFAULT);
	for (uint32_t number = 0; number < 300; number++) {
		CHECK_EQ(command(fd, number, bytes, 0, 0), number == RDMA_USER_CM_CMD_GET_OPTION ? ENOSYS : EINVAL);
		CHECK_EQ(command(fd, number + (number << 24), bytes, 0, 0) == 0, 0);
	}
	struct rdma_ucm_cmd_hdr longer = {.cmd = 0, .in = 100, .out = 4};
	memcpy(bytes, &longer, sizeof(longer));
	CHECK(write(fd, bytes, 107) == -1 && errno == EINVAL);
	uint32_t id;
	struct rdma_ucm_create_id body = {.uid = 1, .response = (uintptr_t)&id, .ps = TCP};
	CHECK_EQ(command(fd, 0, &body, sizeof(body), 3), ENOSPC);
	CHECK_EQ(command(fd, 0, &body, sizeof(body) - 1, 4), EINVAL);
	CHECK_EQ(destroy(fd, 77), ENOENT);
	/* A seed of its own each time: whatever is written, nothing breaks. */
	unsigned seed = (unsigned)time(NULL);
	const char *given = getenv("SOFTEFA_SEED");
	if (given)
		seed = (unsigned)strtoul(given, NULL, 10);
	printf("SOFTEFA_SEED=%u\n", seed);
	fflush(stdout);
	srandom(seed);
	for (int i = 0; i < 100000; i++) {
		size_t len = (size_t)(random() % 400);
		for (size_t at = 0; at < len; at++)
			bytes[at] = (char)random();
		struct rdma_ucm_cmd_hdr header = {.cmd = (uint32_t)(random() % 24), .in = (uint16_t)(random() % 400),
						  .out = (uint16_t)(random() % 400)};
		memcpy(bytes, &header, sizeof(header));
		/* Room of our own where an answer may go, or anywhere. */
		char room[512];
		uint64_t there = random() % 2 ? (uintptr_t)room : (uint64_t)random() << 31;
		memcpy(bytes + 8 + 8 * (random() % 3), &there, sizeof(there));
		uint32_t small = (uint32_t)(random() % 40);
		memcpy(bytes + 8 + 4 * (random() % 80), &small, sizeof(small));
		(void)!write(fd, bytes, len);
	}
	CHECK_EQ(close(fd), 0);
}

/* Commands and answers at the edge of what is mapped. */
static void check_pointers(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(pages != MAP_FAILED);
	CHECK_EQ(mprotect(pages, page, PROT_READ), 0);
	CHECK_EQ(munmap(pages + 2 * page, page), 0);
	int fd = opened(O_NONBLOCK);
	uint32_t first = created(fd, 1);
	/* Nobody gets an id whose number cannot be told. */
	CHECK_EQ(create(fd, 1, NULL), EFAULT);
	CHECK_EQ(create(fd, 1, pages), EFAULT);
	CHECK_EQ(create(fd, 1, pages + 2 * page - 3), EFAULT);
	CHECK_EQ(create(fd, 1, (void *)-4), EFAULT);
	CHECK_EQ(create(fd, 1, pages + 2 * page - 4), 0);
	uint32_t second;
	memcpy(&second, pages + 2 * page - 4, 4);
	CHECK_EQ(second, first + 1);
	/* A command that ends where memory ends, and one that ends behind it. */
	struct {
		struct rdma_ucm_cmd_hdr header;
		struct rdma_ucm_create_id body;
	} whole = {{.cmd = 0, .in = sizeof(struct rdma_ucm_create_id), .out = 4},
		   {.uid = 1, .response = (uintptr_t)&second, .ps = TCP}};
	char *end = pages + 2 * page;
	memcpy(end - sizeof(whole), &whole, sizeof(whole));
	CHECK_EQ(write(fd, end - sizeof(whole), sizeof(whole)), sizeof(whole));
	CHECK_EQ(second, first + 2);
	memcpy(end - sizeof(whole) + 1, &whole, sizeof(whole) - 1);
	CHECK(write(fd, end - sizeof(whole) + 1, sizeof(whole)) == -1 && errno == EFAULT);
	/* An event waits for somebody who can take it. */
	CHECK_EQ(get_event(fd, pages), EAGAIN);
	CHECK_EQ(resolve(fd, first), 0);
	struct rdma_ucm_event_resp event = {0};
	CHECK_EQ(get_event(fd, pages), EFAULT);
	CHECK_EQ(get_event(fd, end - 100), EFAULT);
	CHECK(is_readable(fd));
	CHECK_EQ(get_event(fd, &event), 0);
	CHECK_EQ(event.uid, 1);
	CHECK_EQ(event.id, first);
	/* An option's value that is not there. */
	struct rdma_ucm_set_option option = {.optval = 8, .id = first, .level = 0, .optname = 0, .optlen = 1};
	CHECK_EQ(command(fd, RDMA_USER_CM_CMD_SET_OPTION, &option, sizeof(option), 0), EFAULT);
	uint8_t tos = 4;
	option.optval = (uintptr_t)&tos;
	CHECK_EQ(command(fd, RDMA_USER_CM_CMD_SET_OPTION, &option, sizeof(option), 0), 0);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(munmap(pages, 2 * page), 0);
}

static void check_readiness(void)
{
	int fd = opened(O_NONBLOCK), epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event wanted = {.events = EPOLLIN | EPOLLET}, got;
	CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &wanted), 0);
	struct rdma_ucm_event_resp event;
	uint32_t one = created(fd, 1), two = created(fd, 2);
	CHECK(!is_readable(fd) && epoll_wait(epoll, &got, 1, 0) == 0);
	CHECK_EQ(get_event(fd, &event), EAGAIN);
	CHECK_EQ(resolve(fd, one), 0);
	CHECK(is_readable(fd) && epoll_wait(epoll, &got, 1, 0) == 1);
	CHECK_EQ(resolve(fd, two), 0);
	CHECK_EQ(epoll_wait(epoll, &got, 1, 0), 1);
	CHECK_EQ(get_event(fd, &event), 0);
	CHECK_EQ(event.uid, 1);
	CHECK(is_readable(fd));
	CHECK_EQ(get_event(fd, &event), 0);
	CHECK_EQ(event.uid, 2);
	CHECK(!is_readable(fd));
	CHECK_EQ(get_event(fd, &event), EAGAIN);
	/* What is destroyed has no events. */
	uint32_t three = created(fd, 3);
	CHECK_EQ(resolve(fd, three), 0);
	CHECK(is_readable(fd));
	CHECK_EQ(destroy(fd, three), 0);
	CHECK(!is_readable(fd));
	/* Events go with their id to another descriptor. */
	int other = opened(O_NONBLOCK);
	uint32_t four = created(fd, 4);
	CHECK_EQ(resolve(fd, four), 0);
	struct rdma_ucm_migrate_resp migrated;
	struct rdma_ucm_migrate_id move = {.response = (uintptr_t)&migrated, .id = four, .fd = (uint32_t)fd};
	CHECK_EQ(command(other, RDMA_USER_CM_CMD_MIGRATE_ID, &move, sizeof(move), sizeof(migrated)), 0);
	CHECK(!is_readable(fd) && is_readable(other));
	CHECK_EQ(get_event(other, &event), 0);
	CHECK_EQ(event.uid, 4);
	move.fd = 0;
	CHECK_EQ(command(other, RDMA_USER_CM_CMD_MIGRATE_ID, &move, sizeof(move), sizeof(migrated)), ENOENT);
	CHECK(close(fd) == 0 && close(other) == 0 && close(epoll) == 0);
}

static void check_duplicates(void)
{
	int fd = opened(0);
	uint32_t id = created(fd, 1);
	int copies[] = {dup(fd), fcntl(fd, F_DUPFD, 100), fcntl(fd, F_DUPFD_CLOEXEC, 100), dup2(fd, 300), dup3(fd, 301, O_CLOEXEC)};
	CHECK(copies[1] >= 100 && copies[3] == 300 && copies[4] == 301);
	for (int i = 0; i < 5; i++)
		CHECK_EQ(destroy(copies[i], 9999), ENOENT);
	CHECK_EQ(dup2(fd, fd), fd);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(resolve(copies[0], id), 0);
	CHECK(is_readable(copies[4]));
	/* Another file takes the place of one, in three ways. */
	int null = open("/dev/null", O_RDWR);
	CHECK_EQ(dup2(null, copies[3]), copies[3]);
	CHECK_EQ(write(copies[3], "x", 1), 1);
	CHECK(dup2(9999, copies[4]) == -1 && errno == EBADF);
	CHECK_EQ(destroy(copies[4], 9999), ENOENT);
	CHECK_EQ(close_range(301, 301, 0), 0);
	CHECK(destroy(301, id) == EBADF);
	CHECK(close(null) == 0 && close(copies[3]) == 0 && close(copies[1]) == 0 && close(copies[2]) == 0);
	struct rdma_ucm_event_resp event;
	CHECK_EQ(get_event(copies[0], &event), 0);
	CHECK_EQ(destroy(copies[0], id), 0);
	/* With the last one all ids end: the port is free. */
	struct rdma_ucm_bind_ip bind_ip = {.id = created(copies[0], 2)};
	struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(23456)};
	memcpy(&bind_ip.addr, &here, sizeof(here));
	CHECK_EQ(command(copies[0], RDMA_USER_CM_CMD_BIND_IP, &bind_ip, sizeof(bind_ip), 0), 0);
	int again = opened(0);
	bind_ip.id = created(again, 3);
	CHECK_EQ(command(again, RDMA_USER_CM_CMD_BIND_IP, &bind_ip, sizeof(bind_ip), 0), EADDRNOTAVAIL);
	CHECK_EQ(close(copies[0]), 0);
	CHECK_EQ(command(again, RDMA_USER_CM_CMD_BIND_IP, &bind_ip, sizeof(bind_ip), 0), 0);
	CHECK_EQ(close(again), 0);
}

struct sleeper {
	int fd, result;
	atomic_int has_begun, is_done;
};

static void *sleep_for_event(void *argument)
{
	struct sleeper *sleeper = argument;
	struct rdma_ucm_event_resp event;
	atomic_store(&sleeper->has_begun, (int)syscall(SYS_gettid));
	sleeper->result = get_event(sleeper->fd, &event);
	atomic_store(&sleeper->is_done, 1);
	return NULL;
}

static pthread_t begun(struct sleeper *sleeper)
{
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, sleep_for_event, sleeper), 0);
	while (!atomic_load(&sleeper->has_begun))
		sched_yield();
	return thread;
}

/* The kernel says that a thread waits for something. */
static int is_asleep(int thread)
{
	char path[64], state = 0;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
	FILE *stat = fopen(path, "r");
	CHECK(stat && fscanf(stat, "%*d (%*[^)]) %c", &state) == 1);
	fclose(stat);
	return state == 'S';
}

static atomic_int signals;

static void on_signal(int number)
{
	(void)number;
	atomic_fetch_add(&signals, 1);
}

static void handle(int flags)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
}

/*
 * A descriptor that is closed while a thread is about to wait for its event: refused when it was closed before the
 * call, a sleep that nothing ends after that.
 */
static void check_close_beside_calls(void)
{
	for (int round = 0; round < 3000; round++) {
		struct sleeper sleeper = {.fd = opened(0)};
		pthread_t thread = begun(&sleeper);
		void *end = NULL;
		CHECK_EQ(close(sleeper.fd), 0);
		CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &end) == 0);
		if (end != PTHREAD_CANCELED)
			CHECK_EQ(sleeper.result, EBADF);
	}
}

static void check_sleep(void)
{
	/* An event wakes who waits for it. */
	struct sleeper woken = {.fd = opened(0)};
	uint32_t id = created(woken.fd, 1);
	pthread_t thread = begun(&woken);
	CHECK_EQ(resolve(woken.fd, id), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(woken.result, 0);
	CHECK(!is_readable(woken.fd));

	/* A signal interrupts, unless its handler wants calls to go on. */
	struct sleeper interrupted = {.fd = woken.fd};
	handle(0);
	thread = begun(&interrupted);
	while (!atomic_load(&interrupted.is_done)) {
		pthread_kill(thread, SIGUSR1);
		sched_yield();
	}
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(interrupted.result, EINTR);

	struct sleeper restarted = {.fd = woken.fd};
	handle(SA_RESTART);
	thread = begun(&restarted);
	int before = atomic_load(&signals);
	while (atomic_load(&signals) < before + 100) {
		pthread_kill(thread, SIGUSR1);
		sched_yield();
	}
	CHECK(!atomic_load(&restarted.is_done));
	uint32_t other = created(woken.fd, 2);
	CHECK_EQ(resolve(woken.fd, other), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(restarted.result, 0);

	/* A cancelled thread holds nothing. */
	struct sleeper cancelled = {.fd = woken.fd};
	thread = begun(&cancelled);
	void *end = NULL;
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK_EQ(pthread_join(thread, &end), 0);
	CHECK(end == PTHREAD_CANCELED);
	CHECK_EQ(destroy(woken.fd, other), 0);

	/* Closing the descriptor does not wake: rping would end with an error. */
	struct sleeper closed = {.fd = woken.fd};
	thread = begun(&closed);
	while (!is_asleep(atomic_load(&closed.has_begun)))
		sched_yield();
	CHECK_EQ(close(woken.fd), 0);
	for (int i = 0; i < 100; i++) {
		sched_yield();
		CHECK(!atomic_load(&closed.is_done));
	}
	CHECK(is_asleep(atomic_load(&closed.has_begun)));
	CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &end) == 0 && end == PTHREAD_CANCELED);

	/* Nor does an event that came in the same moment: to its thread, the file is gone. */
	struct sleeper late = {.fd = opened(0)};
	thread = begun(&late);
	while (!is_asleep(atomic_load(&late.has_begun)))
		sched_yield();
	int behind = (int)syscall(SYS_dup, late.fd);
	CHECK(behind >= 0);
	CHECK_EQ(close(late.fd), 0);
	/* The same number, another file with an event of its own. */
	int reopened = opened(0);
	CHECK_EQ(reopened, late.fd);
	uint32_t reopened_id = created(reopened, 3);
	CHECK_EQ(resolve(reopened, reopened_id), 0);
	uint64_t one = 1;
	CHECK_EQ(syscall(SYS_write, behind, &one, sizeof(one)), sizeof(one));
	struct pollfd taken = {.fd = behind, .events = POLLIN};
	while (poll(&taken, 1, 0) == 1)
		sched_yield();
	while (!is_asleep(atomic_load(&late.has_begun)))
		CHECK(!atomic_load(&late.is_done));
	CHECK(is_readable(reopened));
	CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &end) == 0 && end == PTHREAD_CANCELED);
	CHECK(close(behind) == 0 && close(reopened) == 0);

	/* A file that a duplicate stands for goes on, whatever its first descriptor is by now. */
	struct sleeper survives = {.fd = opened(0)};
	int duplicate = dup(survives.fd);
	uint32_t surviving = created(duplicate, 4);
	CHECK(duplicate >= 0);
	thread = begun(&survives);
	while (!is_asleep(atomic_load(&survives.has_begun)))
		sched_yield();
	CHECK_EQ(close(survives.fd), 0);
	CHECK_EQ(resolve(duplicate, surviving), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(survives.result, 0);
	CHECK_EQ(close(duplicate), 0);

	/* Who does not want to wait need not. */
	int fd = opened(0);
	struct rdma_ucm_event_resp event;
	CHECK_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	CHECK_EQ(get_event(fd, &event), EAGAIN);
	CHECK_EQ(close(fd), 0);
}

static void wait_for(pid_t child)
{
	int status = -1;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

static int bind_any(int fd, uint32_t id, uint16_t port)
{
	struct rdma_ucm_bind_ip body = {.id = id};
	struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(port)};
	memcpy(&body.addr, &here, sizeof(here));
	return command(fd, RDMA_USER_CM_CMD_BIND_IP, &body, sizeof(body), 0);
}

static void check_children(void)
{
	int fd = opened(0), pipes[2], back[2];
	char byte;
	uint32_t id = created(fd, 1);
	CHECK_EQ(bind_any(fd, id, 23457), 0);
	CHECK(pipe(pipes) == 0 && pipe(back) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		uint32_t number;
		CHECK_EQ(create(fd, 1, &number), ENODEV);
		CHECK_EQ(destroy(fd, id), ENODEV);
		CHECK(dup(fd) >= 0);
		CHECK_EQ(create(fd + 1, 1, &number) != 0, 1);
		/* Its own are as good as any; the number that an inherited one had is free again. */
		int own = opened(O_NONBLOCK);
		CHECK_EQ(resolve(own, created(own, 5)), 0);
		CHECK_EQ(bind_any(own, created(own, 6), 23457), EADDRNOTAVAIL);
		CHECK_EQ(close(fd), 0);
		int null = open("/dev/null", O_WRONLY);
		CHECK_EQ(null, fd);
		CHECK_EQ(write(null, "x", 1), 1);
		struct rdma_ucm_event_resp event;
		CHECK_EQ(get_event(own, &event), 0);
		CHECK_EQ(event.uid, 5);
		/* The parent gives its port back while the child lives on. */
		CHECK_EQ(write(back[1], "x", 1), 1);
		CHECK_EQ(read(pipes[0], &byte, 1), 1);
		CHECK_EQ(bind_any(own, created(own, 7), 23457), 0);
		_exit(0);
	}
	/* A child that shares the memory may close what it likes. */
	pid_t vforked = vfork();
	if (vforked == 0) {
		close(fd);
		close_range(3, 200, 0);
		_exit(0);
	}
	wait_for(vforked);
	CHECK_EQ(resolve(fd, created(fd, 2)), 0);
	CHECK(is_readable(fd));
	CHECK_EQ(read(back[0], &byte, 1), 1);
	CHECK_EQ(destroy(fd, id), 0);
	CHECK_EQ(write(pipes[1], "x", 1), 1);
	wait_for(child);
	CHECK_EQ(close(fd), 0);
	/* And a program that a child becomes sees nothing of it. */
	fd = opened(0);
	child = fork();
	if (child == 0) {
		execl("/bin/sh", "sh", "-c", "echo x >/dev/null && test -c " PATH, NULL);
		_exit(9);
	}
	wait_for(child);
	CHECK_EQ(close(fd), 0);
}

/* The stream closes by itself, without asking anybody. */
static void check_closed_behind_our_back(void)
{
	int fd = opened(0);
	FILE *stream = fdopen(fd, "r+");
	CHECK(stream && fclose(stream) == 0);
	char path[] = "/tmp/softefa-rdmacm-XXXXXX";
	CHECK_EQ(mkstemp(path), fd);
	CHECK_EQ(unlink(path), 0);
	struct stat is;
	CHECK(fstat(fd, &is) == 0 && S_ISREG(is.st_mode));
	CHECK_EQ(write(fd, "a line", 6), 6);
	CHECK_EQ(close(fd), 0);
	/* The number is ours again. */
	CHECK_EQ(opened(0), fd);
	CHECK(fstat(fd, &is) == 0 && S_ISCHR(is.st_mode));
	CHECK_EQ(close(fd), 0);
}

int main(void)
{
	check_open();
	check_netlink();
	check_garbage();
	check_pointers();
	check_readiness();
	check_duplicates();
	check_sleep();
	check_close_beside_calls();
	check_children();
	check_closed_behind_our_back();
	return 0;
}
