/* Which access a device of the profile gives to peers. */
#include "check.h"

int main(void)
{
	struct node node = {.buffer = calloc(1, BUFFER_BYTES)};
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list && list[0]);
	node.context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	node.pd = ibv_alloc_pd(node.context);
	CHECK(node.pd);
	const char *rights = getenv("EXPECT_RIGHTS");
	const int flags[] = {IBV_ACCESS_REMOTE_READ, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE};
	for (int i = 0; i < 2; i++) {
		errno = 0;
		struct ibv_mr *mr = ibv_reg_mr(node.pd, node.buffer, BUFFER_BYTES, flags[i]);
		CHECK_EQ(mr != NULL, strchr(rights, "rw"[i]) != NULL);
		CHECK_EQ(mr ? ibv_dereg_mr(mr) : errno, mr ? 0 : EOPNOTSUPP);
	}
	return 0;
}
