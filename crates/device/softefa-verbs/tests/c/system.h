/* The system's library, for comparing ours with it. */
#ifndef SYSTEM_H
#define SYSTEM_H

#include <dlfcn.h>

#include "check.h"

static inline void *system_symbol(const char *name)
{
	/* A search through a handle does not see what is preloaded. */
	static void *library;
	if (!library)
		library = dlopen("libibverbs.so.1", RTLD_NOW);
	CHECK(library);
	void *symbol = dlsym(library, name);
	CHECK(symbol);
	return symbol;
}

#endif
