/* Registrations that change, memory that comes later, windows, advice, and queues that change their size: what a RoCE device has
 * beside its queue pairs. On an EFA all of it is refused. */
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

#define BYTES (1 << 16)
#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static struct ibv_pd *pd, *other_pd;
static char *memory;

static struct ibv_mr *reg(unsigned access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, access);
	CHECK(mr);
	return mr;
}

static void check_flags(void)
{
	static const unsigned good[] = {
		0,
		IBV_ACCESS_MW_BIND,
		IBV_ACCESS_ON_DEMAND,
		IBV_ACCESS_HUGETLB,
		IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_REMOTE_READ,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
		ALL | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND,
	};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CHECK_EQ(ibv_dereg_mr(reg(good[i])), 0);
	static const struct {
		unsigned access;
		int error;
	} bad[] = {
		{IBV_ACCESS_REMOTE_WRITE, EINVAL},
		{IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_READ, EINVAL},
		{IBV_ACCESS_ZERO_BASED, EOPNOTSUPP},
		{1 << 19, EOPNOTSUPP},
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		CHECK(!ibv_reg_mr(pd, memory, BYTES, bad[i].access));
		CHECK_EQ(errno, bad[i].error);
	}
}

/* Pages that are not there yet, and all of the address space. */
static void check_on_demand(void)
{
	char *hole = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(hole != MAP_FAILED && munmap(hole, BYTES) == 0);
	errno = 0;
	CHECK(!ibv_reg_mr(pd, hole, BYTES, ALL));
	CHECK_EQ(errno, EFAULT);
	struct ibv_mr *later = ibv_reg_mr(pd, hole, BYTES, ALL | IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *all = ibv_reg_mr(pd, NULL, SIZE_MAX, ALL | IBV_ACCESS_ON_DEMAND);
	CHECK(later && all && later->lkey != all->lkey);
	struct ibv_sge sge[2] = {{(uintptr_t)hole, BYTES, later->lkey},
				 {(uintptr_t)memory, BYTES, all->lkey}};
	const int write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, read = IBV_ADVISE_MR_ADVICE_PREFETCH;
	CHECK_EQ(ibv_advise_mr(pd, read, 0, sge, 2), 0);
	CHECK_EQ(ibv_advise_mr(pd, write, IBV_ADVISE_MR_FLAG_FLUSH, sge, 2), 0);
	CHECK_EQ(ibv_advise_mr(pd, read, 0, sge, 0), EINVAL);
	CHECK_EQ(ibv_advise_mr(pd, read, 2, sge, 1), EINVAL);
	CHECK_EQ(ibv_advise_mr(pd, 99, 0, sge, 1), EOPNOTSUPP);
	CHECK_EQ(ibv_advise_mr(other_pd, read, 0, sge, 1), EPERM);
	sge[0].length++;
	CHECK_EQ(ibv_advise_mr(pd, read, 0, sge, 1), EFAULT);
	sge[0].lkey ^= 1;
	CHECK_EQ(ibv_advise_mr(pd, read, 0, sge, 1), ENOENT);
	struct ibv_mr *readonly = reg(IBV_ACCESS_REMOTE_READ);
	struct ibv_sge to_readonly = {(uintptr_t)memory, 8, readonly->lkey};
	CHECK_EQ(ibv_advise_mr(pd, write, 0, &to_readonly, 1), EPERM);
	CHECK_EQ(ibv_dereg_mr(readonly), 0);
	CHECK_EQ(ibv_dereg_mr(all), 0);
	CHECK_EQ(ibv_dereg_mr(later), 0);
}

static void check_rereg(void)
{
	struct ibv_mr *mr = reg(ALL);
	const uint32_t lkey = mr->lkey, rkey = mr->rkey;
	struct ibv_sge sge = {(uintptr_t)memory, BYTES, lkey};
	const int write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	/* A domain that is not asked for is not looked at: pyverbs passes anything. */
	struct ibv_pd *nowhere = (struct ibv_pd *)7;
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nowhere, NULL, 0, IBV_ACCESS_REMOTE_READ),
		 0);
	CHECK_EQ(ibv_advise_mr(pd, write, 0, &sge, 1), EPERM);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS, other_pd, NULL, 0,
			      ALL),
		 0);
	CHECK(mr->pd == other_pd);
	CHECK_EQ(ibv_advise_mr(other_pd, write, 0, &sge, 1), 0);
	CHECK_EQ(ibv_advise_mr(pd, write, 0, &sge, 1), EPERM);
	CHECK_EQ(ibv_dealloc_pd(other_pd), EBUSY);
	char *elsewhere = malloc(BYTES);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, elsewhere, 100, 0), 0);
	CHECK(mr->addr == elsewhere && mr->length == 100 && mr->lkey == lkey && mr->rkey == rkey);
	CHECK_EQ(ibv_advise_mr(other_pd, write, 0, &sge, 1), EFAULT);
	sge = (struct ibv_sge){(uintptr_t)elsewhere, 100, lkey};
	CHECK_EQ(ibv_advise_mr(other_pd, write, 0, &sge, 1), 0);
	/* What is wrong in itself, and what the device refuses; the region stays as it is. */
	static const struct {
		int flags;
		size_t length;
		int access, result, error;
	} bad[] = {
		{IBV_REREG_MR_CHANGE_TRANSLATION, 0, 0, IBV_REREG_MR_ERR_INPUT, EINVAL},
		{0, 0, IBV_ACCESS_LOCAL_WRITE, IBV_REREG_MR_ERR_INPUT, EINVAL},
		{8, 0, 0, IBV_REREG_MR_ERR_INPUT, EINVAL},
		{IBV_REREG_MR_CHANGE_PD, 0, 0, IBV_REREG_MR_ERR_INPUT, EINVAL},
		{0, 0, 0, IBV_REREG_MR_ERR_CMD, EINVAL},
		{IBV_REREG_MR_CHANGE_ACCESS, 0, IBV_ACCESS_REMOTE_WRITE, IBV_REREG_MR_ERR_CMD, EINVAL},
		{IBV_REREG_MR_CHANGE_ACCESS, 0, IBV_ACCESS_ZERO_BASED, IBV_REREG_MR_ERR_CMD, EOPNOTSUPP},
		{IBV_REREG_MR_CHANGE_TRANSLATION, (size_t)1 << 46, 0, IBV_REREG_MR_ERR_CMD, EFAULT},
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		CHECK_EQ(ibv_rereg_mr(mr, bad[i].flags, NULL, elsewhere, bad[i].length, bad[i].access),
			 bad[i].result);
		CHECK_EQ(errno, bad[i].error);
		CHECK_EQ(ibv_advise_mr(other_pd, write, 0, &sge, 1), 0);
	}
	mr->handle++;
	CHECK_EQ(ibv_dereg_mr(mr), ENOENT);
	mr->handle--;
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	free(elsewhere);
}

static void check_windows(void)
{
	for (int type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
		struct ibv_mw *mw = ibv_alloc_mw(pd, type), *second = ibv_alloc_mw(pd, type);
		CHECK(mw && second && mw->type == (enum ibv_mw_type)type && mw->pd == pd);
		CHECK(mw->context == pd->context && mw->rkey >> 8 != second->rkey >> 8);
		CHECK_EQ(ibv_dealloc_mw(second), 0);
		mw->handle++;
		CHECK_EQ(ibv_dealloc_mw(mw), ENOENT);
		mw->handle--;
		CHECK_EQ(ibv_dealloc_mw(mw), 0);
	}
	errno = 0;
	CHECK(!ibv_alloc_mw(pd, 3));
	CHECK_EQ(errno, EINVAL);
	struct ibv_pd *last = ibv_alloc_pd(pd->context);
	struct ibv_mw *mw = ibv_alloc_mw(last, IBV_MW_TYPE_2);
	CHECK(last && mw);
	CHECK_EQ(ibv_dealloc_pd(last), EBUSY);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	CHECK_EQ(ibv_dealloc_pd(last), 0);
}

static void check_resize(struct ibv_context *context)
{
	struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, NULL, 0);
	CHECK(cq && cq->cqe >= 10);
	CHECK_EQ(ibv_resize_cq(cq, 1000), 0);
	CHECK(cq->cqe >= 1000);
	CHECK_EQ(ibv_resize_cq(cq, 1), 0);
	CHECK(cq->cqe >= 1 && cq->cqe < 1000);
	struct ibv_device_attr attr;
	CHECK_EQ(ibv_query_device(context, &attr), 0);
	CHECK_EQ(ibv_resize_cq(cq, attr.max_cqe), 0);
	CHECK_EQ(ibv_resize_cq(cq, attr.max_cqe + 1), EINVAL);
	CHECK_EQ(ibv_resize_cq(cq, 0), EINVAL);
	CHECK_EQ(ibv_resize_cq(cq, -1), EINVAL);
	CHECK_EQ(cq->cqe, attr.max_cqe);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

static void check_odp(struct ibv_context *context)
{
	struct ibv_device_attr_ex ex;
	CHECK_EQ(ibv_query_device_ex(context, NULL, &ex), 0);
	CHECK_EQ(ex.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	CHECK_EQ(ex.odp_caps.per_transport_caps.rc_odp_caps, 0x3f);
	CHECK(ex.odp_caps.per_transport_caps.ud_odp_caps & IBV_ODP_SUPPORT_SEND);
}

static void check_efa(struct ibv_context *context)
{
	struct ibv_mr *mr = reg(ALL);
	struct ibv_sge sge = {(uintptr_t)memory, BYTES, mr->lkey};
	struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, NULL, 0);
	errno = 0;
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL),
		 IBV_REREG_MR_ERR_INPUT);
	CHECK_EQ(errno, EOPNOTSUPP);
	CHECK_EQ(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EOPNOTSUPP);
	CHECK_EQ(ibv_resize_cq(cq, 20), EOPNOTSUPP);
	static const unsigned refused[] = {IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_MW_BIND,
					   IBV_ACCESS_ON_DEMAND, IBV_ACCESS_HUGETLB};
	for (int i = 0; i < 4; i++) {
		errno = 0;
		CHECK(!ibv_reg_mr(pd, memory, BYTES, ALL | refused[i]));
		CHECK_EQ(errno, EOPNOTSUPP);
	}
	errno = 0;
	CHECK(!ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	CHECK_EQ(errno, EOPNOTSUPP);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list && list[0]);
	struct ibv_context *context = ibv_open_device(list[0]);
	CHECK(context);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	other_pd = ibv_alloc_pd(context);
	memory = malloc(BYTES);
	CHECK(pd && other_pd && memory);
	if (context->device->node_type == IBV_NODE_CA) {
		check_flags();
		check_on_demand();
		check_rereg();
		check_windows();
		check_resize(context);
		check_odp(context);
	} else {
		check_efa(context);
	}
	CHECK_EQ(ibv_dealloc_pd(other_pd), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(ibv_close_device(context), 0);
	free(memory);
	return 0;
}
