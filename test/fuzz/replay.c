/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replay - a fuzz target without a fuzzer: runs the corpus, then as many
 * random inputs as SMALL_TEST_SCALE says. The one that runs is kept in
 * the file `crash`, which stays when it fails: add it to the corpus.
 */
#define _FILE_OFFSET_BITS 64 /* a directory may be on a large disk */
#include "../test.h"

#include <dirent.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUTS   1000 /* random ones at scale 1 */
#define MAX_SIZE 4096 /* of one, in bytes */

static uint8_t data[1 << 20];

static int replay(const char *name)
{
	FILE *f = fopen(name, "rb");
	size_t size;

	if (f == NULL) {
		perror(name);
		return 1;
	}
	size = fread(data, 1, sizeof(data), f);
	fclose(f);
	printf("%s: %zu bytes\n", name, size);
	fflush(stdout);
	return LLVMFuzzerTestOneInput(data, size);
}

static void keep(size_t size)
{
	FILE *f = fopen("crash", "wb");

	if (f == NULL)
		return;
	fwrite(data, 1, size, f);
	fclose(f);
}

/* The corpus is FUZZ_CORPUS, a directory; none of it is an error. */
static int replay_all(void)
{
	DIR *dir = opendir(FUZZ_CORPUS);
	struct dirent *entry;
	char name[4096];
	int failed = 0, count = 0;

	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", FUZZ_CORPUS,
		         entry->d_name);
		failed |= replay(name);
		count++;
	}
	if (dir != NULL)
		closedir(dir);
	return failed | (count == 0);
}

int main(void)
{
	uint64_t seed;
	int failed = replay_all();

	seed = test_seed("fuzz");
	for (size_t i = 0; i < test_scale(INPUTS); i++) {
		size_t size = (size_t)test_random(&seed) % MAX_SIZE;

		for (size_t j = 0; j < size; j++)
			data[j] = (uint8_t)(test_random(&seed) >> 56);
		keep(size);
		failed |= LLVMFuzzerTestOneInput(data, size);
	}
	remove("crash");
	return failed;
}
