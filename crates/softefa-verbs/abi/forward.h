/*
 * What the functions of the versioned libraries do (cargo xtask replace-verbs).
 */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

static int refuse(void)
{
	return EOPNOTSUPP;
}

/* The adapter is there: it was loaded together with the library that includes this. */
static void *find(const char *name)
{
	void *adapter = dlopen(ADAPTER, RTLD_LAZY | RTLD_NOLOAD);
	void *function = adapter ? dlsym(adapter, name) : NULL;
	return function ? function : (void *)refuse;
}

/* Resolved when dlvsym first finds it. */
#define FORWARD(name)                                                                          \
	static void *find_##name(void)                                                         \
	{                                                                                      \
		return find(#name);                                                            \
	}                                                                                      \
	int name(void) __attribute__((ifunc("find_" #name)));

#define REFUSE(name) int name(void) __attribute__((alias("refuse")));
