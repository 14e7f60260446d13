/*
 * What the functions of the versioned libraries do (cargo xtask replace-verbs).
 */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

static int refuse(void)
{
	return EOPNOTSUPP;
}

static void *refuse_pointer(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

/*
 * The adapter is there: it was loaded together with the library that includes this. One of another
 * release may lack the function.
 */
static void *find(const char *name, void *refusal)
{
	static const char missing[] =
		"softefa: libibverbs.so.1 was loaded without " ADAPTER
		"; start the program with softefa run\n";
	void *adapter = dlopen(ADAPTER, RTLD_LAZY | RTLD_NOLOAD);
	if (!adapter) {
		/* No library is complete while the loader looks for functions. */
		(void)!write(2, missing, sizeof(missing) - 1);
		abort();
	}
	void *function = dlsym(adapter, name);
	return function ? function : refusal;
}

/* Resolved when dlvsym first finds it. */
#define FORWARD_TO(name, symbol, refusal)                                                      \
	static void *find_##symbol(void)                                                       \
	{                                                                                      \
		return find(#name, (void *)(refusal));                                         \
	}                                                                                      \
	int symbol(void) __attribute__((ifunc("find_" #symbol)));

#define FORWARD(name, refusal) FORWARD_TO(name, name, refusal)

#define REFUSE(name) int name(void) __attribute__((alias("refuse")));
#define REFUSE_POINTER(name) void *name(void) __attribute__((alias("refuse_pointer")));

/* The same function at a node where another release of libibverbs has it. */
#define ALSO(name, alias, refusal, node)                                                       \
	FORWARD_TO(name, alias, refusal)                                                       \
	__asm__(".symver " #alias "," #name "@" node ",remove");

/* A function whose arguments were different once: what was linked to it then is refused. */
#define ANCIENT(name, refusal, node)                                                           \
	__typeof__(refusal) ancient_##name __attribute__((alias(#refusal)));                   \
	__asm__(".symver ancient_" #name "," #name "@" node ",remove");
