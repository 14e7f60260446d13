/* Registered memory that is not there: refused at registration, survived later. */
#include "check.h"
#include "rdma.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static char *pages(int count, int access)
{
	char *at = mmap(NULL, (size_t)count * PAGE, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(at != MAP_FAILED);
	return at;
}

static void refused(struct node *node, char *at, size_t length, int access)
{
	errno = 0;
	CHECK(!ibv_reg_mr(node->pd, at, length, access));
	CHECK_EQ(errno, EFAULT);
}

static void registered(struct node *node, char *at, size_t length, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(node->pd, at, length, access);
	CHECK(mr);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

/* The kernel pins what is registered, and fails with EFAULT. */
static void registration_asks_the_kernel(struct node *node)
{
	char *at = pages(4, PROT_READ | PROT_WRITE);
	registered(node, at, 4 * PAGE, ALL);
	CHECK_EQ(mprotect(at + PAGE, PAGE, PROT_READ), 0);
	registered(node, at, 4 * PAGE, IBV_ACCESS_REMOTE_READ);
	refused(node, at, 4 * PAGE, IBV_ACCESS_LOCAL_WRITE);
	registered(node, at + 2 * PAGE, 2 * PAGE, ALL);
	CHECK_EQ(mprotect(at + PAGE, PAGE, PROT_NONE), 0);
	refused(node, at, 2 * PAGE, 0);
	CHECK_EQ(munmap(at + 3 * PAGE, PAGE), 0);
	refused(node, at + 2 * PAGE, PAGE + 1, ALL);
	registered(node, at + 2 * PAGE + 1, PAGE - 1, ALL);
	refused(node, (char *)8, 8, 0);
	CHECK_EQ(munmap(at, 3 * PAGE), 0);
}

struct world {
	struct node *node;
	struct ibv_cq *cq;
	struct ibv_qp *a, *b;
};

/* What a message of `length` ends with, sent to a receive at `to`: sender's and receiver's status. */
static void message(struct world *world, struct ibv_sge from, struct ibv_sge to, int *sent, int *got)
{
	struct ibv_recv_wr receive = {.wr_id = 2, .sg_list = &to, .num_sge = 1}, *bad_receive;
	CHECK_EQ(ibv_post_recv(world->b, &receive, &bad_receive), 0);
	struct ibv_send_wr wr = send_wr(world->node, world->b, &from), *bad;
	CHECK_EQ(ibv_post_send(world->a, &wr, &bad), 0);
	*sent = *got = -1;
	uint64_t deadline = now_ms() + 20000;
	while (*sent < 0 || *got < 0) {
		struct ibv_wc wc;
		if (ibv_poll_cq(world->cq, 1, &wc) == 1)
			*(wc.wr_id == 1 ? sent : got) = wc.status;
		if (*got == IBV_WC_LOC_PROT_ERR && *sent < 0) {
			/* Not ready: the next receive is the one it waits for. */
			to = (struct ibv_sge){(uintptr_t)world->node->buffer, 8192, world->node->mr->lkey};
			receive.wr_id = 3;
			CHECK_EQ(ibv_post_recv(world->b, &receive, &bad_receive), 0);
			while (ibv_poll_cq(world->cq, 1, &wc) == 0)
				CHECK(now_ms() < deadline);
			if (wc.wr_id == 1)
				*sent = wc.status;
			else
				CHECK_EQ(wc.wr_id, 3);
		}
		if (*sent == IBV_WC_LOC_PROT_ERR && *got < 0)
			return;
		CHECK(now_ms() < deadline);
	}
}

static void messages_survive(struct world *world, int length)
{
	struct node *node = world->node;
	struct ibv_sge sound = {(uintptr_t)node->buffer, length, node->mr->lkey};
	for (int way = 0; way < 3; way++) {
		char *at = pages(4, PROT_READ | PROT_WRITE);
		struct ibv_mr *mr = ibv_reg_mr(node->pd, at, 4 * PAGE, ALL);
		CHECK(mr);
		struct ibv_sge gone = {(uintptr_t)at, 4 * PAGE, mr->lkey};
		if (way == 0)
			CHECK_EQ(munmap(at, 4 * PAGE), 0);
		else
			CHECK_EQ(mprotect(at, 4 * PAGE, way == 1 ? PROT_NONE : PROT_READ), 0);
		int sent, got;
		message(world, sound, gone, &sent, &got);
		CHECK_EQ(got, IBV_WC_LOC_PROT_ERR);
		CHECK_EQ(sent, IBV_WC_SUCCESS);
		if (way < 2) {
			gone.length = length;
			sound.length = 8192;
			message(world, gone, sound, &sent, &got);
			CHECK_EQ(sent, IBV_WC_LOC_PROT_ERR);
			sound.length = length;
			/* The receive is still there. */
			struct ibv_send_wr wr = send_wr(node, world->b, &sound), *bad;
			struct ibv_wc wc[2];
			CHECK_EQ(ibv_post_send(world->a, &wr, &bad), 0);
			poll_n(world->cq, 2, wc);
			CHECK_EQ(wc[0].status, IBV_WC_SUCCESS);
			CHECK_EQ(wc[1].status, IBV_WC_SUCCESS);
		}
		CHECK_EQ(ibv_dereg_mr(mr), 0);
		if (way > 0)
			CHECK_EQ(munmap(at, 4 * PAGE), 0);
	}
}

/* The page it was registered for is behind the end of its file: SIGBUS instead of SIGSEGV. */
static void a_short_file_is_survived(struct world *world)
{
	FILE *file = tmpfile();
	CHECK(file);
	CHECK_EQ(ftruncate(fileno(file), PAGE), 0);
	char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	CHECK(at != MAP_FAILED);
	struct ibv_mr *mr = ibv_reg_mr(world->node->pd, at, PAGE, ALL);
	CHECK(mr);
	CHECK_EQ(ftruncate(fileno(file), 0), 0);
	struct ibv_sge gone = {(uintptr_t)at, PAGE, mr->lkey};
	struct ibv_sge sound = {(uintptr_t)world->node->buffer, 64, world->node->mr->lkey};
	int sent, got;
	message(world, sound, gone, &sent, &got);
	CHECK_EQ(got, IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(munmap(at, PAGE), 0);
	fclose(file);
}

static struct ibv_qp *rdma_create(struct node *node, struct ibv_cq_ex *cq)
{
	struct ibv_qp_init_attr_ex attr = side_attr(node, cq);
	struct efadv_qp_init_attr efa = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
	struct ibv_qp *qp = efadv_create_qp_ex(node->context, &attr, &efa, sizeof(efa));
	CHECK(qp);
	qp_to_rts(qp);
	return qp;
}

/* What a READ or WRITE ends with. */
static int rdma(struct world *world, int is_read, uint64_t remote, uint32_t rkey, struct ibv_sge local)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(world->a);
	struct ibv_wc wc;
	ex->wr_id = 5;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(ex);
	(is_read ? ibv_wr_rdma_read : ibv_wr_rdma_write)(ex, rkey, remote);
	ibv_wr_set_ud_addr(ex, world->node->ah, world->b->qp_num, QKEY);
	ibv_wr_set_sge(ex, local.lkey, local.addr, local.length);
	CHECK_EQ(ibv_wr_complete(ex), 0);
	poll_n(world->cq, 1, &wc);
	return wc.status;
}

/* RDMA of memory that its owner has unmapped: 7 at the requester; of the requester's own: 5. */
static void rdma_survives(struct world *world, uint32_t length)
{
	struct node *node = world->node;
	char *at = pages(32, PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = ibv_reg_mr(node->pd, at, 32 * PAGE, ALL);
	CHECK(mr);
	CHECK_EQ(munmap(at, 32 * PAGE), 0);
	struct ibv_sge sound = {(uintptr_t)node->buffer, length, node->mr->lkey};
	struct ibv_sge gone = {(uintptr_t)at, length, mr->lkey};
	for (int is_read = 0; is_read < 2; is_read++) {
		CHECK_EQ(rdma(world, is_read, gone.addr, mr->rkey, sound), IBV_WC_REM_ACCESS_ERR);
		CHECK_EQ(rdma(world, is_read, sound.addr, node->mr->rkey, gone), IBV_WC_LOC_PROT_ERR);
	}
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

static volatile sig_atomic_t seen;

static void on_fault(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	seen = info->si_addr == (void *)8 ? 1 : 2;
	_exit(seen == 1 ? 17 : 18);
}

static void plain(int signal)
{
	_exit(signal == SIGSEGV ? 19 : 20);
}

/* The end of a child that makes a mistake of its own, after `prepare`. */
static int end_of_a_mistake(void (*prepare)(void), int is_sent)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		prepare();
		if (is_sent)
			raise(SIGSEGV);
		else
			*(volatile char *)8 = 1;
		_exit(0);
	}
	int status = 0;
	CHECK_EQ(waitpid(child, &status, 0), child);
	return status;
}

static void nothing(void)
{
}

static void with_information(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old;
	CHECK_EQ(sigaction(SIGSEGV, &action, &old), 0);
	CHECK(old.sa_handler == SIG_DFL);
	CHECK_EQ(sigaction(SIGSEGV, NULL, &old), 0);
	CHECK(old.sa_sigaction == on_fault && (old.sa_flags & ~0x04000000) == SA_SIGINFO);
}

static void with_signal(void)
{
	CHECK(signal(SIGSEGV, plain) == SIG_DFL);
	CHECK(signal(SIGSEGV, plain) == plain);
}

void (*__sysv_signal(int, void (*)(int)))(int);
void (*bsd_signal(int, void (*)(int)))(int);
void (*ssignal(int, void (*)(int)))(int);
void (*sigset(int, void (*)(int)))(int);

static void (*(*const setters[])(int, void (*)(int)))(int) = {
	signal, bsd_signal, ssignal, __sysv_signal, sigset};

/* However a program sets its action, the adapter's own look comes first. */
static void handlers_come_second(struct world *world)
{
	for (size_t i = 0; i < sizeof(setters) / sizeof(setters[0]); i++) {
		CHECK(setters[i](SIGSEGV, plain) == SIG_DFL);
		CHECK(setters[i](SIGSEGV, SIG_ERR) == SIG_ERR && errno == EINVAL);
		messages_survive(world, 8);
		CHECK(signal(SIGSEGV, SIG_DFL) == plain);
	}
	/* Blocked instead of set. */
	CHECK(sigset(SIGSEGV, (void (*)(int))2) == SIG_DFL);
	CHECK(sigset(SIGSEGV, SIG_DFL) == (void (*)(int))2);
	CHECK(sigset(SIGSEGV, SIG_DFL) == SIG_DFL);
}

static void ignored(void)
{
	CHECK(signal(SIGSEGV, SIG_IGN) == SIG_DFL);
}

/* What a program does of its own accord ends as without the adapter. */
static void mistakes_stay_mistakes(void)
{
	int status = end_of_a_mistake(nothing, 0);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	status = end_of_a_mistake(nothing, 1);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	CHECK_EQ(WEXITSTATUS(end_of_a_mistake(with_information, 0)), 17);
	CHECK_EQ(WEXITSTATUS(end_of_a_mistake(with_signal, 0)), 19);
	CHECK_EQ(WEXITSTATUS(end_of_a_mistake(with_signal, 1)), 19);
	status = end_of_a_mistake(ignored, 0);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	status = end_of_a_mistake(ignored, 1);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
	struct node node = node_open();
	CHECK_EQ(ibv_dereg_mr(node.mr), 0);
	node.mr = ibv_reg_mr(node.pd, node.buffer, BUFFER_BYTES, ALL);
	CHECK(node.mr);
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct efadv_cq_init_attr efa_cq = {0};
	struct ibv_cq_ex *cq = efadv_create_cq(node.context, &cq_attr, &efa_cq, sizeof(efa_cq));
	CHECK(cq);
	registration_asks_the_kernel(&node);
	rnr_retry = 7;
	struct world world = {&node, ibv_cq_ex_to_cq(cq), rdma_create(&node, cq), rdma_create(&node, cq)};
	messages_survive(&world, 8);
	messages_survive(&world, 512);
	messages_survive(&world, 4000);
	a_short_file_is_survived(&world);
	rdma_survives(&world, 100);
	rdma_survives(&world, 10000);
	rdma_survives(&world, 100000);
	/* The program's own action is in front of nothing of ours. */
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old;
	CHECK_EQ(sigaction(SIGSEGV, &action, &old), 0);
	CHECK_EQ(sigaction(SIGBUS, &action, NULL), 0);
	messages_survive(&world, 8);
	a_short_file_is_survived(&world);
	CHECK_EQ(sigaction(SIGSEGV, &old, NULL), 0);
	handlers_come_second(&world);
	mistakes_stay_mistakes();

	CHECK_EQ(ibv_destroy_qp(world.a), 0);
	CHECK_EQ(ibv_destroy_qp(world.b), 0);
	CHECK_EQ(ibv_destroy_cq(world.cq), 0);
	node_close(&node);
	return 0;
}
