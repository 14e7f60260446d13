/* Translations from and to the kernel's structures, compared byte by byte with the system's. */
#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include "system.h"

/* Exported for librdmacm, and declared only inside rdma-core. */
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *out, struct ib_uverbs_ah_attr *from);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *out, struct ib_uverbs_qp_attr *from);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *out, struct ib_user_path_rec *from);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *out, struct ibv_sa_path_rec *from);

typedef void (*copy_fn)(void *out, const void *from);

/* What ends a structure that only newer kernels or programs know must not be touched either. */
#define MARGIN 64

static void check_copy(const char *name, copy_fn ours, size_t from_size)
{
	copy_fn theirs = (copy_fn)system_symbol(name);
	CHECK(ours != theirs);
	unsigned char from[512], mine[512], system[512];
	CHECK(from_size + MARGIN <= sizeof(from));
	for (int round = 0; round < 4; round++) {
		for (size_t i = 0; i < sizeof(from); i++)
			from[i] = (unsigned char)(i * 37 + (size_t)round * 101 + 1);
		memset(mine, 0xa5, sizeof(mine));
		memset(system, 0xa5, sizeof(system));
		ours(mine, from);
		theirs(system, from);
		for (size_t i = 0; i < sizeof(mine); i++) {
			if (mine[i] != system[i]) {
				fprintf(stderr, "%s: byte %zu is %#x, not %#x\n", name, i, mine[i],
					system[i]);
				exit(1);
			}
		}
	}
}

int main(void)
{
	check_copy("ibv_copy_ah_attr_from_kern", (copy_fn)ibv_copy_ah_attr_from_kern,
		   sizeof(struct ib_uverbs_ah_attr));
	check_copy("ibv_copy_qp_attr_from_kern", (copy_fn)ibv_copy_qp_attr_from_kern,
		   sizeof(struct ib_uverbs_qp_attr));
	check_copy("ibv_copy_path_rec_from_kern", (copy_fn)ibv_copy_path_rec_from_kern,
		   sizeof(struct ib_user_path_rec));
	check_copy("ibv_copy_path_rec_to_kern", (copy_fn)ibv_copy_path_rec_to_kern,
		   sizeof(struct ibv_sa_path_rec));
	return 0;
}
