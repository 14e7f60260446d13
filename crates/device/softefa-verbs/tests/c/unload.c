/* A program that opens the library by its path, uses a device, and closes both: its own handler of SIGSEGV goes on
 * to be called. Argument: the path. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>

#include "check.h"

#define FIND(name) __typeof__(&name) p_##name = (__typeof__(&name))dlsym(library, #name)

static volatile sig_atomic_t called;

static void on_signal(int signal)
{
	(void)signal;
	called = 1;
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	struct sigaction action = {.sa_handler = on_signal};
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
	void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!library)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(library);
	FIND(ibv_get_device_list);
	FIND(ibv_free_device_list);
	FIND(ibv_open_device);
	FIND(ibv_close_device);
	int count = 0;
	struct ibv_device **list = p_ibv_get_device_list(&count);
	CHECK(list && count == 1);
	struct ibv_context *context = p_ibv_open_device(list[0]);
	CHECK(context && p_ibv_close_device(context) == 0);
	p_ibv_free_device_list(list);
	CHECK(dlclose(library) == 0);
	CHECK(raise(SIGSEGV) == 0 && called);
	return 0;
}
