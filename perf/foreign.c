/* SPDX-License-Identifier: BSD-2-Clause */
/* foreign - opens other allocators by the names that Debian gives them. */
#include "foreign.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static struct {
	const char *file;
	const char *alloc, *resize, *release;
	struct perf_allocator found;
} libraries[] = {
	{"libjemalloc.so.2",
         "malloc",
         "realloc",
         "free",
         {"jemalloc", 0, 0, 0}},
	{"libmimalloc.so.2",
         "mi_malloc",
         "mi_realloc",
         "mi_free",
         {"mimalloc", 0, 0, 0}},
	{"libtcmalloc_minimal.so.4",
         "tc_malloc",
         "tc_realloc",
         "tc_free",
         {"tcmalloc", 0, 0, 0}},
};

static const struct perf_allocator libc = {"malloc", malloc, realloc, free};

/* ISO C has no cast from void * to a function: the bytes are copied. */
static int find(void *handle, const char *name, void *function)
{
	void *symbol = dlsym(handle, name);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol != NULL ? 0 : -1;
}

const struct perf_allocator *perf_foreign(const char *name)
{
	if (strcmp(name, libc.name) == 0)
		return &libc;
	for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++) {
		struct perf_allocator *a = &libraries[i].found;
		void *handle;

		if (strcmp(name, a->name) != 0)
			continue;
		if (a->release != NULL)
			return a;
		handle = dlopen(libraries[i].file, RTLD_NOW | RTLD_LOCAL);
		if (handle == NULL ||
		    find(handle, libraries[i].alloc, &a->alloc) != 0 ||
		    find(handle, libraries[i].resize, &a->resize) != 0)
			return NULL;
		return find(handle, libraries[i].release, &a->release) == 0
		               ? a
		               : NULL;
	}
	return NULL;
}
