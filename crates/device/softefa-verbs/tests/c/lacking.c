/* The versioned libibverbs.so.1 with an adapter that has none of its functions. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "check.h"

int main(int count, char **arguments)
{
	CHECK_EQ(count, 2);
	void *library = dlopen(arguments[1], RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	struct ibv_context *(*open_device)(struct ibv_device *) =
		dlvsym(library, "ibv_open_device", "IBVERBS_1.1");
	int (*close_device)(struct ibv_context *) =
		dlvsym(library, "ibv_close_device", "IBVERBS_1.1");
	struct ibv_context *(*open_by_driver)(struct ibv_device *, void *) =
		dlsym(library, "verbs_open_device");
	int (*alloc_pd)(struct ibv_context *) = dlsym(library, "ibv_cmd_alloc_pd");
	CHECK(open_device && close_device && open_by_driver && alloc_pd);
	errno = 0;
	CHECK(!open_device(NULL));
	CHECK_EQ(errno, EOPNOTSUPP);
	errno = 0;
	CHECK(!open_by_driver(NULL, NULL));
	CHECK_EQ(errno, EOPNOTSUPP);
	CHECK_EQ(close_device(NULL), EOPNOTSUPP);
	CHECK_EQ(alloc_pd(NULL), EOPNOTSUPP);
	return 0;
}
